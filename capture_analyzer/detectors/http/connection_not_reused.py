"""New connections were opened although one that was open could have been used.

What it detects:
    A request on a connection that was opened for it, while another connection of the same
    client to the same server was open and idle and stayed so (one of HTTP/2 need not be idle);
    or had ended just before, behind a complete answer: because the client or the server asked
    for that (Connection: close), or by a FIN without a word.

    A connection that could have been used counts for one new connection only, and not where
    another request took it meanwhile. All of one server are one finding.

Why it matters:
    Each new connection costs a round trip, with TLS one or two more and the work of a handshake,
    often a name lookup; and it begins with a small congestion window.

What to do:
    Closed by the server: let it keep connections open behind an answer, for longer than the
    client's pauses. Closed by the client: use one client object, session or pool for all
    requests, not a new one for each, and read answers to their end. Open but not used: the same,
    and look at the pool's limits and at code that makes a pool for each task.

When it is wrong:
    Programs that share an address (on one host, or behind a NAT gateway or proxy) look like one
    client, and can't share their connections. So do clients with a pool for each user, proxy or
    set of credentials.

    Without keys it is inferred when an exchange ended, and that it was of a kind that leaves the
    connection usable.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from capture_analyzer.detectors.about import number_of
from capture_analyzer.detectors.contract import Meta
from capture_analyzer.detectors.phrases import amount
from capture_analyzer.detectors.pools import (
    NEVER,
    Pooled,
    announced_close,
    closers,
    end_of,
    pools,
    switched,
    told_to_go,
)
from capture_analyzer.detectors.servers import Server, label
from capture_analyzer.detectors.severity import by_default
from capture_analyzer.model.analysis import Tables
from capture_analyzer.model.column import column
from capture_analyzer.model.exchanges import Exchange
from capture_analyzer.model.findings import MAX_EXAMPLES, MAX_PACKET_NOS, Example, Finding, Severity
from capture_analyzer.model.quick_dataclass import quick_dataclass

READ_CONFIDENCE: Final = 0.9  # two programs may share the client's address
SILENT_CONFIDENCE: Final = 0.7  # closed without a word: a program that ran once looks so
OPAQUE_CONFIDENCE: Final = 0.6

CLOSED_PROMPTLY_NS: Final = 100_000_000
"""A FIN later than this (or a round trip) behind an answer ends an idle time."""

_MOST_CANDIDATES: Final = 16
"""Open connections of a pool that are looked at for each new one, those last used first: more
would make a capture of many connections cost the square of their number."""


@quick_dataclass(frozen=True)
class Options:
    """Thresholds of this detector."""

    idle_s: int = column(
        "Longest idle time after which a connection still counts as usable.", unit="s", default=60
    )
    closed_s: int = column(
        "Longest time since a connection was closed for which it would have been kept.",
        unit="s",
        default=5,
    )
    repeats: int = column("New connections to one server from which it is a warning.", default=3)


META = Meta(
    tables=("exchanges",),
    options=Options,
    severity=(
        "warning: at least 3 connections to one server, and they took at least 10 % and 20 ms of "
        "a request; info: less"
    ),
    references=(
        "RFC 9112, section 9.3 (persistent connections)",
        "RFC 9112, section 9.6 (Connection: close)",
        "RFC 9113, section 9.1 (connection reuse in HTTP/2)",
    ),
)


@quick_dataclass
class _Needless:
    """A new connection, and the one that could have been used.

    Attributes:
        exchange: the first of the new connection.
        spare: the other connection.
        how: "idle", or who closed it: "client", "server"; with "silent" in front if it did not
            say so.
        confidence: 0 to 1.
        packet_no: where the other connection was last used or closed.
    """

    exchange: Exchange
    spare: Pooled
    how: str
    confidence: float
    packet_no: int

    @property
    def saving_ns(self) -> int:
        """What its set-up took."""
        phases = self.exchange.phases
        return sum(part or 0 for part in (phases.dns_ns, phases.connect_ns, phases.tls_ns))


def detect(tables: Tables, options: Options) -> Iterable[Finding]:
    """Yield a finding for each server."""
    candidates = list(pools(tables, least=2).values())
    if not candidates:
        return
    who = closers(tables, [row.connection.connection_no for rows in candidates for row in rows])
    gone = told_to_go(tables)
    groups: dict[Server, list[_Needless]] = {}
    for rows in candidates:
        for needless in _needless(rows, options, gone, who):
            connection = needless.spare.connection
            key = (label(connection), connection.server_port)
            groups.setdefault(key, []).append(needless)
    totals: dict[Server, int] = {}
    for rows in candidates:
        key = (label(rows[0].connection), rows[0].connection.server_port)
        totals[key] = totals.get(key, 0) + len(rows)
    for key, group in groups.items():
        yield _finding(tables, group, totals[key], options)


def _needless(
    rows: Sequence[Pooled], options: Options, gone: set[int], who: dict[int, tuple[str, int]]
) -> Iterable[_Needless]:
    """New connections of a pool that another could have spared."""
    taken: dict[int, int] = {}  # connection → until when it would have been in use
    recent: list[Pooled] = []
    for new in rows:
        first = new.exchanges[0]
        found = None
        if first.carries_setup and not switched(first):
            for spare in reversed(recent):
                number = spare.connection.connection_no
                if not spare.multiplexed and taken.get(number, 0) > first.start_ns:
                    continue
                found = _could_have(spare, new, options, gone, who)
                if found is not None:
                    # One that was closed could have carried this request, and then stayed.
                    taken[number] = end_of(first) if found.how == "idle" else NEVER
                    break
        if found is not None:
            yield found
        recent.append(new)
        if len(recent) > _MOST_CANDIDATES:
            recent.sort(key=_last_use)
            del recent[0]


def _last_use(pooled: Pooled) -> int:
    return min(pooled.closed_ns, pooled.exchanges[-1].last_ns)


def _could_have(
    spare: Pooled,
    new: Pooled,
    options: Options,
    gone: set[int],
    who: dict[int, tuple[str, int]],
) -> _Needless | None:
    """Whether a connection could have carried the first request of a new one."""
    first = new.exchanges[0]
    decided, sent = first.start_ns, first.request_start_ns
    if spare.connection.connection_no in gone or spare.multiplexed != new.multiplexed:
        return None
    inferred = spare.inferred or new.inferred
    if spare.multiplexed and spare.closed_ns > sent:
        answered = spare.exchanges[0].response_seen_ns
        last = spare.before(decided)
        if answered is None or answered > decided or last is None:
            return None
        if decided - min(end_of(last), decided) > options.idle_s * 1_000_000_000:
            return None
        trust = OPAQUE_CONFIDENCE if inferred else READ_CONFIDENCE
        return _Needless(first, spare, "idle", trust, last.request_first_packet_no or 0)
    # All that had begun by the time of the new one's request was over when it was opened.
    last = spare.before(sent)
    if last is None or (not last.complete and not last.inferred):
        return None
    end = end_of(last)
    if end > decided or last.response_seen_ns is None or last.reset or switched(last):
        return None
    if spare.closed_ns > sent:
        # A FIN that is under way closes it as well.
        if spare.closed_ns - sent <= (spare.connection.rtt_ns or 0):
            return None
        if announced_close(last) or decided - end > options.idle_s * 1_000_000_000:
            return None
        trust = OPAQUE_CONFIDENCE if inferred else READ_CONFIDENCE
        return _Needless(first, spare, "idle", trust, last.response_last_packet_no or 0)
    if decided - end > options.closed_s * 1_000_000_000:
        return None
    said = None if inferred else announced_close(last)
    side, packet_no = who[spare.connection.connection_no]
    promptly = max(CLOSED_PROMPTLY_NS, spare.connection.rtt_ns or 0)
    if said is None and spare.closed_ns - end > promptly:
        return None  # it was kept for a while, and then closed as idle
    trust = OPAQUE_CONFIDENCE if inferred else SILENT_CONFIDENCE
    if said is not None:
        return _Needless(first, spare, said, READ_CONFIDENCE, packet_no)
    return _Needless(first, spare, f"silent {side}", trust, packet_no)


def _finding(tables: Tables, group: Sequence[_Needless], total: int, options: Options) -> Finding:
    group = sorted(group, key=lambda row: row.exchange.exchange_no)
    count = len(group)
    server = label(group[0].spare.connection)
    saving = sum(row.saving_ns for row in group)
    how = {name: sum(row.how.endswith(name) for row in group) for name in _WORDS}
    main = max(_WORDS, key=lambda name: how[name])
    worst = sorted(group, key=lambda row: (-row.saving_ns, row.exchange.exchange_no))
    evidence = [number for row in worst for number in _packets(tables, row)]
    severity = _severity(group, options)
    subject = "a new connection" if count == 1 else f"{number_of(count, 'new connection')}"
    verb = "was" if count == 1 else "were"
    connections = sorted({row.exchange.connection_no for row in group})
    return Finding(
        detector="http/connection-not-reused",
        severity=severity,
        confidence=round(sum(row.confidence for row in group) / count, 2),
        summary=(
            f"{subject[:1].upper()}{subject[1:]} to {server} {verb} opened for a request "
            f"although {_WORDS[main]}; that took {amount(saving)}."
        ),
        advice=_advice(main, server),
        action=_action(main, server) if severity == "warning" else "",
        connection_no=connections[0] if len(connections) == 1 else None,
        connection_nos=connections,
        exchange_nos=[row.exchange.exchange_no for row in group],
        from_ns=min(row.exchange.start_ns for row in group),
        to_ns=max(row.exchange.request_start_ns for row in group),
        count=count,
        estimated_saving_ns=saving,
        measures={
            "connections": total,
            "connections_needless": count,
            "round_trips": sum(_round_trips(tables, row.exchange) for row in group),
            "idle_ones_left": how["idle"],
            "closed_by_server": how["server"],
            "closed_by_client": how["client"],
        },
        examples=[
            Example(_packets(tables, row), row.saving_ns, row.exchange.exchange_no)
            for row in worst[:MAX_EXAMPLES]
        ],
        packet_nos=evidence[:MAX_PACKET_NOS],
        packet_total=len(set(evidence)),
    )


_WORDS: Final = {
    "idle": "another one was open and could have been used",
    "server": "the one before could have been used, had the server not closed it behind its answer",
    "client": "the one before could have been used, had the client not ended it",
}
"""What became of the connection that could have been used, in a sentence."""


def _severity(group: Sequence[_Needless], options: Options) -> Severity:
    if len(group) < options.repeats:
        return "info"
    for row in group:
        end = row.exchange.last_ns if row.exchange.end_ns is None else row.exchange.end_ns
        if by_default(row.saving_ns, end - row.exchange.start_ns) != "info":
            return "warning"
    return "info"


def _packets(tables: Tables, row: _Needless) -> list[int]:
    """Where the other connection was last used or closed, and the new one's SYN and request."""
    syn = tables.connections[row.exchange.connection_no].syn_packet_no
    numbers = (row.packet_no, syn, row.exchange.request_first_packet_no)
    return [number for number in numbers if number]


def _round_trips(tables: Tables, exchange: Exchange) -> int:
    """Round trips of a set-up: the transport's, and TLS' (RFC 8446, section 2)."""
    tls = tables.connections[exchange.connection_no].tls
    if tls is None:
        return 1
    if tls.version == "TLS 1.3":
        return 2 + tls.hello_retry
    return 2 if tls.resumed else 3


def _advice(main: str, server: str) -> str:
    if main == "server":
        return (
            f"Let {server} keep its connections open behind an answer, for longer than its "
            "clients pause: look at its keep-alive settings, and at those of proxies before it."
        )
    if main == "client":
        return (
            "Let the client keep its connections: one session or pool for all requests to "
            f"{server}, no Connection: close, and every answer read to its end."
        )
    return (
        f"Let the client use one pool of connections for all requests to {server}: look for "
        "code that makes a session for each task, and for answers that are not read to their end."
    )


def _action(main: str, server: str) -> str:
    if main == "server":
        return f"Let {server} keep connections open between requests"
    return f"Let the client reuse its connections to {server}"
