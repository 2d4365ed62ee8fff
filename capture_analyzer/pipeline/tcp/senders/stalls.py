"""Silences of connections and their causes (table `stalls`).

In the manner of TAPO (Zhou et al., CoNEXT 2015): a silence is a stall if it is longer than
min(2 · SRTT, RTO). The packet that ends it says most about why nobody sent: a repeat is the
network's, by its mechanism and by what was in flight; an acknowledgement or window update the
receiver's or the network's; new data that of whoever's turn it was. The waits of senders for
their windows are those of table `limits`.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.column import NO_TIME, concatenate
from capture_analyzer.model.holes import HOLE_KINDS, Holes
from capture_analyzer.model.limits import LIMIT_NAMES, Limits
from capture_analyzer.model.packets import (
    FIN,
    HAS_TIMESTAMPS,
    LABELS,
    MECHANISMS,
    RST,
    SPURIOUS,
    SYN,
    Packets,
)
from capture_analyzer.model.quick_dataclass import quick_dataclass
from capture_analyzer.model.rtt_samples import RttSamples
from capture_analyzer.model.stalls import PARTIES, STALL_CODE, STALL_NAMES, STALLS, Stalls
from capture_analyzer.pipeline.intervals import bisect_right, overlaps
from capture_analyzer.pipeline.tcp.limits import Path
from capture_analyzer.pipeline.tcp.mechanisms import timestamp_units
from capture_analyzer.pipeline.tcp.samples import batch_samples
from capture_analyzer.pipeline.tcp.segments import SPAN, Bools, Ints, Segments
from capture_analyzer.pipeline.tcp.senders.view import Elements, View, views

LEAST_NS: Final = 1_000_000  # on short paths two round trips are less than a program's own pace
TIMER_NS: Final = 200_000_000  # what Linux adds to SRTT at least (RFC 6298 would add up to 1 s)
FIRST_TIMER_NS: Final = 1_000_000_000  # where no round trip is known (RFC 6298, section 2.1)
_VARIANCES: Final = 4  # of RTTVAR in the timer (RFC 6298, section 2)

_REPORTS: Final = 4  # segments in flight that can make three duplicate ACKs (RFC 5681, 3.2)
_LATE_NS: Final = 20_000_000  # an acknowledgement so much later than the path needs was held back
_LATEST_NS: Final = 550_000_000  # but none for more than 500 ms (RFC 9293, section 3.8.6.3)

_OF_LIMITS: Final = {
    "zero_window": "zero_window",
    "window_full": "window_full",
    "congestion_window": "congestion_window",
    "idle_restart": "congestion_window",
    "nagle_delayed_ack": "delayed_ack",
    "nagle": "nagle",
}
_LABEL: Final = {name: code for code, name in enumerate(LABELS)}
_MECHANISM: Final = {name: code for code, name in enumerate(MECHANISMS)}
_NEEDLESS: Final = SPURIOUS.index("true")
_CAPTURE: Final = HOLE_KINDS.index("capture")
_PARTY: Final = np.array(
    [PARTIES.index(STALLS[name][0]) for name in STALL_NAMES],
    np.uint8,
)


@quick_dataclass
class _Silences:
    """Silences of a batch.

    Attributes:
        before, behind: the elements around each.
        least: what it is longer than.
        trip: smallest round trip of the whole path.
        last: the last segment with payload up to its begin; -1 = none.
    """

    before: Elements
    behind: Elements
    least: Ints
    trip: Ints
    last: Elements


def add_stalls(
    table: Stalls,
    packets: Packets,
    path: Path,
    holes: Holes,
    limits: Limits,
    numbers: NDArray[np.int64] | None = None,
) -> None:
    """Fill the table.

    Args:
        table: an empty one.
        packets: with labels and mechanisms.
        path: what is known of all streams.
        holes: what receivers had to wait for.
        limits: single waits of senders.
        numbers: of these connections; None = of all.
    """
    parts = [_batch(packets, view, holes, limits) for view in views(packets, path, numbers)]
    table.take(concatenate(Stalls, parts))


def _batch(packets: Packets, view: View, holes: Holes, limits: Limits) -> Stalls:
    silences = _silences(packets, view)
    if not len(silences.before):
        return Stalls()
    segments = view.segments
    before, behind = silences.before, silences.behind
    direction, in_flight = _held(segments, silences)
    cause, confidence = _causes(packets, view, silences, in_flight, holes, limits)
    stream = segments.stream[before]
    return Stalls(
        connection_no=view.numbers[stream // 2],
        from_client=direction % 2 == 0,
        cause=cause,
        party=_PARTY[cause],
        from_ns=segments.time[before],
        to_ns=segments.time[behind],
        least_ns=silences.least,
        from_packet_no=(segments.index[before] + 1).astype(np.int32),
        to_packet_no=(segments.index[behind] + 1).astype(np.int32),
        in_flight_bytes=in_flight,
        confidence=confidence.astype(np.float32),
    )


def _silences(packets: Packets, view: View) -> _Silences:
    """Where a connection was silent for longer than its round trips explain."""
    segments = view.segments
    connection = segments.stream // 2
    order = np.lexsort((segments.index, connection))
    has_data = (segments.length[order] > 0) & segments.carries[order]
    owner = connection[order]
    # The last position with payload so far; positions of earlier connections lie below.
    place = np.arange(len(order))
    latest = np.maximum.accumulate(np.where(has_data, place, -1)) if len(order) else place
    first = np.searchsorted(owner, owner, "left")
    last = np.where(latest >= first, order[np.maximum(latest, 0)], -1)
    gap = np.diff(segments.time[order])
    known = view.path.whole != NO_TIME
    floor = np.where(known, view.path.whole, FIRST_TIMER_NS)
    # The smoothed round trip is at least as long as the smallest.
    at_least = np.where(known, np.minimum(2 * floor, floor + TIMER_NS), FIRST_TIMER_NS)
    candidates = np.flatnonzero((owner[1:] == owner[:-1]) & (gap > LEAST_NS))
    stream, gap = 2 * owner[candidates], gap[candidates]
    use = gap > at_least[stream]
    candidates, stream, gap = candidates[use], stream[use], gap[use]
    begin = segments.time[order[candidates]]
    least = np.maximum(_patience(packets, view, stream, begin), LEAST_NS)
    least = np.where(known[stream], least, FIRST_TIMER_NS)
    use = gap > least
    candidates = candidates[use]
    return _Silences(
        order[candidates],
        order[candidates + 1],
        least[use],
        floor[stream[use]],
        last[candidates],
    )


def _patience(packets: Packets, view: View, stream: Ints, instant: Ints) -> Ints:
    """min(2 · SRTT, RTO) of the whole path at each instant.

    Args:
        packets: the packets.
        view: a batch.
        stream: the client's stream of each connection that is asked for.
        instant: when.
    """
    samples = batch_samples(packets, view.segments, np.arange(len(view.numbers), dtype=np.int32))
    smooth = np.zeros(len(stream), np.int64)
    varies = np.zeros(len(stream), np.int64)
    for from_client in (True, False):
        rows = np.flatnonzero(samples.from_client == from_client)
        value, variance = _latest(samples, rows, stream // 2, instant)
        # Without a sample: the smallest round trip to that side, of the handshake.
        side = view.path.near[stream + 1 if from_client else stream]
        smooth += np.where(value == NO_TIME, side, value)
        varies += np.where(value == NO_TIME, side // 2, variance)
    timer = smooth + np.maximum(_VARIANCES * varies, TIMER_NS)
    return np.minimum(2 * smooth, timer)


def _latest(
    samples: RttSamples, rows: Elements, connection: Ints, instant: Ints
) -> tuple[Ints, Ints]:
    """SRTT and RTTVAR of one direction at each instant; NO_TIME = no sample yet."""
    owner, time = samples.connection_no[rows], samples.time_ns[rows]
    low = np.searchsorted(owner, connection, "left")
    high = np.searchsorted(owner, connection, "right")
    at = bisect_right(time, low, high, instant) - 1
    some = at >= low
    if not len(rows):
        return np.full(len(connection), NO_TIME), np.zeros(len(connection), np.int64)
    row = rows[np.maximum(at, 0)]
    return np.where(some, samples.srtt_ns[row], NO_TIME), samples.rttvar_ns[row]


def _held(segments: Segments, silences: _Silences) -> tuple[Ints, Ints]:
    """The stream whose data was missing in each silence, and what of it was in flight."""
    before, behind = silences.before, silences.behind
    mine = segments.stream[before]
    peer = segments.peer[before]
    there = peer >= 0
    peer = np.maximum(peer, 0)
    own_sent = segments.top[before] - mine * SPAN
    own_acked = np.where(there, segments.ack_top[peer] - (mine ^ 1) * SPAN, 0)
    other_sent = np.where(there, segments.top[peer] - (mine ^ 1) * SPAN, 0)
    other_acked = segments.ack_top[before] - mine * SPAN
    own = np.maximum(own_sent - own_acked, 0)
    other = np.maximum(other_sent - other_acked, 0)
    sender = segments.stream[behind]
    # Data that ends it was missing itself; else the data that was acknowledged or waited.
    spoke = (segments.length[behind] > 0) | ((segments.flags[behind] & SYN) != 0)
    direction = np.where(spoke, sender, sender ^ 1)
    return direction, np.where(direction == mine, own, other)


def _causes(
    packets: Packets,
    view: View,
    silences: _Silences,
    in_flight: Ints,
    holes: Holes,
    limits: Limits,
) -> tuple[NDArray[np.uint8], NDArray[np.float64]]:
    """The cause of each silence, and how sure that is: the first that fits."""
    segments = view.segments
    before, behind = silences.before, silences.behind
    index = segments.index[behind]
    label, mechanism = packets.label[index], packets.mechanism[index]
    flags, data = segments.flags[behind], segments.length[behind] > 0
    sender = segments.stream[behind]
    again = label == _LABEL["retransmission"]
    timer = again & ((mechanism == _MECHANISM["rto"]) | (mechanism == _MECHANISM["after_rto"]))
    mss = view.path.mss[sender]
    tail = segments.end[behind] >= segments.before[behind]
    held = _waited(view, silences, limits)
    wait = segments.time[behind] - segments.time[before]
    # Whose turn it was: who had not spoken last.
    last = segments.stream[np.maximum(silences.last, 0)]
    same = (silences.last >= 0) & (last == sender)
    from_client = sender % 2 == 0
    closing = (flags & (FIN | RST)) != 0
    alive = (label == _LABEL["keep_alive"]) | (label == _LABEL["keep_alive_ack"])
    advances = segments.acked[behind] > _acked_before(segments, behind)
    far = np.where(view.path.near[sender] == NO_TIME, 0, view.path.near[sender])
    # An acknowledgement that was held back while its sender had nothing to say.
    held_back = wait - np.minimum(far, silences.trip)
    late = advances & (in_flight <= 2 * mss)
    late &= (held_back >= _LATE_NS) & (held_back <= _LATEST_NS)
    turn = np.where(silences.last >= 0, last % 2 == 0, False)  # the client spoke last
    conditions: list[tuple[Bools, str, float]] = [
        ((flags & SYN) != 0, "handshake", 0.95),
        (_gapped(view, silences, holes), "capture_gap", 0.9),
        (again & (packets.spurious[index] == _NEEDLESS), "repeat_needless", 0.9),
        (timer & _repeated(packets, segments, behind), "timeout_again", 0.9),
        (timer & tail, "timeout_tail", 0.9),
        (timer & (in_flight < _REPORTS * mss), "timeout_small_flight", 0.8),
        (timer, "timeout", 0.8),
        (again & (mechanism == _MECHANISM["tlp"]), "tail_probe", 0.9),
        (again & (mechanism == _MECHANISM["fast"]), "fast_repair", 0.8),
        (again, "repeat", 0.6),
        (label == _LABEL["zero_window_probe"], "zero_window", 0.95),
        *((held == code, name, 0.9) for name, code in STALL_CODE.items() if name != "unknown"),
        (alive | (closing & ~data & (in_flight == 0)), "idle", 0.8),
        (data & same & _sent_before(packets, segments, behind, wait), "path_delay", 0.9),
        (data & same & (in_flight > 0), "path_delay", 0.5),
        (data & same & from_client, "client_pause", 0.8),
        (data & same, "server_pause", 0.8),
        (data & from_client, "client_idle", 0.9),
        (data, "server_think", 0.9),
        (late & from_client, "client_idle", 0.7),
        (late, "server_think", 0.7),
        (in_flight > 0, "path_delay", 0.6),
        (closing & turn, "server_think", 0.5),
        (closing, "client_idle", 0.5),
    ]
    tests = [condition for condition, _, _ in conditions]
    cause = np.select(tests, [np.uint8(STALL_CODE[name]) for _, name, _ in conditions], np.uint8(0))
    return cause.astype(np.uint8), np.select(tests, [sure for _, _, sure in conditions], 0.0)


def _sent_before(packets: Packets, segments: Segments, elements: Elements, wait: Ints) -> Bools:
    """Whether each was sent long before it came: by the timestamps that its sender gave it.

    Args:
        packets: the packets.
        segments: a batch.
        elements: what ended a silence.
        wait: for how long it had been silent.
    """
    previous = np.maximum(elements - 1, 0)
    stream = segments.stream[elements]
    mine, other = segments.index[elements], segments.index[previous]
    stamped = (packets.options[mine] & packets.options[other] & HAS_TIMESTAMPS) != 0
    units = timestamp_units(packets, segments, stream)
    apart = (packets.tsval[mine] - packets.tsval[other]).view(np.int32) * units
    early: Bools = (segments.stream[previous] == stream) & stamped & (units > 0)
    early &= (apart >= 0) & (2 * apart < wait)
    return early


def _acked_before(segments: Segments, elements: Elements) -> Ints:
    """What each element's sender had acknowledged before it."""
    previous = np.maximum(elements - 1, 0)
    same = segments.stream[previous] == segments.stream[elements]
    same &= elements > 0
    return np.where(same, segments.ack_top[previous] - segments.stream[elements] * SPAN, 0)


