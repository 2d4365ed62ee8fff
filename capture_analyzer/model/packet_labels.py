"""What the labels and mechanisms of packets mean (`Packets.label`, `Packets.mechanism`)."""

from __future__ import annotations

from typing import Final

LABEL_MEANINGS: Final[dict[str, str]] = {
    "other": "not TCP, or not decoded as far as TCP",
    "capture_duplicate": "a second copy that the capture made of a packet, not sent twice",
    "network_duplicate": "a second copy that the network delivered, sent only once",
    "rst": "it resets the connection",
    "syn": "it opens the connection (SYN or SYN-ACK), without payload",
    "fin": "it ends its sender's direction, without payload",
    "zero_window_probe": (
        "it asks whether a window of 0 has opened: one byte, or none with the sequence number one "
        "below the next"
    ),
    "keep_alive": "no payload or one byte, below the next sequence number: is the peer there?",
    "retransmission": (
        "its sender had sent some of these bytes before, whether or not the capture saw it"
    ),
    "reordered": "sent once, but overtaken on the way by a later segment",
    "original": "payload that was sent for the first time",
    "zero_window": "it says that its sender can take no more data now",
    "keep_alive_ack": "the answer to a keep-alive",
    "window_update": "it changes only the offered window",
    "dup_ack": "it acknowledges once more what was acknowledged before, while data is missing",
    "ack": "a plain acknowledgement",
}
"""Every label with its meaning. A packet has one, the first that fits in this order, save
`other`."""

MECHANISM_MEANINGS: Final[dict[str, str]] = {
    "fast": "duplicate ACKs or SACK said that it was missing (RFC 5681, RFC 6675, RFC 8985)",
    "tlp": "a tail loss probe, sent because no ACK came (RFC 8985)",
    "rto": "the retransmission timer ran out (RFC 6298)",
    "after_rto": "sent again in the recovery that followed the timer",
    "syn": "the timer of the handshake ran out",
    "unknown": "sent again, but the evidence for a mechanism is missing",
}
"""How a sender came to send again."""
