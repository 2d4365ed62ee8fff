"""A streamed answer stood still in the middle.

What it detects:
    Gaps between events with generated content that are longer than 200 ms and longer than 5
    times the stream's own median gap. What filled the gap is read off the ledger: the server
    (generation), lost or overtaken segments, TLS records, windows, Nagle's algorithm, an
    intermediary, the network; whichever took most of it is blamed.

    Its cost is the ledger's time for what is blamed, in the gap and beyond the stream's usual
    pace. Time that another finding holds already (a lost segment, for one) is counted there.

    The stalls of one server with one reason are one finding.

Why it matters:
    An answer that stops in the middle of a sentence is the fault that people notice first,
    and the one for which the wrong team is called most often: a stalled model and a lost
    segment look the same to the client.

What to do:
    If the server is blamed, ask whoever runs it what stopped the model then: its scheduler
    (preempted or swapped out for other requests), a full key-value cache, a garbage
    collection, a tool call, a rate limit behind it. If the network is blamed, see the finding
    that holds the time; the model's owner can do nothing about it.

When it is wrong:
    "The server" is all that lies beyond the round trip: a proxy that holds back parts of an
    answer can look like a model that pauses, when it lets them go one by one.

    That nothing held the server's segment back is inferred from acknowledgements: a receive
    window that closed, or a sender's own queue, can hide behind it.

    Models that are meant to pause (a tool runs in the middle of an answer) are found too.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np

from capture_analyzer import wording
from capture_analyzer.detectors.blame import Split, split
from capture_analyzer.detectors.contract import DEFAULT_SEVERITY, Meta
from capture_analyzer.detectors.phrases import amount, amounts, listed, upper_first
from capture_analyzer.detectors.servers import Server, exchanges_by_server, label, server_of
from capture_analyzer.detectors.severity import by_default, worst
from capture_analyzer.model.analysis import Tables
from capture_analyzer.model.column import column, distinct
from capture_analyzer.model.events import EVENT_KIND_CODE
from capture_analyzer.model.exchanges import Exchange
from capture_analyzer.model.findings import MAX_EXAMPLES, MAX_PACKET_NOS, Example, Finding
from capture_analyzer.model.quick_dataclass import quick_dataclass

_CONTENT: Final = EVENT_KIND_CODE["content"]

_WHY: Final = {
    "server": "the server was silent",
    "loss": "a lost segment held {it} up",
    "other_stream": "a lost segment of another stream held {it} up",
    "record": "a TLS record that was not complete held {it} up",
    "window": "a window that was used up held {it} up",
    "nagle": "a small segment that waited for an acknowledgement held {it} up",
    "proxy": "an intermediary held {it} back",
    "network": "the next part was on its way",
    "unknown": "what held {it} up can't be told from this capture",
}


@quick_dataclass(frozen=True)
class Options:
    """Thresholds of this detector."""

    least_ms: int = column("Shortest gap that is a stall.", unit="ms", default=200)
    factor: float = column("How many times the median gap it must be.", default=5.0)


META = Meta(
    tables=("events",),
    options=Options,
    causes=("generation",),
    severity=DEFAULT_SEVERITY + "; info where what is to blame can't be told",
    references=("WHATWG HTML, section 9.2 (server-sent events)",),
)


@quick_dataclass
class _Stall:
    """A gap: after how many events with content, from when to when, and who filled it."""

    exchange: Exchange
    chunk: int
    from_ns: int
    to_ns: int
    packet_nos: list[int]  # of the events before and behind it
    split: Split

    @property
    def length_ns(self) -> int:
        return self.to_ns - self.from_ns

    @property
    def cost_ns(self) -> int:
        return self.split.booked[self.split.worst]

    def evidence(self) -> list[int]:
        return self.packet_nos + self.split.packet_nos[self.split.worst]


def detect(tables: Tables, options: Options) -> Iterable[Finding]:
    """Yield a finding for each server and party to blame."""
    groups: dict[tuple[Server, str], list[_Stall]] = {}
    for stall in _stalls(tables, options):
        server = server_of(tables.connections[stall.exchange.connection_no])
        groups.setdefault((server, stall.split.worst), []).append(stall)
    if not groups:
        return
    paced = np.zeros(len(tables.exchanges), np.bool_)
    paced[[no for no, one in tables.exchanges.streams.items() if one.cadence_ns is not None]] = True
    streamed = exchanges_by_server(tables, paced)
    for (server, party), stalls in groups.items():
        yield _finding(tables, party, stalls, streamed[server])


def _stalls(tables: Tables, options: Options) -> Iterable[_Stall]:
    """The stalls of all streamed answers."""
    events = tables.events
    content = np.flatnonzero(events.kind == _CONTENT)
    if len(content) < 2:
        return
    exchange_no, time = events.exchange_no[content], events.time_ns[content]
    least_ns = options.least_ms * 1_000_000
    # Below the shortest stall the pace does not matter.
    long = (time[1:] - time[:-1] > least_ns) & (exchange_no[1:] == exchange_no[:-1])
    places = np.flatnonzero(long)
    numbers = distinct(exchange_no[places])
    exchanges = dict(zip(numbers.tolist(), tables.exchanges.rows(numbers), strict=True))
    first = np.searchsorted(exchange_no, exchange_no[places], "left")
    for place, begin in zip(places.tolist(), first.tolist(), strict=True):
        exchange = exchanges[int(exchange_no[place])]
        pace_ns = None if exchange.stream is None else exchange.stream.cadence_ns
        from_ns, to_ns = int(time[place]), int(time[place + 1])
        if pace_ns is None or to_ns - from_ns <= options.factor * pace_ns:
            continue
        yield _Stall(
            exchange,
            place - begin + 1,
            from_ns,
            to_ns,
            events.packet_no[content[place : place + 2]].tolist(),
            split(tables, exchange.exchange_no, from_ns, to_ns),
        )


def _trust(exchange: Exchange) -> float:
    """That the answer is a stream of events: less than 1 where that is inferred."""
    return 1.0 if exchange.stream is None else exchange.stream.confidence


def _finding(tables: Tables, party: str, stalls: list[_Stall], streamed: int) -> Finding:
    by_length = sorted(stalls, key=lambda stall: (-stall.length_ns, stall.from_ns))
    of_exchange: dict[int, list[_Stall]] = {}
    for stall in stalls:
        of_exchange.setdefault(stall.exchange.exchange_no, []).append(stall)
    connections = sorted({stall.exchange.connection_no for stall in stalls})
    one = tables.connections[stalls[0].exchange.connection_no]
    cost_ns = sum(stall.cost_ns for stall in stalls)
    known = party != "unknown" and cost_ns > 0
    lengths = [stall.length_ns for stall in by_length]
    weight = sum(lengths)
    confidence = sum(s.split.confidence[party] * s.length_ns for s in stalls) / weight
    confidence *= min(_trust(stall.exchange) for stall in stalls)
    return Finding(
        detector="llm/stream-stall",
        severity=worst(
            by_default(sum(stall.cost_ns for stall in mine), _length_ns(mine[0].exchange))
            for mine in of_exchange.values()
        )
        if party != "unknown"
        else "info",
        confidence=round(min(confidence, 1.0), 2),
        summary=_summary(label(one), party, lengths, of_exchange),
        advice=_advice(label(one), party, by_length),
        action=_action(label(one), party, stalls),
        connection_no=connections[0] if len(connections) == 1 else None,
        connection_nos=connections,
        exchange_nos=list(of_exchange),
        from_ns=min(stall.from_ns for stall in stalls),
        to_ns=max(stall.to_ns for stall in stalls),
        count=len(stalls),
        cost_ns=cost_ns if known else 0 if party == "unknown" else None,
        estimated_saving_ns=None if known or party == "unknown" else _beyond_pace(stalls),
        measures={
            "blamed": party,
            "answers_streamed": streamed,
            "answers_stalled": len(of_exchange),
            "stall_max_ns": lengths[0],
            "stall_total_ns": sum(lengths),
            "usual_gap_ns": _usual_ns(stalls),
            **_parts(stalls),
        },
        examples=[
            Example(stall.evidence(), stall.cost_ns or None, stall.exchange.exchange_no)
            for stall in by_length[:MAX_EXAMPLES]
        ],
        packet_nos=[no for stall in by_length[:MAX_PACKET_NOS] for no in stall.evidence()],
        packet_total=len({no for stall in stalls for no in stall.evidence()}),
        ledger_rows=[row for stall in stalls for row in stall.split.rows[party]] if known else [],
    )


def _length_ns(exchange: Exchange) -> int:
    end = exchange.last_ns if exchange.end_ns is None else exchange.end_ns
    return end - exchange.start_ns


def _usual_ns(stalls: list[_Stall]) -> int:
    """The pace of the answer that stalled longest."""
    longest = max(stalls, key=lambda stall: stall.length_ns)
    stream = longest.exchange.stream
    return 0 if stream is None or stream.cadence_ns is None else stream.cadence_ns


def _beyond_pace(stalls: list[_Stall]) -> int:
    return max(sum(stall.length_ns for stall in stalls) - len(stalls) * _usual_ns(stalls), 0)


def _parts(stalls: list[_Stall]) -> dict[str, int]:
    """What each cause took of all stalls together, most first."""
    sums: dict[str, int] = {}
    for stall in stalls:
        for cause, ns in stall.split.causes.items():
            sums[cause] = sums.get(cause, 0) + ns
    return {f"{cause}_ns": ns for cause, ns in sorted(sums.items(), key=lambda row: -row[1])}


def _summary(
    server: str, party: str, lengths: list[int], of_exchange: dict[int, list[_Stall]]
) -> str:
    answers = len(of_exchange)
    if answers == 1:
        who = f"A streamed answer of {server}"
    else:
        who = f"{upper_first(wording.count_word(answers))} streamed answers of {server}"
    span = amounts(lengths[-1], lengths[0])
    if len(lengths) == answers:
        pauses = f"paused {span}"
    else:
        pauses = f"paused {wording.count_word(len(lengths))} times, for {span}"
    return f"{who} {pauses}; {_WHY[party].format(it='it' if answers == 1 else 'them')}."


def _advice(server: str, party: str, by_length: list[_Stall]) -> str:
    longest = by_length[0]
    where = (
        f"The longest pause, {amount(longest.length_ns)}, began at "
        f"{wording.instant(longest.from_ns)} behind chunk {longest.chunk} of exchange "
        f"{longest.exchange.exchange_no}."
    )
    if party == "server":
        return (
            f"Ask whoever runs the model behind {server} what stopped it then: nothing was lost, "
            "and nothing that the capture shows held the next part back. Look at its scheduler "
            "(preempted requests, a full key-value cache), garbage collections, tool calls and "
            f"rate limits. {where}"
        )
    if party == "unknown":
        return f"Capture again without gaps, at the client or at the server. {where}"
    reasons = {
        "loss": "the finding about lost or overtaken segments says where to look",
        "other_stream": "TCP hands on no byte behind a lost one, of whatever stream",
        "record": "the server should write smaller TLS records",
        "window": "the side that receives should offer a larger window, or read sooner",
        "nagle": "the sender should set TCP_NODELAY",
        "proxy": "buffering of this answer should be turned off in the intermediary",
        "network": "look at the path for queues and outages",
    }
    return f"Not the model's: {reasons[party]}. {where}"


def _action(server: str, party: str, stalls: list[_Stall]) -> str:
    if party == "server":
        chunks = sorted({stall.chunk for stall in stalls})
        where = f"after chunk {listed([str(chunk) for chunk in chunks])}"
        if len(chunks) > 2:
            where = "in the middle of answers"
        return f"Ask the model’s owner at {server} why it pauses {where}"
    if party in ("loss", "other_stream"):
        return f"Find where segments from {server} are lost"
    actions = {
        "record": f"Let {server} write smaller TLS records",
        "window": f"Find why answers of {server} were not read in time",
        "nagle": f"Set TCP_NODELAY at {server}",
        "proxy": f"Turn off buffering in front of {server}",
        "network": f"Find what delays segments from {server}",
    }
    return actions.get(party, "")
