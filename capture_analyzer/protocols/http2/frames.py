"""HTTP/2 frames in one direction of a connection (RFC 9113, section 4)."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from capture_analyzer.model.byte_stream import ByteStream

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"  # section 3.4

DATA: Final = 0x0
HEADERS: Final = 0x1
PRIORITY: Final = 0x2
RST_STREAM: Final = 0x3
SETTINGS: Final = 0x4
PUSH_PROMISE: Final = 0x5
PING: Final = 0x6
GOAWAY: Final = 0x7
WINDOW_UPDATE: Final = 0x8
CONTINUATION: Final = 0x9

END_STREAM: Final = 0x1
ACK: Final = 0x1
END_HEADERS: Final = 0x4
PADDED: Final = 0x8
HAS_PRIORITY: Final = 0x20

HEADER_OCTETS: Final = 9
MAX_KEPT_PAYLOAD: Final = 1 << 20
"""Most payload kept of a frame other than DATA. Header blocks beyond it are from no real
peer; such a frame is passed over and its block counts as lost."""

HEADER: Final = struct.Struct(">BHBBI")
_FIXED_LENGTH: Final = {PRIORITY: 5, RST_STREAM: 4, PING: 8, WINDOW_UPDATE: 4}
_ON_STREAM: Final = frozenset((DATA, HEADERS, PRIORITY, RST_STREAM, PUSH_PROMISE, CONTINUATION))
_ON_CONNECTION: Final = frozenset((SETTINGS, PING, GOAWAY))
_KNOWN_FLAGS: Final = {
    DATA: END_STREAM | PADDED,
    HEADERS: END_STREAM | END_HEADERS | PADDED | HAS_PRIORITY,
    PRIORITY: 0,
    RST_STREAM: 0,
    SETTINGS: ACK,
    PUSH_PROMISE: END_HEADERS | PADDED,
    PING: ACK,
    GOAWAY: 0,
    WINDOW_UPDATE: 0,
    CONTINUATION: END_HEADERS,
}
_DEFAULT_MAX_FRAME: Final = 16_384


class Frame(NamedTuple):
    """A frame that is complete, or DATA that lacks some of its bytes.

    Attributes:
        offset: stream offset of its header.
        length: payload length, as the header says.
        type, flags, stream_id: as named in RFC 9113, section 4.1.
        payload: the payload; of DATA the pieces are in `pieces` and this is empty.
        pieces: (stream offset, length) of a DATA payload, padding and all.
        missing: payload bytes that the capture lacks.
        padding: the first octet of the first piece: where a DATA frame is padded and lacks
            nothing in front of it, the length of its padding.
    """

    offset: int
    length: int
    type: int
    flags: int
    stream_id: int
    payload: bytes
    pieces: tuple[tuple[int, int], ...]
    missing: int
    padding: int = 0

    @property
    def end(self) -> int:
        """Stream offset just behind it."""
        return self.offset + HEADER_OCTETS + self.length


class Lost(NamedTuple):
    """Frames were lost between these stream offsets; the reader found its way again behind."""

    offset: int
    end: int
    malformed: bool
    """The bytes were there and are no frames."""


def is_broken(length: int, kind: int, stream_id: int) -> bool:
    """Whether a header is against RFC 9113 in a way that says: this is no frame."""
    if not stream_id if kind in _ON_STREAM else stream_id and kind in _ON_CONNECTION:
        return True
    return kind in _FIXED_LENGTH and length != _FIXED_LENGTH[kind]


def plausible_header(length: int, kind: int, flags: int, stream_id: int) -> bool:
    """Whether nine octets can be a frame's header, strictly: for finding the way again.

    Frame types beyond RFC 9113, lengths beyond the default maximum and unknown flags are legal;
    they are not believed here.
    """
    if kind > CONTINUATION or length > _DEFAULT_MAX_FRAME or stream_id >> 31:
        return False
    if flags & ~_KNOWN_FLAGS[kind]:
        return False
    if (kind in _ON_STREAM and not stream_id) or (kind in _ON_CONNECTION and stream_id):
        return False
    if kind == SETTINGS:
        return length % 6 == 0 and not (flags & ACK and length)
    return length == _FIXED_LENGTH.get(kind, length)


def looks_like_frames(data: bytes | memoryview, *, at_start: bool = True) -> int:
    """Position of the first frame in `data`, judged by a chain of plausible headers; -1 = none.

    The chain must run over at least two headers or end exactly with `data`. A single frame
    that reaches past the data is believed only at its very start, and only where that is where
    a sender's write may have begun (`at_start`).
    """
    limit = min(len(data) - HEADER_OCTETS + 1, _DEFAULT_MAX_FRAME + HEADER_OCTETS)
    for start in range(max(limit, 0)):
        links, end = _chain(data, start)
        if links > 1 or (links and (end == len(data) or (at_start and not start))):
            return start
    return -1


def _chain(data: bytes | memoryview, at: int) -> tuple[int, int]:
    """(number of plausible headers, end of the last frame) of a chain; 0 if it breaks."""
    links = 0
    while at + HEADER_OCTETS <= len(data):
        high, low, kind, flags, stream_id = HEADER.unpack_from(data, at)
        length = high << 16 | low
        if not plausible_header(length, kind, flags, stream_id):
            return 0, at
        at += HEADER_OCTETS + length
        links += 1
        if links == 8:  # nine octets that fit by chance, eight times over: not in this world
            break
    return links, at


class _Reader:
    """Cuts the chunks of a stream into frames."""

    def __init__(self) -> None:
        self.header = bytearray()  # of a frame that began in an earlier chunk
        self.offset = 0  # of that frame
        self.length = self.kind = self.flags = self.stream_id = 0
        self.left = -1  # payload still to come; -1 = in a header
        self.payload = bytearray()
        self.pieces: list[tuple[int, int]] = []
        self.padding = 0
        self.missing = 0

    def start(self, offset: int, header: bytes | bytearray | memoryview, at: int) -> None:
        high, low, self.kind, self.flags, stream_id = HEADER.unpack_from(header, at)
        self.length = self.left = high << 16 | low
        self.stream_id = stream_id & 0x7FFFFFFF
        self.offset = offset
        self.missing = 0

    def take(self, offset: int, view: memoryview, at: int) -> int:
        """Take payload from position `at` of a chunk; the position behind it."""
        stop = min(len(view), at + self.left)
        if stop > at:
            if self.kind == DATA:
                if not self.pieces:
                    self.padding = view[at]
                self.pieces.append((offset + at, stop - at))
            elif self.length <= MAX_KEPT_PAYLOAD:
                self.payload += view[at:stop]
            self.left -= stop - at
        return stop

    def finish(self) -> Frame:
        kept = self.length <= MAX_KEPT_PAYLOAD or self.kind == DATA
        frame = Frame(
            self.offset,
            self.length,
            self.kind,
            self.flags,
            self.stream_id,
            bytes(self.payload),
            tuple(self.pieces),
            self.missing if kept else self.length,
            self.padding,
        )
        self.reset()
        return frame

    def reset(self) -> None:
        self.header.clear()
        self.payload.clear()
        self.pieces.clear()
        self.padding = 0
        self.left = -1


def read_frames(stream: ByteStream, start: int = 0) -> Iterator[Frame | Lost]:
    """The frames of a stream in order, from stream offset `start` (behind the preface).

    A gap inside DATA costs its bytes only. Any other gap, and a start in mid-connection, are
    passed over up to the next chain of plausible headers at the start of a chunk or inside it;
    what was passed over is reported as `Lost`, because header blocks may have been in it.
    """
    reader = _Reader()
    expected = start
    lost_from: int | None = start if stream.begins_mid_stream else None
    malformed = False
    for chunk_offset, whole, _ in stream.segments():
        if chunk_offset + len(whole) <= start:
            continue
        view = whole[max(0, start - chunk_offset) :]
        offset = max(chunk_offset, start)
        if offset != expected and lost_from is None:
            gap = offset - expected
            if reader.left >= gap and reader.kind == DATA:
                reader.left -= gap
                reader.missing += gap
                if not reader.left:
                    yield reader.finish()
            else:
                lost_from = reader.offset if reader.left >= 0 or reader.header else expected
                malformed = False
                reader.reset()
        expected = offset + len(view)
        at = 0
        while at < len(view):
            if lost_from is not None:
                found = looks_like_frames(view[at:], at_start=not at)
                if found < 0:
                    break
                at += found
                if offset + at > lost_from or stream.begins_mid_stream:
                    yield Lost(lost_from, offset + at, malformed)
                lost_from = None
            if reader.left < 0:
                if not reader.header and len(view) - at >= HEADER_OCTETS:
                    reader.start(offset + at, view, at)
                    at += HEADER_OCTETS
                else:
                    if not reader.header:
                        reader.offset = offset + at
                    taken = view[at : at + HEADER_OCTETS - len(reader.header)]
                    reader.header += taken
                    at += len(taken)
                    if len(reader.header) < HEADER_OCTETS:
                        break
                    reader.start(reader.offset, reader.header, 0)
                if is_broken(reader.length, reader.kind, reader.stream_id):
                    lost_from, malformed = reader.offset, True
                    at = min(len(view), max(0, reader.offset + 1 - offset))
                    reader.reset()
                    continue
            at = reader.take(offset, view, at)
            if not reader.left:
                yield reader.finish()
    if lost_from is not None and expected > lost_from:
        yield Lost(lost_from, expected, malformed)
    elif reader.left > 0 and reader.kind == DATA:
        # Cut by the end of the capture: what there is of it still counts.
        reader.missing += reader.left
        yield reader.finish()
