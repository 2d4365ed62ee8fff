"""Ledger and phases, whatever the exchanges and waits: they touch, and they add up."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capture_analyzer.model.causes import CAUSE_CODE, CAUSE_NAMES
from capture_analyzer.model.exchanges import Exchange, Exchanges, Phases
from capture_analyzer.model.waits import Ledger, Waits
from capture_analyzer.pipeline import timeline
from capture_analyzer.pipeline.timeline import add_phases, resolve

UNKNOWN = CAUSE_CODE["unknown"]
TIMES = st.integers(-20, 60)


@st.composite
def exchanges(draw: st.DrawFn) -> list[Exchange]:
    rows = []
    for number in range(draw(st.integers(0, 5))):
        start = draw(TIMES)
        request = start + draw(st.integers(0, 10))
        sent = request + draw(st.integers(0, 20))
        response = draw(st.none() | st.integers(request, request + 40))
        last = max(sent, response or sent) + draw(st.integers(0, 30))
        rows.append(
            Exchange(
                exchange_no=number,
                connection_no=number // 2,
                stream_id=None,
                protocol="http/1.1",
                kind="http",
                inferred=False,
                start_ns=start,
                request_start_ns=request,
                request_end_ns=sent,
                response_start_ns=response,
                end_ns=draw(st.sampled_from([None, last])),
                last_ns=last,
                request_first_packet_no=draw(st.sampled_from([None, 1])),
                ttft_ns=draw(st.none() | st.integers(0, 60)),
            )
        )
    return rows


@st.composite
def waits(draw: st.DrawFn, most: int = 5) -> Waits:
    rows = draw(
        st.lists(
            st.tuples(
                TIMES,
                st.integers(0, 40),
                st.integers(-1, most - 1),
                st.sampled_from([0, 1, 4, 8, 18, 19, 20, 21]),
            ),
            max_size=25,
        )
    )
    columns = np.array(rows, np.int64).reshape(-1, 4)
    count = len(columns)
    return Waits(
        from_ns=columns[:, 0].copy(),
        to_ns=columns[:, 0] + columns[:, 1],
        connection_no=np.zeros(count, np.int32),
        exchange_no=columns[:, 2].astype(np.int32),
        cause=columns[:, 3].astype(np.uint8),
        confidence=np.linspace(0.1, 1.0, count, dtype=np.float32),
        packet_a=np.zeros(count, np.int32),
        packet_b=np.zeros(count, np.int32),
        packet_c=np.zeros(count, np.int32),
    )


def of(rows: list[Exchange], table: Waits) -> Waits:
    """Only the waits of exchanges that exist."""
    kept = table.exchange_no < len(rows)
    table = Waits(*(getattr(table, f.name)[kept] for f in dataclasses.fields(Waits)))
    table.packet_a = np.arange(1, len(table) + 1, dtype=np.int32)
    table.packet_b = np.arange(101, len(table) + 101, dtype=np.int32)
    return table


def length(exchange: Exchange) -> int:
    end = exchange.last_ns if exchange.end_ns is None else exchange.end_ns
    return end - exchange.start_ns


def entries(ledger: Ledger, number: int) -> list[tuple[int, int, int]]:
    rows = ledger.rows_of(number)
    return list(
        zip(
            ledger.from_ns[rows].tolist(),
            ledger.to_ns[rows].tolist(),
            ledger.cause[rows].tolist(),
            strict=True,
        )
    )


@settings(max_examples=100, deadline=None)
@given(exchanges(), waits())
def test_entries_touch_and_add_up_to_the_exchange(rows: list[Exchange], table: Waits) -> None:
    ledger = resolve(Exchanges.of(rows), of(rows, table))
    assert np.all(np.diff(ledger.exchange_no) >= 0)
    for number, exchange in enumerate(rows):
        parts = entries(ledger, number)
        assert parts[0][0] == exchange.start_ns
        assert sum(to - begin for begin, to, _ in parts) == length(exchange)
        token = None if exchange.ttft_ns is None else exchange.request_start_ns + exchange.ttft_ns
        for (_, to, cause), (begin, _, next_cause) in itertools.pairwise(parts):
            assert to == begin
            assert cause != next_cause or to == token
        if token is not None and exchange.start_ns < token < exchange.start_ns + length(exchange):
            assert token in [to for _, to, _ in parts]  # those before it are the time to it
        assert len(parts) == 1 or all(begin < to for begin, to, _ in parts)


@settings(max_examples=100, deadline=None)
@given(exchanges(), waits())
def test_long_waits_apart_change_nothing_but_the_cuts(rows: list[Exchange], table: Waits) -> None:
    table = of(rows, table)
    whole = resolve(Exchanges.of(rows), table)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(timeline, "LONG_NS", 10)
        parts = resolve(Exchanges.of(rows), table)
    bounds = set(zip(table.exchange_no.tolist(), table.from_ns.tolist(), strict=True))
    assert len(parts) >= len(whole)
    for number in range(len(rows)):
        instants = {begin for begin, _, _ in entries(whole, number)}
        for begin, _, _ in entries(parts, number):
            assert begin in instants or (number, begin) in bounds
        booked = {t: c for b, e, c in entries(whole, number) for t in range(b, e)}
        assert booked == {t: c for b, e, c in entries(parts, number) for t in range(b, e)}


@settings(max_examples=100, deadline=None)
@given(exchanges(), waits())
def test_each_instant_has_the_strongest_cause_that_covers_it(
    rows: list[Exchange], table: Waits
) -> None:
    table = of(rows, table)
    ledger = resolve(Exchanges.of(rows), table)
    for number, exchange in enumerate(rows):
        booked = {
            instant: cause
            for begin, to, cause in entries(ledger, number)
            for instant in range(begin, to)
        }
        for instant in range(exchange.start_ns, exchange.start_ns + length(exchange)):
            covering = [
                int(cause)
                for begin, to, owner, cause in zip(
                    table.from_ns, table.to_ns, table.exchange_no, table.cause, strict=True
                )
                if owner == number and begin <= instant < to
            ]
            assert booked[instant] == min(covering, default=UNKNOWN)


@settings(max_examples=100, deadline=None)
@given(exchanges(), waits())
def test_evidence_is_of_waits_with_the_same_cause_and_exchange(
    rows: list[Exchange], table: Waits
) -> None:
    table = of(rows, table)
    ledger = resolve(Exchanges.of(rows), table)
    for index in range(len(ledger)):
        if ledger.cause[index] == UNKNOWN:
            assert ledger.packet_a[index] == ledger.packet_b[index] == 0
            assert ledger.confidence[index] == 0
            continue
        first, last = int(ledger.packet_a[index]) - 1, int(ledger.packet_b[index]) - 101
        for wait in (first, last):
            assert table.cause[wait] == ledger.cause[index]
            assert table.exchange_no[wait] == ledger.exchange_no[index]
        assert table.from_ns[first] <= ledger.from_ns[index]
        assert table.to_ns[last] >= ledger.to_ns[index]


@settings(max_examples=100, deadline=None)
@given(exchanges(), waits(), st.randoms(use_true_random=False))
def test_the_order_of_waits_of_one_cause_does_not_change_the_entries(
    rows: list[Exchange], table: Waits, random: object
) -> None:
    table = of(rows, table)
    order = np.arange(len(table))
    random.shuffle(order)  # type: ignore[attr-defined]
    shuffled = Waits(*(getattr(table, f.name)[order] for f in dataclasses.fields(Waits)))
    one, other = resolve(Exchanges.of(rows), table), resolve(Exchanges.of(rows), shuffled)
    for name in ("exchange_no", "from_ns", "to_ns", "cause"):
        assert np.array_equal(getattr(one, name), getattr(other, name))


@settings(max_examples=100, deadline=None)
@given(exchanges())
def test_phases_add_up_to_the_exchange(rows: list[Exchange]) -> None:
    for exchange in rows:
        exchange.start_ns = exchange.request_start_ns  # without set-up
    add_phases(Exchanges.of(rows), [])
    for exchange in rows:
        parts = [getattr(exchange.phases, f.name) for f in dataclasses.fields(Phases)]
        assert sum(part for part in parts if part is not None) == length(exchange)
        assert all(part is None or part >= 0 for part in parts)
        asked = exchange.request_first_packet_no is not None
        assert (exchange.phases.send_ns is not None) == asked


def test_causes_are_in_order_of_precedence() -> None:
    assert CAUSE_NAMES[0] == "capture_gap"
    assert CAUSE_NAMES[-1] == "unknown"
    assert CAUSE_CODE["transfer"] < CAUSE_CODE["network_rtt"] < CAUSE_CODE["server_think"]


def test_long_captures_sort_without_overflow() -> None:
    day = 86_400_000_000_000
    rows = [
        Exchange(n, n, None, "opaque", "opaque", True, 0, 0, 0, end_ns=2**61 + n, last_ns=day)
        for n in range(5)
    ]
    ledger = resolve(Exchanges.of(rows), Waits())
    assert ledger.to_ns.tolist() == [2**61 + n for n in range(5)]
