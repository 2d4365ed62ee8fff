"""Requests were sent on connections that were no longer there.

What it detects:
    A request on a connection that had been idle for at least a second and was then reset
    before the server had acknowledged any of it; or that the server's side never answered by a
    single packet, while the same client got an answer on another connection: a NAT gateway,
    firewall, balancer or the server itself had dropped the idle connection. The time until the
    request was sent again is lost.

    All of one server are one finding.

Why it matters:
    A reset costs the round trips of a new connection, and fails the request where the client
    may not repeat it (POST). Silence costs seconds to minutes: the client's TCP repeats the
    request until the program gives up. Either comes at random, on the first request behind a
    quiet time.

What to do:
    Let the client close idle connections before others forget them: set its pool's idle limit
    below the shortest limit on the way (balancers and gateways often 60 to 350 s, NAT gateways
    less; server programs from 5 s), or send TCP keep-alives more often than that. Where you run
    the balancer: let it reset what it forgets, and keep the server's limit above the balancer's.

When it is wrong:
    A server that was restarted, or has crashed, resets connections that were idle too. Where the
    request was not read (no keys), what follows on another connection may be another request.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from capture_analyzer import wording
from capture_analyzer.detectors.contract import Meta
from capture_analyzer.detectors.phrases import amount, amounts, upper_first
from capture_analyzer.detectors.pools import Pooled, end_of, pools, switched
from capture_analyzer.detectors.servers import Server, label
from capture_analyzer.detectors.severity import by_default, worst
from capture_analyzer.model.analysis import Tables
from capture_analyzer.model.column import NO_TIME, column
from capture_analyzer.model.exchanges import Exchange, ExchangeRows
from capture_analyzer.model.findings import (
    MAX_EXAMPLES,
    MAX_PACKET_NOS,
    Example,
    Finding,
    Severity,
)
from capture_analyzer.model.packets import ACK, FIN, RST, Packets
from capture_analyzer.model.quick_dataclass import quick_dataclass

SAME_REQUEST: Final = 0.95  # the request was seen to be repeated
OTHER_REQUEST: Final = 0.7  # another one followed, or what follows could not be read
NO_REQUEST: Final = 0.6  # none followed: a server that had crashed looks the same

_MOST_REQUESTS: Final = 1000
"""Later requests to the same server that are looked at for the repeat: a client that sends more
in the meantime is not waiting for it."""


@quick_dataclass(frozen=True)
class Options:
    """Thresholds of this detector."""

    idle_ms: int = column(
        "Least time without a packet of the server before the request, save a FIN.",
        unit="ms",
        default=1000,
    )
    retry_s: int = column(
        "Longest time from the failure to the request on another connection.", unit="s", default=3
    )


META = Meta(
    tables=("exchanges",),
    options=Options,
    severity=(
        "critical: the request was not repeated, or the lost time is at least half of it and "
        "500 ms; warning: at least 10 % and 20 ms of it; info: less"
    ),
    references=(
        "RFC 9112, section 9.3 (a request on a connection that is being closed)",
        "RFC 5382, section 5 (idle limits of NATs)",
        "RFC 9293, section 3.5.3 (a segment to a connection that is not there)",
    ),
)


@quick_dataclass
class _Stale:
    """A request on a dead connection.

    Attributes:
        exchange: the request.
        idle_ns: how long the server had been silent before it.
        reset_no: the reset; 0 = there was only silence.
        failed_ns: the reset, or the last packet of the client on that connection.
        retry: the request on another connection; None = none followed.
        same: that is known to be the same request.
    """

    exchange: Exchange
    idle_ns: int
    reset_no: int
    failed_ns: int
    retry: Exchange | None = None
    same: bool = False

    @property
    def lost_ns(self) -> int:
        """From the request to its repeat, or to the failure."""
        begin = self.exchange.request_start_ns
        return (self.failed_ns if self.retry is None else self.retry.request_start_ns) - begin

    @property
    def severity(self) -> Severity:
        """By the default rule, for the request and its repeat together."""
        if self.retry is None:
            return "critical"
        end = self.retry.last_ns if self.retry.end_ns is None else self.retry.end_ns
        return by_default(self.lost_ns, end - self.exchange.request_start_ns)

    @property
    def confidence(self) -> float:
        """0 to 1."""
        if self.retry is None:
            return NO_REQUEST
        return SAME_REQUEST if self.same else OTHER_REQUEST


def detect(tables: Tables, options: Options) -> Iterable[Finding]:
    """Yield a finding for each server."""
    columns = tables.exchanges.columns
    alone = columns.response_seen_ns == NO_TIME
    without_answer = set(columns.connection_no[alone].tolist())
    # Where it carries the set-up, its connection was not ready before.
    silent = set(columns.connection_no[alone & ~columns.carries_setup].tolist())
    unanswered: list[tuple[Pooled, Exchange, ExchangeRows]] = []
    for rows in pools(tables, among=silent).values() if silent else ():
        asked = [
            (row, exchange)
            for row in rows
            if row.connection.connection_no in without_answer
            and (exchange := _behind_idle_time(row, alone, options.idle_ms * 1_000_000)) is not None
        ]
        if asked:
            # By exchange_no, so by request_start_ns.
            numbers = sorted(number for row in rows for number in row.exchanges.numbers)
            every = ExchangeRows(tables.exchanges, numbers)
            unanswered += [(row, exchange, every) for row, exchange in asked]
    if not unanswered:
        return
    parts = _packets_of(tables.packets, [row.connection.connection_no for row, _, _ in unanswered])
    groups: dict[Server, list[_Stale]] = {}
    for row, exchange, every in unanswered:
        mine = parts[row.connection.connection_no]
        stale = _judge(tables.packets, mine, exchange, options.idle_ms * 1_000_000)
        if stale is None:
            continue
        _find_retry(stale, every, options.retry_s * 1_000_000_000)
        if stale.retry is None and not stale.reset_no:
            continue  # the server may have been away altogether
        key = (label(row.connection), row.connection.server_port)
        groups.setdefault(key, []).append(stale)
    for (server, _), group in groups.items():
        yield _finding(server, group)


def _behind_idle_time(pooled: Pooled, alone: NDArray[np.bool_], idle_ns: int) -> Exchange | None:
    """A request without any answer, on a connection that had been idle but was in use before.

    Args:
        pooled: the connection.
        alone: of all exchanges: it has no answer.
        idle_ns: how long it had been idle at least.
    """
    for place in np.flatnonzero(alone[pooled.exchanges.numbers]).tolist():
        if not place:
            continue
        before, exchange = pooled.exchanges[place - 1], pooled.exchanges[place]
        if switched(before):
            continue
        if exchange.request_start_ns - end_of(before) >= idle_ns and before.complete | (
            before.inferred
        ):
            return exchange
    first = pooled.exchanges[0]
    ready = pooled.connection.established_ns
    if first.response_seen_ns is None and ready is not None:
        tls = pooled.connection.tls
        ready = ready if tls is None or tls.end_ns is None else max(ready, tls.end_ns)
        if first.request_start_ns - ready >= idle_ns:
            return first
    return None


def _packets_of(packets: Packets, numbers: Sequence[int]) -> dict[int, NDArray[np.intp]]:
    """Rows of some connections' packets, in order."""
    rows = np.flatnonzero(np.isin(packets.connection_no, np.array(numbers, np.int32)))
    owner = packets.connection_no[rows]
    rows = rows[np.argsort(owner, kind="stable")]
    chosen, starts = np.unique(packets.connection_no[rows], return_index=True)
    return dict(zip(chosen.tolist(), np.split(rows, starts[1:]), strict=True))


