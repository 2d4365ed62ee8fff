"""The way down: from frames through link and IP headers to what IP carries."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.anomalies import Anomaly, Origin
from capture_analyzer.model.capture import Capture
from capture_analyzer.model.column import NO_TIME, constant
from capture_analyzer.model.packets import TCP, UDP, Packets
from capture_analyzer.model.progress import Progress, silent
from capture_analyzer.model.room import IN_MEMORY, Room
from capture_analyzer.pipeline.scan.addresses import Addresses
from capture_analyzer.pipeline.scan.area import Area, place
from capture_analyzer.pipeline.scan.fragments import Fragments
from capture_analyzer.pipeline.scan.tally import Tally
from capture_analyzer.pipeline.scan.transport import Transport
from capture_analyzer.pipeline.scan.tunnels import Tunnels
from capture_analyzer.protocols import ip, link, tunnels
from capture_analyzer.wire.windows import Windows

BATCH: Final = 32_768
"""Packets decoded at once: windows and columns of a batch stay in the processor's cache."""

HEAD_BYTES: Final = 120
"""Bytes of a packet that are gathered at once: the headers of Ethernet, IPv6 and TCP with all
options take 114."""

MAX_DEPTH: Final = 4
"""Tunnels inside of each other that are entered: two are usual (a mirrored overlay network)."""

MAX_ROUNDS: Final = 3
"""How often fragments are put together: whole datagrams can be tunnels that hold fragments."""

_OF_TRANSPORT: Final = (
    "protocol",
    "source_port",
    "destination_port",
    "ip_id",
    "payload_offset",
    "payload_bytes",
    "payload_captured",
)

_IP_STATUS: Final[dict[int, tuple[str, Origin, str]]] = {
    ip.CUT: ("truncated-header", "capture", "the captured bytes end inside the IP header"),
    ip.MALFORMED: ("ip-malformed", "peer", "an IP header contradicts itself"),
    ip.A_FRAGMENT: ("ip-malformed", "peer", "a fragment inside of a reassembled datagram"),
}


def scan(
    capture: Capture, *, room: Room = IN_MEMORY, progress: Progress = silent
) -> tuple[Packets, list[Anomaly]]:
    """Decode the headers of every packet.

    Where IP fragments are put together, their bytes are appended to `capture.buffers`.

    Returns:
        The packets, and one anomaly for each reason why some were not decoded, with the
        number of packets and the first of them.
    """
    count = len(capture)
    unshared = room.unshared()
    payload_bytes = unshared.zeros(count, np.uint32)
    packets = Packets.blank(
        count,
        room,
        payload_bytes=payload_bytes,
        payload_captured=payload_bytes,  # until one proves cut
        tunnel_no=constant(0, count, np.uint16),
        left_out=constant(0, count, np.bool_),
        wireshark_label=constant(0, count, np.uint16),
        time_ns=capture.time_ns,
        file_no=capture.file_no,
        buffer_no=capture.file_no,
        frame_no=capture.frame_no,
        captured_bytes=capture.captured_bytes,
        original_bytes=capture.original_bytes,
    )
    scanner = _Scanner(capture, packets, unshared)
    files = [Windows(buffer) for buffer in capture.buffers]
    for start in range(0, count, BATCH):
        rows = np.arange(start, min(start + BATCH, count))
        if len(files) == 1:
            scanner.batch(files[0], rows)
        else:
            of_file = capture.file_no[start : start + BATCH]
            for file_no in np.unique(of_file).tolist():
                scanner.batch(files[file_no], rows[of_file == file_no])
        progress("decode", int(rows[-1]) + 1, count)
    scanner.finish()
    return packets, scanner.tally.anomalies()


