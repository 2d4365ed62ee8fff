"""Table `packets`: what the headers of every packet say, in columns."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, Final, get_args, get_type_hints

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.column import column, empty_array
from capture_analyzer.model.quick_dataclass import quick_dataclass
from capture_analyzer.model.room import IN_MEMORY, Room
from capture_analyzer.model.tunnels import Tunnel

FIN: Final = 0x01
SYN: Final = 0x02
RST: Final = 0x04
PSH: Final = 0x08
ACK: Final = 0x10
URG: Final = 0x20

TCP: Final = 6
UDP: Final = 17

LABELS: Final = (
    "other",
    "capture_duplicate",
    "network_duplicate",
    "rst",
    "syn",
    "fin",
    "zero_window_probe",
    "keep_alive",
    "retransmission",
    "reordered",
    "original",
    "zero_window",
    "keep_alive_ack",
    "window_update",
    "dup_ack",
    "ack",
)
"""Names for the codes in `Packets.label`. A packet has one: the first that fits, in this
order, save `other`, which is what is not TCP."""

MECHANISMS: Final = ("", "fast", "tlp", "rto", "after_rto", "syn", "unknown")
"""Names for the codes in `Packets.mechanism`: how the sender came to send again."""

HAS_TIMESTAMPS: Final = 0x01
HAS_MSS: Final = 0x02
HAS_WINDOW_SCALE: Final = 0x04
SACK_PERMITTED: Final = 0x08
HAS_SACK: Final = 0x10
OPTIONS_BROKEN: Final = 0x80
"""Bits of `Packets.options`: which TCP options were read; the last: their list is malformed or
was cut by the snap length, and what follows that place is not known."""

SPURIOUS: Final = ("", "false", "true")
"""Names for the codes in `Packets.spurious`; "" = can't be known, or not a retransmission."""


_BY_WORKERS: Final = ("from_client", "label", "mechanism", "spurious")
"""Columns written by the analysis of connections, which workers may do."""


