"""A server took long for a handshake because it staples an OCSP response.

What it detects:
    Handshakes with a stapled response in which the server waited 50 ms or more, and three times
    as long as in its other handshakes, before the ServerHello or before the Certificate. That
    is what a server does that fetches the response when a client asks for it. A server that is
    slow in all handshakes is not meant (see tls/slow-handshake).

    Where the capture has no other handshake of the server, its answer to the client's Finished is
    compared: a server that waited three times as long before its staple as there did something
    special for it. One that was slow there, too, is not meant.

    The connections of one server are one finding.

Why it matters:
    The stapled response is there to save the client a fetch. A server that fetches it while
    the client waits only moves the wait.

What to do:
    Let the server fetch responses ahead of time and keep them: ssl_stapling_file or a warm cache
    in nginx, SSLStaplingCache in Apache httpd; and give up early on a responder that is slow.

When it is wrong:
    A first handshake is slower for other reasons too: cold caches, a process that starts, a key in
    a slow module. Where there is no other handshake to compare with, confidence is 0.6, and 0.4
    (a hint only) where the server did not answer the client's Finished either; a second handshake
    would settle it.

    In TLS 1.3 the staple is encrypted: without keys only tls/slow-handshake can see the wait.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np

from capture_analyzer.detectors.about import about, number_of
from capture_analyzer.detectors.contract import Meta
from capture_analyzer.detectors.handshakes import Handshake, handshakes_of
from capture_analyzer.detectors.phrases import amount
from capture_analyzer.detectors.servers import Server, label, server_of
from capture_analyzer.detectors.setups import carried
from capture_analyzer.detectors.severity import by_default, worst
from capture_analyzer.model.analysis import Tables
from capture_analyzer.model.column import column
from capture_analyzer.model.findings import MAX_EXAMPLES, MAX_PACKET_NOS, Example, Finding
from capture_analyzer.model.quick_dataclass import quick_dataclass

MS: Final = 1_000_000


@quick_dataclass(frozen=True)
class Options:
    """Thresholds of this detector."""

    beyond_ms: int = column(
        "Least time beyond the round trip, and beyond the other handshakes.", unit="ms", default=50
    )
    times: float = column("So many times as long as the others.", default=3.0)


META = Meta(
    tables=("handshake_messages",),
    options=Options,
    severity=("by what it cost, where there is something to compare with; info: there is nothing"),
    references=("RFC 6066, section 8 (certificate status request)",),
)


@quick_dataclass
class _Delay:
    shake: Handshake
    gap_ns: int  # the longer one, without the round trip
    before: str
    from_ns: int
    to_ns: int
    packets: list[int]


def detect(tables: Tables, options: Options) -> Iterable[Finding]:
    """Yield a finding for each server."""
    stapled = {
        connection.connection_no
        for connection in tables.connections
        if connection.tls is not None
        and connection.tls.ocsp_stapled
        and connection.tls.duration_ns is not None
    }
    least_ns = options.beyond_ms * MS
    suspected = {
        server_of(delay.shake.connection)
        for delay in _delays(tables, stapled)
        if delay.gap_ns >= least_ns
    }
    if not suspected:
        return
    by_server: dict[Server, list[_Delay]] = {}
    compared = [
        connection.connection_no
        for connection in tables.connections
        if connection.tls is not None and server_of(connection) in suspected
    ]
    for delay in _delays(tables, compared):
        by_server.setdefault(server_of(delay.shake.connection), []).append(delay)
    for delays in by_server.values():
        suspects = [
            delay
            for delay in delays
            if delay.shake.connection.connection_no in stapled and delay.gap_ns >= least_ns
        ]
        slow = {id(delay) for delay in suspects}
        others = [delay.gap_ns for delay in delays if id(delay) not in slow]
        if not others:
            if len(delays) == 1:
                yield from _alone(tables, suspects, options)
            continue  # uniformly slow
        usual = int(np.median(others))
        late = [
            delay
            for delay in suspects
            if delay.gap_ns >= options.times * usual and delay.gap_ns - usual >= least_ns
        ]
        if late:
            yield _finding(tables, late, usual)


def _alone(tables: Tables, suspects: list[_Delay], options: Options) -> Iterable[Finding]:
    """The finding about a server's only handshake, unless it is slow in the rest of it, too."""
    (delay,) = suspects
    number = delay.shake.connection.connection_no
    (shake,) = handshakes_of(tables, [number])
    elsewhere = _reaction(shake)
    prompt = elsewhere is not None and delay.gap_ns >= options.times * elsewhere
    if prompt:
        yield _finding(tables, suspects, elsewhere, alone=True)
    elif elsewhere is None or shake.answer_is_data:
        yield _finding(tables, suspects, None)


