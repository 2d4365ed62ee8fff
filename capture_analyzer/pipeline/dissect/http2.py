"""HTTP/2 messages → rows of table `messages`."""

from __future__ import annotations

import dataclasses
from typing import Final

from capture_analyzer.model.anomalies import Anomaly, Origin
from capture_analyzer.model.messages import Field, Message
from capture_analyzer.model.quick_dataclass import quick_dataclass
from capture_analyzer.pipeline.dissect.frames import FrameRows
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
_LONG_TEXT: Final = 256  # octets; longer fields are not remembered
_MOST_FIELDS: Final = 4096  # remembered
_PSEUDO: Final = (":method", ":path", ":authority", ":scheme", ":status", ":protocol")


@quick_dataclass
class DissectedHttp2:
    """What an HTTP/2 connection holds.

    Attributes:
        messages: requests, then responses, each by first frame.
        contents: where their content lies.
        anomalies: what was lost or broke the rules.
        server_name: authority of the first request that has one, without its port.
    """

    messages: list[Message] = dataclasses.field(default_factory=list)
    contents: list[Located] = dataclasses.field(default_factory=list)
    anomalies: list[Anomaly] = dataclasses.field(default_factory=list)
    server_name: str | None = None


class FieldRows:
    """Makes rows of field lines. The same ones come again and again.

    Args:
        redactor: what captured text passes through.
    """

    def __init__(self, redactor: Redactor) -> None:
        self.redactor = redactor
        # The row of a field line and how often something was kept out of it.
        self._known: dict[HeaderField, tuple[Field | None, int]] = {}

    def rows(self, fields: list[HeaderField]) -> list[Field]:
        """The rows of a header section, without pseudo-header fields."""
        known = self._known
        rows: list[Field] = []
        all_kept_back = 0
        for field in fields:
            row, kept_back = known.get(field) or self._read(field)
            if row is not None:
                rows.append(row)
                all_kept_back += kept_back
        if all_kept_back:
            self.redactor.keep_back(all_kept_back)
        return rows

    def trailers(self, fields: list[HeaderField]) -> list[Field]:
        """The rows of a trailer section."""
        return [Field(row.name, row.value, True, row.certainty) for row in self.rows(fields)]

    def _read(self, field: HeaderField) -> tuple[Field | None, int]:
        """The row of a field line that isn't known; None of a pseudo-header field."""
        raw_name, raw_value = field
        if raw_name is None:
            return Field("…", "…", certainty="unknown"), 0
        name = printable(raw_name).lower()
        if name in _PSEUDO:
            read: tuple[Field | None, int] = None, 0
        elif raw_value is None:
            read = Field(name, "…", certainty="unknown"), 0
        else:
            shown, kept_back = self.redactor.field(name, printable(raw_value))
            read = Field(name, shown), kept_back
        if len(raw_name) + len(raw_value or b"") <= _LONG_TEXT:
            if len(self._known) >= _MOST_FIELDS:
                self._known.clear()
            self._known[field] = read
        return read


def dissect_http2(
    client: Source, server: Source, rows: FieldRows, frames: FrameRows
) -> DissectedHttp2:
    """Read both directions of an HTTP/2 connection.

    Args:
        client: the client's bytes.
        server: the server's.
        rows: makes rows of fields.
        frames: takes the frames.
    """
    result = DissectedHttp2()
    for source in (client, server):
        _Reader(source, rows, frames, result).read()
    return result


class _Reader:
    """Reads one direction."""

    def __init__(
        self, source: Source, rows: FieldRows, frames: FrameRows, result: DissectedHttp2
    ) -> None:
        self._stream = source.stream
        self._source = source
        self._rows = rows
        self._redactor = rows.redactor
        self._frames = frames
        self._result = result

    def read(self) -> None:
        preface = self._source.read(0, len(PREFACE)) == PREFACE
        direction = read_direction(
            self._stream,
            start=len(PREFACE) if preface else 0,
            keep=_has_content_type,
        )
        self._frames.add(self._stream, direction.frames)
        for message in direction.messages:
            if message.fields or message.end > message.offset:
                self._result.messages.append(self._row(message))
        self._add_problems(direction)

    def _row(self, message: Http2Message) -> Message:
        source, end, head_end = self._source, message.end, message.head_end
        first = source.last_chunk(message.offset)
        last = source.last_chunk(max(message.offset, end - 1))
        first_no, first_seen_ns, first_usable_ns = source.arrival(first)
        last_no, last_seen_ns, last_usable_ns = source.arrival(last)
        fields = self._rows.rows(message.fields)
        if message.trailers:
            fields += self._rows.trailers(message.trailers)
        row = Message(
            self._stream.connection_no,
            self._stream.from_client,
            message.offset,
            message.octets,
            "h2",
            stream_id=message.stream_id,
            fields=fields,
            content_bytes=message.content_octets,
            missing_bytes=message.missing_octets,
            first_packet_no=first_no,
            last_packet_no=last_no,
            seen_ns=first_seen_ns,
            start_ns=first_usable_ns,
            last_ns=last_seen_ns,
            transport_offset=source.in_transport(message.offset),
            complete=message.ended,
            start_certain=head_end is not None,
        )
        if message.ended:
            row.end_ns = last_usable_ns
        if head_end is not None:
            row.head_packet_no, _, row.head_ns = source.arrival(source.last_chunk(head_end - 1))
        if message.reset_code is not None and message.reset_offset is not None:
            row.reset_code = message.reset_code
            row.reset_ns = source.usable_ns(source.last_chunk(message.reset_offset))
        if message.interim:
            row.interim = [self._interim(row, interim) for interim in message.interim]
        values = _values(message.fields)
        self._name(row, values)
        pieces = message.pieces
        if pieces and len(pieces) < MAX_PIECES:
            coding = _text(values, b"content-encoding")
            self._result.contents.append(
                Located(
                    row,
                    media_type(_text(values, b"content-type")),
                    [part.strip() for part in coding.lower().split(",")] if coding else [],
                    pieces,
                )
            )
        return row

    def _name(self, row: Message, values: dict[bytes | None, bytes]) -> None:
        """Method, target and authority, or status."""
        if row.from_client:
            row.method = _text(values, b":method") or None
            target = _text(values, b":path")
            row.target = self._redactor.target(target) if target else None
            authority = _text(values, b":authority") or _text(values, b"host")
            if authority:
                row.authority = self._redactor.authority(authority)
                if self._result.server_name is None:
                    name, colon, port = authority.rpartition(":")
                    self._result.server_name = name if colon and port.isdigit() else authority
        else:
            status = _text(values, b":status")
            row.status = int(status) if len(status) == 3 and status.isdigit() else None

    def _interim(self, final: Message, interim: Interim) -> Message:
        """A 1xx response in front of a final one."""
        source = self._source
        first, last = source.last_chunk(interim.offset), source.last_chunk(interim.end - 1)
        status = _text(_values(interim.fields), b":status")
        return Message(
            final.connection_no,
            final.from_client,
            interim.offset,
            interim.end - interim.offset,
            "h2",
            stream_id=final.stream_id,
            status=int(status) if status.isdigit() else None,
            fields=self._rows.rows(interim.fields),
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
    return bool(_values(message.fields).get(b"content-type"))


def _values(fields: list[HeaderField]) -> dict[bytes | None, bytes]:
    """The first known value of each field, by its name."""
    return {name: value for name, value in reversed(fields) if value is not None}


def _text(values: dict[bytes | None, bytes], name: bytes) -> str:
    """A value as text; empty if it is absent or unknown."""
    value = values.get(name)
    return printable(value) if value else ""
