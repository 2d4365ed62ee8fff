"""HTTP/2 messages in one direction: header blocks decoded, content measured (RFC 9113, 8.1).

Each direction is read by itself: HPACK contexts are, and which response belongs to which
request is told by the stream identifier. Field values are raw here; the caller reduces them.
"""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Callable
from typing import Final, NamedTuple

from capture_analyzer.model.byte_stream import ByteStream
from capture_analyzer.model.quick_dataclass import quick_dataclass
from capture_analyzer.protocols.hpack import MAX_TABLE_SIZE, Decoder, HeaderField, HpackError
from capture_analyzer.protocols.http2 import frames
from capture_analyzer.protocols.http2.frames import Frame, Lost, read_frames

MAX_BLOCK: Final = 1 << 20  # octets of a header block over its CONTINUATIONs
MAX_OPEN_STREAMS: Final = 100_000
"""Streams kept open at once; peers allow 100 to some thousands. Beyond it the oldest is
closed as cut, so that a hostile connection can't fill memory."""

MAX_PIECES: Final = 1 << 18
"""Pieces of one message's content: DATA frames, as many as there may be chunks in HTTP/1.1."""

FRAME_ROW: Final = struct.Struct("<IBBqq")
"""Of a frame: stream, type, flags, and the offsets of begin and end."""

_HEADER: Final = frames.HEADER


class Interim(NamedTuple):
    """A 1xx response: its fields, and where its frames begin and end."""

    fields: list[HeaderField]
    offset: int
    end: int


@quick_dataclass
class Http2Message:
    """A request or response (which one, the direction tells) on one stream.

    All offsets are stream offsets of the connection's direction.

    Attributes:
        stream_id: its stream.
        offset: of its first frame's header, without 1xx responses.
        head_end: behind the frame that completed its header section; None if that was lost.
        end: behind its last frame so far.
        fields, trailers: as decoded.
        octets: of its frames, with their headers.
        interim: 1xx responses before it.
        content_octets: DATA without padding.
        missing_octets: DATA bytes that the capture lacks.
        data_frames: number of DATA frames.
        ended: END_STREAM came.
        reset_code: error code of an RST_STREAM from this side; None without one.
        reset_offset: of that frame.
        promised: it answers a PUSH_PROMISE.
        pieces: (stream offset, length) of its content; one without length where some of it, or
            an unknown part, is missing. None if nobody wants to look at it.
    """

    stream_id: int
    offset: int
    head_end: int | None = None
    end: int = 0
    octets: int = 0
    fields: list[HeaderField] = dataclasses.field(default_factory=list)
    trailers: list[HeaderField] = dataclasses.field(default_factory=list)
    interim: list[Interim] = dataclasses.field(default_factory=list)
    content_octets: int = 0
    missing_octets: int = 0
    data_frames: int = 0
    ended: bool = False
    reset_code: int | None = None
    reset_offset: int | None = None
    promised: bool = False
    pieces: list[tuple[int, int]] | None = None

    def add_piece(self, offset: int, length: int) -> None:
        """Content goes on there; without length: is missing there."""
        pieces = self.pieces
        if pieces is None:
            return
        before, size = pieces[-1] if pieces else (0, 0)
        if length and size and before + size == offset:
            pieces[-1] = (before, size + length)
        elif len(pieces) < MAX_PIECES:
            pieces.append((offset, length))


@quick_dataclass
class Direction:
    """What one direction of an HTTP/2 connection holds.

    Attributes:
        messages: in order of their first frame.
        resets: (stream_id, error code, offset, end) of every RST_STREAM.
        goaways: (last stream id, error code, offset, end) of every GOAWAY.
        problems: (code, offset) of what broke the rules or was lost: "http2-frames-lost",
            "http2-malformed", "hpack-malformed", "http2-block-too-large".
        frames: a `FRAME_ROW` for each frame, one behind the other.
    """

    messages: list[Http2Message] = dataclasses.field(default_factory=list)
    resets: list[tuple[int, int, int, int]] = dataclasses.field(default_factory=list)
    goaways: list[tuple[int, int, int, int]] = dataclasses.field(default_factory=list)
    problems: list[tuple[str, int]] = dataclasses.field(default_factory=list)
    frames: bytearray = dataclasses.field(default_factory=bytearray)


def read_direction(
    stream: ByteStream,
    *,
    start: int = 0,
    keep: Callable[[Http2Message], bool] = lambda message: False,
) -> Direction:
    """Read all frames and messages of one direction.

    Args:
        stream: the direction's bytes.
        start: offset of the first frame (behind the client's preface).
        keep: asked once a message when its header section is complete: whether `pieces` is
            wanted.
    """
    reader = _DirectionReader(stream, keep)
    if stream.solid and not stream.begins_mid_stream and len(stream) and not stream.starts[0]:
        start = reader.read_solid(stream, start)
        if start == stream.starts[-1] + stream.lengths[-1]:
            return reader.result
    for item in read_frames(stream, start):
        if isinstance(item, Lost):
            reader.lost(item)
        else:
            reader.note(item)
            reader.frame(item)
    return reader.result


