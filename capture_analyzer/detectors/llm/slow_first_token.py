"""The first token of a streamed answer came late.

What it detects:
    Streamed answers whose first event with generated content was usable more than 2 s after
    the request's first byte (or than the objective that is set). The ledger up to that
    instant adds up to exactly that time; it is divided among the server before its head
    (queue, prompt), the server between head and first content (generation), lost segments,
    TLS records, windows, intermediaries and the network. Whichever took most of it is blamed,
    and its cost is the ledger's time for that.

    The answers of one server with one reason are one finding.

Why it matters:
    Until the first word is there, nobody can tell a slow answer from a broken one.

What to do:
    If the head of the answer itself was late, the request waited in a queue or for its prompt
    to be read, or an intermediary waited for the first part of the answer. If the head came
    soon and the first word late, the server accepted at once and the model was slow: prompt
    length, batch size, cache hits. If the network is blamed, see the finding that holds the
    time.

When it is wrong:
    Long prompts, and models that reason before they answer without sending what they reason,
    take long for a reason.

    Chunks are not tokens: the first chunk can hold many.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from capture_analyzer import wording
from capture_analyzer.detectors.blame import Split, split
from capture_analyzer.detectors.contract import DEFAULT_SEVERITY, Meta
from capture_analyzer.detectors.phrases import amount, amounts, upper_first
from capture_analyzer.detectors.servers import Server, exchanges_by_server, label, server_of
from capture_analyzer.detectors.severity import by_default, worst
from capture_analyzer.model.analysis import Tables
from capture_analyzer.model.column import NO_TIME, column
from capture_analyzer.model.exchanges import Exchange
from capture_analyzer.model.findings import MAX_EXAMPLES, MAX_PACKET_NOS, Example, Finding
from capture_analyzer.model.quick_dataclass import quick_dataclass


@quick_dataclass(frozen=True)
class Options:
    """Thresholds of this detector."""

    objective_ms: int = column("Time to first token that is still good.", unit="ms", default=2000)


META = Meta(
    tables=("exchanges",),
    options=Options,
    causes=("server_think", "generation"),
    severity=DEFAULT_SEVERITY + "; at least a warning",
    references=("WHATWG HTML, section 9.2 (server-sent events)",),
)


@quick_dataclass
class _Late:
    """An answer whose first token was late, and what its time went to."""

    exchange: Exchange
    ttft_ns: int
    split: Split
    packet_no: int  # of the first content

    def evidence(self) -> list[int]:
        first = (self.exchange.request_first_packet_no, self.exchange.response_first_packet_no)
        return [number for number in (*first, self.packet_no) if number]


def detect(tables: Tables, options: Options) -> Iterable[Finding]:
    """Yield a finding for each server and party to blame."""
    groups: dict[tuple[Server, str], list[_Late]] = {}
    ttft = tables.exchanges.columns.ttft_ns
    slow = np.flatnonzero(ttft > options.objective_ms * 1_000_000)
    for exchange, ttft_ns in zip(tables.exchanges.rows(slow), ttft[slow].tolist(), strict=True):
        server = server_of(tables.connections[exchange.connection_no])
        begin = exchange.request_start_ns
        parts = split(tables, exchange.exchange_no, begin, begin + ttft_ns)
        late = _Late(exchange, ttft_ns, parts, _first_content(tables, exchange, begin + ttft_ns))
        groups.setdefault((server, parts.worst), []).append(late)
    streamed = exchanges_by_server(tables, ttft != NO_TIME)
    for (server, party), group in groups.items():
        yield _finding(tables, party, group, streamed[server], options)


def _first_content(tables: Tables, exchange: Exchange, time_ns: int) -> int:
    """The packet with the event that was usable then; 0 if there is none."""
    events = tables.events
    rows = events.rows_of(exchange.exchange_no)
    found = np.flatnonzero(events.time_ns[rows] == time_ns)
    return int(events.packet_no[rows.start + found[0]]) if len(found) else 0


def _trust(exchange: Exchange) -> float:
    """That the answer is a stream of events: less than 1 where that is inferred."""
    return 1.0 if exchange.stream is None else exchange.stream.confidence


def _finding(
    tables: Tables, party: str, group: list[_Late], streamed: int, options: Options
) -> Finding:
    by_time = sorted(group, key=lambda late: (-late.ttft_ns, late.exchange.exchange_no))
    connections = sorted({late.exchange.connection_no for late in group})
    one = tables.connections[group[0].exchange.connection_no]
    cost_ns = sum(late.split.booked[party] for late in group)
    known = party != "unknown" and cost_ns > 0
    weight = sum(late.ttft_ns for late in group)
    confidence = sum(late.split.confidence[party] * late.ttft_ns for late in group) / weight
    confidence *= min(_trust(late.exchange) for late in group)
    return Finding(
        detector="llm/slow-first-token",
        severity=worst(
            [
                "warning",
                *(
                    by_default(x.split.booked[party], _length_ns(x.exchange))
                    for x in group
                    if known
                ),
            ]
        ),
        confidence=round(min(confidence, 1.0), 2) if party != "unknown" else 1.0,
        summary=_summary(label(one), party, by_time),
        advice=_advice(label(one), party, by_time[0]),
        action=_action(label(one), party, by_time[0]),
        connection_no=connections[0] if len(connections) == 1 else None,
        connection_nos=connections,
        exchange_nos=[late.exchange.exchange_no for late in group],
        from_ns=min(late.exchange.request_start_ns for late in group),
        to_ns=max(late.exchange.request_start_ns + late.ttft_ns for late in group),
        count=len(group),
        cost_ns=cost_ns if known else 0,
        measures={
            "blamed": party,
            "answers_streamed": streamed,
            "answers_late": len(group),
            "objective_ns": options.objective_ms * 1_000_000,
            "ttft_max_ns": by_time[0].ttft_ns,
            "ttft_min_ns": by_time[-1].ttft_ns,
            **_parts(group),
        },
        examples=[
            Example(late.evidence(), late.split.booked[party] or None, late.exchange.exchange_no)
            for late in by_time[:MAX_EXAMPLES]
        ],
        packet_nos=[no for late in by_time[:MAX_PACKET_NOS] for no in late.evidence()],
        packet_total=len({no for late in group for no in late.evidence()}),
        ledger_rows=[row for late in group for row in late.split.rows[party]] if known else [],
    )


def _length_ns(exchange: Exchange) -> int:
    end = exchange.last_ns if exchange.end_ns is None else exchange.end_ns
    return end - exchange.start_ns


def _parts(group: list[_Late]) -> dict[str, int]:
    """What each cause took until the first token, all answers together, most first."""
    sums: dict[str, int] = {}
    for late in group:
        for cause, ns in late.split.causes.items():
            sums[cause] = sums.get(cause, 0) + ns
    return {f"{cause}_ns": ns for cause, ns in sorted(sums.items(), key=lambda row: -row[1])}


_WHOSE = {
    "server": "the server’s",
    "loss": "lost to the repair of lost segments",
    "other_stream": "spent behind lost segments of another stream",
    "record": "spent on TLS records that were not complete",
    "window": "spent on windows that were used up",
    "nagle": "spent on small segments held for an acknowledgement",
    "proxy": "an intermediary’s",
    "network": "the network’s",
    "unknown": "on what this capture can’t tell",
}


def _summary(server: str, party: str, by_time: list[_Late]) -> str:
    span = amounts(by_time[-1].ttft_ns, by_time[0].ttft_ns)
    if len(by_time) == 1:
        late = by_time[0]
        what = f"The first token of an answer of {server} took {span}"
        return f"{what}, {amount(late.split.ns[party])} of it {_WHOSE[party]}."
    number = upper_first(wording.count_word(len(by_time)))
    what = f"The first tokens of {number.lower()} answers of {server} took {span}"
    return f"{what}, most of it {_WHOSE[party]}."


def _advice(server: str, party: str, worst_one: _Late) -> str:
    think = worst_one.split.causes.get("server_think", 0)
    generation = worst_one.split.causes.get("generation", 0)
    where = f"(exchange {worst_one.exchange.exchange_no})"
    if party == "server" and generation > think:
        return (
            f"{server} sent the head of its answer after {amount(think)} and the first content "
            f"{amount(generation)} later {where}: the request was accepted at once and the model "
            "was slow to begin. Look at the prompt's length, the batch and the prompt cache."
        )
    if party == "server":
        return (
            f"The head of the answer itself took {amount(think)} {where}: the request waited in "
            f"a queue, or for its prompt to be read, or something in front of {server} waited "
            "for the first part. Look at the queue and at the prompt's length there."
        )
    if party == "unknown":
        return f"Capture at the client or at the server, without gaps {where}."
    return (
        f"Not the model's {where}: the split among the measures says what it was, and the finding "
        "about that says where to look."
    )


def _action(server: str, party: str, worst_one: _Late) -> str:
    if party == "server":
        return f"Ask the model’s owner at {server} why it took {amount(worst_one.ttft_ns)} to begin"
    if party in ("loss", "other_stream"):
        return f"Find where segments from {server} are lost"
    return ""
