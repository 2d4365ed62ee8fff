"""A TLS handshake took longer than the network needs for it.

What it detects:
    Steps of handshakes that took more than the round trip plus 50 ms: the server's, from the
    ClientHello to the ServerHello or from there to the end of its flight (Certificate to
    Finished; up to TLS 1.2 also from the client's answer to its own Finished), or the client's,
    from the server's flight to its answer. The cost is the ledger's time on cause
    tls_handshake in that step beyond the round trip; where the ledger has no entry for that part
    alone, it is given as a saving. What a client waited for an OCSP responder is not in it,
    and steps in which a segment was repeated are left out.

    The slow steps of one side at one server are one finding.

Why it matters:
    Every new connection pays it before its first byte.

What to do:
    The server's step: look for load at what ends TLS, keys in a slow module (HSM, remote
    signer), large RSA keys, a fetch of OCSP responses or tickets before it answers. The
    client's: its check of the certificate (revocation lists, a slow trust store), or a client
    that is busy.

When it is wrong:
    A path that is slower than when the connection was opened looks like a slow side. Where the
    server asks for a client's certificate, a person may have had to choose one.

    In TLS 1.3 without keys the end of the server's flight is inferred from record lengths.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.detectors.about import about
from capture_analyzer.detectors.contract import Meta
from capture_analyzer.detectors.handshakes import Handshake, handshakes_of
from capture_analyzer.detectors.phrases import amount, time_range
from capture_analyzer.detectors.servers import Server, label, server_of
from capture_analyzer.detectors.setups import Carried, carried
from capture_analyzer.detectors.severity import by_default, worst
from capture_analyzer.model.analysis import Tables
from capture_analyzer.model.column import column, rows_equal
from capture_analyzer.model.findings import MAX_EXAMPLES, MAX_PACKET_NOS, Example, Finding
from capture_analyzer.model.packets import LABELS
from capture_analyzer.model.quick_dataclass import quick_dataclass

MS: Final = 1_000_000
_RETRANSMISSION: Final = LABELS.index("retransmission")


@quick_dataclass(frozen=True)
class Options:
    """Thresholds of this detector."""

    beyond_ms: int = column("Least time of a step beyond the round trip.", unit="ms", default=50)


META = Meta(
    tables=("handshake_messages",),
    options=Options,
    causes=("tls_handshake",),
    references=("RFC 8446, section 2 (protocol overview)", "RFC 5246, section 7.3"),
)


@quick_dataclass
class _Slow:
    """A step that took too long."""

    shake: Handshake
    side: str
    step: str
    from_ns: int
    to_ns: int
    beyond_ns: int
    carried: Carried | None
    packets: list[int]

    @property
    def rows(self) -> list[int]:
        """The ledger's entries that are all this step's time beyond the round trip."""
        if self.carried is None:
            return []
        begin = self.to_ns - self.beyond_ns
        return [
            row
            for row, (first, last) in zip(self.carried.rows, self.carried.spans, strict=True)
            if first >= begin and last <= self.to_ns
        ]

    @property
    def cost_ns(self) -> int:
        if self.carried is None:
            return 0
        return min(self.beyond_ns, self.carried.within(self.from_ns, self.to_ns))


def detect(tables: Tables, options: Options) -> Iterable[Finding]:
    """Yield a finding for each server and side."""
    least = options.beyond_ms * MS
    numbers = [
        connection.connection_no
        for connection in tables.connections
        if connection.tls is not None
        and connection.rtt_ns is not None
        and connection.tls.duration_ns is not None
        and connection.tls.duration_ns > connection.rtt_ns + least
    ]
    if not numbers:
        return
    setups = carried(tables, "tls_handshake", set(numbers))
    again = _repeats(tables)
    groups: dict[tuple[Server, str], list[_Slow]] = {}
    for shake in handshakes_of(tables, numbers):
        setup = setups.get(shake.connection.connection_no)
        for slow in _steps(shake, setup):
            if slow.beyond_ns <= least or _repeated(again, slow):
                continue
            if setup is not None and slow.cost_ns <= least:
                continue  # another cause took that time
            groups.setdefault((server_of(shake.connection), slow.side), []).append(slow)
    for group in groups.values():
        yield _finding(tables, group)


def _steps(shake: Handshake, setup: Carried | None) -> Iterable[_Slow]:
    rtt = shake.connection.rtt_ns or 0
    near = shake.connection.client_side_rtt_ns or 0
    rows: tuple[tuple[str, str, str, str, int], ...] = (
        ("server", "from ClientHello to ServerHello", "hello_ns", "server_hello_ns", rtt),
        ("server", "from ServerHello to its Finished", "server_hello_ns", "flight_ns", rtt),
        ("client", "from the server's flight to its own", "flight_ns", "client_ns", near),
    )
    tls = shake.connection.tls
    if tls is not None and tls.version != "TLS 1.3" and not shake.answer_is_data:
        step = "from the client's flight to its Finished"
        rows = (*rows, ("server", step, "client_done_ns", "answer_ns", rtt))
    names = {"hello_ns": "hello", "server_hello_ns": "server_hello", "flight_ns": "flight"}
    names |= {"client_ns": "client", "client_done_ns": "client_done", "answer_ns": "answer"}
    for side, step, first, last, allowed in rows:
        begin, end = getattr(shake, first), getattr(shake, last)
        if begin is None or end is None:
            continue
        packets = [
            shake.packets[names[name]] for name in (first, last) if names[name] in shake.packets
        ]
        yield _Slow(shake, side, step, begin, end, end - begin - allowed, setup, packets)


def _repeats(tables: Tables) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Connection and time of each segment that was sent again, by connection."""
    packets = tables.packets
    rows = np.flatnonzero(packets.label == _RETRANSMISSION)
    rows = rows[np.argsort(packets.connection_no[rows], kind="stable")]
    return packets.connection_no[rows], packets.time_ns[rows]


