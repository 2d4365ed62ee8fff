"""tcp/path-mtu-black-hole on tables made by hand."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

from capture_analyzer.detectors.runner import run
from capture_analyzer.model.findings import Finding
from capture_analyzer.model.packets import LABELS, MECHANISMS, SPURIOUS

MS = 1_000_000


def judge(tables: Any) -> list[Finding]:
    findings, outcomes = run(tables, select=["tcp/path-mtu-black-hole"])
    assert {row.outcome for row in outcomes if row.reason is None} == {"ran"}
    return findings


def vanishing(hand_made: ModuleType, *segments: tuple[int, int, bool], acks: list[int]) -> Any:
    """The server's segments (seq, bytes, repeat); behind each an ACK of the client."""
    count = 2 * len(segments)
    connection = hand_made.connection(
        0,
        established_ns=1,
        last_packet_no=count,
        retransmissions=sum(again for _, _, again in segments),
        retransmissions_by_mechanism={"rto": sum(again for _, _, again in segments)},
    )
    tables = hand_made.tables(connections=[connection])
    packets = tables.packets
    packets.connection_no[count:] = -1
    packets.from_client[:count] = np.tile([0, 1], len(segments))
    packets.time_ns[:] = np.arange(100) * 500 * MS
    for at, ((seq, size, again), ack) in enumerate(zip(segments, acks, strict=True)):
        packets.seq[2 * at] = seq
        packets.payload_bytes[2 * at] = size
        packets.ack[2 * at + 1] = ack
        if again:
            packets.label[2 * at] = LABELS.index("retransmission")
            packets.mechanism[2 * at] = MECHANISMS.index("rto")
            packets.spurious[2 * at] = SPURIOUS.index("false")
    return tables


SMALL = (1000, 400, False)
LARGE = (1400, 1448, False)
AGAIN = (1400, 1448, True)


def test_large_segments_vanish(hand_made: ModuleType) -> None:
    acks = [1400] * 6
    (row,) = judge(vanishing(hand_made, SMALL, LARGE, *[AGAIN] * 4, acks=acks))
    assert (row.severity, row.count) == ("critical", 4)
    assert row.measures == {
        "segment_bytes": 1448,
        "passed_bytes": 400,
        "repeats": 4,
        "recovered": False,
    }
    assert row.packet_nos == [3, 5, 7, 9, 11]
    assert "Segments of 1.4\u00a0KB from api.example did not arrive" in row.summary


def test_smaller_repeat_that_arrives(hand_made: ModuleType) -> None:
    small_repeat = (1400, 512, True)
    acks = [1400] * 6 + [1912]
    (row,) = judge(vanishing(hand_made, SMALL, LARGE, *[AGAIN] * 4, small_repeat, acks=acks))
    assert (row.severity, row.measures["recovered"]) == ("warning", True)


def test_near_miss_other_large_segments_arrive(hand_made: ModuleType) -> None:
    first = (1000, 1448, False)
    lost, again = (2448, 1448, False), (2448, 1448, True)
    assert not judge(vanishing(hand_made, first, lost, *[again] * 4, acks=[2448] * 6))


def test_near_miss_repeated_until_it_arrived(hand_made: ModuleType) -> None:
    acks = [1400] * 5 + [2848]
    assert not judge(vanishing(hand_made, SMALL, LARGE, *[AGAIN] * 4, acks=acks))


def test_near_miss_too_few_repeats(hand_made: ModuleType) -> None:
    assert not judge(vanishing(hand_made, SMALL, LARGE, *[AGAIN] * 2, acks=[1400] * 4))


def test_near_miss_small_segments_are_lost_as_well(hand_made: ModuleType) -> None:
    lost, again = (1000, 100, False), (1000, 100, True)
    assert not judge(vanishing(hand_made, lost, *[again] * 5, acks=[1000] * 6))
