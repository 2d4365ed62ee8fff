"""Table tls_records against what was written to the wire, on captures whose truth is known."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from capture_analyzer.api import analyze
from capture_analyzer.model.analysis import Analysis

RUNS = (
    "tls13-h1/main",
    "tls13-h1/hrr",
    "sse-llm/h1-tiny-records",
    "sse-llm/h1-16k-lossy",
    "sse-llm/h1-loss-twice",
    "sse-llm/h2-healthy",
    "encrypted-no-keys/h1",
    "encrypted-no-keys/sse-h1",
    "encrypted-no-keys/sse-h1-tiny-records",
    "capture-quirks/vlan",
    "ocsp/tls13-no-staple-fetch-in-handshake",
    "ocsp/tls12-staple",
)
NEAR_NS = 100_000


@pytest.mark.shared
@pytest.mark.parametrize("run", RUNS)
def test_records_are_complete_when_their_last_packet_came(lab: Path, run: str) -> None:
    """Offsets, lengths and types are exact; completion is within 0.1 ms of the packet's time."""
    analysis = analyze(lab / run / "client.pcap")
    records, packets = analysis.tables.tls_records, analysis.tables.packets
    flows = json.loads((lab / run / "truth.json").read_text())["flows"]
    compared = 0
    for stream in json.loads((lab / run / "stream.json").read_text()):
        if not stream.get("tls_records"):
            continue
        from_client = stream["dir"] == "c2s"
        connection = _connection(analysis, flows[stream["flow"]]["client"])
        mine = np.flatnonzero(
            (records.connection_no == connection) & (records.from_client == from_client)
        )
        rows = {int(records.offset[index]): index for index in mine.tolist()}
        for wanted in stream["tls_records"]:
            frame = (wanted.get("complete_in") or {}).get("client_frame")
            if frame is None:
                continue
            index = rows[wanted["off"]]
            assert records.length[index] + 5 == wanted["len"]
            assert records.content_type[index] == wanted["type"]
            time_ns = int(packets.time_ns[frame - 1])
            if not from_client:  # at the client a record is complete when its packet is there
                assert abs(int(records.complete_ns[index]) - time_ns) <= NEAR_NS, wanted
            compared += 1
    assert compared > 10


def _connection(analysis: Analysis, client: str) -> int:
    """The connection of a client's address and port."""
    return next(
        connection.connection_no
        for connection in analysis.tables.connections
        if f"{connection.client_ip}:{connection.client_port}" == client
    )