def _reaction(shake: Handshake) -> int | None:
    """How long the server took to answer the client's Finished, without the round trip."""
    rtt = shake.connection.rtt_ns or shake.connection.server_side_rtt_ns
    if shake.client_done_ns is None or shake.answer_ns is None or rtt is None:
        return None
    return max(shake.answer_ns - shake.client_done_ns - rtt, 0)


def _delays(tables: Tables, numbers: Iterable[int]) -> list[_Delay]:
    shakes = handshakes_of(tables, numbers, hellos_only=True)
    return [delay for delay in map(_delay, shakes) if delay is not None]


def _delay(shake: Handshake) -> _Delay | None:
    """The longer of a server's two gaps, without the round trip."""
    if shake.hello_ns is None or shake.server_hello_ns is None:
        return None
    rtt = shake.connection.rtt_ns or shake.connection.server_side_rtt_ns
    if rtt is None:
        return None
    packets = shake.packets
    first = shake.server_hello_ns - shake.hello_ns - rtt
    chosen = _Delay(
        shake,
        max(first, 0),
        "ServerHello",
        shake.hello_ns,
        shake.server_hello_ns,
        [packets["hello"], packets["server_hello"]],
    )
    if shake.certificate_ns is not None:
        second = shake.certificate_ns - shake.server_hello_ns
        if second > first:
            begin, end = shake.server_hello_ns, shake.certificate_ns
            numbers = [packets["server_hello"], packets["certificate"]]
            chosen = _Delay(shake, second, "Certificate", begin, end, numbers)
    return chosen


def _finding(
    tables: Tables, late: list[_Delay], usual_ns: int | None, *, alone: bool = False
) -> Finding:
    """The finding; `usual_ns` is of other handshakes, or `alone` of the rest of this one."""
    by_gap = sorted(late, key=lambda delay: (-delay.gap_ns, delay.from_ns))
    longest = by_gap[0]
    connections = [delay.shake.connection for delay in by_gap]
    server = label(connections[0])
    setups = carried(tables, "tls_handshake", {c.connection_no for c in connections})
    saving = {d.shake.connection.connection_no: d.gap_ns - (usual_ns or 0) for d in by_gap}
    costs = [
        (min(saving[number], entry.within(d.from_ns, d.to_ns)), entry)
        for d in by_gap
        for number in [d.shake.connection.connection_no]
        if (entry := setups.get(number)) is not None
    ]
    evidence = [number for delay in by_gap for number in delay.packets]
    others = "in its answer to the client's Finished" if alone else "in others"
    compared = "" if usual_ns is None else f", {others} {amount(usual_ns)}"
    columns = about(tables, connections)
    columns |= {
        "exchange_nos": [entry.exchange.exchange_no for _, entry in costs],
        "from_ns": min(delay.from_ns for delay in late),
        "to_ns": max(delay.to_ns for delay in late),
    }
    return Finding(
        detector="tls/ocsp-staple-delay",
        severity="info"
        if usual_ns is None
        else worst(by_default(cost, entry.length_ns) for cost, entry in costs),
        confidence=0.4 if usual_ns is None else 0.6 if alone else 0.8,
        summary=(
            f"{server} took {amount(longest.gap_ns)} before its {longest.before} in "
            f"{number_of(len(late), 'handshake')} with a stapled OCSP response{compared}."
        ),
        advice=(
            f"Let {server} fetch OCSP responses ahead of time and keep them, instead of when a "
            "client asks."
        ),
        action=f"Let {server} fetch OCSP responses ahead of time" if usual_ns is not None else "",
        **columns,
        estimated_saving_ns=sum(saving.values()),
        measures={
            "gap_max_ns": longest.gap_ns,
            "gap_usual_ns": usual_ns,
            "before": longest.before,
            "handshakes": len(late),
        },
        examples=[Example(delay.packets) for delay in by_gap[:MAX_EXAMPLES]],
        packet_nos=evidence[:MAX_PACKET_NOS],
        packet_total=len(set(evidence)),
    )
