"""HTTP/2 messages → rows of table `messages`."""

from __future__ import annotations

import dataclasses
import functools
from typing import Final

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.anomalies import Anomaly, Origin
from capture_analyzer.model.messages import Field, Message
from capture_analyzer.model.quick_dataclass import quick_dataclass
from capture_analyzer.pipeline.redact import Redactor
from capture_analyzer.protocols.hpack import HeaderField
from capture_analyzer.protocols.http1.connection import Located
from capture_analyzer.protocols.http1.head import media_type
from capture_analyzer.protocols.http1.source import Source
from capture_analyzer.protocols.http2 import (
    MAX_PIECES,
    PREFACE,
    Direction,
    Http2Message,
    Interim,
    read_direction,
)
from capture_analyzer.wire.text import printable

_CLAUSES: Final[dict[str, tuple[Origin, str]]] = {
    "http2-frames-lost": ("capture", "HTTP/2 frames are missing; header fields may be unknown"),
    "http2-malformed": ("peer", "what was sent is no HTTP/2 frame, or is out of place"),
    "hpack-malformed": ("peer", "a header block breaks the rules of HPACK"),
    "http2-block-too-large": ("analyzer", "a header block is too large to be read"),
}
_LONG_TEXT: Final = 256  # octets; longer text is not remembered
_PSEUDO: Final = (":method", ":path", ":authority", ":scheme", ":status", ":protocol")


@quick_dataclass
class DissectedHttp2:
    """What an HTTP/2 connection holds.

    Attributes:
        messages: requests, then responses, each by first frame.
        contents: where their content lies.
        anomalies: what was lost or broke the rules.
        server_name: authority of the first request that has one, without its port.
        frames: six numbers for each frame, in the order of the columns of `Frames` behind the
            first: direction, stream, type, flags, and the offsets of begin and end.
    """

    messages: list[Message] = dataclasses.field(default_factory=list)
    contents: list[Located] = dataclasses.field(default_factory=list)
    anomalies: list[Anomaly] = dataclasses.field(default_factory=list)
    server_name: str | None = None
    frames: list[NDArray[np.int64]] = dataclasses.field(default_factory=list)


def dissect_http2(client: Source, server: Source, redactor: Redactor) -> DissectedHttp2:
    """Read both directions of an HTTP/2 connection."""
    result = DissectedHttp2()
    for source in (client, server):
        _Reader(source, redactor, result).read()
    return result


