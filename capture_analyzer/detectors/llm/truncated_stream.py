"""A streamed answer ended before its end.

What it detects:
    Streamed answers that the server's side cut off: by a reset, by closing the connection in
    front of the end of the content, or by ending the content properly but without the end
    marker that its API closes every answer with ([DONE], message_stop, response.completed).

    Silent where the capture ends first or lacks bytes of the connection, where the client
    gave up, where the stream said that it failed, and for servers whose API has no marker.

Why it matters:
    The client shows half an answer, often without any error: the status was 200.

What to do:
    Look at what stands between: time-outs of proxies and load balancers (their idle and their
    total time), a deployment that ended the process, a crash of the worker. The time at which
    the answer broke off tells a time-out, if it is a round number of seconds after the
    request or after the last event.

When it is wrong:
    Servers that speak a known API and leave the marker away do so on every answer.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np

from capture_analyzer import wording
from capture_analyzer.detectors.contract import Meta
from capture_analyzer.detectors.phrases import amount, listed, upper_first
from capture_analyzer.detectors.servers import Server, label, server_of
from capture_analyzer.detectors.severity import worst
from capture_analyzer.model.analysis import Tables
from capture_analyzer.model.events import EVENT_KIND_CODE
from capture_analyzer.model.exchanges import Exchange
from capture_analyzer.model.findings import MAX_EXAMPLES, MAX_PACKET_NOS, Example, Finding, Severity
from capture_analyzer.model.quick_dataclass import quick_dataclass

META = Meta(
    tables=("exchanges",),
    severity=(
        "critical: the answer was cut off; info: the API gave a reason for its end, and only the "
        "marker is missing"
    ),
    references=(
        "RFC 9112, section 8 (incomplete messages)",
        "RFC 9113, section 5.4.2 (stream errors)",
    ),
)

_CONTENT: Final = EVENT_KIND_CODE["content"]
_ERROR: Final = EVENT_KIND_CODE["error"]

_HOW: Final = {
    "reset": "the server reset it",
    "closed": "the server closed the connection",
    "unmarked": "its content ended without the end marker",
}

_WERE: Final = {
    "reset": "by a reset",
    "closed": "with the connection",
    "unmarked": "without the end marker",
}


@quick_dataclass
class _Cut:
    """An answer that was cut off: how, after how many events with content."""

    exchange: Exchange
    how: str
    chunks: int
    last_ns: int  # of its last event
    packet_nos: list[int]

    @property
    def severity(self) -> Severity:
        stream = self.exchange.stream
        whole = self.how == "unmarked" and stream is not None and stream.finish is not None
        return "info" if whole else "critical"


def detect(tables: Tables, options: object) -> Iterable[Finding]:
    """Yield a finding for each server and severity."""
    groups: dict[tuple[Server, Severity], list[_Cut]] = {}
    streamed: dict[Server, int] = {}
    given_up: set[tuple[int, int | None]] | None = None
    for number in sorted(tables.exchanges.streams):
        if tables.exchanges.streams[number].inferred:
            continue  # how an encrypted answer ended can't be seen
        exchange = tables.exchanges[number]
        server = server_of(tables.connections[exchange.connection_no])
        streamed[server] = streamed.get(server, 0) + 1
        if given_up is None:
            given_up = _resets_by_client(tables)
        how = _how(tables, exchange, given_up)
        if how is None:
            continue
        cut = _look_at(tables, exchange, how)
        if cut is not None:
            groups.setdefault((server, cut.severity), []).append(cut)
    for (server, _), group in groups.items():
        yield _finding(tables, group, streamed[server])


def _resets_by_client(tables: Tables) -> set[tuple[int, int | None]]:
    """(connection, stream) of the HTTP/2 requests that their client took back."""
    return {
        (message.connection_no, message.stream_id)
        for message in tables.messages
        if message.from_client and message.reset_code is not None
    }


def _how(tables: Tables, exchange: Exchange, given_up: set[tuple[int, int | None]]) -> str | None:
    """How an answer was cut off; None if it was not, or that can't be told."""
    stream, connection = exchange.stream, tables.connections[exchange.connection_no]
    if stream is None or stream.ended or stream.undecoded:
        return None
    if exchange.missing_bytes or connection.missing_bytes or exchange.end_ns is None:
        return None
    if exchange.reset:
        by_client = (exchange.connection_no, exchange.stream_id) in given_up or (
            exchange.stream_id is None and connection.reset_by == "client"
        )
        return None if by_client else "reset"
    if not exchange.complete:
        return "closed"
    return "unmarked" if stream.marker_known else None