@quick_dataclass
class Packets:
    """One element a packet in each array; packet_no = index + 1.

    `protocol` is TCP or UDP only if that header was decoded. A packet that was not decoded
    so far has `protocol` 0, or the number of the other IP protocol that it carries, and
    zeros behind; so has one without a time (NO_TIME). Of the fragments of a datagram the last
    one captured has what the whole datagram says, the others have `protocol` 0.
    """

    time_ns: NDArray[np.int64] = column("When, since packet 1.", unit="ns")
    file_no: NDArray[np.uint16] = column("Which file.")
    frame_no: NDArray[np.int32] = column("1-based number in that file.")
    captured_bytes: NDArray[np.uint32] = column("Bytes in the file.", unit="bytes")
    original_bytes: NDArray[np.uint32] = column("Bytes on the wire.", unit="bytes")
    ip_version: NDArray[np.uint8] = column("4, 6, or 0 if not IP.")
    protocol: NDArray[np.uint8] = column("IP protocol number behind extension headers; 0 = none.")
    source: NDArray[np.int32] = column(
        "Source address, as an index into `addresses`; -1 = none.", names="addresses"
    )
    destination: NDArray[np.int32] = column("Destination address, likewise.", names="addresses")
    source_port: NDArray[np.uint16] = column("TCP or UDP source port.")
    destination_port: NDArray[np.uint16] = column("TCP or UDP destination port.")
    ttl: NDArray[np.uint8] = column("IPv4 time to live or IPv6 hop limit.")
    ip_id: NDArray[np.uint16] = column("IPv4 identification; 0 in IPv6.")
    payload_offset: NDArray[np.int64] = column(
        "Offset of the TCP or UDP payload in the file's buffer.", unit="bytes"
    )
    payload_bytes: NDArray[np.uint32] = column(
        "Payload length on the wire, by the IP header.", unit="bytes"
    )
    payload_captured: NDArray[np.uint32] = column(
        "How much of the payload the file holds (less than payload_bytes when cut).", unit="bytes"
    )
    seq: NDArray[np.uint32] = column("TCP sequence number, raw.")
    ack: NDArray[np.uint32] = column("TCP acknowledgement number, raw; 0 without ACK.")
    window: NDArray[np.uint16] = column("TCP window field, unscaled.")
    flags: NDArray[np.uint8] = column("TCP flags, the low eight bits.")
    tcp_header_bytes: NDArray[np.uint8] = column("TCP header length; 0 = not TCP.", unit="bytes")
    tsval: NDArray[np.uint32] = column("TCP timestamp value (RFC 7323); 0 without the option.")
    tsecr: NDArray[np.uint32] = column("TCP timestamp echo reply; 0 without the option.")
    # Written by pipeline/tcp; before it has run they hold their zero values.
    connection_no: NDArray[np.int32] = column("Connection; -1 = none (not TCP).")
    from_client: NDArray[np.int8] = column("1 from client, 0 from server, -1 not known.")
    label: NDArray[np.uint8] = column("Index into LABELS.", names=LABELS)
    mechanism: NDArray[np.uint8] = column("Index into MECHANISMS.", names=MECHANISMS)
    spurious: NDArray[np.uint8] = column("Index into SPURIOUS.", names=SPURIOUS)
    addresses: list[str] = dataclasses.field(default_factory=list)  # distinct, as text (RFC 5952)
    tunnels: list[Tunnel] = dataclasses.field(default_factory=list)  # by tunnel_no - 1
    buffer_no: NDArray[np.uint16] = column(
        "Which of the capture's buffers holds its payload: its file's, or one of reassembled "
        "IP fragments.",
        default_factory=empty_array(np.uint16),
    )
    tunnel_no: NDArray[np.uint16] = column(
        "The tunnel it was inside of, by Tunnel.tunnel_no; 0 = none. Its addresses, ports and "
        "so on are those of the packet inside.",
        default_factory=empty_array(np.uint16),
    )
    left_out: NDArray[np.bool_] = column(
        "It is not part of what was asked for; then `protocol` is 0.",
        default_factory=empty_array(np.bool_),
    )
    options: NDArray[np.uint8] = column(
        "Which TCP options it carries: HAS_TIMESTAMPS and so on, added up.",
        default_factory=empty_array(np.uint8),
    )
    mss: NDArray[np.uint16] = column(
        "TCP maximum segment size option (on a SYN); 0 = none.",
        unit="bytes",
        default_factory=empty_array(np.uint16),
    )
    window_scale: NDArray[np.uint8] = column(
        "TCP window scale option (on a SYN), as sent: valid if options has HAS_WINDOW_SCALE.",
        default_factory=empty_array(np.uint8),
    )
    sack_first: NDArray[np.int32] = column(
        "Index of its first SACK block in `sack_left` and `sack_right`; 0 without any.",
        default_factory=empty_array(np.int32),
    )
    sack_count: NDArray[np.uint8] = column(
        "Number of its SACK blocks, 0 to 4.", default_factory=empty_array(np.uint8)
    )
    # The SACK blocks of all packets, in packet order and in the order of the option: raw
    # sequence numbers of a block's first byte, and of the byte behind its last.
    sack_left: NDArray[np.uint32] = dataclasses.field(default_factory=empty_array(np.uint32))
    sack_right: NDArray[np.uint32] = dataclasses.field(default_factory=empty_array(np.uint32))
    # Worked out when asked for: by `complete`.
    wireshark_label: NDArray[np.uint16] = column(
        "What Wireshark 4.0 says of it, by its own rules, as an index into `wireshark_labels`: "
        "names of its fields tcp.analysis.NAME joined by +, in the order below; 0 = nothing.",
        names="wireshark_labels",
        default_factory=empty_array(np.uint16),
    )
    wireshark_labels: list[str] = dataclasses.field(default_factory=lambda: [""])
    unfinished: Callable[[Packets], None] | None = None  # works them out

    def complete(self) -> Packets:
        """Work out the columns that are only made when asked for; cheap the second time."""
        if self.unfinished is not None:
            finish, self.unfinished = self.unfinished, None
            finish(self)
        return self

    def __len__(self) -> int:
        return len(self.time_ns)

    @classmethod
    def blank(cls, count: int, room: Room = IN_MEMORY, **given: NDArray[np.generic]) -> Packets:
        """This many packets of which nothing is known, save the columns that are given.

        All zeros, save -1 in `source`, `destination`, `connection_no` and `from_client`. They
        lie in `room`, but in memory only those that workers write to are shared.
        """
        unshared = room.unshared()
        arrays: dict[str, Any] = dict(given)
        for name, kind in _types().items():
            if name not in given:
                arrays[name] = (room if name in _BY_WORKERS else unshared).zeros(count, kind)
        packets = cls(**arrays)
        for name in ("source", "destination", "connection_no", "from_client"):
            getattr(packets, name).fill(-1)
        return packets


@functools.cache
def _types() -> dict[str, type[np.generic]]:
    """The element type of each column."""
    hints = get_type_hints(Packets)
    return {
        field.name: get_args(get_args(hints[field.name])[1])[0]
        for field in dataclasses.fields(Packets)
        if field.metadata
    }