class _Reader:
    """Reads one direction."""

    def __init__(self, source: Source, redactor: Redactor, result: DissectedHttp2) -> None:
        self._stream = source.stream
        self._source = source
        self._redactor = redactor
        self._result = result

    def read(self) -> None:
        preface = self._source.read(0, len(PREFACE)) == PREFACE
        direction = read_direction(
            self._stream,
            start=len(PREFACE) if preface else 0,
            keep=_has_content_type,
        )
        self._add_frames(direction.frames)
        for message in direction.messages:
            if message.fields or message.end > message.offset:
                self._result.messages.append(self._row(message, direction))
        self._add_problems(direction)

    def _add_frames(self, frames: list[int]) -> None:
        if not frames:
            return
        columns = np.empty((6, len(frames) // 5), np.int64)
        columns[0] = self._stream.from_client
        columns[1:] = np.array(frames, np.int64).reshape(-1, 5).T
        columns[4] = self._stream.in_transport(columns[4])
        columns[5] = self._stream.in_transport(columns[5] - 1) + 1
        self._result.frames.append(columns)

    def _row(self, message: Http2Message, direction: Direction) -> Message:
        source = self._source
        first = source.last_chunk(message.offset)
        last = source.last_chunk(max(message.offset, message.end - 1))
        row = Message(
            self._stream.connection_no,
            self._stream.from_client,
            message.offset,
            message.octets,
            "h2",
            stream_id=message.stream_id,
            fields=[
                *self._fields(message.fields, trailer=False),
                *self._fields(message.trailers, trailer=True),
            ],
            content_bytes=message.content_octets,
            missing_bytes=message.missing_octets,
            first_packet_no=source.packet_no(first),
            last_packet_no=source.packet_no(last),
            seen_ns=source.seen_ns(first),
            start_ns=source.usable_ns(first),
            last_ns=source.seen_ns(last),
            transport_offset=source.in_transport(message.offset),
            complete=message.ended,
            start_certain=message.head_end is not None,
        )
        if message.ended:
            row.end_ns = source.usable_ns(last)
        if message.head_end is not None:
            head = source.last_chunk(message.head_end - 1)
            row.head_ns = source.usable_ns(head)
            row.head_packet_no = source.packet_no(head)
        if message.reset_code is not None and message.reset_offset is not None:
            row.reset_code = message.reset_code
            row.reset_ns = source.usable_ns(source.last_chunk(message.reset_offset))
        row.interim = [self._interim(row, interim) for interim in message.interim]
        self._name(row, message)
        pieces = message.pieces
        if pieces and len(pieces) < MAX_PIECES:
            coding = _value(message.fields, b"content-encoding")
            self._result.contents.append(
                Located(
                    row,
                    media_type(_value(message.fields, b"content-type")),
                    [part.strip() for part in coding.lower().split(",")] if coding else [],
                    pieces,
                )
            )
        return row

    def _name(self, row: Message, message: Http2Message) -> None:
        """Method, target and authority, or status."""
        if row.from_client:
            row.method = _value(message.fields, b":method") or None
            target = _value(message.fields, b":path")
            row.target = self._redactor.target(target) if target else None
            authority = _value(message.fields, b":authority") or _value(message.fields, b"host")
            if authority:
                row.authority = self._redactor.authority(authority)
                if self._result.server_name is None:
                    name, colon, port = authority.rpartition(":")
                    self._result.server_name = name if colon and port.isdigit() else authority
        else:
            status = _value(message.fields, b":status")
            row.status = int(status) if len(status) == 3 and status.isdigit() else None

    def _interim(self, final: Message, interim: Interim) -> Message:
        """A 1xx response in front of a final one."""
        source = self._source
        first, last = source.last_chunk(interim.offset), source.last_chunk(interim.end - 1)
        status = _value(interim.fields, b":status")
        return Message(
            final.connection_no,
            final.from_client,
            interim.offset,
            interim.end - interim.offset,
            "h2",
            stream_id=final.stream_id,
            status=int(status) if status.isdigit() else None,
            fields=self._fields(interim.fields, trailer=False),
            transport_offset=source.in_transport(interim.offset),
            first_packet_no=source.packet_no(first),
            head_packet_no=source.packet_no(last),
            last_packet_no=source.packet_no(last),
            seen_ns=source.seen_ns(first),
            start_ns=source.usable_ns(first),
            head_ns=source.usable_ns(last),
            end_ns=source.usable_ns(last),
            last_ns=source.seen_ns(last),
            complete=True,
        )

    def _fields(self, fields: list[HeaderField], *, trailer: bool) -> list[Field]:
        rows: list[Field] = []
        for raw_name, raw_value in fields:
            if raw_name is None:
                rows.append(Field("…", "…", trailer, "unknown"))
                continue
            name = _text(raw_name).lower()
            if name in _PSEUDO:
                continue
            if raw_value is None:
                rows.append(Field(name, "…", trailer, "unknown"))
            else:
                value = self._redactor.value(name, _text(raw_value))
                rows.append(Field(name, value, trailer))
        return rows

    def _add_problems(self, direction: Direction) -> None:
        """Equal problems become one anomaly with their count."""
        found: dict[str, Anomaly] = {}
        for code, offset in direction.problems:
            if code in found:
                found[code].count += 1
                continue
            origin, clause = _CLAUSES[code]
            chunk = self._source.last_chunk(offset)
            packet_no = self._source.packet_no(chunk) if chunk >= 0 else None
            found[code] = Anomaly(code, origin, clause, self._stream.connection_no, packet_no)
        self._result.anomalies += found.values()


def _has_content_type(message: Http2Message) -> bool:
    return bool(_value(message.fields, b"content-type"))


def _value(fields: list[HeaderField], name: bytes) -> str:
    """The first value of a field as text; empty if it is absent or unknown."""
    for field, value in fields:
        if field == name and value is not None:
            return _text(value)
    return ""


def _text(raw: bytes) -> str:
    """As `printable` has it; names and values repeat from message to message."""
    return _short_text(raw) if len(raw) <= _LONG_TEXT else printable(raw)


_short_text = functools.lru_cache(maxsize=4096)(printable)
