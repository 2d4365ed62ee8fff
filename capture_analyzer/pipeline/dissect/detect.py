"""What each connection speaks, by its first bytes: ports say nothing."""

from __future__ import annotations

from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.byte_stream import ByteStream
from capture_analyzer.pipeline.reassemble import Streams
from capture_analyzer.protocols.http1.source import Source
from capture_analyzer.protocols.http1.start_line import (
    H2_PREFACE,
    begins_request,
    begins_response,
    find_request,
    find_response,
)
from capture_analyzer.protocols.tls.records import HEADER_BYTES, evidence

Protocol = Literal["http/1.1", "h2", "tls", "opaque"]

FIRST_BYTES: Final = 8

SEARCH_BYTES: Final = 1 << 18
"""How far a start line is looked for where a capture begins in mid-connection. What hides one
longer than that is a transfer that began before the capture and ends after most of it."""

CERTAIN_RECORDS: Final = 3  # of `records.evidence`

_CLIENT_HELLO: Final = 1
_SERVER_HELLO: Final = 2


def first_bytes(streams: Streams) -> NDArray[np.uint8]:
    """The first `FIRST_BYTES` bytes of every stream's first chunk, zeros behind its end.

    Shape (number of streams, FIRST_BYTES). Zeros too for a stream that lacks its begin.
    """
    begin = np.zeros(len(streams), np.int64) if streams.origins is None else streams.origins
    result = np.zeros((len(streams), FIRST_BYTES), np.uint8)
    first = streams.bounds[:-1]
    some = np.flatnonzero(first < streams.bounds[1:])
    some = some[streams.starts[first[some]] == begin[some]]
    chunk = first[some]
    buffer_nos = streams.buffer_nos[chunk]
    for buffer_no in np.flatnonzero(np.bincount(buffer_nos)).tolist():
        mine = np.flatnonzero(buffer_nos == buffer_no)
        data = np.frombuffer(streams.buffers[buffer_no], np.uint8)
        at = streams.buffer_offsets[chunk[mine]]
        lengths = streams.lengths[chunk[mine]]
        for index in range(FIRST_BYTES):
            values = data.take(at + index, mode="clip")
            result[some[mine], index] = np.where(lengths > index, values, 0)
    return result


def speak_tls(first: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Which connections begin with a TLS hello, whole in the first packet's header at least.

    Either side's hello will do: the other direction may be missing. `first` is what
    `first_bytes` returns; the result has one element a connection.
    """
    kind, major, minor = first[:, 0], first[:, 1], first[:, 2]
    length = first[:, 3].astype(np.int64) << 8 | first[:, 4]
    hello = (kind == 22) & (major == 3) & (minor <= 4) & (length >= 4) & (length <= 1 << 14)
    message = first[:, HEADER_BYTES]
    hello &= (message == _CLIENT_HELLO) | (message == _SERVER_HELLO)
    # A hello begins with its length: its first byte is 0 in any that is shorter than 64 KB.
    hello &= first[:, HEADER_BYTES + 1] == 0
    by_connection = hello.reshape(-1, 2)
    result: NDArray[np.bool_] = by_connection[:, 0] | by_connection[:, 1]
    return result


def recognise(asked: Source, answered: Source) -> Protocol:
    """What a connection that does not begin with a TLS hello speaks.

    Args:
        asked: the client's bytes.
        answered: the server's.
    """
    client, server = asked.stream, answered.stream
    if asked.read(0, len(H2_PREFACE)) == H2_PREFACE:
        return "h2"
    if begins_request(asked, 0) or begins_response(answered, 0):
        return "http/1.1"
    if _lacks_begin(client) or _lacks_begin(server):
        scores = evidence(client), evidence(server)
        if max(scores) >= CERTAIN_RECORDS or sum(scores) > CERTAIN_RECORDS:
            return "tls"
        if (
            find_response(answered, 0, min(SEARCH_BYTES, answered.captured_end)) is not None
            or find_request(asked, 0, min(SEARCH_BYTES, asked.captured_end)) is not None
        ):
            return "http/1.1"
    return "opaque"


def _lacks_begin(stream: ByteStream) -> bool:
    return len(stream) > 0 and (stream.begins_mid_stream or int(stream.starts[0]) > 0)
