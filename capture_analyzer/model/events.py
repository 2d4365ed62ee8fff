"""Table `events`: the parts of a streamed answer, one element an event."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.column import column, empty_array, rows_equal
from capture_analyzer.model.quick_dataclass import quick_dataclass

EVENT_KINDS: Final = ("content", "role", "ping", "usage", "error", "end", "other")
"""Names for the codes in `Events.kind`.

content: holds generated content; role: opens the answer; ping: keeps the stream alive;
usage: reports token counts; error: reports a failure; end: closes the answer.
"""
EVENT_KIND_CODE: Final = {name: code for code, name in enumerate(EVENT_KINDS)}


@quick_dataclass
class Events:
    """Events of streamed answers (server-sent events so far), by exchange, then stream offset.

    An event is a chunk of the answer, not a token: servers put one token, several or none
    into it. Its three times are those of its last byte.
    """

    exchange_no: NDArray[np.int32] = column("Exchange.", default_factory=empty_array(np.int32))
    seen_ns: NDArray[np.int64] = column(
        "Its last byte was captured.", unit="ns", default_factory=empty_array(np.int64)
    )
    in_order_ns: NDArray[np.int64] = column(
        "Its last byte was readable in order.", unit="ns", default_factory=empty_array(np.int64)
    )
    time_ns: NDArray[np.int64] = column(
        "The client could use it: the TLS record with its last byte was complete.",
        unit="ns",
        default_factory=empty_array(np.int64),
    )
    kind: NDArray[np.uint8] = column(
        "Index into EVENT_KINDS.", names=EVENT_KINDS, default_factory=empty_array(np.uint8)
    )
    size_bytes: NDArray[np.int32] = column(
        "Length of its data.", unit="bytes", default_factory=empty_array(np.int32)
    )
    generated_chars: NDArray[np.int32] = column(
        "Characters of generated content in it.", default_factory=empty_array(np.int32)
    )
    output_tokens: NDArray[np.int32] = column(
        "Output tokens so far, as the server counts them; -1 = it does not say.",
        default_factory=empty_array(np.int32),
    )
    packet_no: NDArray[np.int32] = column(
        "Packet with its last byte.", default_factory=empty_array(np.int32)
    )
    offset: NDArray[np.int64] = column(
        "Transport stream offset of its first byte.",
        unit="bytes",
        default_factory=empty_array(np.int64),
    )
    end_offset: NDArray[np.int64] = column(
        "Transport stream offset behind its last byte.",
        unit="bytes",
        default_factory=empty_array(np.int64),
    )

    def __len__(self) -> int:
        return len(self.time_ns)

    def rows_of(self, exchange_no: int) -> slice:
        """The slice of events that belong to an exchange."""
        return rows_equal(self.exchange_no, exchange_no)
