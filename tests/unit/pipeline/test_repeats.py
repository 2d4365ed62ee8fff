"""What retransmitted ranges carry, and whom they delayed."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from capture_analyzer.api import analyze
from capture_analyzer.model.analysis import Analysis
from capture_analyzer.model.column import NO_TIME

CAPTURES = Path(__file__).resolve().parents[3] / "captures"
MS = 1_000_000


def completed(name: str) -> Analysis:
    keys = CAPTURES / f"{name}.keys"
    analysis = analyze(CAPTURES / f"{name}.pcap", keylogs=[keys] if keys.exists() else [])
    analysis.tables.repeats.complete()
    return analysis


def test_it_is_empty_until_it_is_asked_for() -> None:
    analysis = analyze(CAPTURES / "h2-loss.pcap")
    assert len(analysis.tables.repeats) == 0
    assert len(analysis.frame("repeats")) > 0


def test_a_frame_of_one_stream_delays_the_others() -> None:
    """One segment with a frame of one of four answers is lost; the others' frames had come."""
    tables = completed("h2-loss").tables
    table = tables.repeats
    (carried,) = np.flatnonzero(~table.behind)
    record = tables.tls_records
    assert record.offset[table.tls_record[carried]] == table.offset[carried]
    assert tables.frames.stream_id[table.frame[carried]] == table.stream_id[carried]
    lost = tables.exchanges[table.exchange_no[carried]]
    assert lost.stream_id == table.stream_id[carried]
    behind = np.flatnonzero(table.behind)
    others = {exchange.exchange_no for exchange in tables.exchanges} - {lost.exchange_no}
    assert set(table.exchange_no[behind].tolist()) == others
    delay = tables.holes.filled_ns[0] - tables.holes.opened_ns[0]
    assert table.delayed_ns[carried] == delay
    assert (table.delayed_ns[behind] <= delay).all()
    assert (table.delayed_ns[behind] > 0).all()
    assert table.rows_of(int(table.packet_no[carried])) == slice(0, len(table))


@pytest.mark.parametrize("name", ["h2-loss", "sse-h2-loss"])
def test_without_keys_records_are_named_and_no_frames(name: str) -> None:
    tables = analyze(CAPTURES / f"{name}.pcap").tables
    table = tables.repeats.complete()
    assert (table.tls_record >= 0).all()
    assert (table.frame == -1).all()
    assert (table.stream_id == -1).all()


def test_a_request_and_an_answer_in_clear() -> None:
    for name, client in (("loss-request-client", True), ("loss-fast-client", False)):
        tables = completed(name).tables
        table = tables.repeats
        assert table.from_client.tolist() == [client]
        assert (table.tls_record == -1).all()
        exchange = tables.exchanges[table.exchange_no[0]]
        first, last = exchange.start_ns, exchange.end_ns
        assert first <= tables.packets.time_ns[table.packet_no[0] - 1] <= last
        assert table.delayed_ns[0] > 0
        assert table.length[0] == tables.packets.payload_bytes[table.packet_no[0] - 1]


def test_a_needless_repeat_delays_nothing() -> None:
    tables = completed("spurious-client").tables
    assert tables.repeats.delayed_ns.tolist() == [0]


def test_a_copy_that_was_lost_again_filled_nothing() -> None:
    table = completed("stale-silent").tables.repeats
    assert len(table) > 1
    assert (table.delayed_ns[:-1] == NO_TIME).all()


@pytest.mark.shared
@pytest.mark.parametrize("side", ["client", "server"])
def test_lab(lab: Path, side: str) -> None:
    """Every retransmission of the truth has rows, and their lengths add up to its payload."""
    count = 0
    for folder in sorted(lab.glob("*/*")):
        truth = json.loads((folder / "truth.json").read_text())
        rows = [
            row
            for flow in truth["flows"]
            if flow["proto"] == "tcp"
            for way in ("c2s", "s2c")
            for row in flow[way]["retransmissions"]
            if row.get(f"{side}_frame")
        ]
        if not rows:
            continue
        keys = folder / "keys.log"
        tables = analyze(folder / f"{side}.pcap", keylogs=[keys] if keys.exists() else []).tables
        table = tables.repeats.complete()
        for row in rows:
            number = row[f"{side}_frame"]
            part = table.rows_of(number)
            mine = ~table.behind[part]
            assert table.length[part][mine].sum() == row["len"], (folder.name, number)
            assert table.offset[part][0] == row["rel"]
            if not row["needed"]:
                assert (table.delayed_ns[part][mine] == 0).all()
            count += 1
    assert count > 40
