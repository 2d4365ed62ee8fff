from __future__ import annotations

import itertools
import json
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from capture_analyzer.model.causes import CAUSE_CODE
from capture_analyzer.model.events import EVENT_KIND_CODE, EVENT_KINDS
from capture_analyzer.report import streams
from capture_analyzer.report.payload import LOST, payload
from capture_analyzer.report.streams import Gaps, blamed, edges, gaps, thinned

MS = 1_000_000


def of(*lengths_ms: float) -> Gaps:
    lengths = np.array([round(ms * MS) for ms in lengths_ms], np.int64)
    return Gaps(lengths, np.concatenate(([0], np.cumsum(lengths)[:-1])))


def kinds(*names: str) -> np.ndarray[Any, np.dtype[np.uint8]]:
    return np.array([EVENT_KIND_CODE[name] for name in names], np.uint8)


# Figures


def test_gaps_lie_between_instants_with_content() -> None:
    times = np.array([1, 5, 5, 9, 20, 21], np.int64) * MS
    found = gaps(times, kinds("role", "content", "content", "ping", "content", "end"))
    assert found.ns.tolist() == [15 * MS]
    assert found.from_ns.tolist() == [5 * MS]
    alone = gaps(times, kinds("role", "content", "ping", "ping", "ping", "end"))
    assert alone.ns.tolist() == [4 * MS, 4 * MS, 11 * MS, MS]


def test_figures_of_gaps() -> None:
    assert (of().median_ns, of().most_ns) == (0, 0)
    assert (of(7).median_ns, of(7).most_ns) == (7 * MS, 7 * MS)
    assert of(4, 1, 3, 2).median_ns == 2 * MS  # the lower one
    assert of(*range(1, 21)).most_ns == 19 * MS
    assert of(*range(1, 22)).most_ns == 20 * MS


@pytest.mark.parametrize(
    ("lengths", "places"),
    [
        ((25, 25, 25, 700, 25), [3]),
        ((25, 25, 25, 199.9, 25), []),  # too short to be felt
        ((60, 60, 60, 300, 60), []),  # no more than five times the usual gap
        ((60, 60, 60, 301, 60), [3]),
        ((300, 310, 290, 305), []),  # slow, but steady
        ((), []),
    ],
)
def test_pauses_are_far_above_the_cadence(lengths: tuple[float, ...], places: list[int]) -> None:
    assert of(*lengths).pauses().tolist() == places


def test_only_the_longest_pauses_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "MAX_PAUSES", 2)
    assert of(20, 500, 20, 20, 900, 20, 20, 700, 20).pauses().tolist() == [4, 7]


# Histogram


@pytest.mark.parametrize(
    "lengths",
    [[25, 25, 25], [20, 25, 30, 700], [0.2, 25], [0.1, 0.2], [1, 60_000], [2e7, 3], [900, 999]],
)
def test_bars_hold_every_gap(lengths: list[float]) -> None:
    found = of(*lengths).ns
    bounds = edges(found)
    assert bounds == sorted(set(bounds))
    assert len(bounds) <= streams.MAX_BARS + 1
    inside = found[(found >= streams.SHORTEST_NS) & (found < streams.LONGEST_NS)]
    assert all(bounds[0] <= ns < bounds[-1] for ns in inside.tolist())


def test_a_round_cadence_with_jitter_is_one_bar() -> None:
    for cadence in (2, 5, 10, 20, 25, 50, 100, 200, 500, 1000, 2000):
        found = of(cadence * 0.98, cadence, cadence * 1.02).ns
        assert len(edges(found)) == 2, cadence


def test_gaps_are_blamed_on_what_filled_most_of_them(sample: ModuleType) -> None:
    b = sample.Builder()
    b.exchange(
        b.connection("a.example"), 100,
        [("network_rtt", 30), ("generation", 100), ("loss_recovery", 60), ("generation", 30)],
    )  # fmt: skip
    tables = b.build().tables
    codes = tables.ledger.cause.astype(np.int64)
    codes[2] += LOST
    found = Gaps(
        np.array([20, 90, 70, 10_000]) * MS, np.array([140, 160, 250, 320]) * MS
    )  # 140–160, 160–250, 250–320, and long behind the end
    generation, loss = CAUSE_CODE["generation"], CAUSE_CODE["loss_recovery"] + LOST
    assert blamed(tables, codes, 0, found) == [generation, generation, loss, -1]
    assert blamed(tables, codes, 7, found) == [-1] * 4  # no such ledger
    assert blamed(tables, codes, 0, of()) == []


# What is carried


