"""Name lookups delayed connections.

What it detects:
    Exchanges whose connection waited for the resolver for more than 100 ms, or whose question
    had to be sent again. The wait is booked on ledger cause dns, from the first question for
    the name to the last answer that the client waited for. A lookup that nobody waited for
    is not counted, however long it took.

    The lookups at one resolver are one finding.

Why it matters:
    The lookup comes before everything else: the connection can't begin. A question that is
    lost is repeated after seconds (5 s in the resolver library of most Linux systems), and a
    client that asks for IPv4 and IPv6 addresses waits for the slower answer.

What to do:
    Ask the resolver named here why it took so long: an upstream that does not answer, a cache
    that is cold or too small, questions that are lost on their way. Shorten the search list
    (options ndots in resolv.conf) if names with wrong suffixes are asked first. Keep
    connections open, so that the name is needed less often.

When it is wrong:
    A lookup over TLS or HTTPS can't be read, and one that was answered by a cache on the
    client is not in a capture made outside it.

    A client may have begun to look up early, while it was still busy with other things.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from capture_analyzer import wording
from capture_analyzer.detectors.contract import Meta
from capture_analyzer.detectors.names import Lookups
from capture_analyzer.detectors.phrases import amount, listed, time_range, upper_first
from capture_analyzer.detectors.severity import booked, by_default, worst
from capture_analyzer.model.analysis import Tables
from capture_analyzer.model.column import column
from capture_analyzer.model.findings import MAX_EXAMPLES, Example, Finding
from capture_analyzer.model.lookups import Lookup
from capture_analyzer.model.quick_dataclass import quick_dataclass

MS: Final = 1_000_000

FAILURES: Final = ("NXDOMAIN", "SERVFAIL", "REFUSED", None)


@quick_dataclass(frozen=True)
class Options:
    """Thresholds of this detector."""

    least_ms: int = column("Shortest wait that is reported.", unit="ms", default=100)


META = Meta(
    tables=("lookups",),
    options=Options,
    causes=("dns",),
    references=(
        "RFC 1035, section 7 (resolver implementation)",
        "RFC 8305, section 3 (asking for both address families)",
    ),
)


@quick_dataclass(frozen=True)
class _Waited:
    """An exchange that waited for its name."""

    exchange_no: int
    cost_ns: int
    length_ns: int
    rows: list[int]
    lookups: list[Lookup]  # that it waited for, in order
    repeats: int

    @property
    def last(self) -> Lookup:
        """The one that it waited for longest."""
        return max(self.lookups, key=lambda row: (_answered(row), -row.lookup_no))

    @property
    def packet_nos(self) -> list[int]:
        return [number for lookup in self.lookups for number in lookup.packet_nos]


def _answered(lookup: Lookup) -> int:
    return lookup.start_ns if lookup.end_ns is None else lookup.end_ns


def detect(tables: Tables, options: Options) -> Iterable[Finding]:
    """Yield a finding for each resolver."""
    lost = booked(tables, "dns")
    if not len(lost):
        return
    lookups = Lookups.of(tables)
    groups: dict[str, list[_Waited]] = {}
    for index, exchange_no in enumerate(lost.exchange_nos.tolist()):
        exchange = tables.exchanges[exchange_no]
        number = exchange.lookup_no
        if number is None:
            number = tables.connections[exchange.connection_no].lookup_no
        if number is None:
            continue
        used = tables.lookups[number]
        rows = lost.rows_of(index)
        asked = lookups.asked_between(
            used, int(tables.ledger.from_ns[rows[0]]), int(tables.ledger.to_ns[rows[-1]])
        )
        asked = asked or [used]
        waited = _Waited(
            exchange_no,
            int(lost.cost_ns[index]),
            int(lost.length_ns[index]),
            rows,
            asked,
            _repeats(asked),
        )
        if waited.cost_ns > options.least_ms * MS or waited.repeats:
            groups.setdefault(waited.last.server_ip, []).append(waited)
    for resolver, group in groups.items():
        yield _finding(resolver, group)


def _repeats(lookups: Sequence[Lookup]) -> int:
    """How many questions were sent again, by the same lookup or by a new one of equal content."""
    asked = {(lookup.name, lookup.type) for lookup in lookups}
    return sum(lookup.question_count for lookup in lookups) - len(asked)


def _finding(resolver: str, group: list[_Waited]) -> Finding:
    by_cost = sorted(group, key=lambda row: (-row.cost_ns, row.exchange_no))
    evidence = [number for row in by_cost for number in row.packet_nos]
    names = list(dict.fromkeys(row.last.name for row in by_cost))
    repeats = sum(row.repeats for row in group)
    costs = [row.cost_ns for row in by_cost]
    return Finding(
        detector="dns/slow-lookup",
        severity=worst(by_default(row.cost_ns, row.length_ns) for row in group),
        confidence=1.0,
        summary=_summary(resolver, by_cost, names, repeats),
        advice=(
            f"Ask the resolver at {resolver} why "
            + ("questions get lost, or no answer in time" if repeats else "it took so long")
            + f": look at its upstreams and its cache for {listed(names)}."
        ),
        action=f"Find why the resolver at {resolver} was slow",
        exchange_nos=[row.exchange_no for row in group],
        from_ns=min(lookup.start_ns for row in group for lookup in row.lookups),
        to_ns=max(_answered(row.last) for row in group),
        count=len(group),
        cost_ns=sum(costs),
        measures={
            "resolver": resolver,
            "lookups": sum(len(row.lookups) for row in group),
            "questions_repeated": repeats,
            "wait_max_ns": costs[0],
        },
        examples=[
            Example(row.packet_nos, row.cost_ns, row.exchange_no) for row in by_cost[:MAX_EXAMPLES]
        ],
        packet_nos=evidence,
        packet_total=len(set(evidence)),
        ledger_rows=[ledger_row for row in group for ledger_row in row.rows],
    )


def _summary(resolver: str, group: list[_Waited], names: list[str], repeats: int) -> str:
    again = ""
    if repeats:
        again = f"; {wording.count_word(repeats)} question{'s were' if repeats > 1 else ' was'} "
        again += "sent again"
    if len(group) == 1:
        wait = amount(group[0].cost_ns)
        return f"The lookup of {names[0]} at {resolver} took {wait}{again}."
    span = time_range(group[-1].cost_ns, group[0].cost_ns)
    number = upper_first(wording.count_word(len(group)))
    return (
        f"{number} requests waited {span} for the lookup of {listed(names)} at {resolver}{again}."
    )