class _DirectionReader:
    def __init__(self, stream: ByteStream, keep: Callable[[Http2Message], bool]) -> None:
        self.result = Direction()
        self._decoder = Decoder(mid_stream=stream.begins_mid_stream)
        # How large the other side's SETTINGS allow the table to be is not this side's to check:
        # an encoder says what it uses (RFC 7541, section 6.3).
        self._decoder.allow_table_size(MAX_TABLE_SIZE)
        self._keep = keep
        self._open: dict[int, Http2Message] = {}
        self._last: dict[int, Http2Message] = {}  # by stream, ended or not
        self._block = bytearray()  # of a HEADERS or PUSH_PROMISE without END_HEADERS
        self._block_of: Frame | None = None

    def read_solid(self, stream: ByteStream, start: int) -> int:
        """Read the frames of a stream whose bytes lie in one buffer.

        Returns:
            Offset of the first frame that is cut off or none, or the end.
        """
        buffer = stream.buffers[stream.buffer_nos[0]]
        shift = int(stream.buffer_offsets[0])
        at = start + shift
        end = int(stream.starts[-1] + stream.lengths[-1]) + shift
        rows, opened, unpack, pack = (
            self.result.frames,
            self._open,
            _HEADER.unpack_from,
            FRAME_ROW.pack,
        )
        while at + frames.HEADER_OCTETS <= end:
            high, low, kind, flags, stream_id = unpack(buffer, at)
            length = high << 16 | low
            begin = at + frames.HEADER_OCTETS
            stop = begin + length
            if stop > end:
                break
            stream_id &= 0x7FFFFFFF
            if kind == frames.DATA and not flags & frames.PADDED and self._block_of is None:
                message = opened.get(stream_id)
                if message is not None:  # nearly all of them: the same as in `frame`
                    message.end = stop - shift
                    rows += pack(stream_id, kind, flags, at - shift, stop - shift)
                    message.data_frames += 1
                    message.octets += stop - at
                    message.content_octets += length
                    pieces = message.pieces
                    if length and pieces is not None and len(pieces) < MAX_PIECES:
                        pieces.append((begin - shift, length))
                    if flags & frames.END_STREAM:
                        self._end(stream_id, message)
                    at = stop
                    continue
            if frames.is_broken(length, kind, stream_id):
                break
            offset = at - shift
            payload, kept = b"", kind != frames.DATA and length <= frames.MAX_KEPT_PAYLOAD
            if kept:
                payload = bytes(buffer[begin:stop])
            data = kind == frames.DATA
            frame = Frame(
                offset,
                length,
                kind,
                flags,
                stream_id,
                payload,
                ((begin - shift, length),) if data and length else (),
                0 if kept or data else length,
                buffer[begin] if data and length else 0,
            )
            self.note(frame)
            self.frame(frame)
            at = stop
        return at - shift

    def note(self, frame: Frame) -> None:
        """Note where a frame lies."""
        self.result.frames += FRAME_ROW.pack(
            frame.stream_id, frame.type, frame.flags, frame.offset, frame.end
        )

    def lost(self, lost: Lost) -> None:
        """Header blocks may have been in what was lost."""
        self._decoder.lose_blocks()
        self._block.clear()
        self._block_of = None
        for message in self._open.values():
            message.add_piece(lost.offset, 0)
        code = "http2-malformed" if lost.malformed else "http2-frames-lost"
        self.result.problems.append((code, lost.offset))

    def frame(self, frame: Frame) -> None:
        kind = frame.type
        if self._block_of is not None and kind != frames.CONTINUATION:
            self._problem("http2-malformed", frame)  # section 6.10: nothing may come between
            self._drop_block()
        if kind == frames.DATA:
            self._data(frame)
        elif frame.missing:  # too long to be kept
            self._problem("http2-block-too-large", frame)
            if kind in (frames.HEADERS, frames.PUSH_PROMISE, frames.CONTINUATION):
                self._drop_block()
        elif kind in (frames.HEADERS, frames.PUSH_PROMISE):
            if frame.flags & frames.END_HEADERS:
                self._complete_block(frame, _block_part(frame), frame)
            else:
                self._block_of = frame
                self._block += _block_part(frame)
        elif kind == frames.CONTINUATION:
            if self._block_of is None or self._block_of.stream_id != frame.stream_id:
                # The block began before the capture or in a gap.
                self._decoder.lose_blocks()
                self._drop_block()
                return
            self._block += frame.payload
            if len(self._block) > MAX_BLOCK:
                self._problem("http2-block-too-large", frame)
                self._drop_block()
            elif frame.flags & frames.END_HEADERS:
                opened, block = self._block_of, bytes(self._block)
                self._block.clear()
                self._block_of = None
                self._complete_block(opened, block, frame)
        elif kind == frames.RST_STREAM:
            self._reset(frame)
        elif kind == frames.GOAWAY and len(frame.payload) >= 8:
            last = int.from_bytes(frame.payload[:4], "big") & 0x7FFFFFFF
            code = int.from_bytes(frame.payload[4:8], "big")
            self.result.goaways.append((last, code, frame.offset, frame.end))

    def _problem(self, code: str, frame: Frame) -> None:
        self.result.problems.append((code, frame.offset))

    def _drop_block(self) -> None:
        if self._block_of is not None:
            self._decoder.lose_blocks()
        self._block.clear()
        self._block_of = None

    def _complete_block(self, opened: Frame, block: bytes, last: Frame) -> None:
        """Decode a header block, from the frame that opened it to the last."""
        try:
            fields = self._decoder.decode(block)
        except HpackError:
            self._problem("hpack-malformed", opened)
            fields = []
        if opened.type == frames.PUSH_PROMISE:
            return  # the promised request is no exchange the client asked for
        message = self._open.get(opened.stream_id)
        if message is not None and message.head_end is not None:
            message.trailers = list(fields)
            message.end = last.end
            message.octets += last.end - opened.offset
        else:
            if message is None:
                message = self._new(opened)
            message.end = last.end
            if _is_interim(fields):
                message.interim.append(Interim(list(fields), opened.offset, last.end))
            else:
                message.fields = list(fields)
                message.offset = opened.offset
                message.octets += last.end - opened.offset
                message.head_end = last.end
                if self._keep(message):
                    message.pieces = []
        if opened.flags & frames.END_STREAM:
            self._end(opened.stream_id, message)

    def _new(self, frame: Frame) -> Http2Message:
        if len(self._open) >= MAX_OPEN_STREAMS:
            oldest = next(iter(self._open))
            del self._open[oldest]
        message = Http2Message(frame.stream_id, frame.offset)
        message.promised = frame.stream_id % 2 == 0
        self._open[frame.stream_id] = self._last[frame.stream_id] = message
        self.result.messages.append(message)
        return message

    def _end(self, stream_id: int, message: Http2Message) -> None:
        message.ended = True
        self._open.pop(stream_id, None)

    def _data(self, frame: Frame) -> None:
        message = self._open.get(frame.stream_id)
        if message is None:
            message = self._new(frame)  # its header section was not captured
        message.end = frame.end
        message.data_frames += 1
        message.octets += frame.end - frame.offset
        message.missing_octets += frame.missing
        begin, end = frame.offset + frames.HEADER_OCTETS, frame.end
        if frame.flags & frames.PADDED and frame.pieces:
            padding = frame.padding if frame.pieces[0][0] == begin else 0
            begin, end = begin + 1, max(begin + 1, end - padding)
        message.content_octets += end - begin
        if message.pieces is not None:
            expected = begin
            for offset, length in frame.pieces:
                at, stop = max(offset, begin), min(offset + length, end)
                if at < stop:
                    if at != expected:
                        message.add_piece(expected, 0)
                    message.add_piece(at, stop - at)
                    expected = stop
            if expected < end:
                message.add_piece(expected, 0)
        if frame.flags & frames.END_STREAM:
            self._end(frame.stream_id, message)

    def _reset(self, frame: Frame) -> None:
        code = int.from_bytes(frame.payload, "big")
        self.result.resets.append((frame.stream_id, code, frame.offset, frame.end))
        message = self._last.get(frame.stream_id)
        self._open.pop(frame.stream_id, None)
        if message is not None and message.reset_code is None:
            message.reset_code, message.reset_offset = code, frame.offset


def _block_part(frame: Frame) -> bytes:
    """The part of a header block in a HEADERS or PUSH_PROMISE frame (sections 6.2 and 6.6)."""
    payload = frame.payload
    begin, end = 0, len(payload)
    if frame.flags & frames.PADDED and payload:
        begin, end = 1, max(1, end - payload[0])
    if frame.type == frames.PUSH_PROMISE:
        begin += 4
    elif frame.flags & frames.HAS_PRIORITY:
        begin += 5
    return payload[begin:end]


def _is_interim(fields: list[HeaderField]) -> bool:
    """Whether a header section is that of a 1xx response."""
    for name, value in fields:
        if name == b":status":
            return value is not None and len(value) == 3 and value[:1] == b"1"
    return False
