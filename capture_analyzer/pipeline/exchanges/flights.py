"""Flights: where an unreadable connection turns from client to server and back.

Without keys an exchange can't be read, only seen: the client sends a flight of records (or
of plain segments), the server answers with another. A new exchange begins when the client
sends data after the server has answered; so a streamed answer stays whole, however long it
pauses, and HTTP/2 requests that are sent before any answer are one row.

Three things look like data and are not; they are recognised by their exact size:

* *HTTP/2 control frames* (RFC 9113, sections 4.1 and 6): an acknowledgement of SETTINGS
  (9 bytes), WINDOW_UPDATE and RST_STREAM (13), PING and an empty GOAWAY (17). A client sends
  them at any time during an answer; they neither begin a flight nor move its bounds. Two of
  these in one record are as long as some requests: they count as control frames if more of
  the answer came within a round trip, for then they were not what it answers. (A request
  whose fields are all in the HPACK table can have the size of one control frame. It is
  missed.) RST_STREAM where the client has waited a round trip in vain is a request given up.
* *the HTTP/2 connection preface* (section 3.4): 24 bytes and a SETTINGS frame of 9 + 6n bytes,
  perhaps with a WINDOW_UPDATE. It is no request. Likewise the server's first SETTINGS.
* *100 (Continue)* without fields (RFC 9110, section 15.2.1): 25 bytes between two parts of
  a request.

The first two count only where HTTP/2 is possible (`Units.may_be_h2`), the last where
HTTP/1.1 is.
"""

from __future__ import annotations

import dataclasses
from typing import Final

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.column import NO_TIME

_CONTROL_FRAMES: Final = (9, 13, 17)
_RST_STREAM_BYTES: Final = 13
_LONGEST_SPECIAL: Final = 128
_CONTINUE_BYTES: Final = len(b"HTTP/1.1 100 Continue\r\n\r\n")
_PREFACE_BYTES: Final = 24
_MOST_SETTINGS: Final = 8  # settings in a first SETTINGS frame; RFC 9113 defines six
_SET_UP_ANSWER_BYTES: Final = 96  # two SETTINGS frames and a WINDOW_UPDATE; any HTTP/1 head is more
_TAIL_NS: Final = 1_000_000_000
"""A control-sized record of the server this long after its last data is a keep-alive PING or
a GOAWAY of an idle connection, not the end of the answer."""


def _sizes(values: set[int]) -> NDArray[np.bool_]:
    table = np.zeros(_LONGEST_SPECIAL + 1, np.bool_)
    table[[value for value in values if value < _LONGEST_SPECIAL]] = True
    return table


_CONTROL: Final = _sizes(set(_CONTROL_FRAMES))
_TWO_CONTROL: Final = _sizes({22, 26, 30})
_SETTINGS: Final = _sizes(
    {9 + 6 * n + more for n in range(_MOST_SETTINGS) for more in (0, 9, 13, 22)}
)
_PREFACE: Final = _sizes(
    {_PREFACE_BYTES + 9 + 6 * n + more for n in range(_MOST_SETTINGS) for more in (0, 13)}
)


@dataclasses.dataclass(slots=True)
class Units:
    """Pieces of data in each array, one element a TLS record or a segment's payload.

    Ordered by connection, then packet, then offset.

    Attributes:
        connection_no: the connection.
        from_client: the direction.
        first_packet_no, last_packet_no: packets with its first byte and its last.
        seen_ns: its first byte was captured.
        last_seen_ns: its last byte was captured.
        usable_ns: an application can use it (record complete and in order); NO_TIME = cut.
        size: bytes on the stream.
        content: bytes of application data in it; -1 = can't be told.
        may_be_h2, may_be_h1: what the connection may speak, by its ALPN.
        keeps_start: the capture holds the connection's beginning.
        round_trip_ns: between the capture point and the server; very long if not known.
    """

    connection_no: NDArray[np.int32]
    from_client: NDArray[np.bool_]
    first_packet_no: NDArray[np.int32]
    last_packet_no: NDArray[np.int32]
    seen_ns: NDArray[np.int64]
    last_seen_ns: NDArray[np.int64]
    usable_ns: NDArray[np.int64]
    size: NDArray[np.int64]
    content: NDArray[np.int64]
    may_be_h2: NDArray[np.bool_]
    may_be_h1: NDArray[np.bool_]
    keeps_start: NDArray[np.bool_]
    round_trip_ns: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.connection_no)

    def take(self, index: NDArray[np.intp] | NDArray[np.bool_]) -> Units:
        """The chosen units, in the order of `index`."""
        return Units(*(getattr(self, field.name)[index] for field in dataclasses.fields(Units)))


@dataclasses.dataclass(slots=True)
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
    units = units.take(_without_set_up(units))
    control = _is_control(units)
    accepted = _accepted(units, control)
    given_up = _given_up(units, control, accepted)[accepted]
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
    kept = (turn > first) | ~units.keeps_start[first]
    ended = np.append(given_up[first[1:]], NO_TIME)
    return Flights(units, first[kept], turn[kept], stop[kept], ended[kept])


