"""HTTP/2 frames that are no data, told by exact size and by time, without keys.

A record's length is clear text, and frames of fixed size are common (RFC 9113, sections 4.1
and 6): an acknowledgement of SETTINGS has 9 bytes, WINDOW_UPDATE and RST_STREAM 13, PING and
an empty GOAWAY 17. One of these alone is taken for control. (A request whose fields are all
in the HPACK table can have the same size. It is missed.)

Two or three in one record are as long as some requests. From a client they count as control
if something speaks for it:

* the answer went on within a round trip, so it was not caused by them;
* the server had sent so much that WINDOW_UPDATE was due;
* the answer kept its pace: the gap around them is like those before;
* the server acknowledged a PING in them a round trip later.

The connection preface (section 3.4), 24 bytes and a SETTINGS frame of 9 + 6n bytes, perhaps
with a WINDOW_UPDATE, is no request, and the server's first SETTINGS is no answer.

All this counts only where HTTP/2 is possible (`Speech.may_be_h2`).
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.pipeline.exchanges.units import Units

RST_STREAM_BYTES: Final = 13
PING_BYTES: Final = 17

_LONGEST_SPECIAL: Final = 128
_PREFACE_BYTES: Final = 24
_MOST_SETTINGS: Final = 8  # settings in a first SETTINGS frame; RFC 9113 defines six
_SET_UP_ANSWER_BYTES: Final = 96  # two SETTINGS frames and a WINDOW_UPDATE; any HTTP/1 head is more
_UPDATE_BYTES: Final = 4096  # clients that update often do so from about this on
_UPLOAD_BYTES: Final = 4096  # a client's record from this size on is content of a request
_PACE: Final = 1.5  # a gap up to this much longer than those before it keeps the pace
_AT_ONCE_NS: Final = 20_000_000  # an endpoint acknowledges a PING within this time


def _sizes(values: set[int]) -> NDArray[np.bool_]:
    table = np.zeros(_LONGEST_SPECIAL + 1, np.bool_)
    table[[value for value in values if value < _LONGEST_SPECIAL]] = True
    return table


_CONTROL: Final = _sizes({9, 13, PING_BYTES})
_COMBINED: Final = _sizes({22, 26, 30, 35, 39, 43})
_WITH_PING: Final = _sizes({PING_BYTES, 30, 43})
_SETTINGS: Final = _sizes(
    {9 + 6 * n + more for n in range(_MOST_SETTINGS) for more in (0, 9, 13, 22)}
)
_PREFACE: Final = _sizes(
    {_PREFACE_BYTES + 9 + 6 * n + more for n in range(_MOST_SETTINGS) for more in (0, 13)}
)


def find_control(units: Units) -> NDArray[np.bool_]:
    """Marks control frames of either side, and the server's first SETTINGS."""
    control = np.zeros(len(units), np.bool_)
    small = np.flatnonzero((units.content >= 0) & (units.content < _LONGEST_SPECIAL))
    small = small[units.may_be_h2(small)]
    if not len(small):
        return control
    control[small] = _has_size(units, small, _CONTROL)
    server = np.flatnonzero(~units.from_client)
    opens = server[first_of_group(units.connection_no[server])]
    opens = opens[units.keeps_start(opens) & units.may_be_h2(opens)]
    control[opens] |= _has_size(units, opens, _SETTINGS)
    combined = small[_has_size(units, small, _COMBINED)]
    if len(server):
        doubtful = combined[units.from_client[combined]]
        control[doubtful] |= _speaks_for_control(units, doubtful, server)
    doubtful = combined[~units.from_client[combined]]
    control[doubtful] |= _inside_upload(units, doubtful)
    return control


def find_pings(units: Units) -> NDArray[np.bool_]:
    """Marks the server's PINGs, and its acknowledgements of the client's."""
    pings = np.zeros(len(units), np.bool_)
    both = np.flatnonzero((units.content >= PING_BYTES) & (units.content < _LONGEST_SPECIAL))
    both = both[units.may_be_h2(both) & _has_size(units, both, _WITH_PING)]
    asked = both[units.from_client[both]]
    mine = both[~units.from_client[both] & (units.content[both] == PING_BYTES)]
    if not len(asked) or not len(mine):
        return pings
    after = np.minimum(mine + 1, len(units) - 1)
    acknowledged = (
        (units.connection_no[after] == units.connection_no[mine])
        & units.from_client[after]
        & (units.content[after] == PING_BYTES)
        & (units.seen_ns[after] - units.seen_ns[mine] < _AT_ONCE_NS)
    )
    pings[mine[acknowledged]] = True
    place = np.searchsorted(asked, mine) - 1
    before = asked[np.maximum(place, 0)]
    pings[mine[(place >= 0) & _round_trip_later(units, before, mine)]] = True
    return pings


