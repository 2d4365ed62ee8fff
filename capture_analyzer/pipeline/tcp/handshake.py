"""The three-way handshake of every connection, its round trips and its repeats."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.column import NO_TIME
from capture_analyzer.model.packets import ACK, HAS_TIMESTAMPS, RST, SACK_PERMITTED, SYN, Packets
from capture_analyzer.model.quick_dataclass import quick_dataclass
from capture_analyzer.pipeline.flows import Flows

COPY_NS: Final = 3_000_000
"""Two equal SYNs closer than this are copies (capture, network), not a retry: timers for
SYNs are a second by RFC 6298, section 2.1, and nowhere below 200 ms."""

COPY_WITH_TIMESTAMP_NS: Final = 100_000_000
"""Likewise where both carry the same timestamp and IP identification."""


@quick_dataclass
class Handshakes:
    """One element a connection; packets by index, -1 = none; durations NO_TIME = unknown."""

    syn: NDArray[np.int64]
    syn_last: NDArray[np.int64]
    syn_ack: NDArray[np.int64]
    established: NDArray[np.int64]
    client_side_rtt: NDArray[np.int64]
    server_side_rtt: NDArray[np.int64]
    repeats: dict[int, list[int]]  # connection → indices of SYNs and SYN-ACKs sent again
    client_options: NDArray[np.int64]  # packet with the client's SYN options
    server_options: NDArray[np.int64]
    ambiguous: dict[int, int]  # connection → round trip if its last SYN was the one answered
    sack: NDArray[np.bool_]  # both SYNs allow SACK (RFC 2018, section 2), or weren't captured


def find_handshakes(
    packets: Packets,
    flows: Flows,
    flags: NDArray[np.uint8],
    from_client: NDArray[np.bool_],
) -> Handshakes:
    """Find the handshakes of all connections.

    Args:
        packets: the packets.
        flows: their grouping.
        flags: TCP flags in the order of ``flows.order``.
        from_client: sent by the client, in that order.
    """
    count = len(flows)
    order, bounds, time = flows.order, flows.bounds, packets.time_ns
    syn = np.flatnonzero((flags & (SYN | RST)) == SYN)
    owner = np.searchsorted(bounds, syn, "right") - 1
    answer = (flags[syn] & ACK) != 0
    asks = ~answer & from_client[syn]
    answers = answer & ~from_client[syn]
    syns, syn_owner = syn[asks], owner[asks]
    syn_acks, syn_ack_owner = syn[answers], owner[answers]

    first_syn, syn_counts = _first(syns, syn_owner, count)
    first_answer, answer_counts = _first(syn_acks, syn_ack_owner, count)
    client_acks = np.flatnonzero(((flags & (ACK | SYN | RST)) == ACK) & from_client)
    established = np.full(count, -1)
    have = np.flatnonzero(first_answer >= 0)
    if len(have) and len(client_acks):
        at = np.searchsorted(client_acks, first_answer[have])
        found = client_acks[np.minimum(at, len(client_acks) - 1)]
        fits = (at < len(client_acks)) & (found < bounds[have + 1])
        expected = packets.seq[order[first_answer[have]]] + np.uint32(1)
        fits &= (packets.ack[order[found]] - expected).view(np.int32) >= 0
        established[have[fits]] = found[fits]

    def packet_of(positions: NDArray[np.int64]) -> NDArray[np.int64]:
        indices = np.full(count, -1)
        some = positions >= 0
        indices[some] = order[positions[some]]
        return indices

    client_options, server_options = packet_of(first_syn), packet_of(first_answer)
    sack = np.ones(count, np.bool_)
    for indices in (client_options, server_options):
        sack &= (indices < 0) | ((packets.options[indices] & SACK_PERMITTED) != 0)
    result = Handshakes(
        syn=packet_of(first_syn),
        syn_last=packet_of(first_syn),
        syn_ack=packet_of(first_answer),
        established=packet_of(established),
        client_side_rtt=np.full(count, NO_TIME),
        server_side_rtt=np.full(count, NO_TIME),
        repeats={},
        ambiguous={},
        client_options=client_options,
        server_options=server_options,
        sack=sack,
    )
    both = np.flatnonzero((first_syn >= 0) & (first_answer > first_syn))
    result.server_side_rtt[both] = time[result.syn_ack[both]] - time[result.syn[both]]
    # A request that rides on the ACK may have waited for the application: no sample.
    full = np.flatnonzero(established >= 0)
    bare = full[packets.payload_bytes[result.established[full]] == 0]
    result.client_side_rtt[bare] = time[result.established[bare]] - time[result.syn_ack[bare]]
    repeated = np.flatnonzero((syn_counts > 1) | (answer_counts > 1))
    if len(repeated):
        asked = _slices(syn_owner, repeated)
        answered = _slices(syn_ack_owner, repeated)
        for number, (a, b), (c, d) in zip(repeated.tolist(), asked, answered, strict=True):
            _repeated(
                packets,
                result,
                number,
                [int(order[p]) for p in syns[a:b]],
                [int(order[p]) for p in syn_acks[c:d]],
            )
    return result


def _first(
    positions: NDArray[np.intp], owner: NDArray[np.intp], count: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Each connection's first of `positions` (-1 = none) and how many it has."""
    first = np.full(count, -1)
    first[owner[::-1]] = positions[::-1]
    return first, np.bincount(owner, minlength=count)


