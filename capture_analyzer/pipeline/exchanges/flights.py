"""Flights: where an unreadable connection turns from client to server and back.

Without keys an exchange can't be read, only seen: the client sends a flight of records (or
of plain segments), the server answers with another. A new exchange begins when the client
sends data after the server has answered; so a streamed answer stays whole, however long it
pauses, and HTTP/2 requests that are sent before any answer are one row.

What looks like data and is not neither begins a flight nor moves its bounds:

* control frames of HTTP/2 and its connection preface (module `control`);
* *100 (Continue)* without fields (RFC 9110, section 15.2.1) where HTTP/1.1 is possible: 25
  bytes between two parts of a request.

An RST_STREAM frame where the client has waited a round trip in vain gives a request up.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.column import NO_TIME
from capture_analyzer.model.quick_dataclass import quick_dataclass
from capture_analyzer.pipeline.exchanges.control import (
    RST_STREAM_BYTES,
    find_control,
    find_pings,
    find_prefaces,
    within_round_trip,
)
from capture_analyzer.pipeline.exchanges.units import Units

_CONTINUE_BYTES: Final = len(b"HTTP/1.1 100 Continue\r\n\r\n")
_TAIL_NS: Final = 1_000_000_000
"""A control-sized record of the server this long after its last data is a keep-alive PING or
a GOAWAY of an idle connection, not the end of the answer."""


@quick_dataclass
class Flights:
    """Pairs of flights: one element an exchange in each array, by connection, then time.

    The units of exchange i are `first[i]:stop[i]` of `units`; those before `turn[i]` are the
    client's, the others the server's. Either part may be empty, never both. `given_up_ns`
    says when the client gave up waiting for an answer; NO_TIME if it did not.
    """

    units: Units
    first: NDArray[np.int64]
    turn: NDArray[np.int64]
    stop: NDArray[np.int64]
    given_up_ns: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.first)


def find_flights(units: Units) -> Flights:
    """Cut the units of all connections into exchanges.

    Args:
        units: ordered by connection, then packet, then offset.

    Returns:
        The flights, over those units that belong to one. Data of the server before any of
        the client belongs to none (a greeting), unless the capture began in mid-connection.
    """
    prefaces = find_prefaces(units)
    if len(prefaces):
        keep = np.ones(len(units), np.bool_)
        keep[prefaces] = False
        units = units.take(keep)
    control = find_control(units)
    accepted = _accepted(units, control)
    given_up = _given_up(units, control, accepted)
    given_up = given_up[accepted]
    units = units.take(accepted)
    if not len(units):
        none = np.empty(0, np.int64)
        return Flights(units, none, none, none, none)
    # A flight begins with the client's data behind the server's, and with a connection.
    begins = np.ones(len(units), np.bool_)
    same = units.connection_no[1:] == units.connection_no[:-1]
    begins[1:] = ~same | (units.from_client[1:] & ~units.from_client[:-1])
    begins |= given_up != NO_TIME
    first = np.flatnonzero(begins)
    stop = np.append(first[1:], len(units))
    # The client's units of a flight lie before the server's.
    before = np.concatenate(([0], np.cumsum(units.from_client)))
    turn = first + before[stop] - before[first]
    # A greeting has no request: it is no exchange, unless its request came before the capture.
    kept = (turn > first) | ~units.keeps_start(first)
    ended = np.append(given_up[first[1:]], NO_TIME)
    return Flights(units, first[kept], turn[kept], stop[kept], ended[kept])


def _accepted(units: Units, control: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which units count: all but control frames that are no part of an answer, and 100s."""
    accepted = ~control
    real = np.flatnonzero(accepted)
    doubtful = np.flatnonzero(control & ~units.from_client & ~find_pings(units))
    if len(real) and len(doubtful):
        accepted[doubtful] = _ends_answer(units, real, doubtful)
    interim = np.flatnonzero(accepted & (units.content == _CONTINUE_BYTES) & ~units.from_client)
    if len(interim):
        counted = np.flatnonzero(accepted)
        place = np.searchsorted(counted, interim)
        before = counted[np.maximum(place - 1, 0)]
        after = counted[np.minimum(place + 1, len(counted) - 1)]
        split = (
            units.may_be_h1(interim)
            & units.from_client[before]
            & units.from_client[after]
            & (units.connection_no[before] == units.connection_no[interim])
            & (units.connection_no[after] == units.connection_no[interim])
        )
        accepted[interim[split]] = False
    return accepted


def _ends_answer(
    units: Units, real: NDArray[np.int64], doubtful: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Which units of the server with the size of a control frame are data of an answer.

    Such a unit may well end an answer: it does if data of the server came just before. It
    may also be a whole answer: it is if it came a round trip behind the client's data and
    nothing else did, once the connection is past its first answer (for before that, the
    server acknowledges the client's SETTINGS).
    """
    place = np.searchsorted(real, doubtful)
    before = real[np.maximum(place - 1, 0)]
    same = (place > 0) & (units.connection_no[before] == units.connection_no[doubtful])
    apart = units.seen_ns[doubtful] - units.seen_ns[before]
    ends = ~units.from_client[before] & (apart <= _TAIL_NS)
    after = real[np.minimum(place, len(real) - 1)]
    alone = (
        (place == len(real))
        | units.from_client[after]
        | (units.connection_no[after] != units.connection_no[doubtful])
    )
    begin = np.searchsorted(units.connection_no, units.connection_no[doubtful])
    answers = np.concatenate(([0], np.cumsum(~units.from_client[real])))
    later = answers[place] > answers[np.searchsorted(real, begin)]
    whole = units.from_client[before] & alone & later & ~within_round_trip(units, before, doubtful)
    result: NDArray[np.bool_] = same & (ends | whole)
    return result


def _given_up(
    units: Units, control: NDArray[np.bool_], accepted: NDArray[np.bool_]
) -> NDArray[np.int64]:
    """For each unit when the client gave up the request before it; NO_TIME if it did not."""
    result = np.full(len(units), NO_TIME, np.int64)
    real = np.flatnonzero(accepted)
    reset = np.flatnonzero(control & units.from_client & (units.content == RST_STREAM_BYTES))
    place = np.searchsorted(real, reset)
    inside = (place > 0) & (place < len(real))
    reset, place = reset[inside], place[inside]
    before, after = real[place - 1], real[place]
    in_vain = (
        (units.connection_no[before] == units.connection_no[after])
        & units.from_client[before]
        & units.from_client[after]
        & ~within_round_trip(units, before, reset)
    )
    result[after[in_vain]] = units.seen_ns[reset[in_vain]]
    return result


def latest(
    values: NDArray[np.signedinteger], first: NDArray[np.int64], stop: NDArray[np.int64]
) -> NDArray[np.int64]:
    """The greatest value of each slice `first:stop`; NO_TIME of an empty one."""
    result = np.full(len(first), NO_TIME, np.int64)
    filled = np.flatnonzero(stop > first)
    if len(filled):
        bounds = np.empty(2 * len(filled), np.int64)
        bounds[0::2], bounds[1::2] = first[filled], stop[filled]
        # A bound may be the array's end, which reduceat does not take.
        padded = np.append(values, values[-1])
        result[filled] = np.maximum.reduceat(padded, bounds)[0::2]
    return result
