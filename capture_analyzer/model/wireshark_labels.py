"""What Wireshark says of packets (`Packets.wireshark_label`), flag by flag."""

from __future__ import annotations

from typing import Final

WIRESHARK_FLAGS: Final[dict[str, str]] = {
    "retransmission": (
        "it carries bytes (or a SYN or FIN) below the highest sequence number seen, and is none "
        "of the next three; also set beside fast and spurious retransmissions"
    ),
    "fast_retransmission": (
        "likewise, from where at least two duplicate acknowledgements ask, at most 20 ms after "
        "the last of them"
    ),
    "spurious_retransmission": "all its bytes lie below the peer's last acknowledgement",
    "out_of_order": (
        "it lies below the highest sequence number seen, which was reached less than the "
        "handshake's round trip ago (3 ms where that is unknown)"
    ),
    "lost_segment": "it begins above the highest sequence number seen: something is missing",
    "ack_lost_segment": "it acknowledges bytes that were not captured",
    "keep_alive": "no payload or one byte, one below the next sequence number",
    "keep_alive_ack": "it repeats the last acknowledgement in answer to a keep-alive",
    "zero_window": "it offers a window of 0",
    "zero_window_probe": "one byte, at the next sequence number, while the peer's window is 0",
    "zero_window_probe_ack": "it repeats a window of 0 in answer to a zero-window probe",
    "window_update": "no payload, the same numbers as before, another window",
    "window_full": "its payload ends exactly where the peer's window does",
    "duplicate_ack": "no payload, the same numbers and window as before",
    "reused_ports": "a SYN, or SYN-ACK, with a new number where ports were in use before",
}
"""Wireshark's flags with their rules: the names of its fields `tcp.analysis.NAME`.

A packet may have several; they are joined by "+", in this order. Bit i of a mask of flags
stands for the i-th."""


def joined(mask: int) -> str:
    """The flags of a mask as a label; "" if there are none."""
    return "+".join(name for bit, name in enumerate(WIRESHARK_FLAGS) if mask >> bit & 1)
