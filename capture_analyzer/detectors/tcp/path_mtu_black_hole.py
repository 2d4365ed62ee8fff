"""Full-size segments never arrived while small ones did.

What it detects:
    A sender whose largest segments were sent again at least three times and never acknowledged,
    on a connection on which small segments were: the path carries packets of that size no
    further, and the message that would tell the sender (ICMP "fragmentation needed" or "packet
    too big") does not reach it. It can be seen only in a capture near the sender: elsewhere
    the large segments don't appear at all.

    One direction of one connection is one finding. Its time is booked on ledger cause
    loss_recovery, which tcp/retransmission-timeout owns.

Why it matters:
    The connection is set up, small requests work, and everything large hangs until a
    time-out: downloads, TLS certificates, long prompts. It looks like a server that does not
    answer.

What to do:
    Let ICMP "fragmentation needed" (IPv4) and "packet too big" (IPv6) pass on all firewalls
    of the path. Set the interface's MTU to what the path carries (tunnels, VPNs and
    PPPoE take some bytes), or let a router lower the MSS (iptables --clamp-mss-to-pmtu). On
    Linux senders, net.ipv4.tcp_mtu_probing=1 finds a size that passes.

When it is wrong:
    A path that is down altogether loses small segments as well; then nothing is said. Where the
    large segments were the last ones before the path went down, the two look alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from capture_analyzer import wording
from capture_analyzer.detectors.contract import Meta
from capture_analyzer.detectors.losses import TIMEOUT, losses
from capture_analyzer.detectors.phrases import amount
from capture_analyzer.detectors.rows_of import rows_by_connection
from capture_analyzer.detectors.servers import label
from capture_analyzer.detectors.shares import Share
from capture_analyzer.model.analysis import Tables
from capture_analyzer.model.column import column
from capture_analyzer.model.connections import Connection
from capture_analyzer.model.findings import MAX_PACKET_NOS, Example, Finding
from capture_analyzer.model.packets import ACK, RST, Packets
from capture_analyzer.model.quick_dataclass import quick_dataclass


@quick_dataclass(frozen=True)
class Options:
    """Thresholds of this detector."""

    least_repeats: int = column(
        "How often a full-size segment must have been sent again in vain.", default=3
    )


META = Meta(
    tables=("connections",),
    options=Options,
    severity="critical: nothing of that size ever arrived; warning: smaller segments did later",
    references=(
        "RFC 1191 (path MTU discovery)",
        "RFC 2923, section 2.1 (black holes)",
        "RFC 8899 (packetization layer path MTU discovery)",
    ),
)

_FULL_SHARE: Final = 0.9  # of the largest segment: as large as matters
_SMALL_SHARE: Final = 0.75
_LEAST_BYTES: Final = 500  # smaller segments pass everywhere (RFC 9293, 3.7.1: 536)


@quick_dataclass(frozen=True)
class _Hole:
    """One direction of a connection that loses large segments."""

    connection: Connection
    from_client: bool
    rows: NDArray[np.intp]  # the copies of the segment that was sent most often
    largest: int
    passed: int  # the largest segment that was acknowledged
    recovered: bool  # its bytes were acknowledged in the end


def detect(tables: Tables, options: Options) -> Iterable[Finding]:
    """Yield a finding for each connection and direction."""
    least = options.least_repeats
    repeated = [
        connection
        for connection in tables.connections
        if connection.retransmissions >= least
        and connection.retransmissions_by_mechanism.get("rto", 0) >= 2
    ]
    rows = rows_by_connection(tables.packets, (one.connection_no for one in repeated))
    holes = [
        hole
        for one in repeated
        for hole in _holes(tables.packets, rows[one.connection_no], one, least)
    ]
    if not holes:
        return
    costs = {
        loss.connections[0].connection_no: loss.share
        for loss in losses(tables, TIMEOUT)
        if len(loss.connections) == 1
    }
    for hole in holes:
        yield _finding(tables, hole, costs.get(hole.connection.connection_no, Share()))


def _holes(
    packets: Packets, mine: NDArray[np.intp], connection: Connection, least: int
) -> Iterator[_Hole]:
    for side in (1, 0):
        sent = mine[(packets.from_client[mine] == side) & (packets.payload_bytes[mine] > 0)]
        back = mine[
            (packets.from_client[mine] == 1 - side) & ((packets.flags[mine] & (ACK | RST)) == ACK)
        ]
        if not len(sent) or not len(back):
            continue
        size = packets.payload_bytes[sent].astype(np.int64)
        largest = int(size.max())
        if largest < _LEAST_BYTES:
            continue
        base = packets.seq[sent[0]]
        begin = (packets.seq[sent] - base).view(np.int32).astype(np.int64)
        acked = (packets.ack[back] - base).view(np.int32).astype(np.int64)
        large = size >= _FULL_SHARE * largest
        starts, counts = np.unique(begin[large], return_counts=True)
        if int(counts.max()) <= least:
            continue
        start = int(starts[counts.argmax()])
        rows = sent[large & (begin == start)]
        # Not acknowledged while it was sent again; nothing of that size ever was.
        during = acked[(back > rows[0]) & (back < rows[-1])]
        if len(during) and int(during.max()) > start:
            continue
        # A large segment that was acknowledged was sent once, or its last copy was.
        top = int(acked.max())
        arrived = begin + size <= top
        small_copies = np.isin(begin, begin[~large & arrived])
        if (large & arrived & ~small_copies).any():
            continue
        passing = size[~large & arrived & (size <= _SMALL_SHARE * largest)]
        shaken = connection.established_ns is not None
        if not len(passing) and not shaken:
            continue
        yield _Hole(
            connection,
            bool(side),
            rows,
            largest,
            int(passing.max()) if len(passing) else 0,
            top > start,
        )


def _finding(tables: Tables, hole: _Hole, share: Share) -> Finding:
    packets, connection = tables.packets, hole.connection
    repeats = len(hole.rows) - 1
    times = packets.time_ns[hole.rows]
    server = label(connection)
    way = "to" if hole.from_client else "from"
    numbers = (hole.rows + 1).tolist()
    passed = f"; segments of up to {wording.size(hole.passed)} did" if hole.passed else ""
    return Finding(
        detector="tcp/path-mtu-black-hole",
        severity="warning" if hole.recovered else "critical",
        confidence=0.9 if hole.passed else 0.7,
        summary=(
            f"Segments of {wording.size(hole.largest)} {way} {server} did not arrive: one was sent "
            f"{wording.count_word(repeats + 1)} times in {amount(int(times[-1] - times[0]))}, in "
            f"vain{passed}."
        ),
        advice=(
            "Let ICMP 'fragmentation needed' and 'packet too big' pass on the firewalls of the "
            "path, set the MTU to what the path carries, or clamp the MSS on the router."
        ),
        action=f"Find what drops large packets on the path {way} {server}",
        connection_no=connection.connection_no,
        exchange_nos=share.exchange_nos,
        from_ns=int(times[0]),
        to_ns=int(times[-1]),
        count=repeats,
        cost_ns=share.cost_ns if share.rows else None,
        measures={
            "segment_bytes": hole.largest,
            "passed_bytes": hole.passed,
            "repeats": repeats,
            "recovered": hole.recovered,
        },
        examples=[Example(numbers)],
        packet_nos=numbers[:MAX_PACKET_NOS],
        packet_total=len(numbers),
        ledger_rows=share.rows,
    )
