"""Only one direction of some connections was captured.

What it detects:
    Connections of which the capture has packets of one side only, though that side
    acknowledges what the other sent. A connection request that was not answered, or refused,
    is not meant.

    All such connections are one finding.

Why it matters:
    Requests and answers can't be paired, round trips can't be measured, and what was lost can't
    be told from what was not captured. Nothing that is said about these connections' times is
    worth much.

What to do:
    Capture where both directions pass: on the host itself, on all its interfaces if routing
    is asymmetric (tcpdump -i any), on both members of a bundle of links, on a mirror port that
    copies both directions. Check that the capture filter names the host and not only one
    direction (src, dst).

When it is wrong:
    A capture that begins or ends in the middle of a connection may hold only a few last
    packets of one side.
"""

from __future__ import annotations

from collections.abc import Iterable

from capture_analyzer import wording
from capture_analyzer.detectors.contract import Meta
from capture_analyzer.detectors.display_filter import tcp_streams
from capture_analyzer.detectors.phrases import listed, upper_first
from capture_analyzer.detectors.servers import label
from capture_analyzer.detectors.sides import one_sided, packets_by_side
from capture_analyzer.model.analysis import Tables
from capture_analyzer.model.findings import MAX_EXAMPLES, MAX_PACKET_NOS, Example, Finding

META = Meta(
    tables=("connections",),
    severity="warning: half of the connections or more; info: else",
    references=("RFC 9293, section 3.10.7.4 (what is acknowledged was received)",),
)


def detect(tables: Tables, options: object) -> Iterable[Finding]:
    """Yield one finding."""
    connections = one_sided(tables)
    if not connections:
        return
    count, total = len(connections), len(tables.connections)
    _, client = tables.once(packets_by_side)
    numbers = [connection.connection_no for connection in connections]
    from_client = sum(int(client[number]) > 0 for number in numbers)
    if from_client == count:
        which = "the client's packets"
    elif from_client == 0:
        which = "the server's packets"
    else:
        which = "the packets of one side"
    if total == 1:
        subject = "The only connection"
    elif count == total == 2:
        subject = "Both connections"
    elif count == total:
        subject = f"All {wording.count_word(total)} connections"
    else:
        subject = f"{upper_first(wording.count_word(count))} of {wording.count_word(total)} "
        subject += "connections"
    evidence = [
        number
        for connection in connections[:MAX_PACKET_NOS]
        for number in (connection.first_packet_no, connection.last_packet_no)
    ]
    names = list(dict.fromkeys(label(connection) for connection in connections))
    verb = "was" if count == 1 else "were"
    yield Finding(
        detector="capture/one-direction",
        severity="warning" if 2 * count >= total else "info",
        confidence=0.95,
        summary=f"{subject} {verb} captured in one direction: {which} only.",
        advice=(
            f"Capture again where both directions of the traffic with {listed(names)} pass: on the "
            "host itself, on all interfaces (tcpdump -i any), without src or dst in the filter."
        ),
        action="Capture both directions",
        connection_no=numbers[0] if count == 1 else None,
        connection_nos=numbers,
        from_ns=min(connection.start_ns for connection in connections),
        to_ns=max(connection.end_ns for connection in connections),
        count=count,
        measures={"connections": count, "connections_total": total, "from_client": from_client},
        examples=[
            Example([connection.first_packet_no, connection.last_packet_no])
            for connection in connections[:MAX_EXAMPLES]
        ],
        packet_nos=evidence,
        packet_total=sum(connection.packet_count for connection in connections),
        display_filter=tcp_streams(connection.tcp_stream for connection in connections),
    )
