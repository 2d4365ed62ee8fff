"""Wireshark's flags as bits of a mask, in the order of `WIRESHARK_FLAGS`."""

from __future__ import annotations

from typing import Final

RETRANSMISSION: Final = 1 << 0
FAST_RETRANSMISSION: Final = 1 << 1
SPURIOUS_RETRANSMISSION: Final = 1 << 2
OUT_OF_ORDER: Final = 1 << 3
LOST_SEGMENT: Final = 1 << 4
ACK_LOST_SEGMENT: Final = 1 << 5
KEEP_ALIVE: Final = 1 << 6
KEEP_ALIVE_ACK: Final = 1 << 7
ZERO_WINDOW: Final = 1 << 8
ZERO_WINDOW_PROBE: Final = 1 << 9
ZERO_WINDOW_PROBE_ACK: Final = 1 << 10
WINDOW_UPDATE: Final = 1 << 11
WINDOW_FULL: Final = 1 << 12
DUPLICATE_ACK: Final = 1 << 13
REUSED_PORTS: Final = 1 << 14

FAST_NS: Final = 20_000_000
"""A fast retransmission comes within this after the last duplicate acknowledgement."""

OUT_OF_ORDER_NS: Final = 3_000_000
"""A segment out of order comes within this, where the handshake's round trip isn't known."""
