"""A CSV row for every packet: what it is, and how its sender came to send it.

Columns: packet_no, time_ns (empty where the packet has none), connection_no and from_client
(empty outside TCP connections), seq and ack (raw; empty where not TCP), payload_bytes, flags
(letters as in tcpdump), label, mechanism, spurious (true, false, or empty where it can't be
known), wireshark_label (what Wireshark would say: its flags joined by +; empty if none).
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.exporters.contract import Meta
from capture_analyzer.exporters.destination import Target, open_text
from capture_analyzer.exporters.rows import choice, chosen, fixed, joined, numbers
from capture_analyzer.model.analysis import Analysis
from capture_analyzer.model.column import NO_TIME
from capture_analyzer.model.packets import LABELS, MECHANISMS, SPURIOUS, Packets

META = Meta(name="packets", title="one CSV row a packet", suffix=".csv")

HEADER: Final = (
    "packet_no,time_ns,connection_no,from_client,seq,ack,payload_bytes,flags,"
    "label,mechanism,spurious,wireshark_label\n"
)
_ROWS_AT_ONCE: Final = 8_000  # the working memory stays in cache
_LETTERS: Final = "FSRP.UEW"  # in tcpdump's order, which is that of the bits (RFC 9293)
_FLAGS: Final = choice(
    [
        "".join(c for bit, c in enumerate(_LETTERS) if code >> bit & 1) or "none"
        for code in range(256)
    ]
    + [""]
)
_NOT_TCP: Final = 256  # index of the last
_SIDES: Final = choice(["false", "true", ""])  # by from_client; the last: it is -1
_VERDICTS: Final = choice(
    [f"{label},{how},{spurious}" for label in LABELS for how in MECHANISMS for spurious in SPURIOUS]
)


def export(analysis: Analysis, destination: Target) -> None:
    """Write the packets of an analysis.

    Raises:
        OutputError: the destination can't be written.
    """
    packets = analysis.tables.packets.complete()
    with open_text(destination) as file:
        file.write(HEADER)
        says = choice(packets.wireshark_labels)
        for first in range(0, len(packets), _ROWS_AT_ONCE):
            last = min(first + _ROWS_AT_ONCE, len(packets))
            shown = first + np.flatnonzero(~packets.left_out[first:last])
            if len(shown):
                file.write(_rows(packets, shown, says))


def _rows(packets: Packets, part: NDArray[np.intp], says: NDArray[np.uint32]) -> str:
    """Rows of some packets."""
    other = packets.tcp_header_bytes[part] == 0
    time_ns, connection_no = packets.time_ns[part], packets.connection_no[part]
    verdict = packets.label[part].astype(np.int64) * len(MECHANISMS) + packets.mechanism[part]
    comma = fixed(",")
    return joined(
        numbers(part + 1),
        comma,
        numbers(time_ns, time_ns == NO_TIME),
        comma,
        numbers(connection_no, connection_no < 0),
        comma,
        chosen(packets.from_client[part], _SIDES),
        comma,
        numbers(packets.seq[part], other),
        comma,
        numbers(packets.ack[part], other),
        comma,
        numbers(packets.payload_bytes[part]),
        comma,
        chosen(np.where(other, _NOT_TCP, packets.flags[part].astype(np.int16)), _FLAGS),
        comma,
        chosen(verdict * len(SPURIOUS) + packets.spurious[part], _VERDICTS),
        comma,
        chosen(packets.wireshark_label[part], says),
        fixed("\n"),
    )