def _judge(
    packets: Packets, mine: NDArray[np.intp], exchange: Exchange, idle_ns: int
) -> _Stale | None:
    """Whether the other side of a connection showed no sign of life at a request.

    Args:
        packets: the packets.
        mine: rows of the connection's packets.
        exchange: the request.
        idle_ns: least time that the server must have been silent.
    """
    if exchange.request_first_packet_no is None:
        return None
    request = exchange.request_first_packet_no - 1
    server = mine[packets.from_client[mine] == 0]
    reset = (packets.flags[server] & RST) != 0
    # A bare FIN in front of the request is an end, not a sign of life.
    closing = ((packets.flags[server] & FIN) != 0) & (packets.payload_bytes[server] == 0)
    spoke = server[~reset & ~closing & (server < request)]
    if not len(spoke):
        return None  # nothing shows that anyone was there, or this side was not captured
    silent = int(packets.time_ns[request]) - int(packets.time_ns[spoke[-1]])
    if silent < idle_ns:
        return None
    behind = server[~reset & (server > request)]
    # Does it acknowledge anything of the request? (Comparison modulo 2^32, RFC 9293, 3.4.)
    acks = behind[(packets.flags[behind] & ACK) != 0]
    if len(acks) and ((packets.ack[acks] - packets.seq[request]).view(np.int32) > 0).any():
        return None
    resets = server[reset & (server > request)]
    if len(resets):
        at = int(resets[0])
        return _Stale(exchange, silent, at + 1, int(packets.time_ns[at]))
    client = mine[packets.from_client[mine] == 1]
    last = int(client[-1])
    if len(behind) or int((packets.payload_bytes[client[client >= request]] > 0).sum()) < 2:
        return None  # a FIN says that it is there; and it must have been asked twice
    return _Stale(exchange, silent, 0, int(packets.time_ns[last]))


