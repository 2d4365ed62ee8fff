"""Decrypted connections as captures in clear.

A byte changed in an encrypted record is a record that can't be opened, and nothing reaches
the parsers behind it. So what keyed captures hold is laid out once more without TLS.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from capture_analyzer.model.byte_stream import ByteStream
from capture_analyzer.model.connections import Connection
from capture_analyzer.model.secrets import Secrets
from capture_analyzer.pipeline.dissect.decrypt import OpenedConnection
from capture_analyzer.pipeline.dissect.guard import Guard
from capture_analyzer.pipeline.dissect.tls import dissect_tls
from capture_analyzer.pipeline.flows import group
from capture_analyzer.pipeline.reassemble import reassemble
from capture_analyzer.pipeline.scan import scan
from capture_analyzer.pipeline.tcp import analyse
from capture_analyzer.readers import open_capture
from capture_analyzer.readers.key_log import read_key_log

SEGMENT_BYTES = 1400
MOST_BYTES = 60_000  # of a connection

_SYN, _ACK, _FIN = 2, 16, 1


def decrypted(path: Path, keys: Path) -> list[tuple[int, bytes, int]]:
    """(time, frame, bytes of payload at its end) of the connections that the keys open."""
    capture = open_capture(path)
    packets, _ = scan(capture)
    flows = group(packets)
    tcp = analyse(packets, flows)
    streams = reassemble(capture, packets, flows, tcp.connections)
    secrets = Secrets()
    secrets.merge(read_key_log(keys))
    frames: list[tuple[int, bytes, int]] = []

    def read(connection: Connection, opened: OpenedConnection) -> None:
        frames.extend(_connection(connection.connection_no, opened))

    everyone = np.arange(len(tcp.connections))
    dissect_tls(streams, tcp.connections, everyone, secrets=secrets, guard=Guard(), read=read)
    frames.sort(key=lambda row: row[0])
    return frames


def _connection(number: int, opened: OpenedConnection) -> Iterator[tuple[int, bytes, int]]:
    said = sorted(
        (when, not from_client, offset, data)
        for from_client, stream in ((True, opened.client), (False, opened.server))
        for when, offset, data in _chunks(stream)
    )
    if not said:
        return
    behind = [0, 0]
    begin = said[0][0] - 3_000_000
    for step, (from_server, flags) in enumerate(((0, _SYN), (1, _SYN | _ACK), (0, _ACK))):
        seq, ack = int(step == 2), int(step > 0)
        yield begin + step * 1_000_000, _frame(number, from_server, seq, ack, flags, b""), 0
    last = begin
    for when, from_server, offset, data in said:
        last = max(last, when)
        for at in range(0, len(data), SEGMENT_BYTES):
            piece = data[at : at + SEGMENT_BYTES]
            seq, ack = 1 + offset + at, 1 + behind[not from_server]
            behind[from_server] = max(behind[from_server], offset + at + len(piece))
            yield last, _frame(number, from_server, seq, ack, _ACK, piece), len(piece)
    for side in (0, 1):
        seq, ack = 1 + behind[side], 1 + behind[1 - side]
        yield last + 1_000_000, _frame(number, side, seq, ack, _ACK | _FIN, b""), 0


def _chunks(stream: ByteStream) -> Iterator[tuple[int, int, bytes]]:
    for offset, data, index in stream.segments():
        if offset < MOST_BYTES:
            yield int(stream.seen_ns[index]), offset, bytes(data)


def _frame(number: int, from_server: int, seq: int, ack: int, flags: int, data: bytes) -> bytes:
    ends = [b"\xc0\x00\x02\x01", b"\xc6\x33\x64\x02"]
    ports = [40_000 + number, 80]
    if from_server:
        ends.reverse()
        ports.reverse()
    tcp = struct.pack("!HHIIBBHHH", *ports, 1000 + seq, 1000 + ack, 0x50, flags, 65_000, 0, 0)
    ip = struct.pack("!BBHHHBBH", 0x45, 0, 40 + len(data), 0, 0x4000, 64, 6, 0)
    return bytes(12) + b"\x08\x00" + ip + b"".join(ends) + tcp + data
