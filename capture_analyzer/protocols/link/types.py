"""Link types (www.tcpdump.org/linktypes.html) and their names."""

from __future__ import annotations

from typing import Final

NULL: Final = 0
ETHERNET: Final = 1
PPP: Final = 9
PPP_HDLC: Final = 50
PPP_ETHER: Final = 51
CISCO_HDLC: Final = 104
IEEE802_11: Final = 105
LOOP: Final = 108
LINUX_SLL: Final = 113
IEEE802_11_RADIOTAP: Final = 127
PPP_PPPD: Final = 166
NFLOG: Final = 239
PKTAP: Final = 258
LINUX_SLL2: Final = 276
RAW_IP: Final = frozenset({12, 14, 101, 228, 229})
"""DLT_RAW as different systems number it, LINKTYPE_RAW, LINKTYPE_IPV4, LINKTYPE_IPV6."""

NAMES: Final = {
    NULL: "BSD loopback",
    ETHERNET: "Ethernet",
    PPP: "PPP",
    PPP_HDLC: "PPP in HDLC framing",
    PPP_ETHER: "PPPoE",
    CISCO_HDLC: "Cisco HDLC",
    IEEE802_11: "IEEE 802.11",
    LOOP: "OpenBSD loopback",
    LINUX_SLL: "Linux cooked capture",
    119: "802.11 with Prism header",
    IEEE802_11_RADIOTAP: "802.11 with radiotap",
    147: "private use",
    163: "802.11 with AVS header",
    PPP_PPPD: "PPP of pppd",
    187: "Bluetooth",
    189: "USB",
    192: "Per-Packet Information",
    195: "IEEE 802.15.4",
    201: "Bluetooth",
    220: "USB",
    227: "CAN",
    NFLOG: "NFLOG",
    249: "USB",
    253: "Linux netlink",
    PKTAP: "Apple PKTAP",
    LINUX_SLL2: "Linux cooked capture v2",
}
"""Names for people; not complete."""


def describe(link_type: int) -> str:
    """A link type for people: "link type 239 (NFLOG)"."""
    name = NAMES.get(link_type)
    return f"link type {link_type}" + (f" ({name})" if name else "")
