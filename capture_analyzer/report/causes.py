"""How the causes of waiting are named and grouped wherever a person reads them."""

from __future__ import annotations

from typing import Final

TITLES: Final[dict[str, str]] = {
    "capture_gap": "Missing from the capture",
    "syn_retry": "SYN sent again",
    "hello_retry": "TLS hello sent again",
    "ocsp_fetch": "OCSP fetch",
    "dns": "DNS lookup",
    "tcp_handshake": "TCP handshake",
    "tls_handshake": "TLS handshake",
    "quic_handshake": "QUIC handshake",
    "loss_recovery": "Loss recovery",
    "reordering": "Reordering",
    "head_of_line": "Behind another stream’s loss",
    "record_wait": "Waiting for a whole record",
    "receiver_window": "Receiver’s window closed",
    "http2_window": "HTTP/2 window used up",
    "quic_window": "QUIC window used up",
    "congestion_window": "Congestion window",
    "nagle_delayed_ack": "Nagle and delayed ACK",
    "proxy_buffering": "Proxy buffering",
    "request_send": "Sending the request",
    "transfer": "Transfer",
    "network_rtt": "Round trip",
    "server_think": "Server, before the answer",
    "generation": "Server, within the answer",
    "client_idle": "Client idle",
    "unknown": "Not known",
}
"""A cause's name in tables, tooltips and legends."""

TITLES_LOST: Final[dict[str, str]] = {
    "generation": "Server, pause within the answer",
    "server_think": "Server, long before the answer",
}
"""Names that differ where a finding holds the time to be avoidable."""

CULPRITS: Final[dict[str, str]] = {
    "syn_retry": "connection requests that were lost and sent again",
    "hello_retry": "TLS handshakes that had to start twice",
    "ocsp_fetch": "clients that waited for an OCSP responder",
    "dns": "name lookups that took long",
    "tcp_handshake": "slow TCP handshakes",
    "tls_handshake": "slow TLS handshakes",
    "quic_handshake": "slow QUIC handshakes",
    "loss_recovery": "data that was lost and sent again",
    "reordering": "data that arrived out of order",
    "head_of_line": "answers held up by another stream’s loss",
    "record_wait": "answers that waited for a whole TLS record",
    "receiver_window": "receivers that did not read fast enough",
    "http2_window": "HTTP/2 windows that are too small",
    "quic_window": "QUIC windows that are too small",
    "congestion_window": "senders held back by their congestion window",
    "nagle_delayed_ack": "small writes that waited for delayed ACKs",
    "proxy_buffering": "a proxy that collects answers before it passes them on",
    "request_send": "requests that took long to send",
    "transfer": "answers that took long to arrive",
    "network_rtt": "long round trips",
    "server_think": "servers that took long to answer",
    "generation": "a server that pauses in mid-answer",
}
"""How a headline names a cause behind "the largest part:"."""

CULPRITS_OF_DETECTORS: Final[dict[str, str]] = {
    "llm/slow-first-token": "a model that took long to begin its answer",
}
"""Likewise, where the detector that claims most of the time says more than the cause."""

SPENT: Final[dict[str, str]] = {
    "capture_gap": "where the capture lacks packets",
    "syn_retry": "on connection requests sent again",
    "hello_retry": "on a TLS hello sent again",
    "ocsp_fetch": "on an OCSP fetch",
    "dns": "on name lookup",
    "tcp_handshake": "on the TCP handshake",
    "tls_handshake": "on the TLS handshake",
    "quic_handshake": "on the QUIC handshake",
    "loss_recovery": "on the repair of losses",
    "reordering": "on data that came out of order",
    "head_of_line": "behind another stream’s loss",
    "record_wait": "on TLS records that were not complete",
    "receiver_window": "on a closed receive window",
    "http2_window": "on a used-up HTTP/2 window",
    "quic_window": "on a used-up QUIC window",
    "congestion_window": "on the congestion window",
    "nagle_delayed_ack": "on delayed ACKs",
    "proxy_buffering": "in a proxy’s buffer",
    "request_send": "on sending the request",
    "transfer": "on the transfer of the answer",
    "network_rtt": "on the round trip",
    "server_think": "in the server, before the answer",
    "generation": "in the server, within the answer",
    "client_idle": "idle in the client",
    "unknown": "where the cause is not known",
}
"""Where time went, behind "so much of it" or "went"."""

PAUSES: Final[dict[str, str]] = {
    "capture_gap": "missing from the capture",
    "syn_retry": "SYN sent again",
    "hello_retry": "TLS hello sent again",
    "ocsp_fetch": "OCSP fetch",
    "dns": "name lookup",
    "tcp_handshake": "TCP handshake",
    "tls_handshake": "TLS handshake",
    "quic_handshake": "QUIC handshake",
    "loss_recovery": "loss repaired",
    "reordering": "data out of order",
    "head_of_line": "behind another stream’s loss",
    "record_wait": "TLS record incomplete",
    "receiver_window": "receiver’s window closed",
    "http2_window": "HTTP/2 window used up",
    "quic_window": "QUIC window used up",
    "congestion_window": "congestion window",
    "nagle_delayed_ack": "waited for an ACK",
    "proxy_buffering": "held by a proxy",
    "request_send": "request still being sent",
    "transfer": "data arriving",
    "network_rtt": "round trip",
    "server_think": "server silent",
    "generation": "server paused",
    "client_idle": "client idle",
    "unknown": "cause not known",
}
"""What happened in a pause of a stream, behind its length: "675 ms server paused"."""

GROUPS: Final[dict[str, str]] = {
    "dns": "setup",
    "tcp_handshake": "setup",
    "tls_handshake": "setup",
    "quic_handshake": "setup",
    "hello_retry": "setup",
    "ocsp_fetch": "setup",
    "syn_retry": "path",
    "loss_recovery": "path",
    "reordering": "path",
    "head_of_line": "path",
    "record_wait": "limit",
    "receiver_window": "limit",
    "http2_window": "limit",
    "quic_window": "limit",
    "nagle_delayed_ack": "limit",
    "proxy_buffering": "limit",
    "congestion_window": "limit",
    "request_send": "network",
    "transfer": "network",
    "network_rtt": "network",
    "server_think": "server",
    "generation": "server",
    "client_idle": "idle",
    "unknown": "unknown",
    "capture_gap": "unknown",
}
"""Whose time it is: one hatching a group in the report, one character in the terminal."""


def title(cause: str, *, lost: bool = False) -> str:
    """The name of a cause; of its avoidable part when `lost`."""
    return TITLES_LOST.get(cause, TITLES[cause]) if lost else TITLES[cause]
