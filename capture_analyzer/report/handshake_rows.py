"""TLS handshakes as rows of a report's data: their steps, and whom each was waited for.

From the ClientHello to the first byte of application data. Messages that could be read are steps by
their names; where they are encrypted, the records that carry them are, by what they can hold. The
time from step to step is split into the round trip that the network needs and what a side took
beyond it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.analysis import Tables
from capture_analyzer.model.column import NO_TIME
from capture_analyzer.model.connections import Connection, TlsSummary
from capture_analyzer.model.packets import LABELS
from capture_analyzer.model.quick_dataclass import quick_dataclass
from capture_analyzer.model.tls_records import ROLE_CODE, HandshakeMessage
from capture_analyzer.report.strings import StringTable

MAX_RECORDS: Final = 64
"""Records of a direction among which the handshake is looked for: it has about ten."""

MAX_SHAKES: Final = 2_000
"""Handshakes in a report, the longest: each takes some 300 bytes."""

INITIAL_WINDOW: Final = 10  # segments (RFC 6928)
_DEFAULT_MSS: Final = 1460
_TIMESTAMPS_BYTES: Final = 12  # the option in each segment (RFC 7323)
_SECOND_PART: Final = 0.7  # a flight that took so much of a round trip waited for an ACK

_TLS13: Final = "TLS 1.3"
_HANDSHAKE: Final = ROLE_CODE["handshake"]
_CHANGE: Final = ROLE_CODE["change_cipher_spec"]
_DATA: Final = (ROLE_CODE["application"], ROLE_CODE["early_data"])
_ENCRYPTED_FLIGHT: Final = "EncryptedExtensions to Finished"
_AFTERWARDS: Final = ("new_session_ticket", "key_update")


@quick_dataclass
class Step:
    """A message, or records that hold some; `network_ns` to `unknown_ns` tell of the time before.

    Attributes:
        name: as in the RFC.
        from_client: whose it is.
        time_ns: its first byte seen.
        size: bytes of the message, or of the records' fragments.
        first_packet_no: packet with its first byte.
        last_packet_no: packet that completed it.
        certain: it was read; else inferred.
        data: it is application data, behind the handshake or, early, in it.
        network_ns: of the time since the step before, the round trip's part.
        own_ns: what the sender of this step took beyond it.
        unknown_ns: the time, where it can't be split.
    """

    name: str
    from_client: bool
    time_ns: int
    size: int
    first_packet_no: int
    last_packet_no: int
    certain: bool = True
    data: bool = False
    network_ns: int = 0
    own_ns: int = 0
    unknown_ns: int = 0


@quick_dataclass
class Shake:
    """The handshake of a connection.

    Attributes:
        steps: by time.
        round_trips: how often the client had to wait for the server.
        flight_bytes: of the server's flight, ServerHello to its last message; 0 = not known.
        window_bytes: what fits into ten segments.
        second_part: the flight did not fit, and its rest came a round trip later.
    """

    steps: list[Step]
    round_trips: int
    flight_bytes: int
    window_bytes: int
    second_part: bool

    def sums(self) -> tuple[int, int, int, int]:
        """(network, server, client, not known) of the time up to the end of the handshake."""
        network = server = client = unknown = 0
        for step in self.steps:
            if step.data:
                continue
            network += step.network_ns
            unknown += step.unknown_ns
            if step.from_client:
                client += step.own_ns
            else:
                server += step.own_ns
        return network, server, client, unknown


def rows(tables: Tables, unit: int, strings: StringTable) -> list[list[Any]]:
    """Handshakes by connection, as `handshake.js` reads them."""
    return [
        [
            number,
            shake.round_trips,
            shake.flight_bytes,
            shake.window_bytes,
            int(shake.second_part),
            *(ns // unit for ns in shake.sums()),
            [
                [
                    strings.number(step.name),
                    int(step.from_client) | int(step.certain) << 1 | int(step.data) << 2,
                    step.time_ns // unit,
                    step.size,
                    step.first_packet_no,
                    step.last_packet_no - step.first_packet_no,
                    step.network_ns // unit,
                    step.own_ns // unit,
                    step.unknown_ns // unit,
                ]
                for step in shake.steps
            ],
        ]
        for number, shake in handshakes(tables, MAX_SHAKES)
    ]


def handshakes(tables: Tables, most: int | None = None) -> Iterable[tuple[int, Shake]]:
    """(connection_no, handshake) of each connection of which at least two steps are known.

    Args:
        tables: the facts.
        most: of so many at most, the longest ones.
    """
    chosen = [row for row in tables.connections if row.tls is not None]
    if most is not None and len(chosen) > most:
        chosen.sort(key=_longest)
        chosen = sorted(chosen[:most], key=_number)
    messages: dict[int, list[HandshakeMessage]] = {}
    for message in tables.handshakes_of(row.connection_no for row in chosen):
        messages.setdefault(message.connection_no, []).append(message)
    records = _Records(tables)
    again = _sent_again(tables)
    for connection in chosen:
        tls, number = connection.tls, connection.connection_no
        assert tls is not None
        read = _read(messages.get(number, ()), tls)
        sides = [records.of(number, from_client=side) for side in (True, False)]
        steps = read
        for side in sides:
            steps += _inferred(side, tls, read)
        first = _first_data(sides)
        if first is not None:
            steps = [*steps, first]
        steps.sort(key=_in_order)
        if len(steps) < 2:
            continue
        shake = _shake(connection, steps, sides[1])
        _split(connection, shake, again.get(number, ()))
        yield number, shake


def _longest(connection: Connection) -> tuple[int, int]:
    tls = connection.tls
    took = 0 if tls is None or tls.duration_ns is None else tls.duration_ns
    return -took, connection.connection_no


def _number(connection: Connection) -> int:
    return connection.connection_no


def _in_order(step: Step) -> tuple[int, int]:
    return step.time_ns, step.first_packet_no


def _read(messages: Iterable[HandshakeMessage], tls: TlsSummary) -> list[Step]:
    """Steps of the messages that are part of the first handshake."""
    steps: list[Step] = []
    finished: set[bool] = set()
    for message in messages:
        if message.from_client in finished:
            continue
        if message.type == "finished":
            finished.add(message.from_client)
        elif tls.version == _TLS13:
            if message.type in _AFTERWARDS:
                continue
        elif tls.end_ns is not None and message.seen_ns > tls.end_ns:
            continue
        steps.append(_step(message))
    return steps


def _step(message: HandshakeMessage) -> Step:
    return Step(
        "".join(word.capitalize() for word in message.type.split("_")),
        message.from_client,
        message.seen_ns,
        message.length,
        message.first_packet_no,
        message.last_packet_no,
    )


@quick_dataclass
class _Side:
    """The first records of a direction."""

    from_client: bool
    role: list[int]
    length: list[int]
    offset: list[int]
    seen_ns: list[int]
    complete_ns: list[int]
    first: list[int]
    last: list[int]
    inferred: list[bool]


class _Records:
    """The table of records, to take the first ones of a direction from it."""

    def __init__(self, tables: Tables) -> None:
        self._table = records = tables.tls_records
        count = len(tables.connections)
        keys = records.connection_no.astype(np.int64) * 2 + ~records.from_client
        self._bounds: list[int] = np.searchsorted(keys, np.arange(2 * count + 1)).tolist()

    def of(self, number: int, *, from_client: bool) -> _Side:
        begin, end = self._bounds[2 * number + (not from_client) :][:2]
        part = slice(begin, min(end, begin + MAX_RECORDS))
        table = self._table
        return _Side(
            from_client,
            table.role[part].tolist(),
            table.length[part].tolist(),
            table.offset[part].tolist(),
            table.seen_ns[part].tolist(),
            table.complete_ns[part].tolist(),
            table.first_packet_no[part].tolist(),
            table.last_packet_no[part].tolist(),
            table.role_inferred[part].tolist(),
        )


def _inferred(side: _Side, tls: TlsSummary, read: list[Step]) -> list[Step]:
    """Steps of encrypted handshake records, where the messages in them were not read."""
    mine = [step for step in read if step.from_client == side.from_client]
    if any(step.name == "Finished" for step in mine):
        return []
    if tls.version == _TLS13:
        chosen = [
            index
            for index, role in enumerate(side.role)
            if role == _HANDSHAKE and side.inferred[index]
        ]
        name = "Finished" if side.from_client else _ENCRYPTED_FLIGHT
    else:
        change = side.role.index(_CHANGE) if _CHANGE in side.role else len(side.role)
        chosen = [
            index for index in range(change, len(side.role)) if side.role[index] == _HANDSHAKE
        ][:1]
        name = "Finished"
    if not chosen:
        return []
    first, last = chosen[0], chosen[-1]
    return [
        Step(
            name,
            side.from_client,
            side.seen_ns[first],
            sum(side.length[index] for index in chosen),
            side.first[first],
            side.last[last],
            certain=tls.version != _TLS13,
        )
    ]


def _first_data(sides: list[_Side]) -> Step | None:
    """The first application data of either side; early data among them."""
    found: Step | None = None
    for side in sides:
        for index, role in enumerate(side.role):
            if role in _DATA:
                step = Step(
                    "early data" if role == ROLE_CODE["early_data"] else "application data",
                    side.from_client,
                    side.seen_ns[index],
                    side.length[index],
                    side.first[index],
                    side.last[index],
                    not side.inferred[index],
                    data=True,
                )
                if found is None or _in_order(step) < _in_order(found):
                    found = step
                break
    return found


def _shake(connection: Connection, steps: list[Step], server: _Side) -> Shake:
    trips, before = 0, None
    for step in steps:
        if step.data:
            continue
        trips += before is True and not step.from_client
        before = step.from_client
    known = [mss for mss in (connection.mss_client, connection.mss_server) if mss]
    window = INITIAL_WINDOW * (min(known, default=_DEFAULT_MSS) - _TIMESTAMPS_BYTES)
    # The flight begins with the ServerHello and ends where the client goes on.
    hello = next((step.time_ns for step in steps if step.name == "ServerHello"), None)
    turn = next(
        (s.time_ns for s in steps if hello is not None and s.from_client and s.time_ns > hello),
        None,
    )
    flight = [
        index
        for index, role in enumerate(server.role)
        if role == _HANDSHAKE
        and hello is not None
        and server.seen_ns[index] >= hello
        and (turn is None or server.seen_ns[index] < turn)
    ]
    size, took = 0, 0
    if flight:
        first, last = flight[0], flight[-1]
        size = server.offset[last] + server.length[last] + 5 - server.offset[first]
        complete = server.complete_ns[last]
        took = 0 if complete == NO_TIME else complete - server.seen_ns[first]
    rtt = connection.rtt_ns
    second = rtt is not None and size > window and took >= _SECOND_PART * rtt
    return Shake(steps, trips + second, size, window, second)


def _sent_again(tables: Tables) -> dict[int, list[int]]:
    """For each connection when segments were sent again."""
    packets = tables.packets
    found: NDArray[np.int64] = np.flatnonzero(packets.label == LABELS.index("retransmission"))
    times: dict[int, list[int]] = {}
    for number, time_ns in zip(
        packets.connection_no[found].tolist(), packets.time_ns[found].tolist(), strict=True
    ):
        times.setdefault(number, []).append(time_ns)
    return times


def _split(connection: Connection, shake: Shake, again: Iterable[int]) -> None:
    """Split the time in front of each step."""
    far = connection.server_side_rtt_ns
    near = connection.client_side_rtt_ns
    if far is None:
        far = connection.rtt_ns
    waited = shake.second_part  # the round trip inside the server's flight is still to come
    before = shake.steps[0]
    for step in shake.steps[1:]:
        gap = step.time_ns - before.time_ns
        if far is None or any(before.time_ns < time_ns <= step.time_ns for time_ns in again):
            step.unknown_ns = gap
        else:
            if step.from_client != before.from_client:
                network = (near or 0) if step.from_client else far
            elif waited and not step.from_client and gap >= _SECOND_PART * far:
                network, waited = far, False
            else:
                network = 0
            step.network_ns = min(gap, network)
            step.own_ns = gap - step.network_ns
        before = step
