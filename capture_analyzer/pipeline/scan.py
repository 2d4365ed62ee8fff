"""Scan: from a Capture to the packets table, by whole-array operations.

Packets are taken in batches that fit in the processor's cache. Each layer is one gather of
a window of bytes a packet, then column arithmetic; packets that a layer can't decode drop
out of the batch there and are counted by reason.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.anomalies import Anomaly, Origin
from capture_analyzer.model.capture import Capture
from capture_analyzer.model.column import NO_TIME
from capture_analyzer.model.packets import HAS_SACK, TCP, UDP, Packets
from capture_analyzer.model.progress import Progress, silent
from capture_analyzer.pipeline.addresses import Addresses
from capture_analyzer.pipeline.tally import Tally
from capture_analyzer.protocols import ip, link
from capture_analyzer.protocols.tcp import header as tcp_header
from capture_analyzer.protocols.tcp import options as tcp_options
from capture_analyzer.wire.windows import Windows, column

BATCH: Final = 32_768
"""Packets decoded at once: windows and columns of a batch stay in the processor's cache."""

UDP_HEADER_BYTES: Final = 8

_IP_STATUS: Final[dict[int, tuple[str, Origin, str]]] = {
    ip.CUT: ("truncated-header", "capture", "the captured bytes end inside the IP header"),
    ip.MALFORMED: ("ip-malformed", "peer", "an IP header contradicts itself"),
    ip.A_FRAGMENT: ("ip-fragment", "analyzer", "IP fragments are not put together yet"),
}


def scan(capture: Capture, *, progress: Progress = silent) -> tuple[Packets, list[Anomaly]]:
    """Decode the headers of every packet.

    Returns:
        The packets, and one anomaly for each reason why some were not decoded, with the
        number of packets and the first of them.
    """
    count = len(capture)
    packets = Packets.blank(count)
    packets.time_ns = capture.time_ns
    packets.file_no = capture.file_no
    packets.frame_no = capture.frame_no
    packets.captured_bytes = capture.captured_bytes
    packets.original_bytes = capture.original_bytes
    scanner = _Scanner(capture, packets)
    done = 0
    for file_no in range(len(capture.buffers)):
        windows = Windows(capture.buffers[file_no])
        of_file = _packets_of_file(capture, file_no)
        for start in range(0, len(of_file), BATCH):
            batch = of_file[start : start + BATCH]
            scanner.batch(windows, batch)
            done += len(batch)
            progress("decode", done, count)
    scanner.finish()
    return packets, scanner.tally.anomalies()


def _packets_of_file(capture: Capture, file_no: int) -> NDArray[np.intp]:
    if len(capture.buffers) == 1:
        return np.arange(len(capture))
    return np.flatnonzero(capture.file_no == file_no)


def _place(rows: NDArray[np.intp]) -> NDArray[np.intp] | slice:
    """Ascending rows as an index: a slice where they follow each other, which is faster."""
    first = int(rows[0])
    if int(rows[-1]) - first == len(rows) - 1:
        return slice(first, first + len(rows))
    return rows


