"""The shapes, by name: functions from a size to packets.

A shape's size counts what it is long in (see its first line), so that its cost can be compared
at several sizes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np

from capture_shapes.columns import ACK, CLIENT, FIN, RST, SERVER, SYN, UDP, Packets, write
from capture_shapes.streams import ISN_CLIENT, ISN_SERVER, conversation, handshake

_BLOCK = 100_000
_REQUEST = b"GET /%d HTTP/1.1\r\nHost: shop.example\r\n\r\n"
_ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@dataclasses.dataclass(frozen=True)
class Shape:
    """A kind of capture.

    Attributes:
        make: the packets for a size.
        size: the usual size.
    """

    make: Callable[[int], Iterable[Packets]]
    size: int

    @property
    def what(self) -> str:
        """What its size counts, and what is in it."""
        return (self.make.__doc__ or "").splitlines()[0].rstrip(".")

    def write(self, target: Path, size: int) -> int:
        """Write a pcap file of a size; returns the number of packets."""
        return write(target, self.make(size))


def _blocks(count: int, size: int = _BLOCK) -> Iterator[np.ndarray]:
    for first in range(0, count, size):
        yield np.arange(first, min(first + size, count))


# --- one connection -----------------------------------------------------------------------


def _one_connection(size: int) -> Iterator[Packets]:
    """Packets: one download, an acknowledgement behind two segments."""
    question = _REQUEST % 1
    segments = 2 * size // 3
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (40 * (segments - 1))
    head = answer.ljust(40) if len(answer) >= 40 else answer
    yield handshake()
    yield Packets(
        np.array([2000]), seq=ISN_CLIENT + 1, ack=ISN_SERVER + 1, pool=question, size=len(question)
    )
    yield Packets(
        np.array([3000]),
        up=False,
        seq=ISN_SERVER + 1,
        ack=ISN_CLIENT + 1 + len(question),
        pool=head,
        size=len(head),
    )
    begin = ISN_SERVER + 1 + len(head)
    for row in _blocks((segments - 1) * 3 // 2, 3 * _BLOCK):
        data = row % 3 != 2
        offset = 40 * (row - row // 3)  # bytes sent before
        mine, yours = ISN_CLIENT + 1 + len(question), begin + offset
        yield Packets(
            4000 + 10 * row,
            up=~data,
            seq=np.where(data, yours, mine),
            ack=np.where(data, mine, yours),
            pool=b"x" * 40,
            size=np.where(data, 40, 0),
        )


def _retransmissions(size: int) -> Iterator[Packets]:
    """Repeated segments: of each pair one is repeated fast, one after a timeout."""
    yield handshake()
    step = np.array([0, 100, 20_100, 20_150, 230_000, 250_000])
    segment = np.array([0, 1, 0, 0, 1, 0])
    data = np.array([1, 1, 0, 1, 1, 0], bool)
    for row in _blocks(size // 2):
        base = 200 * row[:, None]
        yours = ISN_SERVER + 1 + base
        acked = yours + np.array([0, 0, 0, 0, 0, 200])
        yield Packets(
            (3000 + 300_000 * row[:, None] + step).ravel(),
            up=np.tile(~data, len(row)),
            seq=np.where(data, yours + 100 * segment, ISN_CLIENT + 1).ravel(),
            ack=np.where(data, ISN_CLIENT + 1, acked).ravel(),
            pool=b"x" * 100,
            size=np.tile(np.where(data, 100, 0), len(row)),
        )


def _reordered(size: int) -> Iterator[Packets]:
    """Segments: those of each thousand arrive in any order, each acknowledged as it can be."""
    yield handshake()
    draw = np.random.default_rng(1)
    window = 1000
    for row in _blocks(size, window):
        order = draw.permutation(len(row))
        place = np.empty(len(row), np.int64)
        place[order] = np.arange(len(row))
        whole = np.maximum.accumulate(place)  # when all up to this one have arrived
        received = np.searchsorted(whole, np.arange(len(row)), "right")
        base = ISN_SERVER + 1 + 100 * int(row[0])
        yield Packets(
            3000 + 20 * (2 * int(row[0]) + np.arange(2 * len(row))),
            up=np.tile([False, True], len(row)),
            seq=np.stack((base + 100 * order, np.full(len(row), ISN_CLIENT + 1)), 1).ravel(),
            ack=np.stack((np.full(len(row), ISN_CLIENT + 1), base + 100 * received), 1).ravel(),
            pool=b"x" * 100,
            size=np.tile([100, 0], len(row)),
        )


def _gaps(size: int) -> Iterator[Packets]:
    """Holes: the capture lacks every second segment of a stream."""
    yield handshake()
    for row in _blocks(size):
        base = ISN_SERVER + 1 + 200 * row
        yield Packets(
            (3000 + 100 * row[:, None] + np.array([0, 50])).ravel(),
            up=np.tile([False, True], len(row)),
            seq=np.stack((base + 100, np.full(len(row), ISN_CLIENT + 1)), 1).ravel(),
            ack=np.stack((np.full(len(row), ISN_CLIENT + 1), base + 200), 1).ravel(),
            pool=b"x" * 100,
            size=np.tile([100, 0], len(row)),
        )


def _tiny_records(size: int) -> Iterator[Packets]:
    """TLS records of 30 bytes in one connection, behind the two hellos."""
    record = b"\x17\x03\x03\x00\x1e" + b"\xa5" * 30
    hello = b"\x03\x03" + bytes(range(32)) + b"\x00"  # version, random, no session
    client, server = hello + b"\x00\x02\x13\x01\x01\x00", hello + b"\x13\x01\x00"
    asked, told = (
        b"\x16\x03\x03"
        + (4 + len(body)).to_bytes(2, "big")
        + kind
        + len(body).to_bytes(3, "big")
        + body
        for kind, body in ((b"\x01", client), (b"\x02", server))
    )
    return conversation(asked + record * 20, told + record * size)


def _pipelined(size: int) -> Iterator[Packets]:
    """Requests of HTTP/1.1, all sent before the first answer."""
    questions = b"".join(_REQUEST % number for number in range(size))
    return conversation(questions, _ANSWER * size)


def _keep_alive(size: int) -> Iterator[Packets]:
    """Requests of HTTP/1.1 on one connection, one after the other."""
    yield handshake()
    for row in _blocks(size):
        pieces = [_REQUEST % number for number in row.tolist()]
        length = np.array([len(piece) for piece in pieces])
        # Numbers get longer: the exact sum of what was sent before.
        digits = np.arange(1, 12)
        numbers_below = np.minimum(row[0], 10**digits) - np.where(digits > 1, 10 ** (digits - 1), 0)
        sent = int((np.maximum(numbers_below, 0) * digits).sum() + row[0] * (len(_REQUEST) - 2))
        sent = sent + np.cumsum(length) - length
        heard = len(_ANSWER) * row
        mine, yours = ISN_CLIENT + 1 + sent, ISN_SERVER + 1 + heard
        yield Packets(
            (3000 + 5000 * row[:, None] + np.array([0, 2000, 2050])).ravel(),
            up=np.tile([True, False, True], len(row)),
            seq=np.stack((mine, yours, mine + length), 1).ravel(),
            ack=np.stack((yours, mine + length, yours + len(_ANSWER)), 1).ravel(),
            pool=b"".join(pieces) + _ANSWER,
            at=np.stack((np.cumsum(length) - length, 0 * row + length.sum(), 0 * row), 1).ravel(),
            size=np.stack((length, 0 * row + len(_ANSWER), 0 * row), 1).ravel(),
        )


def _event_stream(size: int) -> Iterator[Packets]:
    """Events of one streamed answer, each in a chunk and a segment of its own."""
    event = b'data: {"choices":[{"index":0,"delta":{"content":"word"}}]}\n\n'
    chunk = b"%x\r\n%b\r\n" % (len(event), event)
    head = (
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    answer = head + chunk * size + b"0\r\n\r\n"
    cuts = np.append(len(head) + len(chunk) * np.arange(size + 1), len(answer))
    question = (
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: llm.example\r\nContent-Length: 0\r\n\r\n"
    )
    return conversation(question, answer, np.insert(cuts, 0, 0), step_us=20_000)


def _many_events(size: int) -> Iterator[Packets]:
    """Events of one streamed answer, as many as fit in each segment."""
    event = b"data: x\n\n"
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n"
    answer = head % (len(event) * size) + event * size
    return conversation(_REQUEST % 1, answer)


def _h2_streams(size: int) -> Iterator[Packets]:
    """Streams of HTTP/2 in one connection, all open at once, their frames taking turns."""
    headers = b"\x82\x86\x84\x01\x0cshop.example"
    turns = 10

    def frames(kind: int, flags: int, body: bytes) -> bytes:
        head = len(body).to_bytes(3, "big") + bytes((kind, flags))
        made = np.zeros((size, 9 + len(body)), np.uint8)
        made[:, :5] = np.frombuffer(head, np.uint8)
        number = (1 + 2 * np.arange(size)).astype(">u4")
        made[:, 5:9] = number.view(np.uint8).reshape(size, 4)
        made[:, 9:] = np.frombuffer(body, np.uint8)
        return made.tobytes()

    settings = b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"
    question = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + settings + frames(1, 5, headers)
    answer = settings + frames(1, 4, b"\x88") + frames(0, 0, b"x" * 50) * (turns - 1)
    return conversation(question, answer + frames(0, 1, b"x" * 50))


# --- many connections ---------------------------------------------------------------------


def _syn_flood(size: int) -> Iterator[Packets]:
    """Connection requests from everywhere, none answered."""
    draw = np.random.default_rng(1)
    for row in _blocks(size):
        yield Packets(
            20 * row,
            client=draw.integers(0x0B000000, 0xC0000000, len(row)),
            client_port=draw.integers(1024, 65_536, len(row)),
            seq=draw.integers(0, 1 << 32, len(row)),
            flags=SYN,
        )


def _port_scan(size: int) -> Iterator[Packets]:
    """Connection requests of one client to as many hosts, each repeated, none answered."""
    for row in _blocks(size, 20_000):
        yield Packets(
            (
                2_000_000 * (row[0] // 20_000) + np.array([[0], [1_000_000]]) + 20 * (row - row[0])
            ).ravel(),
            server=np.tile(SERVER + row, 2),
            client_port=np.tile(10_000 + row % 50_000, 2),
            seq=np.tile(7919 * row, 2),
            flags=SYN,
        )


def _refused(size: int) -> Iterator[Packets]:
    """Connection requests of one client to as many hosts, each refused."""
    for row in _blocks(size):
        yield Packets(
            (1000 * row[:, None] + np.array([0, 400])).ravel(),
            up=np.tile([True, False], len(row)),
            server=np.repeat(SERVER + row, 2),
            client_port=np.repeat(10_000 + row % 50_000, 2),
            seq=np.stack((7919 * row, 0 * row), 1).ravel(),
            ack=np.stack((0 * row, 7919 * row + 1), 1).ravel(),
            flags=np.tile([SYN, RST | ACK], len(row)),
        )


def _connections(
    row: np.ndarray, client: np.ndarray, port: np.ndarray, begin: np.ndarray
) -> Packets:
    """A connection with one small exchange for each row, packets in time order."""
    question = _REQUEST % 1
    q, a = len(question), len(_ANSWER)
    step = np.array([0, 500, 520, 540, 1200, 1220, 1240, 1700, 1720])
    up = np.array([1, 0, 1, 1, 0, 1, 1, 0, 1], bool)
    seq = np.array([0, 0, 1, 1, 1, 1 + q, 1 + q, 1 + a, 2 + q])
    ack = np.array([0, 1, 1, 1, 1 + q, 1 + a, 1 + a, 2 + q, 2 + a])
    flags = np.array([SYN, SYN | ACK, ACK, ACK, ACK, ACK, ACK | FIN, ACK | FIN, ACK])
    size = np.array([0, 0, 0, q, a, 0, 0, 0, 0])
    at = np.array([0, 0, 0, 0, q, 0, 0, 0, 0])
    time = (begin[:, None] + step).ravel()
    order = np.argsort(time, kind="stable")
    count = len(step)
    isn = 7919 * row[:, None]
    return Packets(
        time[order],
        up=np.tile(up, len(row))[order],
        client=np.repeat(client, count)[order],
        client_port=np.repeat(port, count)[order],
        seq=(isn + seq).ravel()[order],
        ack=np.where(np.arange(count) == 0, 0, isn + ack).ravel()[order],
        flags=np.tile(flags, len(row))[order],
        pool=question + _ANSWER,
        at=np.tile(at, len(row))[order],
        size=np.tile(size, len(row))[order],
    )


def _tiny_http(size: int) -> Iterator[Packets]:
    """Connections with one small exchange each, nine packets."""
    for row in _blocks(size, 20_000):
        begin = 100 * row + 10_000 * (row[0] // 20_000)
        yield _connections(row, CLIENT + row // 50_000, 10_000 + row % 50_000, begin)


def _reused_port(size: int) -> Iterator[Packets]:
    """Connections with one small exchange each, all from the same port."""
    for row in _blocks(size, 20_000):
        yield _connections(row, 0 * row + CLIENT, 0 * row + 40_000, 5000 * row)


# --- datagrams ----------------------------------------------------------------------------


def _dns(size: int) -> Iterator[Packets]:
    """Name lookups from one port, each answered."""
    for row in _blocks(size):
        questions = [
            b"%b\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x0bhost%07d\x07example\x00\x00\x01\x00\x01"
            % ((number % 65_536).to_bytes(2, "big"), number)
            for number in row.tolist()
        ]
        answers = [
            question[:2] + b"\x81\x80\x00\x01\x00\x01" + question[8:]
            + b"\xc0\x0c\x00\x01\x00\x01\x00\x00\x00\x3c\x00\x04\xc0\x00\x02\x01"
            for question in questions
        ]  # fmt: skip
        q, a = len(questions[0]), len(answers[0])
        yield Packets(
            (2000 * row[:, None] + np.array([0, 900])).ravel(),
            up=np.tile([True, False], len(row)),
            server_port=53,
            protocol=UDP,
            pool=b"".join(questions) + b"".join(answers),
            at=np.stack((q * (row - row[0]), q * len(row) + a * (row - row[0])), 1).ravel(),
            size=np.tile([q, a], len(row)),
        )


def _fragments(size: int) -> Iterator[Packets]:
    """Datagrams in two fragments, the second of every other one missing."""
    for row in _blocks(size):
        there = np.stack((row >= 0, row % 2 == 0), 1).ravel()
        yield Packets(
            (50 * row[:, None] + np.array([0, 20])).ravel()[there],
            client=CLIENT + np.repeat(row // 65_536, 2)[there],
            protocol=UDP,
            pool=b"x" * 64,
            size=np.tile([64, 48], len(row))[there],
            fragment=np.tile([0x2000, 9], len(row))[there],
            ip_id=np.repeat(row, 2)[there],
        )


SHAPES: dict[str, Shape] = {
    "one-connection": Shape(_one_connection, 1_000_000),
    "retransmissions": Shape(_retransmissions, 250_000),
    "reordered": Shape(_reordered, 250_000),
    "gaps": Shape(_gaps, 250_000),
    "tiny-records": Shape(_tiny_records, 250_000),
    "pipelined": Shape(_pipelined, 25_000),
    "keep-alive": Shape(_keep_alive, 25_000),
    "event-stream": Shape(_event_stream, 25_000),
    "many-events": Shape(_many_events, 100_000),
    "h2-streams": Shape(_h2_streams, 5_000),
    "syn-flood": Shape(_syn_flood, 250_000),
    "port-scan": Shape(_port_scan, 100_000),
    "refused": Shape(_refused, 100_000),
    "tiny-http": Shape(_tiny_http, 50_000),
    "reused-port": Shape(_reused_port, 50_000),
    "dns": Shape(_dns, 25_000),
    "fragments": Shape(_fragments, 100_000),
}