def _is_special(units: Units, table: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Whether the content of each unit has a size of the table."""
    content = np.where(units.content < 0, _LONGEST_SPECIAL, units.content)
    special: NDArray[np.bool_] = table[np.minimum(content, _LONGEST_SPECIAL)]
    return special


def _is_control(units: Units) -> NDArray[np.bool_]:
    """HTTP/2 control frames by size, and the server's first SETTINGS."""
    control = _is_special(units, _CONTROL)
    server = np.flatnonzero(~units.from_client)
    opens = server[_first_of_group(units.connection_no[server])]
    opens = opens[units.keeps_start[opens]]
    control[opens] |= _is_special(units.take(opens), _SETTINGS)
    doubtful = np.flatnonzero(_is_special(units, _TWO_CONTROL) & units.from_client)
    if len(doubtful) and len(server):
        following = np.searchsorted(server, doubtful)
        known = following < len(server)
        doubtful, following = doubtful[known], server[following[known]]
        control[doubtful] = (
            units.connection_no[following] == units.connection_no[doubtful]
        ) & _within_round_trip(units, doubtful, following)
    return control & units.may_be_h2


def _within_round_trip(
    units: Units, earlier: NDArray[np.int64], later: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Whether units were seen so soon behind others that these can't have caused them."""
    apart = units.seen_ns[later] - units.seen_ns[earlier]
    # A sample of the round trip is never quite the least.
    soon: NDArray[np.bool_] = apart < units.round_trip_ns[earlier] - (
        units.round_trip_ns[earlier] >> 3
    )
    return soon


def _first_of_group(groups: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Marks the first element of each run of equal values."""
    first = np.ones(len(groups), np.bool_)
    first[1:] = groups[1:] != groups[:-1]
    return first


def _without_set_up(units: Units) -> NDArray[np.bool_]:
    """All units but the HTTP/2 connection preface, where it stands alone."""
    keep = np.ones(len(units), np.bool_)
    client = np.flatnonzero(units.from_client)
    opens = client[_first_of_group(units.connection_no[client])]
    opens = opens[units.keeps_start[opens] & units.may_be_h2[opens]]
    opens = opens[_is_special(units.take(opens), _PREFACE)]
    if not len(opens):
        return keep
    # Content of the server between the preface and the client's next real data.
    control = _is_control(units)
    real = np.flatnonzero(units.from_client & ~control)
    behind = np.searchsorted(real, opens, "right")
    limit = np.searchsorted(units.connection_no, units.connection_no[opens], "right")
    following = np.append(real, len(units))[behind]
    answered = np.where(units.from_client, 0, np.maximum(units.content, 0))
    answered[control] = 0
    sums = np.concatenate(([0], np.cumsum(answered)))
    until = np.minimum(following, limit)
    # With an answer of any size behind it this was a request after all, in HTTP/1.1; and
    # with nothing behind it, it may have been one.
    answer = sums[until] - sums[opens]
    keep[opens[(answer <= _SET_UP_ANSWER_BYTES) & ((following < limit) | (until > opens + 1))]] = (
        False
    )
    return keep


def _accepted(units: Units, control: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which units count: all but control frames that are no part of an answer, and 100s."""
    accepted = ~control
    real = np.flatnonzero(accepted)
    doubtful = np.flatnonzero(control & ~units.from_client)
    if len(real) and len(doubtful):
        accepted[doubtful] = _ends_answer(units, real, doubtful)
    index = np.flatnonzero(accepted)
    if len(index) > 2:
        before, here, after = index[:-2], index[1:-1], index[2:]
        interim = (
            (units.content[here] == _CONTINUE_BYTES)
            & units.may_be_h1[here]
            & ~units.from_client[here]
            & units.from_client[before]
            & units.from_client[after]
            & (units.connection_no[before] == units.connection_no[after])
        )
        accepted[here[interim]] = False
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
    whole = units.from_client[before] & alone & later & ~_within_round_trip(units, before, doubtful)
    result: NDArray[np.bool_] = same & (ends | whole)
    return result


def _given_up(
    units: Units, control: NDArray[np.bool_], accepted: NDArray[np.bool_]
) -> NDArray[np.int64]:
    """For each unit when the client gave up the request before it; NO_TIME if it did not."""
    result = np.full(len(units), NO_TIME, np.int64)
    real = np.flatnonzero(accepted)
    reset = np.flatnonzero(control & units.from_client & (units.content == _RST_STREAM_BYTES))
    place = np.searchsorted(real, reset)
    inside = (place > 0) & (place < len(real))
    reset, place = reset[inside], place[inside]
    before, after = real[place - 1], real[place]
    in_vain = (
        (units.connection_no[before] == units.connection_no[after])
        & units.from_client[before]
        & units.from_client[after]
        & ~_within_round_trip(units, before, reset)
    )
    result[after[in_vain]] = units.seen_ns[reset[in_vain]]
    return result


def latest(
    values: NDArray[np.int64], first: NDArray[np.int64], stop: NDArray[np.int64]
) -> NDArray[np.int64]:
    """The greatest value of each slice `first:stop`; NO_TIME of an empty one."""
    result = np.full(len(first), NO_TIME, np.int64)
    filled = np.flatnonzero(stop > first)
    if len(filled):
        bounds = np.empty(2 * len(filled), np.int64)
        bounds[0::2], bounds[1::2] = first[filled], stop[filled]
        # A bound may be the array's end, which reduceat does not take.
        padded = np.append(values, NO_TIME)
        result[filled] = np.maximum.reduceat(padded, bounds)[0::2]
    return result