def _slices(owner: NDArray[np.intp], numbers: NDArray[np.intp]) -> list[tuple[int, int]]:
    left = np.searchsorted(owner, numbers, "left").tolist()
    right = np.searchsorted(owner, numbers, "right").tolist()
    return list(zip(left, right, strict=True))


def _repeated(
    packets: Packets, result: Handshakes, number: int, syns: list[int], syn_acks: list[int]
) -> None:
    """Sort out a handshake with repeats: which SYN was answered, which SYN-ACK."""
    syns, syn_acks = _without_copies(packets, syns), _without_copies(packets, syn_acks)
    established = int(result.established[number])
    time = packets.time_ns
    # What follows the established connection is still a repeat (a lost ACK), no new attempt.
    repeats = sorted(syns[1:] + syn_acks[1:])
    if repeats:
        result.repeats[number] = repeats
    if syns and syn_acks:
        before = [s for s in syns if s < syn_acks[0]]
        if before:
            result.syn_last[number] = before[-1]
        result.server_side_rtt[number] = _answered(packets, before, syn_acks[0])
        if before and result.server_side_rtt[number] == NO_TIME:
            result.ambiguous[number] = int(time[syn_acks[0]]) - int(time[before[-1]])
    elif syns:
        result.syn_last[number] = syns[-1]
    if established < 0 or not syn_acks:
        return
    before = [s for s in syn_acks if s < established]
    if not before:
        return
    match = _echoed(packets, before, established)
    result.syn_ack[number] = before[-1] if match is None else match
    result.client_side_rtt[number] = NO_TIME
    if int(packets.payload_bytes[established]) == 0 and (len(before) == 1 or match is not None):
        start = before[0] if match is None else match
        result.client_side_rtt[number] = int(time[established]) - int(time[start])


def _answered(packets: Packets, syns: list[int], syn_ack: int) -> int:
    """Round trip from the SYN that was answered to the SYN-ACK; NO_TIME if ambiguous.

    With several SYNs before it, timing alone can't tell which one the SYN-ACK answers
    (Karn); the timestamp echo does (RFC 7323, section 4.3).
    """
    if not syns:
        return NO_TIME
    asked = syns[0] if len(syns) == 1 else _echoed(packets, syns, syn_ack)
    if asked is None:
        return NO_TIME
    return int(packets.time_ns[syn_ack]) - int(packets.time_ns[asked])


def _echoed(packets: Packets, sent: list[int], reply: int) -> int | None:
    """The only one of `sent` whose timestamp `reply` echoes; None if that doesn't tell."""
    if not int(packets.options[reply]) & HAS_TIMESTAMPS:
        return None
    echo = int(packets.tsecr[reply])
    matches = [
        s
        for s in sent
        if int(packets.options[s]) & HAS_TIMESTAMPS and int(packets.tsval[s]) == echo
    ]
    return matches[0] if len(matches) == 1 else None


def _without_copies(packets: Packets, indices: list[int]) -> list[int]:
    kept: list[int] = []
    for index in indices:
        if kept:
            last = kept[-1]
            gap = int(packets.time_ns[index]) - int(packets.time_ns[last])
            same = packets.ip_id[index] == packets.ip_id[last]
            stamped = bool(packets.options[index] & packets.options[last] & HAS_TIMESTAMPS)
            if stamped:
                same = same and packets.tsval[index] == packets.tsval[last]
            if same and gap <= (COPY_WITH_TIMESTAMP_NS if stamped else COPY_NS):
                continue
        kept.append(index)
    return kept


def settle_ambiguous(handshakes: Handshakes, smallest: NDArray[np.int64]) -> None:
    """Believe that the last of several SYNs was answered if data took about as long.

    Args:
        handshakes: the handshakes.
        smallest: each connection's smallest round trip to the server on data; NO_TIME
            unknown.
    """
    for number, rtt in handshakes.ambiguous.items():
        known = int(smallest[number])
        if known != NO_TIME and known * 8 <= rtt * 10 <= known * 15:
            handshakes.server_side_rtt[number] = rtt
