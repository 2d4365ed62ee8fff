"""Timeline: the phases of each exchange, and its ledger.

The ledger resolves the waits of an exchange, which may overlap, into intervals that touch
and never do: at each instant the first cause in order of precedence
(`capture_analyzer.model.causes`) takes it, and what no wait covers is `unknown`. All
exchanges are resolved at once: their bounds and those of their waits cut the time into
elementary pieces; for each cause a running count of begins less ends says which pieces it
covers.

Waits of one cause that follow each other become one entry, but for two things: a long wait
keeps an entry of its own, so that a finding can point to it, and an entry ends where the
first generated content is there, so that those before it add up to the time to first token.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.causes import CAUSE_CODE
from capture_analyzer.model.column import NO_TIME, concatenate
from capture_analyzer.model.exchanges import Exchanges
from capture_analyzer.model.waits import Ledger, Waits
from capture_analyzer.pipeline.join import Setup
from capture_analyzer.pipeline.lists import in_parts, places, stable_order

LONG_NS: Final = 100_000_000
"""From this length on a wait keeps an entry of its own."""

_WAITS_AT_ONCE: Final = 32_768

_UNKNOWN: Final = CAUSE_CODE["unknown"]


def resolve(exchanges: Exchanges, waits: Waits) -> Ledger:
    """The ledger of all exchanges.

    Args:
        exchanges: with their set-ups.
        waits: in any order; those of no exchange are left out, and parts outside their
            exchange are cut off.

    Returns:
        For each exchange, entries from `start_ns` to `end_ns` (`last_ns` where that is None)
        that touch; an exchange of no length has one entry of no length. Neighbours differ in
        cause, save where a wait is long or the first token came. An entry has the packets that
        its first wait began with and its last ended with.
    """
    count = len(exchanges)
    if not count:
        return Ledger()
    columns = exchanges.columns
    start = columns.start_ns
    end = np.maximum(columns.until_ns, start)
    streamed = columns.ttft_ns != NO_TIME
    token = np.where(streamed, columns.request_start_ns + columns.ttft_ns, NO_TIME)
    # By exchange; those of one keep their order.
    chosen = np.flatnonzero(waits.exchange_no >= 0)
    chosen = chosen[stable_order(waits.exchange_no[chosen])]
    bounds = np.searchsorted(waits.exchange_no[chosen], np.arange(count + 1, dtype=np.int32))
    parts = []
    for first, stop in in_parts(bounds + np.arange(count + 1), _WAITS_AT_ONCE):
        part = slice(first, stop)
        mine = chosen[bounds[first] : bounds[stop]]
        parts.append(_resolved(first, start[part], end[part], token[part], waits, mine))
    ledger: Ledger = concatenate(Ledger, parts)
    return ledger


def _resolved(
    first_no: int,
    start: NDArray[np.int64],
    end: NDArray[np.int64],
    token: NDArray[np.int64],
    waits: Waits,
    chosen: NDArray[np.intp],
) -> Ledger:
    """The ledger of some exchanges that follow each other.

    Args:
        first_no: number of the first of them.
        start: where each starts.
        end: where it ends.
        token: when its first generated content was there; NO_TIME without one.
        waits: of all exchanges.
        chosen: those of these, by exchange.
    """
    count = len(start)
    owner = waits.exchange_no[chosen] - first_no
    begins = np.maximum(waits.from_ns[chosen], start[owner])
    ends = np.minimum(waits.to_ns[chosen], end[owner])
    real = ends > begins
    chosen, owner, begins, ends = chosen[real], owner[real], begins[real], ends[real]

    token_owner = np.flatnonzero((token > start) & (token < end))
    token = token[token_owner]

    # Elementary pieces: piece k reaches from instant k to instant k + 1 of its exchange.
    everyone = np.arange(count)
    all_owners = np.concatenate((everyone, everyone, owner, owner, token_owner)).astype(np.int64)
    times = np.concatenate((start, end, begins, ends, token))
    order = _by_owner_and_time(all_owners, times, start)
    sorted_owners, sorted_times = all_owners[order], times[order]
    new = np.ones(len(order), np.bool_)
    new[1:] = (sorted_owners[1:] != sorted_owners[:-1]) | (sorted_times[1:] != sorted_times[:-1])
    position = np.empty(len(order), np.int64)
    position[order] = np.cumsum(new) - 1
    instant_owner, instant = sorted_owners[new], sorted_times[new]
    begin_at = position[2 * count : 2 * count + len(owner)]
    end_at = position[2 * count + len(owner) : 2 * count + 2 * len(owner)]
    token_at = position[2 * count + 2 * len(owner) :]

    cause = np.full(len(instant), _UNKNOWN, np.uint8)
    # Which maximal run of its cause a piece belongs to, numbered over all causes; -1 = none.
    run = np.full(len(instant), -1, np.int64)
    first_wait: list[NDArray[np.intp]] = []
    last_wait: list[NDArray[np.intp]] = []
    run_lengths: list[NDArray[np.int64]] = []
    runs = 0
    causes = waits.cause[chosen]
    for code in np.flatnonzero(np.bincount(causes))[::-1].tolist():  # the strongest writes last
        mine = np.flatnonzero(causes == code)
        begun, ended, first, last = _runs(begin_at[mine], end_at[mine])
        pieces = ended - begun
        covered = places(begun, pieces)
        cause[covered] = code
        run[covered] = np.repeat(np.arange(runs, runs + len(begun)), pieces)
        runs += len(begun)
        first_wait.append(mine[first])
        last_wait.append(mine[last])
        run_lengths.append(instant[ended] - instant[begun])

    # Join neighbouring pieces of one cause; an exchange's last instant begins no piece,
    # unless the exchange has no length.
    last_of_owner = np.append(instant_owner[1:] != instant_owner[:-1], True)
    first_of_owner = np.concatenate(([True], last_of_owner[:-1]))
    piece = ~last_of_owner | first_of_owner
    entry = first_of_owner.copy()
    long = np.append(np.concatenate([*run_lengths, [0]]) >= LONG_NS, False)  # the last: of none
    apart = (run[1:] != run[:-1]) & (long[run[1:]] | long[run[:-1]])
    entry[1:] |= ((cause[1:] != cause[:-1]) | apart) & piece[1:]
    entry[token_at] |= piece[token_at]
    entries = np.flatnonzero(entry)
    exchange_no = instant_owner[entries]
    from_ns = instant[entries]
    to_ns = np.append(from_ns[1:], 0)
    is_last = np.append(exchange_no[1:] != exchange_no[:-1], True)
    to_ns[is_last] = end[exchange_no[is_last]]

    entry_run = run[entries]
    last_piece = np.append(entries[1:], len(entry)) - 1
    last_piece -= (last_piece > entries) & ~piece[last_piece]  # an exchange's last instant
    last_run = run[last_piece]
    known = entry_run >= 0
    confidence = np.zeros(len(entries), np.float32)
    packets = np.zeros((3, len(entries)), np.int32)
    if runs:
        opening = chosen[np.concatenate(first_wait)][entry_run[known]]
        closing = chosen[np.concatenate(last_wait)][last_run[known]]
        confidence[known] = np.minimum(waits.confidence[opening], waits.confidence[closing])
        packets[0, known] = waits.packet_a[opening]
        packets[1, known] = waits.packet_b[closing]
        packets[2, known] = np.where(
            waits.packet_c[opening] > 0, waits.packet_c[opening], waits.packet_c[closing]
        )
    return Ledger(
        exchange_no=(exchange_no + first_no).astype(np.int32),
        from_ns=from_ns,
        to_ns=to_ns,
        cause=cause[entries],
        confidence=confidence,
        packet_a=packets[0],
        packet_b=packets[1],
        packet_c=packets[2],
    )


def _runs(
    begins: NDArray[np.int64], ends: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.intp], NDArray[np.intp]]:
    """Stretches of elementary pieces that waits of one cause cover.

    A run ends where all waits so far end, even if others begin there.

    Args:
        begins: the piece that each wait begins with; at least one wait.
        ends: the piece behind its last.

    Returns:
        For each run, in order: its first piece, the piece behind its last, and the indices of
        the first wait that begins it and of the last that ends it.
    """
    order = np.argsort(begins, kind="stable")
    begins, ends = begins[order], ends[order]
    reach = np.maximum.accumulate(ends)
    new = np.ones(len(order), np.bool_)
    new[1:] = begins[1:] >= reach[:-1]
    first = np.flatnonzero(new)
    stops = reach[np.append(first[1:], len(order)) - 1]
    final = ends == np.repeat(stops, np.diff(np.append(first, len(order))))
    last = np.maximum.reduceat(np.where(final, order, -1), first)
    return begins[first], stops, order[first], last


def _by_owner_and_time(
    owners: NDArray[np.int64],
    times: NDArray[np.int64],
    start: NDArray[np.int64],
) -> NDArray[np.intp]:
    """Indices that sort by owner, then time."""
    since = times - start[owners]
    span = int(since.max()) + 1
    if span * len(start) < 2**63:
        # What is joined here is mostly in order by itself; this sort merges what is.
        return np.argsort(owners * span + since, kind="stable")
    return np.lexsort((since, owners))


def add_phases(exchanges: Exchanges, setups: Sequence[Setup]) -> None:
    """Write the phases of each exchange: they add up to its length exactly.

    Args:
        exchanges: with their set-ups.
        setups: what these were.
    """
    columns = exchanges.columns
    start, request = columns.start_ns, columns.request_start_ns
    end = np.maximum(columns.until_ns, start)
    answered = columns.response_start_ns != NO_TIME
    # An early answer cuts the request, and the exchange's end whatever lies behind it.
    response = np.where(answered, columns.response_start_ns, end)
    response = np.clip(response, request, np.maximum(end, request))
    sent = np.clip(columns.request_end_ns, request, response)
    asked = columns.request_first_packet_no != NO_TIME  # else only an answer was captured
    columns.send_ns = np.where(asked, sent - request, NO_TIME)
    columns.wait_ns = np.where(asked, response - sent, NO_TIME)
    columns.receive_ns = np.where(asked, np.where(answered, end - response, NO_TIME), end - request)
    number = np.array([setup.exchange_no for setup in setups], np.intp)
    rows = [
        (
            NO_TIME if setup.dns_ns is None else setup.connect_ns - setup.dns_ns,
            NO_TIME if setup.tunnelled else setup.established_ns - setup.connect_ns,
            setup.ready_ns - setup.established_ns if setup.tls else NO_TIME,
            setup.ready_ns,
        )
        for setup in setups
    ]
    dns, connect, tls, ready = np.array(rows, np.int64).reshape(-1, 4).T
    columns.dns_ns[number] = dns
    columns.connect_ns[number] = connect
    columns.tls_ns[number] = tls
    columns.idle_ns[number] = request[number] - ready
    exchanges.write_phases()
