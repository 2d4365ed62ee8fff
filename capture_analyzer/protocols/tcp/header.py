"""The fixed TCP header (RFC 9293 section 3.1), decoded for many packets at once."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.quick_dataclass import quick_dataclass
from capture_analyzer.wire.windows import Bytes, column

HEADER_BYTES: Final = 20
MAX_HEADER_BYTES: Final = 60


@quick_dataclass
class Headers:
    """The fields of some headers, one element a packet: mostly views of the windows.

    Attributes:
        source_port, destination_port, seq, ack, window: as sent, in the network's byte order;
            `ack` is 0 without ACK.
        flags: the low eight bits.
        header_bytes: length with options, as stated (below 20 is malformed).
    """

    source_port: NDArray[Any]
    destination_port: NDArray[Any]
    seq: NDArray[Any]
    ack: NDArray[Any]
    window: NDArray[Any]
    flags: NDArray[np.uint8]
    header_bytes: NDArray[np.int64]


def decode(headers: Bytes) -> Headers:
    """Decode windows of at least 20 bytes that begin at the header."""
    flags = headers[:, 13]
    ack = column(headers, 8, ">u4")
    without = (flags & np.uint8(0x10)) == 0
    if without.any():
        ack = np.where(without, np.uint32(0), ack)
    return Headers(
        source_port=column(headers, 0, ">u2"),
        destination_port=column(headers, 2, ">u2"),
        seq=column(headers, 4, ">u4"),
        ack=ack,
        window=column(headers, 14, ">u2"),
        flags=flags,
        header_bytes=(headers[:, 12] >> np.uint8(4)).astype(np.int64) * 4,
    )