class _Scanner:
    """Decodes batches into the packets table."""

    def __init__(self, capture: Capture, packets: Packets, room: Room) -> None:
        self.capture = capture
        self.packets = packets
        self.room = room
        self.tally = Tally()
        self.addresses = Addresses()
        self.tunnels = Tunnels(packets)
        self.fragments = Fragments()
        self.transport = Transport(packets, self.tally, room)
        self.link_types = np.array([i.link_type for i in capture.interfaces], np.int64)

    def batch(self, windows: Windows, rows: NDArray[np.intp]) -> None:
        """Decode the packets `rows`, ascending indices, all of one file."""
        untimed = self.capture.time_ns[place(rows)] == NO_TIME
        if untimed.any():
            detail = "packets without a time stamp (as in Simple Packet Blocks) are left aside"
            self.tally.add("packet-without-time", "capture", detail, rows[untimed])
            rows = rows[~untimed]
        if not len(rows):
            return
        types = self.link_types[self.capture.interface_no[place(rows)]]
        for link_type in link.SUPPORTED:
            some = types == link_type
            if some.all():
                self._link(windows, rows, link_type)
                return
            if some.any():
                self._link(windows, rows[some], link_type)
                rows, types = rows[~some], types[~some]
        self.tally.add_kinds("link-type-unsupported", types, rows, link.describe)

    def _link(self, windows: Windows, rows: NDArray[np.intp], link_type: int) -> None:
        """Find the IP headers of packets of one link type."""
        capture, where = self.capture, place(rows)
        captured = capture.captured_bytes[where]
        on_wire = np.maximum(captured, capture.original_bytes[where])
        offsets = capture.data_offset[where]
        heads = windows.at(offsets, HEAD_BYTES)
        network = link.network_layer(windows, offsets, captured, link_type, heads)
        area = Area(windows, rows, offsets, on_wire, captured.astype(np.int64), heads=heads)
        area = area.behind(network.header_bytes)
        if network.most is not None:
            area.length = np.minimum(area.length, network.most)
        kept = np.ones(len(rows), np.bool_)
        if network.cut is not None:
            detail = "the captured bytes end inside the link-layer header"
            self.tally.add("truncated-header", "capture", detail, rows[network.cut])
            kept &= ~network.cut
        if network.is_ip is not None:
            others = kept & ~network.is_ip
            kinds = network.ethertype[others]
            self.tally.add_kinds("not-ip", kinds, rows[others], link.describe_ethertype)
            kept &= network.is_ip
        if not kept.all():
            area = area.take(kept)
        if len(area):
            self._network(area)

    def _network(self, area: Area, records: NDArray[np.int32] | None = None) -> None:
        """Decode IP headers.

        `records` are the ways into the tunnels that these packets are inside of.
        """
        headers = area.window(ip.IPV6_HEADER_BYTES)
        version = ip.version(headers[:, 0])
        if int(version.min()) == int(version.max()) == 4:
            datagrams = ip.ipv4(headers, area.at, area.captured, area.length)
            self._datagrams(area, 4, datagrams, records)
            return
        for number in (4, 6):
            some = version == number
            if not some.any():
                continue
            part = area.take(some)
            where = part.at, part.captured, part.length
            if number == 4:
                datagrams = ip.ipv4(headers[some], *where)
            else:
                datagrams = ip.ipv6(part.windows, headers[some], *where)
            self._datagrams(part, number, datagrams, None if records is None else records[some])
        others = (version != 4) & (version != 6)
        cut = others & (area.captured < 1)
        detail = "the captured bytes end inside the IP header"
        self.tally.add("truncated-header", "capture", detail, area.rows[cut])
        detail = "neither IP version 4 nor 6"
        self.tally.add("ip-malformed", "peer", detail, area.rows[others & ~cut])

    def _datagrams(
        self,
        area: Area,
        version: int,
        datagrams: ip.Datagrams,
        records: NDArray[np.int32] | None,
    ) -> None:
        """Write the IP columns of packets of one version, and go on to what they carry."""
        packets, status = self.packets, datagrams.status
        if status is not None and bool((status == ip.CUT).any()):
            # Their addresses were not captured whole: nothing of them is written.
            self._reject(area.rows[status == ip.CUT], ip.CUT)
            kept = status != ip.CUT
            area, status, datagrams = area.take(kept), status[kept], datagrams.take(kept)
            records = None if records is None else records[kept]
            if not len(area):
                return
        rows, where = area.rows, place(area.rows)
        if records is not None:
            self.tunnels.mark(rows, records)
            for name in _OF_TRANSPORT:  # of the outer packet; what is inside may have none
                getattr(packets, name)[rows] = 0
        packets.ip_version[where] = version
        packets.ttl[where] = datagrams.hop_limit
        if datagrams.identification is not None:
            packets.ip_id[where] = datagrams.identification
        source, destination = self.addresses.encode(datagrams.source, datagrams.destination, rows)
        packets.source[where] = source
        packets.destination[where] = destination
        protocol = datagrams.protocol
        area = area.behind(datagrams.transport_offset - area.at)
        area.length = datagrams.transport_bytes
        if status is not None and status.any():
            self._reject(rows[status == ip.MALFORMED], ip.MALFORMED)
            parts = status == ip.A_FRAGMENT
            if parts.any():
                ends = source[parts], destination[parts]
                self.fragments.add(area.take(parts), version, datagrams.take(parts), ends)
            kept = status == ip.OK
            area, protocol = area.take(kept), protocol[kept]
        self._content(area, protocol)

    def _reject(self, rows: NDArray[np.intp], status: int) -> None:
        code, origin, detail = _IP_STATUS[status]
        self.tally.add(code, origin, detail, rows)

    def _content(self, area: Area, protocol: NDArray[np.uint8]) -> None:
        """Decode what IP packets carry."""
        is_tcp = protocol == TCP
        if is_tcp.all():
            self.transport.tcp(area)
            return
        self.transport.tcp(area.take(is_tcp))
        is_udp = protocol == UDP
        if is_udp.any():
            self._udp(area.take(is_udp))
        others = ~(is_tcp | is_udp)
        if others.any():
            self._rare(area.take(others), protocol[others])

    def _udp(self, area: Area) -> None:
        payload, ports = self.transport.udp(area)
        some = np.isin(ports, tunnels.PORTS)
        if area.depth < MAX_DEPTH and some.any():
            payload = payload.take(some)
            captured = np.minimum(payload.captured, payload.length)
            inside = tunnels.in_udp(payload.windows, payload.at, captured, ports[some])
            self._inside(payload, inside)

    def _rare(self, area: Area, protocol: NDArray[np.uint8]) -> None:
        """Authentication headers, tunnels, and what is not decoded."""
        secured = protocol == ip.AUTHENTICATION
        if secured.any():
            self._behind_extensions(area.take(secured), protocol[secured])
            area, protocol = area.take(~secured), protocol[~secured]
        self.packets.protocol[area.rows] = protocol
        left = np.ones(len(area), np.bool_)
        for number in tunnels.PROTOCOLS:
            some = protocol == number
            if area.depth < MAX_DEPTH and some.any():
                part = area.take(some)
                inside = tunnels.in_ip(part.windows, part.at, part.captured, number)
                left[some] = ~self._inside(part, inside)
        kinds, rows = protocol[left], area.rows[left]
        self.tally.add_kinds("protocol-not-decoded", kinds, rows, ip.describe)

    def _behind_extensions(self, area: Area, protocol: NDArray[np.uint8]) -> None:
        """Decode what is behind authentication headers, or extension headers in fragments."""
        protocol, status = protocol.copy(), np.zeros(len(area), np.uint8)
        header_bytes = np.zeros(len(area), np.int64)
        ip.skip_extensions(
            area.windows, area.at, area.captured, area.length, protocol, header_bytes, status
        )
        for number in _IP_STATUS:
            self._reject(area.rows[status == number], number)
        kept = status == ip.OK
        self._content(area.behind(header_bytes).take(kept), protocol[kept])

    def _inside(self, area: Area, inside: tunnels.Inside) -> NDArray[np.bool_]:
        """Decode what is inside of tunnels; returns which of them hold IP (or are cut)."""
        network = inside.network
        kept = np.ones(len(area), np.bool_) if network.is_ip is None else network.is_ip
        entered = kept
        if network.cut is not None:
            # Bytes past the captured ones were read: what they said counts for nothing.
            cut = network.cut & (network.header_bytes <= area.length)
            detail = "the captured bytes end inside the header of a tunnel"
            self.tally.add("truncated-header", "capture", detail, area.rows[cut])
            kept = kept & ~network.cut
            entered = kept | cut
        if kept.any():
            inner = inside.take(kept)
            area = area.take(kept).behind(inner.network.header_bytes)
            area.depth += 1
            self._network(area, self.tunnels.enter(area.rows, inner))
        return entered

    def finish(self) -> None:
        """What needs all batches: fragments, final address numbers, SACK blocks in order."""
        packets = self.packets
        in_order = len(self.capture.buffers) == 1 and not self.fragments
        self._assemble()
        inside, source, destination = self.tunnels.ends()
        last = 2 * len(packets)
        rows = range(0, last, 2), range(1, last, 2)
        places = () if in_order else (*rows, 2 * inside, 2 * inside + 1)
        packets.addresses = self.addresses.finish(
            packets.source, packets.destination, source, destination, places=places
        )
        self.tunnels.finish()
        self.transport.finish()

    def _assemble(self) -> None:
        """Put fragments together and decode the datagrams; those may hold fragments again."""
        for last in range(1, MAX_ROUNDS + 1):
            if not self.fragments:
                return
            found = self.fragments.assemble(self.packets.time_ns, self.tally)
            self.fragments = Fragments()
            if found is None:
                return
            if self.packets.buffer_no is self.capture.file_no:
                self.packets.buffer_no = self.room.copy(self.capture.file_no)
            self.transport.buffer_no = len(self.capture.buffers)
            self.capture.buffers = [*self.capture.buffers, found.buffer]
            windows = Windows(found.buffer)
            for start in range(0, len(found.packets), BATCH):
                some = slice(start, start + BATCH)
                area = Area(
                    windows,
                    found.packets[some],
                    found.offset[some],
                    found.length[some],
                    found.captured[some],
                    0 if last < MAX_ROUNDS else MAX_DEPTH,
                )
                self._behind_extensions(area, found.protocol[some])
