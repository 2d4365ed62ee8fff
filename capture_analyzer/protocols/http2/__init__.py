"""HTTP/2 (RFC 9113), read passively: frames, streams and their messages."""

from capture_analyzer.protocols.http2.frames import (
    PREFACE,
    Frame,
    Lost,
    looks_like_frames,
    read_frames,
)
from capture_analyzer.protocols.http2.streams import (
    FRAME_ROW,
    MAX_PIECES,
    Direction,
    Http2Message,
    Interim,
    read_direction,
)

__all__ = [
    "FRAME_ROW",
    "MAX_PIECES",
    "PREFACE",
    "Direction",
    "Frame",
    "Http2Message",
    "Interim",
    "Lost",
    "looks_like_frames",
    "read_direction",
    "read_frames",
]