def test_thinning_keeps_what_tells_something() -> None:
    count = 10_000
    times = np.arange(count, dtype=np.int64) * 20 * MS
    times[5_000:] += 700 * MS
    waits = np.zeros(count, np.int64)
    waits[[77, 6_003]] = 300 * MS
    names = np.zeros(count, np.uint8)
    names[:3] = EVENT_KIND_CODE["role"]
    kept = thinned(times, waits, names, 500)
    assert len(kept) <= 500
    assert len(kept) > 300
    assert kept.tolist() == sorted(set(kept.tolist()))
    assert {0, 3, 77, 4_999, 5_000, 6_003, count - 1} <= set(kept.tolist())
    assert int(np.diff(kept).max()) <= 40  # evenly else
    assert thinned(times[:9], waits[:9], names[:9], 9).tolist() == list(range(9))


def test_events_read_back_exactly(sample: ModuleType) -> None:
    analysis = sample.streams()
    analysis.tables.events.time_ns[3] += 1  # a finer clock
    analysis.tables.events.seen_ns[3] -= 5
    data = payload(analysis)
    columns, events = data["events"], analysis.tables.events
    assert data["unit"] == 1
    late = {place: (seen, ordered) for place, seen, ordered in columns["late"]}
    place = 0
    for exchange_no, kept, *_ in columns["drawn"]:
        at = analysis.tables.exchanges[exchange_no].request_start_ns
        packet = 0
        for _ in range(kept):
            at += columns["time"][place]
            packet += columns["packet"][place]
            since, waited = late.get(place, (0, 0))
            assert events.exchange_no[place] == exchange_no
            assert events.time_ns[place] == at
            assert events.seen_ns[place] == at - since
            assert events.in_order_ns[place] == at - waited
            assert columns["kinds"][columns["kind"][place]] == EVENT_KINDS[events.kind[place]]
            assert events.size_bytes[place] == columns["bytes"][place]
            assert events.packet_no[place] == packet
            place += 1
    assert place == len(events)
    assert len(late) == 7


def test_figures_of_the_stalled_stream(sample: ModuleType) -> None:
    data = payload(sample.streams())["events"]
    stalled = next(row for row in data["drawn"] if row[0] == 1)
    _, kept, content, between, median, most, longest, pauses, bounds, bars = stalled
    assert (kept, content, between) == (34, 31, 30)
    assert (median, most, longest) == (25_000, 25_000, 695_000)
    assert pauses == [630_000, 695_000]
    lost = CAUSE_CODE["generation"] + LOST
    assert bars == [[1, CAUSE_CODE["generation"], 29], [len(bounds) - 1, lost, 1]]
    assert sum(number for *_, number in bars) == between
    assert data["facts"][1][:2] == [1, 34]


def test_a_report_holds_a_bounded_number_of_events(
    sample: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    analysis = sample.streams(long=5_000)
    monkeypatch.setattr(streams, "MAX_STREAM_EVENTS", 400)
    columns = payload(analysis)["events"]
    assert [row[0] for row in columns["drawn"]] == [0, 1, 2, 4]
    assert columns["drawn"][-1][1] <= 400
    assert columns["drawn"][-1][2:4] == [5_000, 4_999]  # figures are those of all
    monkeypatch.setattr(streams, "MAX_EVENTS", 100)
    columns = payload(analysis)["events"]
    assert [row[0] for row in columns["drawn"]] == [0, 1, 2]  # 97 events; the long one has no room
    assert len(columns["time"]) == 97
    monkeypatch.setattr(streams, "MAX_STREAMS", 1)
    columns = payload(analysis)["events"]
    assert [row[0] for row in columns["drawn"]] == [1]  # the first that a finding names
    assert [row[1] for row in columns["facts"]] == [33, 34, 30, 5_001]


def test_about_twenty_bytes_an_event(sample: ModuleType) -> None:
    few, many = (
        len(json.dumps(payload(sample.streams(long=n))["events"], separators=(",", ":")))
        for n in (600, 1_600)
    )
    assert (many - few) / 1_000 < 20


def test_streams_without_events_have_their_facts(sample: ModuleType) -> None:
    analysis = sample.clean()
    analysis.tables.exchanges[2].stream = sample.StreamFacts(error_code="overloaded")
    data = payload(analysis)
    assert data["events"]["drawn"] == []
    [(number, count, *facts)] = data["events"]["facts"]
    assert (number, count) == (2, 0)
    assert "overloaded" in [data["strings"][fact] for fact in facts if isinstance(fact, int)]


def test_events_in_the_wrong_order_break_nothing(sample: ModuleType) -> None:
    analysis = sample.streams()
    events = analysis.tables.events
    for array in (events.time_ns, events.seen_ns, events.in_order_ns):
        array[:] = array[::-1].copy()
    columns = payload(analysis)["events"]
    assert all(number >= 0 for row in columns["drawn"] for number in row[1:7])
    assert list(itertools.chain(*(row[7] for row in columns["drawn"])))