def find_prefaces(units: Units) -> NDArray[np.int64]:
    """The HTTP/2 connection prefaces that stand alone."""
    client = np.flatnonzero(units.from_client)
    opens = client[first_of_group(units.connection_no[client])]
    opens = opens[units.keeps_start(opens) & units.may_be_h2(opens)]
    opens = opens[_has_size(units, opens, _PREFACE)]
    if not len(opens):
        return opens
    # Content of the server between the preface and the client's next real data.
    control = find_control(units)
    real = np.flatnonzero(units.from_client & ~control)
    behind = np.searchsorted(real, opens, "right")
    limit = np.searchsorted(units.connection_no, units.connection_no[opens], "right")
    following = np.append(real, len(units))[behind]
    answered = np.where(units.from_client | control, 0, np.maximum(units.content, 0))
    sums = np.concatenate(([0], np.cumsum(answered)))
    until = np.minimum(following, limit)
    # With an answer of any size behind it this was a request after all, in HTTP/1.1; and
    # with nothing behind it, it may have been one.
    small = sums[until] - sums[opens] <= _SET_UP_ANSWER_BYTES
    followed = (following < limit) | (until > opens + 1)
    alone: NDArray[np.int64] = opens[small & followed]
    return alone


def within_round_trip(
    units: Units, earlier: NDArray[np.int64], later: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Whether units were seen so soon behind others that these can't have caused them."""
    # A sample of the round trip is never quite the least.
    trip = units.round_trip_ns(earlier)
    trip = trip - (trip >> 3)
    soon: NDArray[np.bool_] = units.seen_ns[later] - units.seen_ns[earlier] < trip
    return soon


def first_of_group(groups: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Marks the first element of each run of equal values."""
    first = np.ones(len(groups), np.bool_)
    first[1:] = groups[1:] != groups[:-1]
    return first


def _has_size(
    units: Units, index: NDArray[np.int64], table: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Whether the content of these units has a size of the table."""
    content = units.content[index]
    known = (content >= 0) & (content < _LONGEST_SPECIAL)
    special: NDArray[np.bool_] = table[np.where(known, content, _LONGEST_SPECIAL)]
    return special


def _round_trip_later(
    units: Units, earlier: NDArray[np.int64], later: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Whether units came just when an endpoint would have answered others at once."""
    trip = units.round_trip_ns(earlier)
    apart = units.seen_ns[later] - units.seen_ns[earlier]
    answers: NDArray[np.bool_] = (
        (units.connection_no[earlier] == units.connection_no[later])
        & (apart >= trip - (trip >> 3))
        & (apart <= trip + (trip >> 2) + _AT_ONCE_NS)
    )
    return answers


def _speaks_for_control(
    units: Units, doubtful: NDArray[np.int64], server: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Which records of a client, as long as two or three control frames, are such.

    Args:
        units: all units.
        doubtful: the records.
        server: all units of servers.
    """
    connection = units.connection_no
    place = np.searchsorted(server, doubtful)
    following = server[np.minimum(place, len(server) - 1)]
    goes_on = (place < len(server)) & (connection[following] == connection[doubtful])
    soon = goes_on & within_round_trip(units, doubtful, following)

    client = np.flatnonzero(units.from_client)
    before = client[np.maximum(np.searchsorted(client, doubtful) - 1, 0)]
    received = np.concatenate(([0], np.cumsum(np.where(units.from_client, 0, units.size))))
    due = (
        (before < doubtful)
        & (connection[before] == connection[doubtful])
        & (received[doubtful] - received[before] >= _UPDATE_BYTES)
    )

    # The three units of the server in front, and the gaps between them.
    last, second, third = (server[np.maximum(place - back, 0)] for back in (1, 2, 3))
    paced = goes_on & (place >= 3) & (connection[third] == connection[doubtful])
    seen = units.seen_ns
    usual = np.maximum(seen[last] - seen[second], seen[second] - seen[third])
    paced &= seen[following] - seen[last] <= _PACE * usual

    ping = server[units.content[server] == PING_BYTES]
    acknowledged = np.zeros(len(doubtful), np.bool_)
    if len(ping):
        place = np.searchsorted(ping, doubtful)
        answer = ping[np.minimum(place, len(ping) - 1)]
        acknowledged = (
            (place < len(ping))
            & _has_size(units, doubtful, _WITH_PING)
            & _round_trip_later(units, doubtful, answer)
        )
    result: NDArray[np.bool_] = soon | due | paced | acknowledged
    return result


def _inside_upload(units: Units, doubtful: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which records of a server, as long as control frames, lie between parts of a request."""
    client = np.flatnonzero(units.from_client)
    if not len(client):
        return np.zeros(len(doubtful), np.bool_)
    place = np.searchsorted(client, doubtful)
    after = client[np.minimum(place, len(client) - 1)]
    inside: NDArray[np.bool_] = (
        (place < len(client))
        & (units.connection_no[after] == units.connection_no[doubtful])
        & (units.content[after] >= _UPLOAD_BYTES)
    )
    return inside
