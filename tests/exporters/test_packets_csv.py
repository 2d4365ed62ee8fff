"""The packet table: its columns, and what is left empty where nothing is known."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from capture_analyzer import analyze
from capture_analyzer.exporters import json, packets_csv
from capture_analyzer.model.analysis import Analysis
from capture_analyzer.model.column import NO_TIME
from capture_analyzer.model.packets import (
    ACK,
    FIN,
    LABELS,
    MECHANISMS,
    PSH,
    RST,
    SPURIOUS,
    SYN,
    URG,
)
from capture_analyzer.model.wireshark_labels import WIRESHARK_FLAGS

COLUMNS = [
    *("packet_no", "time_ns", "connection_no", "from_client", "seq", "ack", "payload_bytes"),
    *("flags", "label", "mechanism", "spurious", "wireshark_label"),
]


def rows_of(analysis: Analysis) -> list[dict[str, str]]:
    file = io.StringIO()
    packets_csv.export(analysis, file)
    return list(csv.DictReader(io.StringIO(file.getvalue())))


def test_rows(hand_made: ModuleType) -> None:
    packets = hand_made.packets(4)
    packets.time_ns[:] = [0, 5, NO_TIME, -7]
    packets.connection_no[:] = [3, 3, -1, -1]
    packets.from_client[:] = [1, 0, -1, -1]
    packets.seq[:] = [4_294_967_295, 0, 9, 9]
    packets.ack[:] = [17, 0, 9, 9]
    packets.payload_bytes[:] = [1448, 0, 60, 0]
    packets.flags[:] = [PSH | ACK, SYN | ACK, 0xFF, 0]
    packets.tcp_header_bytes[:] = [32, 40, 0, 20]
    packets.label[:] = [LABELS.index(name) for name in ("retransmission", "syn", "other", "ack")]
    packets.mechanism[:] = [MECHANISMS.index("tlp"), 0, 0, 0]
    packets.spurious[:] = [SPURIOUS.index("true"), 0, 0, 0]
    rows = rows_of(hand_made.analysis(packets=packets))
    assert list(rows[0]) == COLUMNS
    assert [",".join(row.values()) for row in rows] == [
        "1,0,3,true,4294967295,17,1448,P.,retransmission,tlp,true,",
        "2,5,3,false,0,0,0,S.,syn,,,",
        "3,,,,,,60,,other,,,",
        "4,-7,,,9,9,0,none,ack,,,",
    ]


@pytest.mark.parametrize(
    ("flags", "letters"),
    [
        (SYN, "S"),
        (SYN | ACK, "S."),
        (ACK, "."),
        (PSH | ACK, "P."),
        (FIN | ACK, "F."),
        (FIN | PSH | ACK, "FP."),
        (RST, "R"),
        (RST | ACK, "R."),
        (SYN | 0xC0, "SEW"),
        (FIN | SYN | RST | PSH | ACK | URG | 0xC0, "FSRP.UEW"),
    ],
)
def test_flags_as_tcpdump_writes_them(flags: int, letters: str, hand_made: ModuleType) -> None:
    analysis = hand_made.analysis(packets=hand_made.packets(1, flags=flags, tcp_header_bytes=20))
    assert rows_of(analysis)[0]["flags"] == letters


def test_every_label_mechanism_and_verdict(hand_made: ModuleType) -> None:
    count = len(LABELS) * len(MECHANISMS) * len(SPURIOUS)
    numbers = np.arange(count)
    packets = hand_made.packets(count)
    packets.label[:] = numbers % len(LABELS)
    packets.mechanism[:] = numbers // len(LABELS) % len(MECHANISMS)
    packets.spurious[:] = numbers // len(LABELS) // len(MECHANISMS)
    rows = rows_of(hand_made.analysis(packets=packets))
    for number, row in enumerate(rows):
        assert row["label"] == LABELS[packets.label[number]]
        assert row["mechanism"] == MECHANISMS[packets.mechanism[number]]
        assert row["spurious"] == SPURIOUS[packets.spurious[number]]


@pytest.mark.parametrize("count", [0, 1, 50_000, 50_001, 120_003])
def test_every_packet_has_its_row(count: int, hand_made: ModuleType) -> None:
    rows = rows_of(hand_made.analysis(packets=hand_made.packets(count)))
    assert [row["packet_no"] for row in rows] == [str(number + 1) for number in range(count)]


def test_what_wireshark_says_is_worked_out_for_the_table_only(captures: Path) -> None:
    analysis = analyze(captures / "llm-incident.pcap")
    file = io.StringIO()
    json.export(analysis, file)
    packets = analysis.tables.packets
    assert packets.unfinished is not None
    rows = rows_of(analysis)
    assert packets.unfinished is None
    said = {row["wireshark_label"] for row in rows}
    assert "" in said
    assert said == set(packets.wireshark_labels)
    assert said <= {"", *WIRESHARK_FLAGS, "retransmission+fast_retransmission"}
    assert len(said) > 1
    marked = next(row for row in rows if row["wireshark_label"] == "retransmission")
    assert marked["label"] in {"syn", "retransmission"}
