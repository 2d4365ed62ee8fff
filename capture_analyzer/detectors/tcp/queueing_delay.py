"""Round trips grew many times over while data was transferred.

What it detects:
    A transfer during which the round trip was at least three times its smallest value and at
    least 100 ms above it, in at least five samples that are spread over time. A single delay
    after which everything arrives at once is not meant, nor a path that is long at all times.

    One direction of one connection is one finding. It owns no time of the ledger: the transfer
    fills the link, and other requests wait in the queue that it makes.

Why it matters:
    A queue somewhere on the path holds much more than it needs to keep the link busy
    (bufferbloat). Everything that shares it waits: small requests, the first tokens of answers,
    calls. Losses are noticed late, and timers run out that need not.

What to do:
    Find the slowest link of the path, usually the access link or a traffic shaper, and give
    its queue active management (fq_codel, CAKE), or limit it to about one round trip's worth.
    Or let senders keep queues short: BBR or another delay-based congestion control, a rate limit
    for bulk transfers, another class of traffic for what must be prompt.

When it is wrong:
    Other traffic may have filled the queue; then this connection only shows it.

    A receiver that is busy, or one that delays acknowledgements for long, makes round trips
    longer, too.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from capture_analyzer import wording
from capture_analyzer.detectors.contract import Meta
from capture_analyzer.detectors.phrases import amount
from capture_analyzer.detectors.servers import label
from capture_analyzer.model.analysis import Tables
from capture_analyzer.model.findings import Example, Finding

META = Meta(
    tables=("queues",),
    severity=(
        "warning: another request began meanwhile on the same client, or the round trip reached "
        "half a second; info: else"
    ),
    references=(
        "RFC 7567 (active queue management)",
        "RFC 8290 (FQ-CoDel)",
    ),
)

Times = NDArray[np.int64]

MUCH_NS: Final = 500_000_000


def detect(tables: Tables, options: object) -> Iterable[Finding]:
    """Yield a finding for each stretch."""
    columns = tables.exchanges.columns
    for row in range(len(tables.queues)):
        yield _finding(tables, row, columns.request_start_ns, columns.connection_no)


def _finding(tables: Tables, row: int, started: Times, owner: NDArray[np.int32]) -> Finding:
    queues = tables.queues
    number = int(queues.connection_no[row])
    begin, end = int(queues.from_ns[row]), int(queues.to_ns[row])
    meanwhile = np.flatnonzero((started > begin) & (started < end) & (owner != number))
    client = tables.connections[number].client_ip
    hurt = [
        no for no in meanwhile.tolist() if tables.connections[int(owner[no])].client_ip == client
    ]
    smallest, typical = int(queues.smallest_ns[row]), int(queues.typical_ns[row])
    largest = int(queues.largest_ns[row])
    server = label(tables.connections[number])
    way = "to" if queues.from_client[row] else "from"
    packets = [
        int(queues.first_packet_no[row]),
        int(queues.largest_packet_no[row]),
        int(queues.last_packet_no[row]),
    ]
    return Finding(
        detector="tcp/queueing-delay",
        severity="warning" if hurt or largest >= MUCH_NS else "info",
        confidence=0.9,
        summary=(
            f"While data {way} {server} was transferred, the round trip grew from "
            f"{wording.duration(smallest)} to {wording.duration(largest)}, for "
            f"{amount(end - begin)}."
        ),
        advice=(
            f"Find the slowest link of the path {way} {server} and shorten its queue (fq_codel, "
            "CAKE, or a limit of about one round trip), or limit the rate of bulk transfers."
        ),
        action=f"Shorten the queue on the path {way} {server}",
        connection_no=number,
        exchange_nos=hurt,
        from_ns=begin,
        to_ns=end,
        count=1,
        measures={
            "samples": int(queues.samples[row]),
            "rtt_min_ns": smallest,
            "rtt_typical_ns": typical,
            "rtt_max_ns": largest,
            "requests_meanwhile": len(hurt),
        },
        examples=[Example(packets, largest - smallest)],
        packet_nos=packets,
        packet_total=len(set(packets)),
    )
