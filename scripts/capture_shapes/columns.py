"""Packets as columns, written to a pcap file many at a time."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

FIN, SYN, RST, ACK = 1, 2, 4, 16
TCP, UDP = 6, 17
EPOCH_US = 1_750_000_000_000_000
CLIENT, SERVER = 0x0A000001, 0xCB007101  # 10.0.0.1 and 203.0.113.1

_HEAD = [
    ("second", "<u4"), ("microsecond", "<u4"), ("captured", "<u4"), ("original", "<u4"),
    ("macs", "V12"), ("ethertype", ">u2"),
    ("version", "u1"), ("service", "u1"), ("length", ">u2"), ("ip_id", ">u2"),
    ("fragment", ">u2"), ("ttl", "u1"), ("protocol", "u1"), ("ip_sum", ">u2"),
    ("source", ">u4"), ("destination", ">u4"),
    ("source_port", ">u2"), ("destination_port", ">u2"),
]  # fmt: skip
_TCP = np.dtype(
    [
        *_HEAD,
        ("seq", ">u4"),
        ("ack", ">u4"),
        ("offset", "u1"),
        ("flags", "u1"),
        ("window", ">u2"),
        ("tcp_sum", ">u2"),
        ("urgent", ">u2"),
    ]
)
_UDP = np.dtype([*_HEAD, ("udp_length", ">u2"), ("udp_sum", ">u2")])
_RECORD_BYTES = 16
_LINK_BYTES = 14
_DATAGRAM_BYTES = 8
_ROWS_AT_ONCE = 100_000


@dataclasses.dataclass
class Packets:
    """Some packets in time order; each column one value for all, or one a packet.

    Attributes:
        time_us: since the first one.
        up: from the client.
        client, server: addresses.
        client_port, server_port: ports.
        protocol: TCP or UDP.
        seq, ack, flags: of the segment; modulo 2^32 by themselves.
        pool: where payloads are.
        at, size: payload of each packet there.
        fragment: flags and offset of an IP fragment.
        ip_id: identification; counted where None.
    """

    time_us: NDArray[np.int64]
    up: ArrayLike = True
    client: ArrayLike = CLIENT
    server: ArrayLike = SERVER
    client_port: ArrayLike = 40_000
    server_port: ArrayLike = 80
    protocol: int = TCP
    seq: ArrayLike = 0
    ack: ArrayLike = 0
    flags: ArrayLike = ACK
    pool: bytes = b""
    at: ArrayLike = 0
    size: ArrayLike = 0
    fragment: ArrayLike = 0x4000
    ip_id: ArrayLike | None = None


def write(target: Path, parts: Iterable[Packets]) -> int:
    """Write a pcap file; returns the number of packets."""
    count = 0
    with target.open("wb") as file:
        file.write(
            b"\xd4\xc3\xb2\xa1\x02\x00\x04\x00" + bytes(8) + b"\x00\x00\x04\x00\x01\x00\x00\x00"
        )
        for part in parts:
            for first in range(0, len(part.time_us), _ROWS_AT_ONCE):
                rows = slice(first, min(first + _ROWS_AT_ONCE, len(part.time_us)))
                file.write(_laid_out(part, rows, count + first).tobytes())
            count += len(part.time_us)
    return count


def _laid_out(part: Packets, rows: slice, number: int) -> NDArray[np.uint8]:
    """The bytes of some packets; `number` is how many came before them."""
    count = rows.stop - rows.start

    def column(value: ArrayLike) -> NDArray[np.int64]:
        array = np.asarray(value)
        return np.broadcast_to(array if array.ndim == 0 else array[rows], count).astype(np.int64)

    head = np.zeros(count, _TCP if part.protocol == TCP else _UDP)
    headers = head.dtype.itemsize - _RECORD_BYTES
    size, up = column(part.size), column(part.up) != 0
    when = EPOCH_US + column(part.time_us)
    head["second"], head["microsecond"] = when // 1_000_000, when % 1_000_000
    head["captured"] = head["original"] = headers + size
    head["ethertype"], head["version"], head["ttl"] = 0x0800, 0x45, np.where(up, 64, 57)
    head["length"] = headers - _LINK_BYTES + size
    counted = number + np.arange(count)
    head["ip_id"] = (counted if part.ip_id is None else column(part.ip_id)) % 65_536
    head["fragment"] = column(part.fragment)
    head["protocol"] = part.protocol
    ends = column(part.client), column(part.server)
    ports = column(part.client_port), column(part.server_port)
    head["source"], head["destination"] = np.where(up, *ends), np.where(up, *ends[::-1])
    head["source_port"] = np.where(up, *ports)
    head["destination_port"] = np.where(up, *ports[::-1])
    if part.protocol == TCP:
        head["seq"], head["ack"] = column(part.seq) % (1 << 32), column(part.ack) % (1 << 32)
        head["offset"], head["flags"], head["window"] = 0x50, column(part.flags), 65_000
    else:
        head["udp_length"] = _DATAGRAM_BYTES + size

    sizes = head.dtype.itemsize + size
    ends_at = np.cumsum(sizes)
    starts = ends_at - sizes
    made = np.empty(int(ends_at[-1]) if count else 0, np.uint8)
    rows_of_bytes = head.view(np.uint8).reshape(count, head.dtype.itemsize)
    made[(starts[:, None] + np.arange(head.dtype.itemsize)).ravel()] = rows_of_bytes.ravel()
    if size.any():
        pool = np.frombuffer(part.pool, np.uint8)
        before = np.cumsum(size) - size
        along = np.arange(int(size.sum())) - np.repeat(before, size)
        source = np.repeat(column(part.at), size) + along
        made[np.repeat(starts + head.dtype.itemsize, size) + along] = pool[source]
    return made
