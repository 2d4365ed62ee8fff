"""What lies between a link header and IP: tags, labels, PPPoE, LLC. Told by EtherType.

Each step reads one such header of some packets at once and says what follows it. The
EtherTypes below 0x0600, which are none (IEEE 802.3 has a length there), stand for what has
no EtherType: see `UNKNOWN` and its neighbours.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.quick_dataclass import quick_dataclass
from capture_analyzer.wire.windows import Offsets, Windows, column

IPV4: Final = 0x0800
IPV6: Final = 0x86DD
VLAN_TAGS: Final = (0x8100, 0x88A8, 0x9100, 0x9200)
"""EtherTypes of a VLAN tag: IEEE 802.1Q, 802.1ad, and those used before 802.1ad."""
ETHERNET: Final = 0x6558  # Transparent Ethernet Bridging: a whole frame (RFC 7637)
MPLS: Final = (0x8847, 0x8848)  # RFC 3032, RFC 5332
PPPOE: Final = 0x8864  # RFC 2516
PPP: Final = 0x880B

UNKNOWN: Final = 0
LLC: Final = 1  # an IEEE 802.2 header follows
ENCRYPTED: Final = 2
MANAGEMENT: Final = 3
AGGREGATED: Final = 4
PART: Final = 5
_WITHOUT: Final = {
    UNKNOWN: "a protocol without an EtherType",
    LLC: "a protocol without an EtherType",
    ENCRYPTED: "encrypted IEEE 802.11 data",
    MANAGEMENT: "IEEE 802.11 frames other than data",
    AGGREGATED: "aggregated IEEE 802.11 data (A-MSDU)",
    PART: "fragments of IEEE 802.11 data",
}

NAMES: Final = {
    0x0806: "ARP",
    0x8035: "RARP",
    ETHERNET: "Ethernet",
    MPLS[0]: "MPLS",
    MPLS[1]: "MPLS",
    0x8863: "PPPoE discovery",
    PPPOE: "PPPoE session",
    PPP: "PPP",
    0x888E: "IEEE 802.1X",
    0x88CC: "LLDP",
    0x88E5: "MACsec",
    0x9000: "Ethernet loopback test",
}
"""Names for people; not complete."""

FIRST_ETHERTYPE: Final = 0x0600
"""Below this the field is an IEEE 802.3 length."""

MAX_STEPS: Final = 16
"""Headers followed in one frame: networks use two tags, or some labels; more is an attack."""

ETHERNET_BYTES: Final = 14
_SNAP: Final = 0xAAAA03  # IEEE 802.2: SNAP in both addresses, unnumbered information
_PPP_PROTOCOLS: Final = {0x0021: IPV4, 0x0057: IPV6, 0x0281: MPLS[0], 0x0283: MPLS[1]}

Rows = NDArray[np.intp]


@quick_dataclass
class Network:
    """Where the network layer of each packet lies.

    Attributes:
        header_bytes: bytes before it.
        ethertype: what it is; IPV4 or IPV6 for every IP packet (which of the two, its own
            version field says).
        is_ip: whether it is IP; None if all are.
        cut: whether the capture ends inside what is before it; None if nowhere.
        most: the bytes that a header before it says are left for it (padding may follow, and
            the IP header counts it in now and then); None if none says.
    """

    header_bytes: NDArray[np.int64]
    ethertype: NDArray[np.uint16]
    is_ip: NDArray[np.bool_] | None = None
    cut: NDArray[np.bool_] | None = None
    most: NDArray[np.int64] | None = None


def describe_ethertype(number: int) -> str:
    """What is not IP, for people: "EtherType 0x0806 (ARP)"."""
    if number < FIRST_ETHERTYPE:
        return _WITHOUT.get(number, _WITHOUT[UNKNOWN])
    name = NAMES.get(number)
    return f"EtherType 0x{number:04x}" + (f" ({name})" if name else "")


def is_ip(ethertype: NDArray[np.uint16]) -> NDArray[np.bool_]:
    """Whether these EtherTypes say IP."""
    result: NDArray[np.bool_] = (ethertype == IPV4) | (ethertype == IPV6)
    return result


class Layers:
    """How far into some packets the headers have been followed.

    Attributes:
        header_bytes: bytes gone over, by packet; changed as steps are made.
        ethertype: what follows there, likewise.
        ends: where each packet ends by a header that says so; None if none does.
    """

    def __init__(
        self,
        windows: Windows,
        offsets: Offsets,
        header_bytes: NDArray[np.int64],
        ethertype: NDArray[np.uint16],
    ) -> None:
        self.windows = windows
        self.offsets = offsets
        self.header_bytes = header_bytes
        self.ethertype = ethertype
        self.ends: NDArray[np.int64] | None = None

    def follow(self) -> None:
        """Follow the headers of all packets up to what is not among those known here."""
        rows = np.flatnonzero(~is_ip(self.ethertype))
        for _ in range(MAX_STEPS):
            if not len(rows):
                return
            rows = self._step(rows)

    def network(self, captured: NDArray[np.uint32] | NDArray[np.int64]) -> Network:
        """The result, for packets of which so much was captured."""
        ip = is_ip(self.ethertype)
        cut = captured < self.header_bytes
        return Network(
            self.header_bytes,
            self.ethertype,
            None if ip.all() else ip,
            cut if cut.any() else None,
            None if self.ends is None else np.maximum(self.ends - self.header_bytes, 0),
        )

    def number(self, rows: Rows, ahead: int, size: int) -> NDArray[np.int64]:
        """A big-endian number of each packet, `ahead` bytes behind where it stands."""
        windows = self.windows.at(self.offsets[rows] + self.header_bytes[rows] + ahead, size)
        return column(windows, 0, f">u{size}").astype(np.int64)

    def _step(self, rows: Rows) -> Rows:
        """Go over one header of each of these packets; returns those with another."""
        kind = self.ethertype[rows]
        going = [
            self._tags(rows[np.isin(kind, VLAN_TAGS)]),
            self._labels(rows[np.isin(kind, MPLS)]),
            self._pppoe(rows[kind == PPPOE]),
            self._ethernet(rows[kind == ETHERNET], 0),
            self.ppp(rows[kind == PPP]),
            self._llc(rows[kind == LLC]),
        ]
        following: Rows = np.concatenate(going)
        return following[~is_ip(self.ethertype[following])]

    def _tags(self, rows: Rows) -> Rows:
        """VLAN tags: two bytes of control information and the EtherType that follows."""
        if len(rows):
            self.ethertype[rows] = self.number(rows, 2, 2)
            self._frames(rows)
            self.header_bytes[rows] += 4
        return rows

    def _frames(self, rows: Rows) -> None:
        """Where IEEE 802.3 has a length, LLC follows."""
        self.ethertype[rows[self.ethertype[rows] < FIRST_ETHERTYPE]] = LLC

    def _ethernet(self, rows: Rows, ahead: int) -> Rows:
        """A whole Ethernet frame that begins `ahead` bytes behind where packets stand."""
        if len(rows):
            self.ethertype[rows] = self.number(rows, ahead + 12, 2)
            self._frames(rows)
            self.header_bytes[rows] += ahead + ETHERNET_BYTES
        return rows

    def _labels(self, rows: Rows) -> Rows:
        """MPLS label stack entries; the last one doesn't say what follows.

        Its first four bits tell: an IP version, or 0 for the control word of a pseudowire
        (RFC 4928), which nearly always carries Ethernet (RFC 4448).
        """
        if not len(rows):
            return rows
        last = (self.number(rows, 0, 4) & 0x100) != 0
        bottom = rows[last]
        first = self.number(bottom, 4, 1) >> 4
        self.header_bytes[rows] += 4
        plain = bottom[(first == 4) | (first == 6)]
        self.ethertype[plain] = IPV4
        wires = bottom[first == 0]
        inner = self.number(wires, 4 + 12, 2)
        wires = wires[np.isin(inner, (IPV4, IPV6, *VLAN_TAGS))]
        return np.concatenate((rows[~last], plain, self._ethernet(wires, 4)))

    def _pppoe(self, rows: Rows) -> Rows:
        """PPPoE session: version and type, code 0, session, length; then PPP."""
        if not len(rows):
            return rows
        rows = rows[self.number(rows, 0, 2) == 0x1100]
        self.pppoe(rows)
        return self.ppp(rows, otherwise=PPPOE)

    def pppoe(self, rows: Rows) -> None:
        """Go over PPPoE headers, whose last two bytes say how much follows."""
        if self.ends is None:
            self.ends = np.full(len(self.header_bytes), np.iinfo(np.int64).max)
        length = self.number(rows, 4, 2)
        self.header_bytes[rows] += 6
        self.ends[rows] = np.minimum(self.ends[rows], self.header_bytes[rows] + length)

    def ppp(self, rows: Rows, *, otherwise: int = UNKNOWN) -> Rows:
        """PPP (RFC 1661), with or without the address and control bytes of RFC 1662.

        The protocol field may be one byte (odd) where its first byte would be 0. What is
        neither IP nor MPLS becomes `otherwise`, and does not go on.
        """
        if not len(rows):
            return rows
        self.header_bytes[rows[self.number(rows, 0, 2) == 0xFF03]] += 2
        protocol = self.number(rows, 0, 2)
        short = (protocol & 0x100) != 0
        protocol[short] >>= 8
        self.header_bytes[rows] += np.where(short, 1, 2)
        self.ethertype[rows] = otherwise
        for ppp_protocol, equivalent in _PPP_PROTOCOLS.items():
            self.ethertype[rows[protocol == ppp_protocol]] = equivalent
        going: Rows = rows[self.ethertype[rows] != otherwise]
        return going

    def _llc(self, rows: Rows) -> Rows:
        """SNAP (RFC 1042), whose last two bytes are an EtherType."""
        if not len(rows):
            return rows
        head = self.number(rows, 0, 4)
        oui = self.number(rows, 4, 2)
        # The organisation code is 0, or that of bridge tunnels (IEEE 802.1H).
        snap = (head >> 8 == _SNAP) & (head & 0xFF == 0) & ((oui == 0) | (oui == 0xF8))
        rows = rows[snap]
        self.ethertype[rows] = self.number(rows, 6, 2)
        self.header_bytes[rows] += 8
        going: Rows = rows[self.ethertype[rows] >= FIRST_ETHERTYPE]
        return going