class _Scanner:
    """Decodes batches into the packets table."""

    def __init__(self, capture: Capture, packets: Packets) -> None:
        self.capture = capture
        self.packets = packets
        self.tally = Tally()
        self.addresses = Addresses()
        self.sacks: list[tuple[NDArray[np.intp], NDArray[np.uint32], NDArray[np.uint32]]] = []
        self.link_types = np.array([i.link_type for i in capture.interfaces], np.int64)

    def batch(self, windows: Windows, rows: NDArray[np.intp]) -> None:
        """Decode the packets `rows`, ascending indices, all of one file."""
        untimed = self.capture.time_ns[_place(rows)] == NO_TIME
        if untimed.any():
            detail = "packets without a time stamp (as in Simple Packet Blocks) are left aside"
            self.tally.add("packet-without-time", "capture", detail, rows[untimed])
            rows = rows[~untimed]
        if not len(rows):
            return
        types = self.link_types[self.capture.interface_no[_place(rows)]]
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
        place = _place(rows)
        offsets = self.capture.data_offset[place]
        captured = self.capture.captured_bytes[place]
        network = link.network_layer(windows, offsets, captured, link_type)
        header_bytes = network.header_bytes
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
            rows, header_bytes = rows[kept], header_bytes[kept]
            offsets, captured = offsets[kept], captured[kept]
        if len(rows):
            here = captured.astype(np.int64) - header_bytes
            on_wire = np.maximum(captured, self.capture.original_bytes[_place(rows)]) - header_bytes
            self._network(windows, rows, offsets + header_bytes, here, on_wire)

    def _network(
        self,
        windows: Windows,
        rows: NDArray[np.intp],
        offsets: NDArray[np.int64],
        captured: NDArray[np.int64],
        on_wire: NDArray[np.int64],
    ) -> None:
        """Decode IP headers that begin at `offsets`; lengths count from there."""
        headers = windows.at(offsets, ip.IPV6_HEADER_BYTES)
        version = ip.version(headers[:, 0])
        low, high = int(version.min()), int(version.max())
        if low == high == 4:
            datagrams = ip.ipv4(headers, offsets, captured, on_wire)
            self._datagrams(windows, rows, 4, offsets, captured, datagrams)
            return
        for number in (4, 6):
            some = version == number
            if not some.any():
                continue
            here = rows[some], offsets[some], captured[some], on_wire[some]
            if number == 4:
                datagrams = ip.ipv4(headers[some], *here[1:])
            else:
                datagrams = ip.ipv6(windows, headers[some], *here[1:])
            self._datagrams(windows, here[0], number, here[1], here[2], datagrams)
        cut = captured < 1
        detail = "the captured bytes end inside the IP header"
        self.tally.add("truncated-header", "capture", detail, rows[cut])
        others = rows[(version != 4) & (version != 6) & ~cut]
        detail = "neither IP version 4 nor 6"
        self.tally.add("ip-malformed", "peer", detail, others)

    def _datagrams(
        self,
        windows: Windows,
        rows: NDArray[np.intp],
        version: int,
        offsets: NDArray[np.int64],
        captured: NDArray[np.int64],
        datagrams: ip.Datagrams,
    ) -> None:
        """Write the IP columns of packets of one version, and go on to TCP and UDP."""
        packets, status = self.packets, datagrams.status
        if status is not None and bool((status == ip.CUT).any()):
            # Their addresses were not captured whole: nothing of them is written.
            code, origin, detail = _IP_STATUS[ip.CUT]
            self.tally.add(code, origin, detail, rows[status == ip.CUT])
            kept = status != ip.CUT
            rows, offsets, captured, status = (
                rows[kept],
                offsets[kept],
                captured[kept],
                status[kept],
            )
            datagrams = _take(datagrams, kept)
            if not len(rows):
                return
        place = _place(rows)
        packets.ip_version[place] = version
        packets.ttl[place] = datagrams.hop_limit
        if datagrams.identification is not None:
            packets.ip_id[place] = datagrams.identification
        source, destination = self.addresses.encode(datagrams.source, datagrams.destination, rows)
        packets.source[place] = source
        packets.destination[place] = destination
        protocol, at = datagrams.protocol, datagrams.transport_offset
        length = datagrams.transport_bytes
        here = captured - (at - offsets)
        if status is not None and status.any():
            for number in (ip.MALFORMED, ip.A_FRAGMENT):
                code, origin, detail = _IP_STATUS[number]
                self.tally.add(code, origin, detail, rows[status == number])
            kept = status == ip.OK
            rows, protocol, at, length, here = (
                part[kept] for part in (rows, protocol, at, length, here)
            )
        is_tcp = protocol == TCP
        if is_tcp.all():
            self._tcp(windows, rows, at, length, here)
            return
        self._tcp(windows, rows[is_tcp], at[is_tcp], length[is_tcp], here[is_tcp])
        is_udp = protocol == UDP
        self._udp(windows, rows[is_udp], at[is_udp], length[is_udp], here[is_udp])
        others = ~(is_tcp | is_udp)
        packets.protocol[rows[others]] = protocol[others]
        self.tally.add_kinds("protocol-not-decoded", protocol[others], rows[others], ip.describe)

    def _tcp(
        self,
        windows: Windows,
        rows: NDArray[np.intp],
        at: NDArray[np.int64],
        length: NDArray[np.int64],
        captured: NDArray[np.int64],
    ) -> None:
        """Decode TCP headers at `at`; `length` and `captured` count from there."""
        areas = windows.at(at, tcp_header.MAX_HEADER_BYTES)
        headers = tcp_header.decode(areas)
        header_bytes = headers.header_bytes
        bad = (captured < tcp_header.HEADER_BYTES) | (header_bytes < tcp_header.HEADER_BYTES)
        bad |= length < header_bytes
        if bad.any():
            cut = (captured < tcp_header.HEADER_BYTES) & (length >= tcp_header.HEADER_BYTES)
            detail = "the captured bytes end inside the TCP header"
            self.tally.add("truncated-header", "capture", detail, rows[cut])
            detail = "a TCP header's length is impossible"
            self.tally.add("tcp-malformed", "peer", detail, rows[bad & ~cut])
            good = np.flatnonzero(~bad)
            if len(good):
                self._tcp(windows, rows[good], at[good], length[good], captured[good])
            return
        if not len(rows):
            return
        packets, place = self.packets, _place(rows)
        packets.protocol[place] = TCP
        packets.source_port[place] = headers.source_port
        packets.destination_port[place] = headers.destination_port
        packets.seq[place] = headers.seq
        packets.ack[place] = headers.ack
        packets.window[place] = headers.window
        packets.flags[place] = headers.flags
        packets.tcp_header_bytes[place] = header_bytes
        self._payload(rows, at + header_bytes, length - header_bytes, captured - header_bytes)
        fixed = tcp_header.HEADER_BYTES
        found = tcp_options.decode(
            np.ascontiguousarray(areas[:, fixed:]), header_bytes - fixed, captured - fixed
        )
        packets.options[place] = found.options
        packets.tsval[place] = found.tsval
        packets.tsecr[place] = found.tsecr
        packets.mss[place] = found.mss
        packets.window_scale[place] = found.window_scale
        if len(found.sack_left):
            some = (found.options & HAS_SACK) != 0
            packets.sack_count[rows[some]] = found.sack_count[some]
            owners = np.repeat(rows, found.sack_count)
            self.sacks.append((owners, found.sack_left, found.sack_right))

    def _udp(
        self,
        windows: Windows,
        rows: NDArray[np.intp],
        at: NDArray[np.int64],
        length: NDArray[np.int64],
        captured: NDArray[np.int64],
    ) -> None:
        """Decode UDP headers (RFC 768) at `at`; lengths count from there."""
        bad = (captured < UDP_HEADER_BYTES) | (length < UDP_HEADER_BYTES)
        if bad.any():
            cut = bad & (length >= UDP_HEADER_BYTES)
            detail = "the captured bytes end inside the UDP header"
            self.tally.add("truncated-header", "capture", detail, rows[cut])
            detail = "a UDP header does not fit into its IP packet"
            self.tally.add("udp-malformed", "peer", detail, rows[bad & ~cut])
            rows, at, length, captured = (part[~bad] for part in (rows, at, length, captured))
        headers = windows.at(at, UDP_HEADER_BYTES)
        packets = self.packets
        packets.protocol[rows] = UDP
        packets.source_port[rows] = column(headers, 0, ">u2")
        packets.destination_port[rows] = column(headers, 2, ">u2")
        # The UDP length is at most what IP carries; 0 stands for "all" (RFC 2675, offload).
        stated = column(headers, 4, ">u2").astype(np.int64)
        usable = (stated >= UDP_HEADER_BYTES) & (stated <= length)
        length = np.where(usable, stated, length)
        head = UDP_HEADER_BYTES
        self._payload(rows, at + head, length - head, captured - head)

    def _payload(
        self,
        rows: NDArray[np.intp],
        at: NDArray[np.int64],
        length: NDArray[np.int64],
        captured: NDArray[np.int64],
    ) -> None:
        if not len(rows):
            return
        place = _place(rows)
        self.packets.payload_offset[place] = at
        self.packets.payload_bytes[place] = length
        self.packets.payload_captured[place] = np.maximum(np.minimum(length, captured), 0)

    def finish(self) -> None:
        """What needs all batches: final address numbers, SACK blocks in packet order."""
        packets = self.packets
        packets.addresses = self.addresses.finish(packets.source, packets.destination)
        if not self.sacks:
            return
        owners = np.concatenate([part[0] for part in self.sacks])
        order = np.argsort(owners, kind="stable")
        packets.sack_left = np.concatenate([part[1] for part in self.sacks])[order]
        packets.sack_right = np.concatenate([part[2] for part in self.sacks])[order]
        firsts = np.cumsum(packets.sack_count, dtype=np.int32) - packets.sack_count
        packets.sack_first = np.where(packets.sack_count > 0, firsts, 0).astype(np.int32)


def _take(datagrams: ip.Datagrams, kept: NDArray[np.bool_]) -> ip.Datagrams:
    """Those of some packets only."""
    identification = datagrams.identification
    return ip.Datagrams(
        protocol=datagrams.protocol[kept],
        hop_limit=datagrams.hop_limit[kept],
        identification=None if identification is None else identification[kept],
        source=tuple(word[kept] for word in datagrams.source),
        destination=tuple(word[kept] for word in datagrams.destination),
        transport_offset=datagrams.transport_offset[kept],
        transport_bytes=datagrams.transport_bytes[kept],
        status=None if datagrams.status is None else datagrams.status[kept],
    )
