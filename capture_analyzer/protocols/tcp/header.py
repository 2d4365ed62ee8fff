"""The fixed TCP header (RFC 9293 section 3.1), decoded for many packets at once."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.quick_dataclass import quick_dataclass
from capture_analyzer.wire.windows import Bytes, column

HEADER_BYTES: Final = 20
MAX_HEADER_BYTES: Final = 60


@quick_dataclass
class Headers:
    """The fields of some headers, one element a packet.

    Attributes:
        source_port, destination_port, seq, ack, window: as sent; `ack` is 0 without ACK.
        flags: the low eight bits.
        header_bytes: length with options, as stated (below 20 is malformed).
    """

    source_port: NDArray[np.uint16]
    destination_port: NDArray[np.uint16]
    seq: NDArray[np.uint32]
    ack: NDArray[np.uint32]
    window: NDArray[np.uint16]
    flags: NDArray[np.uint8]
    header_bytes: NDArray[np.int64]


def decode(headers: Bytes) -> Headers:
    """Decode windows of at least 20 bytes that begin at the header."""
    flags = headers[:, 13].copy()
    ack = column(headers, 8, ">u4").astype(np.uint32)
    without = (flags & np.uint8(0x10)) == 0
    if without.any():
        ack[without] = 0
    return Headers(
        source_port=column(headers, 0, ">u2").astype(np.uint16),
        destination_port=column(headers, 2, ">u2").astype(np.uint16),
        seq=column(headers, 4, ">u4").astype(np.uint32),
        ack=ack,
        window=column(headers, 14, ">u2").astype(np.uint16),
        flags=flags,
        header_bytes=(headers[:, 12] >> np.uint8(4)).astype(np.int64) * 4,
    )
