"""Name lookups failed, or got no answer.

What it detects:
    Questions that were answered with an error (NXDOMAIN: there is no such name; SERVFAIL,
    REFUSED: the resolver could not or would not say), and questions that got no answer before
    the client asked another resolver, or anew, or gave up. An error for one type of address
    counts only if no other type of the same name was found.

    The failures at one resolver are one finding, apart for each outcome.

Why it matters:
    A program that gets no address can't connect; it reports "unknown host", often only after
    a time-out of seconds. Names that are tried with the wrong suffixes first cost a round trip
    each, for each new connection.

What to do:
    NXDOMAIN: correct the name where it is configured, or shorten the search list (search and
    options ndots in resolv.conf) if a suffix was added to a good name. SERVFAIL and REFUSED:
    ask whoever runs the resolver, its upstream failed or it does not serve this client. No
    answer: the resolver is down, or a packet filter drops questions or answers.

When it is wrong:
    A capture that ends early, or drops packets, can lack an answer. A question is taken for
    unanswered only if the capture goes on for at least 2 s behind it, or the client asked
    again.

    Some programs ask for names that need not exist (to find a proxy, to try a search list).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from capture_analyzer import wording
from capture_analyzer.detectors.contract import Meta
from capture_analyzer.detectors.names import Lookups
from capture_analyzer.detectors.phrases import amount, listed, upper_first
from capture_analyzer.detectors.sides import one_sided
from capture_analyzer.model.analysis import Tables
from capture_analyzer.model.column import NO_TIME, column
from capture_analyzer.model.findings import MAX_EXAMPLES, Example, Finding, Severity
from capture_analyzer.model.lookups import Lookup
from capture_analyzer.model.quick_dataclass import quick_dataclass

MS: Final = 1_000_000

FALLBACK_NS: Final = 5_000_000_000
"""A question behind a failed one counts as its follow-up within this: resolvers wait so long."""

WARNING_NS: Final = 500_000_000  # a failure that held the client up for so long is felt


@quick_dataclass(frozen=True)
class Options:
    """Thresholds of this detector."""

    silence_ms: int = column(
        "So long must a capture go on behind a question before it counts as unanswered.",
        unit="ms",
        default=2000,
    )


META = Meta(
    tables=("lookups",),
    options=Options,
    severity=(
        "warning: no address was found in the end (save NXDOMAIN), or the failure held the client "
        "up for at least 500 ms; info: else"
    ),
    references=(
        "RFC 1035, section 4.1.1 (response codes)",
        "RFC 8020 (NXDOMAIN)",
        "RFC 8499 (search lists and fully qualified names)",
    ),
)


@quick_dataclass(frozen=True)
class _Failed:
    lookup: Lookup
    outcome: str  # the response code, or "no answer"
    resolved: bool  # a later question of the same search was answered well
    held_ns: int  # until that question was sent, or this one was answered


def detect(tables: Tables, options: Options) -> Iterable[Finding]:
    """Yield a finding for each resolver and outcome."""
    known = tables.packets.time_ns[tables.packets.time_ns != NO_TIME]
    end_ns = int(known.max()) if len(known) else 0
    lookups = Lookups.of(tables)
    found = {(lookup.client_ip, lookup.name) for lookup in tables.lookups if _is_good(lookup)}
    groups: dict[tuple[str, str], list[_Failed]] = {}
    # Without any answer, and with half of the connections: the other half was not captured.
    unseen = all(lookup.end_ns is None for lookup in tables.lookups) and bool(one_sided(tables))
    for lookup in tables.lookups:
        if lookup.rcode == "NOERROR" or (unseen and lookup.rcode is None):
            continue
        if lookup.rcode is not None and (lookup.client_ip, lookup.name) in found:
            continue  # another type of address was found: this one is not needed
        later = lookups.asked_between(lookup, lookup.start_ns + 1, lookup.start_ns + FALLBACK_NS)
        again = [row for row in later if row is not lookup]
        if lookup.rcode is None and not again:
            last = lookup.start_ns
            if end_ns - last < options.silence_ms * MS:
                continue  # the answer may have come behind the capture's end
        good = next((row for row in again if _is_good(row)), None)
        if lookup.rcode is None and (lookup.client_ip, lookup.name) in found and good is None:
            continue  # asked beside one that was answered
        if good is not None:
            held = good.start_ns - lookup.start_ns
        else:
            held = (lookup.start_ns if lookup.end_ns is None else lookup.end_ns) - lookup.start_ns
        failed = _Failed(lookup, lookup.rcode or "no answer", good is not None, held)
        groups.setdefault((lookup.server_ip, failed.outcome), []).append(failed)
    for (resolver, outcome), group in groups.items():
        yield _finding(resolver, outcome, group)


def _is_good(lookup: Lookup) -> bool:
    return lookup.rcode == "NOERROR" and bool(lookup.addresses)


def _finding(resolver: str, outcome: str, group: list[_Failed]) -> Finding:
    worst_first = sorted(group, key=lambda row: (-row.held_ns, row.lookup.lookup_no))
    names = list(dict.fromkeys(row.lookup.name for row in worst_first))
    evidence = [number for row in worst_first for number in row.lookup.packet_nos]
    unresolved = sum(not row.resolved for row in group)
    held = worst_first[0].held_ns
    severity: Severity = "info"
    if (unresolved and outcome != "NXDOMAIN") or held >= WARNING_NS:
        severity = "warning"
    saving = sum(row.held_ns for row in group if row.resolved)
    return Finding(
        detector="dns/failed-lookup",
        severity=severity,
        confidence=1.0 if outcome != "no answer" else 0.9,
        summary=_summary(resolver, outcome, group, names, unresolved),
        advice=_advice(resolver, outcome, names, unresolved),
        action=_action(resolver, outcome, names),
        from_ns=min(row.lookup.start_ns for row in group),
        to_ns=max(row.lookup.start_ns + row.held_ns for row in group),
        count=len(group),
        estimated_saving_ns=saving or None,
        measures={
            "resolver": resolver,
            "outcome": outcome,
            "names": len(names),
            "unresolved": unresolved,
            "held_max_ns": held,
        },
        examples=[
            Example(row.lookup.packet_nos, row.held_ns) for row in worst_first[:MAX_EXAMPLES]
        ],
        packet_nos=evidence,
        packet_total=len(set(evidence)),
    )


def _summary(
    resolver: str, outcome: str, group: list[_Failed], names: list[str], unresolved: int
) -> str:
    what = f"The lookup of {listed(names)}"
    if len(group) > 1:
        what = f"{upper_first(wording.count_word(len(group)))} lookups of {listed(names)}"
    how = "got no answer" if outcome == "no answer" else f"failed with {outcome}"
    text = f"{what} at {resolver} {how}"
    resolved = [row for row in group if row.resolved]
    if resolved and not unresolved:
        held = max(row.held_ns for row in resolved)
        text += f"; another question {amount(held)} later was answered"
    return text + "."


def _advice(resolver: str, outcome: str, names: list[str], unresolved: int) -> str:
    if outcome == "NXDOMAIN":
        if not unresolved:
            return (
                "The name was found under another suffix. Shorten the search list (search, options "
                "ndots), or end the name with a dot where it is configured."
            )
        return f"Correct {listed(names)} where it is configured, or register the name."
    if outcome == "no answer":
        return (
            f"Find whether the resolver at {resolver} is up, and where questions or answers are "
            "dropped: a packet filter, or plain loss."
        )
    return f"Ask whoever runs the resolver at {resolver} why it answered {outcome}."


def _action(resolver: str, outcome: str, names: list[str]) -> str:
    if outcome == "NXDOMAIN":
        return f"Correct the name {listed(names, 1)}, or the search list"
    if outcome == "no answer":
        return f"Find why the resolver at {resolver} did not answer"
    return f"Find why the resolver at {resolver} answered {outcome}"