def _repeated(packets: Packets, segments: Segments, elements: Elements) -> Bools:
    """Whether the first byte of each had been sent again before already."""
    again = np.flatnonzero(
        (packets.label[segments.index] == _LABEL["retransmission"]) & (segments.length > 0)
    )
    key = segments.begin[again] + segments.stream[again] * SPAN
    order = np.lexsort((again, key))
    key, again = key[order], again[order]
    wanted = segments.begin[elements] + segments.stream[elements] * SPAN
    first = np.searchsorted(key, wanted, "left")
    there = first < len(key)
    if not len(key):
        return there
    at = np.minimum(first, len(key) - 1)
    repeated: Bools = there & (key[at] == wanted) & (again[at] < elements)
    return repeated


def _waited(view: View, silences: _Silences, limits: Limits) -> NDArray[np.int64]:
    """The cause by the sender's wait that covers most of each silence; -1 = none."""
    result = np.full(len(silences.before), -1)
    rows, local = view.rows_of(limits.connection_no)
    if not len(rows):
        return result
    segments = view.segments
    begin, end = segments.time[silences.before], segments.time[silences.behind]
    order = np.lexsort((limits.from_ns[rows], local))
    rows, local = rows[order], local[order]
    from_ns, to_ns = limits.from_ns[rows], limits.to_ns[rows]
    owner = (segments.stream[silences.before] // 2).astype(np.int32)
    which, row = overlaps(local.astype(np.int32), from_ns, to_ns, owner, begin, end)
    shared = np.minimum(to_ns[row], end[which]) - np.maximum(from_ns[row], begin[which])
    codes = np.array([STALL_CODE[_OF_LIMITS[name]] for name in LIMIT_NAMES])
    # At least half of the silence; the longest is written last.
    order = np.argsort(shared, kind="stable")
    order = order[2 * shared[order] >= (end - begin)[which[order]]]
    result[which[order]] = codes[limits.kind[rows[row[order]]]]
    return result


def _gapped(view: View, silences: _Silences, holes: Holes) -> Bools:
    """Whether packets of each silence's time are missing from the capture."""
    result = np.zeros(len(silences.before), np.bool_)
    rows, local = view.rows_of(holes.connection_no)
    lacking = (holes.kind[rows] == _CAPTURE) & (holes.filled_ns[rows] != NO_TIME)
    rows, local = rows[lacking], local[lacking]
    if not len(rows):
        return result
    segments = view.segments
    order = np.lexsort((holes.opened_ns[rows], local))
    rows, local = rows[order], local[order]
    # A hole is seen by what came behind it: an instant at the silence's end counts.
    opened, filled = holes.opened_ns[rows] - 1, holes.filled_ns[rows] + 1
    begin, end = segments.time[silences.before], segments.time[silences.behind]
    owner = (segments.stream[silences.before] // 2).astype(np.int32)
    which, _ = overlaps(local.astype(np.int32), opened, filled, owner, begin, end)
    result[which] = True
    return result
