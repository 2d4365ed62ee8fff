"""A CSV row for every packet: what it is, and how its sender came to send it.

Columns: packet_no, time_ns (empty where the packet has none), connection_no and from_client
(empty outside TCP connections), seq and ack (raw; empty where not TCP), payload_bytes, flags
(letters as in tcpdump), label, mechanism, spurious (true, false, or empty where it can't be
known), wireshark_label (what Wireshark would say: its flags joined by +; empty if none).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.exporters.contract import Meta
from capture_analyzer.exporters.destination import Target, open_text
from capture_analyzer.model.analysis import Analysis
from capture_analyzer.model.column import NO_TIME
from capture_analyzer.model.packets import LABELS, MECHANISMS, SPURIOUS, Packets

META = Meta(name="packets", title="one CSV row a packet", suffix=".csv")

HEADER: Final = (
    "packet_no,time_ns,connection_no,from_client,seq,ack,payload_bytes,flags,"
    "label,mechanism,spurious,wireshark_label\n"
)
_ROWS_AT_ONCE: Final = 50_000  # about 4 MB of text: bounded memory, few calls
_LETTERS: Final = "FSRP.UEW"  # in tcpdump's order, which is that of the bits (RFC 9293)
_FLAGS: Final = np.array(
    [
        "".join(c for bit, c in enumerate(_LETTERS) if code >> bit & 1) or "none"
        for code in range(256)
    ],
    dtype=object,
)
_SIDES: Final = np.array(["false", "true", ""], dtype=object)  # by from_client, -1 is the last
_VERDICTS: Final = np.array(
    [
        f"{label},{how},{spurious}"
        for label in LABELS
        for how in MECHANISMS
        for spurious in SPURIOUS
    ],
    dtype=object,
)


def export(analysis: Analysis, destination: Target) -> None:
    """Write the packets of an analysis.

    Raises:
        OutputError: the destination can't be written.
    """
    packets = analysis.tables.packets.complete()
    with open_text(destination) as file:
        file.write(HEADER)
        says = np.array(packets.wireshark_labels, dtype=object)
        for first in range(0, len(packets), _ROWS_AT_ONCE):
            file.write(_rows(packets, slice(first, min(first + _ROWS_AT_ONCE, len(packets))), says))


def _rows(packets: Packets, part: slice, says: NDArray[np.object_]) -> str:
    tcp = packets.tcp_header_bytes[part] > 0
    verdict = packets.label[part].astype(np.int64) * len(MECHANISMS) + packets.mechanism[part]
    flags = _FLAGS[packets.flags[part]]
    flags[~tcp] = ""
    columns = (
        map(str, range(part.start + 1, part.stop + 1)),
        _numbers(packets.time_ns[part], packets.time_ns[part] != NO_TIME),
        _numbers(packets.connection_no[part], packets.connection_no[part] >= 0),
        _SIDES[packets.from_client[part]].tolist(),
        _numbers(packets.seq[part], tcp),
        _numbers(packets.ack[part], tcp),
        map(str, packets.payload_bytes[part].tolist()),
        flags.tolist(),
        _VERDICTS[verdict * len(SPURIOUS) + packets.spurious[part]].tolist(),
        says[packets.wireshark_label[part]].tolist(),
    )
    lines: Iterable[str] = map(",".join, zip(*columns, strict=True))
    if packets.left_out[part].any():
        lines = itertools.compress(lines, (~packets.left_out[part]).tolist())
    return "".join(f"{line}\n" for line in lines)


def _numbers(values: NDArray[Any], known: NDArray[np.bool_]) -> list[str]:
    """Numbers as text, empty where they are not known."""
    texts = list(map(str, values.tolist()))
    for index in np.flatnonzero(~known).tolist():
        texts[index] = ""
    return texts
