"""Connections over time in the report's data: exact, bounded, and nothing remarkable left out."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from capture_analyzer.api import analyze
from capture_analyzer.model.analysis import Analysis
from capture_analyzer.model.limits import LIMIT_NAMES
from capture_analyzer.model.packets import LABELS
from capture_analyzer.report import trace_choice, trace_stretches, traces
from capture_analyzer.report.payload import payload
from capture_analyzer.report.strings import StringTable

CAPTURES = Path(__file__).resolve().parents[3] / "captures"


def analysed(name: str) -> Analysis:
    return analyze(CAPTURES / f"{name}.pcap")


def columns(analysis: Analysis, *, charts: bool = True) -> tuple[dict[str, Any], list[Any]]:
    """The traces, and the strings that they refer to."""
    strings = StringTable()
    return traces.columns(analysis, 1000, strings, charts=charts), strings.strings


def running(differences: list[int]) -> list[int]:
    return list(itertools.accumulate(differences))


@pytest.mark.parametrize("name", ["loss-fast-client", "loss-rto-server", "sse-loss", "syn-lost"])
def test_packets_read_back_exactly(name: str) -> None:
    analysis = analysed(name)
    data, strings = columns(analysis)
    packets = analysis.tables.packets
    segments = analysis.tables.tcp_segments.complete()
    assert data["list"]
    for trace in data["list"]:
        rows = segments.rows_of(trace["no"])
        numbers = segments.packet_no[rows]
        assert running(trace["packet"]) == numbers.tolist()
        times = packets.time_ns[numbers - 1] // 1000
        assert running(trace["time"]) == times.tolist()
        assert trace["of"] == len(numbers)
        sides = {1: [0, 0, 0], 0: [0, 0, 0]}  # end, acked, window
        for place, kind in enumerate(trace["kind"]):
            row = rows.start + place
            from_client, flags, label, mechanism, spurious = data["kinds"][kind]
            assert from_client == segments.from_client[row]
            index = segments.packet_no[row] - 1
            assert strings[label] == LABELS[packets.label[index]].replace("_", " ")
            assert (mechanism > 0) == (packets.mechanism[index] > 0)
            assert (spurious > 0) == (packets.spurious[index] > 0)
            assert flags
            side = sides[from_client]
            begin = side[0] + trace["offset"][place]
            assert begin == segments.offset[row]
            side[0] = begin + trace["bytes"][place]
            side[1] += trace["acked"][place]
            side[2] += trace["window"][place]
            assert side[1] == segments.acked[row]
            assert side[2] == segments.window_bytes[row]
            assert trace["flight"][place] == segments.sent[row] - segments.peer_acked[row]
        blocks = {place: edges for place, *edges in trace["sacks"]}
        assert sorted(blocks) == np.flatnonzero(segments.sack_count[rows]).tolist()
        for place, edges in blocks.items():
            row = rows.start + place
            first = segments.sack_first[row]
            assert edges[0] == segments.sack_from[first] - segments.acked[row]
            assert edges[1] == segments.sack_to[first] - segments.sack_from[first]


def test_what_held_a_sender_and_its_sums() -> None:
    analysis = analysed("window-limited")
    data, _ = columns(analysis)
    limits = analysis.tables.limits
    (trace,) = data["list"]
    assert len(data["limits"]) == len(LIMIT_NAMES)
    assert [row[1] for row in trace["held"]] == limits.kind.tolist()
    assert [row[3] * 1000 for row in trace["held"]] == (limits.to_ns - limits.from_ns).tolist()
    client, server = trace["sums"]
    assert client["held"] == []
    assert sum(ns for _, _, ns, _ in server["held"]) == sum(row[3] for row in trace["held"])
    assert server["again"] == []
    assert server["window"][1] < 13_000
    assert trace["trips"][1][1]


def test_a_fin_is_no_byte() -> None:
    analysis = analysed("syn-lost")
    data, _ = columns(analysis)
    (connection,) = analysis.tables.connections
    client, server = data["list"][0]["sums"]
    assert (client["bytes"], server["bytes"]) == (connection.client_bytes, connection.server_bytes)


def test_what_limited_a_sender_adds_up() -> None:
    analysis = analysed("loss-rto-server")
    data, _ = columns(analysis)
    (trace,) = data["list"]
    limits = analysis.tables.sender_limits.complete()
    assert [row[3] * 1000 for row in trace["limited"]] == (limits.to_ns - limits.from_ns).tolist()
    for way, sums in zip((1, 0), trace["sums"], strict=True):
        mine = [row for row in trace["limited"] if row[0] == way]
        assert sum(ns for _, ns, _ in sums["limited"]) == sum(row[3] for row in mine)
    assert len(trace["silences"]) == len(analysis.tables.stalls.complete()) > 0
    numbers = set((analysis.tables.packets.mechanism.nonzero()[0] + 1).tolist())
    assert {packet for packet, *_ in trace["carried"]} == numbers
    assert [delay is None or delay > 0 for *_, delay in trace["carried"]] == [True, True]


def test_without_loss_nothing_was_carried_again() -> None:
    data, _ = columns(analysed("loss-none-server"))
    assert data["list"][0]["carried"] == []


@pytest.mark.parametrize(
    ("name", "again"),
    [
        ("loss-fast-server", [["fast", 1, 0]]),
        ("spurious-server", [["fast", 1, 1]]),
        ("loss-none-server", []),  # a near miss
    ],
)
def test_sums_of_what_was_sent_again(name: str, again: list[list[Any]]) -> None:
    data, strings = columns(analysed(name))
    _, server = data["list"][0]["sums"]
    found = [
        [strings[data["mechanisms"][code]], segments, needless]
        for code, segments, needless in server["again"]
    ]
    assert found == again


def test_copies_of_the_capture_are_left_out() -> None:
    analysis = analysed("mirrored")
    data, strings = columns(analysis)
    labels = {strings[label] for _, _, label, _, _ in data["kinds"]}
    assert "capture duplicate" not in labels
    copies = np.count_nonzero(analysis.tables.packets.label == LABELS.index("capture_duplicate"))
    assert copies > 0
    kept = sum(len(trace["packet"]) for trace in data["list"])
    assert kept == len(analysis.tables.packets) - copies


# A choice of packets


def test_few_packets_are_all_kept() -> None:
    assert trace_choice.thinned(*_ordinary(50), 50).tolist() == list(range(50))


def test_of_many_the_remarkable_the_ends_and_the_extremes_are_kept() -> None:
    remarkable, flight, window = _ordinary(10_000)
    remarkable[[17, 4_444, 9_998]] = 2
    remarkable[[18, 5_000]] = 1
    flight[3_333] = 999
    window[7_777] = 1
    kept = trace_choice.thinned(remarkable, flight, window, 300)
    assert len(kept) <= 300
    assert len(kept) > 200
    assert set(kept.tolist()) >= {0, 17, 18, 3_333, 4_444, 5_000, 7_777, 9_998, 9_999}
    assert np.diff(kept).max() < 250  # nowhere a large part without any


def test_too_many_remarkable_ones_are_thinned_evenly() -> None:
    remarkable, flight, window = _ordinary(10_000)
    remarkable[::2] = 2
    remarkable[1::2] = 1
    kept = trace_choice.thinned(remarkable, flight, window, 300)
    assert len(kept) == 300
    assert {0, 9_999} <= set(kept.tolist())
    assert np.all(remarkable[kept[:-1]] == 2)
    assert np.diff(kept).max() < 100


def _ordinary(count: int) -> tuple[Any, Any, Any]:
    places = np.arange(count)
    return np.zeros(count, np.uint8), places % 37, 100 + places % 41


def test_round_trips_keep_their_extremes() -> None:
    values = np.arange(5_000) % 7
    values[3_210], values[123] = 1_000, -1_000
    kept = trace_choice.extremes(values, 100)
    assert len(kept) <= 100
    assert {0, 123, 3_210, 4_999} <= set(kept.tolist())
    assert trace_choice.extremes(values[:100], 100).tolist() == list(range(100))


def test_bounded_whatever_the_capture(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traces, "MAX_CONNECTION_POINTS", 40)
    monkeypatch.setattr(traces, "MAX_POINTS", 70)
    data, _ = columns(analysed("llm-incident"))
    counts = [len(trace["packet"]) for trace in data["list"]]
    assert sum(counts) <= 70
    assert max(counts) <= 40
    first = data["list"][0]
    assert first["of"] > len(first["packet"])
    whole, _ = columns(analysed("llm-incident"))
    assert [trace["sums"] for trace in data["list"]] == [
        trace["sums"]
        for trace in whole["list"]
        if trace["no"] in {trace["no"] for trace in data["list"]}
    ]


def test_what_prevails_in_each_part() -> None:
    begin, end = np.array([0, 10, 14, 30, 90]), np.array([10, 14, 30, 90, 100])
    kind = np.array([1, 2, 1, 3, 2], np.uint8)
    edges = np.array([0, 20, 40, 60, 80, 100])
    assert trace_stretches.prevailing(begin, end, kind, edges).tolist() == [1, 1, 3, 3, 2]


def test_very_many_stretches_become_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    analysis = analysed("loss-rto-server")
    limits = analysis.tables.sender_limits.complete()
    whole = trace_stretches.limited(limits, 0, 1)
    monkeypatch.setattr(trace_stretches, "MAX_STRETCHES", 2)
    parts = trace_stretches.limited(limits, 0, 1)
    for way in (1, 0):
        long, short = ([row for row in rows if row[0] == way] for rows in (whole, parts))
        assert len(short) <= 2 or len(short) == len(long)
        assert short[0][2] == long[0][2]
        assert sum(row[3] for row in short) == sum(row[3] for row in long)
        assert sum(row[4] for row in short) == sum(row[4] for row in long)


def test_what_findings_name_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    analysis = analysed("llm-incident")
    monkeypatch.setattr(traces, "MAX_CONNECTION_POINTS", 40)
    data, _ = columns(analysis)
    kept = {no for trace in data["list"] for no in running(trace["packet"])}
    numbers = analysis.tables.packets.connection_no
    for finding in analysis.findings:
        named = [no for no in finding.packet_nos if numbers[no - 1] >= 0]
        assert kept >= set(named), finding.detector


# Which connections


def test_those_of_findings_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    analysis = analysed("llm-incident")
    named = [row.connection_no for row in analysis.findings if row.severity != "info"]
    named = list(dict.fromkeys(number for number in named if number is not None))
    assert traces.chosen(analysis)[: len(named)] == named
    assert sorted(traces.chosen(analysis)) == list(range(len(analysis.tables.connections)))
    monkeypatch.setattr(traces, "MAX_CONNECTIONS", 1)
    assert traces.chosen(analysis) == named[:1]


def test_other_transports_have_none() -> None:
    analysis = analysed("loss-fast-client")
    analysis.tables.connections[0].transport = "quic"
    assert traces.chosen(analysis) == []


# Without charts


def test_without_charts_only_packets_to_note(sample: ModuleType) -> None:
    analysis = analysed("loss-rto-server")
    drawn, _ = columns(analysis)
    listed, strings = columns(analysis, charts=False)
    (all_of_it,), (few,) = drawn["list"], listed["list"]
    assert few["noted"] == len(few["packet"]) < len(all_of_it["packet"]) / 3
    labels = [strings[listed["kinds"][kind][2]] for kind in few["kind"]]
    assert labels.count("retransmission") == sum(
        segments for _, segments, _ in all_of_it["sums"][1]["again"]
    )
    assert few["sums"] == all_of_it["sums"]
    assert few["trips"] == [None, None]
    assert len(json.dumps(few)) < len(json.dumps(all_of_it)) / 2


def test_no_connections_no_traces(sample: ModuleType) -> None:
    assert payload(sample.empty())["traces"]["list"] == []