def _find_retry(stale: _Stale, every: Sequence[Exchange], patience_ns: int) -> None:
    """The client's next request on another connection to the same server."""
    began, until = stale.exchange.request_start_ns, stale.failed_ns + patience_ns
    first = bisect_right(every, began, key=_start)
    for exchange in every[first : first + _MOST_REQUESTS]:
        if exchange.start_ns > until:
            break
        if exchange.connection_no == stale.exchange.connection_no or exchange.start_ns < began:
            continue
        # What can be read must be the same; else the client opened a connection for it.
        same = _same_request(exchange, stale.exchange)
        if not (exchange.carries_setup if exchange.inferred else same):
            continue
        if stale.reset_no or exchange.response_seen_ns is not None:
            stale.retry, stale.same = exchange, same
            break


def _start(exchange: Exchange) -> int:
    return exchange.request_start_ns


def _same_request(one: Exchange, other: Exchange) -> bool:
    """Both were read, and ask for the same."""
    return (
        one.method is not None
        and (one.method, one.authority, one.path) == (other.method, other.authority, other.path)
        and one.request_bytes == other.request_bytes
    )


def _finding(server: str, group: Sequence[_Stale]) -> Finding:
    count = len(group)
    resets = sum(row.reset_no > 0 for row in group)
    by_cost = sorted(group, key=lambda row: (-row.lost_ns, row.exchange.exchange_no))
    failed = sum(row.retry is None for row in group)
    idle = sorted(row.idle_ns for row in group)
    evidence = [number for row in by_cost for number in _evidence(row)]
    connections = sorted({row.exchange.connection_no for row in group})
    hurt = [row.exchange.exchange_no for row in group]
    hurt += [row.retry.exchange_no for row in group if row.retry is not None]
    severity = worst(row.severity for row in group)
    return Finding(
        detector="http/stale-connection",
        severity=severity,
        confidence=round(sum(row.confidence for row in group) / count, 2),
        summary=_summary(server, by_cost, resets, failed, idle),
        advice=(
            f"Let the client close connections to {server} that were idle for {amount(idle[0])}, "
            "or send keep-alives more often: something on the way, or the server itself, forgets "
            "them sooner."
        ),
        action=(
            f"Let clients of {server} drop connections that are idle for {amount(idle[0])}"
            if severity != "info"
            else ""
        ),
        connection_no=connections[0] if len(connections) == 1 else None,
        connection_nos=connections,
        exchange_nos=hurt,
        from_ns=min(row.exchange.request_start_ns for row in group),
        to_ns=max(row.exchange.request_start_ns + row.lost_ns for row in group),
        count=count,
        estimated_saving_ns=sum(row.lost_ns for row in group),
        measures={
            "requests": count,
            "resets": resets,
            "unanswered": count - resets,
            "not_repeated": failed,
            "idle_min_ns": idle[0],
            "idle_max_ns": idle[-1],
        },
        examples=[
            Example(_evidence(row), row.lost_ns, row.exchange.exchange_no)
            for row in by_cost[:MAX_EXAMPLES]
        ],
        packet_nos=evidence[:MAX_PACKET_NOS],
        packet_total=len(set(evidence)),
    )


def _summary(
    server: str, by_cost: Sequence[_Stale], resets: int, failed: int, idle: Sequence[int]
) -> str:
    count = len(by_cost)
    many = upper_first(wording.count_word(count))
    subject = "A request" if count == 1 else f"{many} requests"
    where = "a connection" if count == 1 else "connections"
    verb = "was" if count == 1 else "were"
    fate = "met silence"
    if resets == count:
        fate = f"{verb} reset"
    elif resets:
        fate = "met a reset or silence"
    costs = [row.lost_ns for row in by_cost]
    end = f", which lost {amounts(costs[-1], costs[0])}"
    if failed == count:
        end = " and failed"
    elif failed:
        end += f"; {wording.count_word(failed)} {'was' if failed == 1 else 'were'} not repeated"
    return (
        f"{subject} to {server} on {where} that had been idle for {amounts(idle[0], idle[-1])} "
        f"{fate}{end}."
    )


def _evidence(row: _Stale) -> list[int]:
    """The request, the reset or its last packet, and the repeat."""
    numbers = [row.exchange.request_first_packet_no, row.reset_no]
    numbers.append(row.exchange.request_last_packet_no)
    if row.retry is not None:
        numbers.append(row.retry.request_first_packet_no)
    return [number for number in numbers if number]