def _repeated(again: tuple[NDArray[np.int32], NDArray[np.int64]], slow: _Slow) -> bool:
    """Whether one of the segments sent `again` falls into a step: then the network was slow."""
    connection_no, time_ns = again
    times = time_ns[rows_equal(connection_no, slow.shake.connection.connection_no)]
    return bool(((times >= slow.from_ns) & (times <= slow.to_ns)).any())


def _finding(tables: Tables, group: list[_Slow]) -> Finding:
    by_length = sorted(
        group, key=lambda slow: (-slow.beyond_ns, slow.shake.connection.connection_no)
    )
    worst_one = by_length[0]
    connections = list(
        {s.shake.connection.connection_no: s.shake.connection for s in group}.values()
    )
    server = label(worst_one.shake.connection)
    waited = [slow for slow in group if slow.carried is not None]
    beyond = [slow.beyond_ns for slow in by_length]
    who = server if worst_one.side == "server" else f"The client of {server}"
    columns = about(tables, connections)
    columns |= {
        "exchange_nos": [s.carried.exchange.exchange_no for s in waited if s.carried],
        "from_ns": min(slow.from_ns for slow in group),
        "to_ns": max(slow.to_ns for slow in group),
        "count": len(group),
    }
    evidence = [number for slow in by_length for number in slow.packets]
    inferred = any(not _certain(slow) for slow in group)
    rows = sorted({row for slow in waited for row in slow.rows})
    saving = sum(slow.cost_ns for slow in waited)
    ledger = tables.ledger
    booked = int((ledger.to_ns[rows] - ledger.from_ns[rows]).sum()) if rows else 0
    costs = bool(waited) and booked == saving
    return Finding(
        detector="tls/slow-handshake",
        severity=worst(
            by_default(slow.cost_ns, slow.carried.length_ns) for slow in waited if slow.carried
        ),
        confidence=0.8 if inferred else 0.95,
        summary=(
            f"{who} took {time_range(beyond[-1], beyond[0])} longer than the round trip in its "
            f"TLS handshake, {worst_one.step}."
        ),
        advice=_advice(worst_one, server),
        action=f"Find why {who[:1].lower() + who[1:] if who != server else who} is slow "
        "to shake hands",
        **columns,
        cost_ns=booked if costs else None,
        ledger_rows=rows if costs else [],
        estimated_saving_ns=saving if waited and not costs else None,
        measures={
            "side": worst_one.side,
            "step": worst_one.step,
            "step_max_ns": worst_one.to_ns - worst_one.from_ns,
            "rtt_ns": worst_one.shake.connection.rtt_ns,
            "handshakes": len(connections),
        },
        examples=[Example(slow.packets, slow.cost_ns or None) for slow in by_length[:MAX_EXAMPLES]],
        packet_nos=evidence[:MAX_PACKET_NOS],
        packet_total=len(set(evidence)),
    )


def _certain(slow: _Slow) -> bool:
    tls = slow.shake.connection.tls
    if tls is None or slow.step.endswith("ServerHello"):
        return True
    return tls.version != "TLS 1.3" or tls.end_certain


def _advice(slow: _Slow, server: str) -> str:
    if slow.side == "client":
        return (
            f"Find out what the client of {server} does with the certificate: "
            f"{amount(slow.beyond_ns)} went by before it answered."
        )
    return (
        f"Ask whoever ends TLS for {server} what it did for {amount(slow.beyond_ns)} "
        f"{slow.step}: load, a remote key, a fetch of its own."
    )