def _look_at(tables: Tables, exchange: Exchange, how: str) -> _Cut | None:
    """What came of the answer; None if it had no event, or said itself that it failed."""
    events = tables.events
    rows = events.rows_of(exchange.exchange_no)
    kinds = events.kind[rows]
    if not len(kinds) or (kinds == _ERROR).any():
        return None
    last = rows.stop - 1
    numbers = [
        exchange.request_first_packet_no,
        int(events.packet_no[last]),
        exchange.response_last_packet_no,
    ]
    if how == "reset" and exchange.stream_id is None:
        numbers.append(tables.connections[exchange.connection_no].last_packet_no)
    return _Cut(
        exchange,
        how,
        int(np.count_nonzero(kinds == _CONTENT)),
        int(events.time_ns[last]),
        [number for number in dict.fromkeys(numbers) if number],
    )


def _finding(tables: Tables, group: list[_Cut], streamed: int) -> Finding:
    connections = sorted({cut.exchange.connection_no for cut in group})
    one = tables.connections[group[0].exchange.connection_no]
    severity = worst(cut.severity for cut in group)
    return Finding(
        detector="llm/truncated-stream",
        severity=severity,
        confidence=1.0,
        summary=_summary(label(one), group, severity),
        advice=_advice(label(one), group, severity),
        action=f"Find what cuts off answers of {label(one)}" if severity == "critical" else "",
        connection_no=connections[0] if len(connections) == 1 else None,
        connection_nos=connections,
        exchange_nos=[cut.exchange.exchange_no for cut in group],
        from_ns=min(cut.last_ns for cut in group),
        to_ns=max(_end_ns(cut) for cut in group),
        count=len(group),
        measures={
            "answers_streamed": streamed,
            "answers_cut": len(group),
            "reset": sum(cut.how == "reset" for cut in group),
            "closed": sum(cut.how == "closed" for cut in group),
            "unmarked": sum(cut.how == "unmarked" for cut in group),
            "after_min_ns": min(_after_ns(cut) for cut in group),
            "after_max_ns": max(_after_ns(cut) for cut in group),
            "silence_max_ns": max(_end_ns(cut) - cut.last_ns for cut in group),
        },
        examples=[
            Example(cut.packet_nos, None, cut.exchange.exchange_no) for cut in group[:MAX_EXAMPLES]
        ],
        packet_nos=[no for cut in group[:MAX_PACKET_NOS] for no in cut.packet_nos],
        packet_total=len({no for cut in group for no in cut.packet_nos}),
    )


def _end_ns(cut: _Cut) -> int:
    return cut.last_ns if cut.exchange.end_ns is None else max(cut.exchange.end_ns, cut.last_ns)


def _after_ns(cut: _Cut) -> int:
    """From the request to the end."""
    return _end_ns(cut) - cut.exchange.request_start_ns


def _summary(server: str, group: list[_Cut], severity: Severity) -> str:
    if severity == "info":
        number = "An answer" if len(group) == 1 else f"{_count(group)} answers"
        return f"{number} of {server} ended without the end marker of its API."
    if len(group) == 1:
        cut = group[0]
        chunks = wording.count(cut.chunks, "chunk")
        return f"A streamed answer of {server} broke off after {chunks}: {_HOW[cut.how]}."
    hows = [
        f"{wording.count_word(count)} {_WERE[how]}"
        for how in _HOW
        if (count := sum(cut.how == how for cut in group))
    ]
    return f"{_count(group)} streamed answers of {server} broke off: {listed(hows)}."


def _count(group: list[_Cut]) -> str:
    return upper_first(wording.count_word(len(group)))


def _advice(server: str, group: list[_Cut], severity: Severity) -> str:
    if severity == "info":
        return (
            "The answer itself was whole. Clients that wait for the marker may report an error: "
            f"ask whoever runs {server} whether it is left away on purpose."
        )
    cut = group[0]
    return (
        f"Ask whoever runs {server}, and what stands in front of it, what ended the answer of "
        f"exchange {cut.exchange.exchange_no} at {wording.instant(_end_ns(cut))}, "
        f"{amount(_after_ns(cut))} after its request: a time-out of a proxy or load balancer, a "
        "deployment, a crash. Its status was 200, so only the missing end tells."
    )
