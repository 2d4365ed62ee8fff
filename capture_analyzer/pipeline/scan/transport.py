"""TCP and UDP headers → columns of the packets table."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.packets import HAS_SACK, TCP, UDP, Packets
from capture_analyzer.model.room import Room, stretches
from capture_analyzer.pipeline.scan.area import Area, place
from capture_analyzer.pipeline.scan.tally import Tally
from capture_analyzer.protocols.tcp import header as tcp_header
from capture_analyzer.protocols.tcp import options as tcp_options
from capture_analyzer.wire.windows import column

UDP_HEADER_BYTES: Final = 8


class Transport:
    """Decodes areas that begin at a transport header.

    Attributes:
        buffer_no: the buffer they lie in, if it is not that of their file; else -1.
    """

    def __init__(self, packets: Packets, tally: Tally, room: Room) -> None:
        self._packets = packets
        self._room = room
        self._tally = tally
        self._sacks: list[tuple[NDArray[np.intp], NDArray[np.uint32], NDArray[np.uint32]]] = []
        self.buffer_no = -1

    def tcp(self, area: Area) -> None:
        """Decode TCP headers."""
        if not len(area):
            return
        areas = area.window(tcp_header.MAX_HEADER_BYTES)
        headers = tcp_header.decode(areas)
        header_bytes = headers.header_bytes
        bad = (area.captured < tcp_header.HEADER_BYTES) | (header_bytes < tcp_header.HEADER_BYTES)
        bad |= area.length < header_bytes
        if bad.any():
            cut = area.captured < tcp_header.HEADER_BYTES
            cut &= area.length >= tcp_header.HEADER_BYTES
            detail = "the captured bytes end inside the TCP header"
            self._tally.add("truncated-header", "capture", detail, area.rows[cut])
            detail = "a TCP header's length is impossible"
            self._tally.add("tcp-malformed", "peer", detail, area.rows[bad & ~cut])
            self.tcp(area.take(~bad))
            return
        packets, rows = self._packets, area.rows
        where = place(rows)
        packets.protocol[where] = TCP
        packets.source_port[where] = headers.source_port
        packets.destination_port[where] = headers.destination_port
        packets.seq[where] = headers.seq
        packets.ack[where] = headers.ack
        packets.window[where] = headers.window
        packets.flags[where] = headers.flags
        packets.tcp_header_bytes[where] = header_bytes
        self._payload(area.behind(header_bytes))
        fixed = tcp_header.HEADER_BYTES
        found = tcp_options.decode(areas[:, fixed:], header_bytes - fixed, area.captured - fixed)
        packets.options[where] = found.options
        packets.tsval[where] = found.tsval
        packets.tsecr[where] = found.tsecr
        packets.mss[where] = found.mss
        packets.window_scale[where] = found.window_scale
        if len(found.sack_left):
            some = (found.options & HAS_SACK) != 0
            packets.sack_count[rows[some]] = found.sack_count[some]
            owners = np.repeat(rows, found.sack_count)
            self._sacks.append((owners, found.sack_left, found.sack_right))

    def udp(self, area: Area) -> tuple[Area, NDArray[np.uint16]]:
        """Decode UDP headers (RFC 768).

        Returns:
            The payloads of those that could be decoded, and their destination ports.
        """
        head = UDP_HEADER_BYTES
        bad = (area.captured < head) | (area.length < head)
        if bad.any():
            cut = bad & (area.length >= head)
            detail = "the captured bytes end inside the UDP header"
            self._tally.add("truncated-header", "capture", detail, area.rows[cut])
            detail = "a UDP header does not fit into its IP packet"
            self._tally.add("udp-malformed", "peer", detail, area.rows[bad & ~cut])
            area = area.take(~bad)
        rows, packets = area.rows, self._packets
        headers = area.window(head)
        ports = column(headers, 2, ">u2")
        packets.protocol[rows] = UDP
        packets.source_port[rows] = column(headers, 0, ">u2")
        packets.destination_port[rows] = ports
        # The UDP length is at most what IP carries; 0 stands for "all" (RFC 2675, offload).
        stated = column(headers, 4, ">u2").astype(np.int64)
        usable = (stated >= head) & (stated <= area.length)
        length = np.where(usable, stated, area.length)
        payload = Area(area.windows, rows, area.at, length, area.captured, area.depth).behind(head)
        self._payload(payload)
        return payload, ports

    def _payload(self, area: Area) -> None:
        if not len(area):
            return
        where = place(area.rows)
        packets = self._packets
        packets.payload_offset[where] = area.at
        packets.payload_bytes[where] = area.length
        cut = area.captured < area.length
        if packets.payload_captured is packets.payload_bytes and cut.any():
            packets.payload_captured = self._room.copy(packets.payload_bytes)
        if packets.payload_captured is not packets.payload_bytes:
            held = np.where(cut, np.maximum(area.captured, 0), area.length)
            packets.payload_captured[where] = held
        if self.buffer_no >= 0:
            packets.buffer_no[where] = self.buffer_no

    def finish(self) -> None:
        """Put the SACK blocks in packet order."""
        if not self._sacks:
            return
        packets = self._packets
        owners = np.concatenate([part[0] for part in self._sacks])
        order = np.argsort(owners, kind="stable")
        packets.sack_left = np.concatenate([part[1] for part in self._sacks])[order]
        packets.sack_right = np.concatenate([part[2] for part in self._sacks])[order]
        before = 0
        for part in stretches(len(packets)):
            counts = packets.sack_count[part]
            ends = np.cumsum(counts, dtype=np.int32) + np.int32(before)
            packets.sack_first[part] = np.where(counts > 0, ends - counts, 0)
            before = int(ends[-1])
