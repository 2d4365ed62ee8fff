"""The causes of waiting: what a span of an exchange's time can be booked on.

A cause is decided once, in ``pipeline/causes/``. The order here is the order of
precedence where waits overlap: the first cause that covers an instant takes it.
"""

from __future__ import annotations

from typing import Final

CAUSES: Final[dict[str, str]] = {
    "capture_gap": "the capture lacks packets here, so nothing can be said",
    "syn_retry": "a connection request (SYN or SYN-ACK) was lost and sent again",
    "hello_retry": "the server asked for another key share (HelloRetryRequest)",
    "ocsp_fetch": "the client asked an OCSP responder and waited for the answer",
    "dns": "the name was being looked up",
    "tcp_handshake": "the TCP handshake, without repeats",
    "tls_handshake": "the TLS handshake",
    "quic_handshake": "the QUIC handshake",
    "loss_recovery": "data was lost and had to be sent again",
    "reordering": "data arrived out of order and waited for what was overtaken",
    "head_of_line": "data waited in order behind another stream's missing bytes",
    "record_wait": "data had arrived but its TLS record was not complete",
    "receiver_window": "the receiver's TCP window was closed",
    "http2_window": "an HTTP/2 flow-control window was used up",
    "quic_window": "a QUIC flow-control window was used up",
    "congestion_window": "the sender's congestion window held data back",
    "nagle_delayed_ack": "a small segment was held for an acknowledgement that came late",
    "proxy_buffering": "an intermediary collected the answer before passing it on",
    "request_send": "the request was being sent",
    "transfer": "the response was arriving",
    "network_rtt": "the round trip between the request and the first byte of the answer",
    "server_think": "the server (all beyond the round trip) worked on the answer",
    "generation": "the server paused between the parts of its answer",
    "client_idle": "the connection was ready and the client had not sent its request",
    "unknown": "the evidence to name a cause is missing",
}
"""Every cause with its meaning, in order of precedence."""

CAUSE_NAMES: Final[tuple[str, ...]] = tuple(CAUSES)
CAUSE_CODE: Final[dict[str, int]] = {name: code for code, name in enumerate(CAUSE_NAMES)}
"""A cause's number in the `cause` column of waits and ledger; lower takes precedence."""
