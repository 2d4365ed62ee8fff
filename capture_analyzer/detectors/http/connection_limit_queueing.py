"""Requests waited in the client until one of its connections was free.

What it detects:
    HTTP/1.1 clients whose connections to a server, six or more, were all busy, and that sent the
    next request on one as soon as its answer was complete. How long such a request had waited
    can't be seen: it is taken to have been ready since all connections were busy.

    All requests of one client to one server are one finding.

Why it matters:
    HTTP/1.1 carries one exchange at a time on a connection. Browsers open six to a server at
    most, pools what they were set to. What more is wanted at once waits, however fast network
    and server are, and no time of any exchange shows it.

What to do:
    Offer HTTP/2 or HTTP/3, which carry all requests on one connection. Where that is not
    possible: fewer and larger requests, a larger pool in programs, answers that come sooner (a
    slow one holds its connection), long polls and event streams on connections of their own.

When it is wrong:
    A program with as many workers as connections, each of which sends its next request when it
    has its answer, looks the same and has no queue; if it goes on for more than 20 requests a
    connection, it is taken for that. So does a request that needs the answer
    before it, if it happens to be sent while all other connections are busy.

    The time that is estimated is the longest wait of each burst, if all its requests were wanted
    when it began; less if they came up later.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from capture_analyzer import wording
from capture_analyzer.detectors.contract import Meta
from capture_analyzer.detectors.phrases import amount, upper_first
from capture_analyzer.detectors.pools import NEVER, Pooled, end_of, pools
from capture_analyzer.detectors.servers import label
from capture_analyzer.detectors.severity import by_default, worst
from capture_analyzer.model.analysis import Tables
from capture_analyzer.model.column import NO_TIME, column
from capture_analyzer.model.exchanges import Exchange
from capture_analyzer.model.findings import MAX_EXAMPLES, MAX_PACKET_NOS, Example, Finding
from capture_analyzer.model.quick_dataclass import quick_dataclass

STEADY_REQUESTS: Final = 20
"""Where so many requests a connection follow in one burst, it is more likely a program's steady
work (a crawler, a load test) than a queue that is worked off."""

READ_CONFIDENCE: Final = 0.7  # that there was a queue is inferred
OPAQUE_CONFIDENCE: Final = 0.5


@quick_dataclass(frozen=True)
class Options:
    """Thresholds of this detector."""

    connections: int = column("Fewest connections that must all be busy.", default=6)
    least_requests: int = column("Fewest requests that must have waited.", default=2)
    turnaround_ms: int = column(
        "Longest time from an answer's end to the next request on its connection.",
        unit="ms",
        default=10,
    )


META = Meta(
    tables=("exchanges",),
    options=Options,
    severity="as by default, but never critical: the wait is inferred",
    references=(
        "RFC 9112, section 9.4 (concurrency)",
        "RFC 9113, section 5 (streams and multiplexing)",
    ),
)


@quick_dataclass
class _Queued:
    """A request that waited: since when all connections were busy, and the answer before it."""

    exchange: Exchange
    before: Exchange
    since_ns: int
    connections: int

    @property
    def queued_ns(self) -> int:
        """How long it waited, if it was wanted when all connections were busy."""
        return self.exchange.request_start_ns - self.since_ns


def detect(tables: Tables, options: Options) -> Iterable[Finding]:
    """Yield a finding for each client and server."""
    for rows in pools(tables, least=options.connections).values():
        plain = [row for row in rows if not row.multiplexed and _one_at_a_time(row)]
        if len(plain) < options.connections:
            continue
        queued = _bursts(_queued(tables, plain, options))
        if len(queued) >= options.least_requests:
            yield _finding(tables, queued, sum(len(row.exchanges) for row in plain))


def _one_at_a_time(pooled: Pooled) -> bool:
    """It is known to be HTTP/1.1."""
    return not pooled.inferred or pooled.connection.alpn == "http/1.1"


@quick_dataclass
class _Change:
    """Something that happens on a connection of a pool, at an instant."""

    instant_ns: int
    rank: int  # at one instant: what ends goes before what begins
    connection: int
    exchange: Exchange | None = None
    before: Exchange | None = None


_CLOSES, _FREES, _OPENS, _BEGINS = range(4)


def _changes(tables: Tables, plain: Sequence[Pooled], turnaround_ns: int) -> list[_Change]:
    """Openings, uses and closings of a pool's connections in order.

    A connection is in use from the first of a run of exchanges of which each begins within the
    turnaround of the one before it, to the last one's end.
    """
    columns = tables.exchanges.columns
    begins, ends = columns.start_ns.tolist(), columns.end_ns.tolist()
    changes: list[_Change] = []
    for number, row in enumerate(plain):
        changes.append(_Change(row.opened_ns, _OPENS, number))
        changes.append(_Change(row.closed_ns, _CLOSES, number))
        until = -NEVER
        for place, exchange_no in enumerate(row.exchanges.numbers):
            begin, end = begins[exchange_no], ends[exchange_no]
            if not place or begin - until > turnaround_ns:
                if place:
                    changes.append(_Change(until, _FREES, number))
                changes.append(_Change(begin, _BEGINS, number))
            else:
                before, exchange = row.exchanges[place - 1], row.exchanges[place]
                changes.append(_Change(begin, _BEGINS, number, exchange, before))
            until = max(until, min(NEVER if end == NO_TIME else end, row.closed_ns))
        changes.append(_Change(until, _FREES, number))
    changes.sort(key=lambda change: (change.instant_ns, change.rank, change.connection))
    return changes


def _queued(tables: Tables, plain: Sequence[Pooled], options: Options) -> list[_Queued]:
    """Requests that began on a connection that was just free, all others being busy."""
    open_: set[int] = set()
    busy: set[int] = set()
    since = 0
    full = False
    found: list[_Queued] = []
    for change in _changes(tables, plain, options.turnaround_ms * 1_000_000):
        number = change.connection
        if change.exchange is not None and change.before is not None:
            if full and change.exchange.request_start_ns >= end_of(change.before):
                row = _Queued(change.exchange, change.before, since, len(open_))
                found.append(row)
            continue
        if change.rank == _OPENS:
            open_.add(number)
        elif change.rank == _BEGINS:
            busy.add(number)
        elif change.rank == _FREES:
            busy.discard(number)
        else:
            open_.discard(number)
            busy.discard(number)
        now_full = len(open_) >= options.connections and len(busy) >= len(open_)
        if now_full and not full:
            since = change.instant_ns
        full = now_full
    return found


def _bursts(queued: Sequence[_Queued]) -> list[_Queued]:
    """Those that were worked off in a while, burst by burst."""
    counts = Counter(row.since_ns for row in queued)
    return [row for row in queued if counts[row.since_ns] <= STEADY_REQUESTS * row.connections]


def _finding(tables: Tables, queued: Sequence[_Queued], total: int) -> Finding:
    one = tables.connections[queued[0].exchange.connection_no]
    server = label(one)
    count = len(queued)
    most = max(row.connections for row in queued)
    longest: dict[int, int] = {}  # of each burst
    for row in queued:
        longest[row.since_ns] = max(longest.get(row.since_ns, 0), row.queued_ns)
    saving = sum(longest.values())
    by_wait = sorted(queued, key=lambda row: (-row.queued_ns, row.exchange.exchange_no))
    evidence = [number for row in by_wait for number in _packets(row)]
    severity = worst(by_default(row.queued_ns, _length(row)) for row in queued)
    inferred = any(row.exchange.inferred for row in queued)
    requests = "A request" if count == 1 else f"{upper_first(wording.count_word(count))} requests"
    connections = sorted({row.exchange.connection_no for row in queued})
    return Finding(
        detector="http/connection-limit-queueing",
        severity="warning" if severity == "critical" else severity,
        confidence=OPAQUE_CONFIDENCE if inferred else READ_CONFIDENCE,
        summary=(
            f"{requests} of {total:,} to {server} waited in the client for one of its "
            f"{wording.count_word(most)} connections, up to {amount(by_wait[0].queued_ns)}."
        ),
        advice=(
            f"Let {server} offer HTTP/2, which carries all requests on one connection. Else send "
            "fewer requests at once, or allow the client more connections."
        ),
        action=f"Let {server} offer HTTP/2" if severity != "info" else "",
        connection_no=connections[0] if len(connections) == 1 else None,
        connection_nos=connections,
        exchange_nos=[row.exchange.exchange_no for row in queued],
        from_ns=min(row.since_ns for row in queued),
        to_ns=max(row.exchange.request_start_ns for row in queued),
        count=count,
        estimated_saving_ns=saving,
        measures={
            "requests": total,
            "requests_queued": count,
            "connections": most,
            "queued_ns": sum(row.queued_ns for row in queued),
            "queued_max_ns": by_wait[0].queued_ns,
        },
        examples=[
            Example(_packets(row), row.queued_ns, row.exchange.exchange_no)
            for row in by_wait[:MAX_EXAMPLES]
        ],
        packet_nos=evidence[:MAX_PACKET_NOS],
        packet_total=len(set(evidence)),
    )


def _length(row: _Queued) -> int:
    """The exchange with its wait."""
    end = row.exchange.last_ns if row.exchange.end_ns is None else row.exchange.end_ns
    return end - row.since_ns


def _packets(row: _Queued) -> list[int]:
    """The end of the answer before it, and its own request."""
    numbers = (row.before.response_last_packet_no, row.exchange.request_first_packet_no)
    return [number for number in numbers if number is not None]
