"""Table `connections`: TCP connections (QUIC comes with its parser)."""

from __future__ import annotations

from typing import Final, Literal

from capture_analyzer.model.column import column
from capture_analyzer.model.quick_dataclass import quick_dataclass


@quick_dataclass
class TlsSummary:
    """What the TLS handshake of a connection says, as far as it can be read."""

    version: str | None = column('Agreed version: "TLS 1.3", "TLS 1.2" ...', default=None)
    cipher_suite: str | None = column("Agreed suite, by its IANA name.", default=None)
    resumption_offered: bool | None = column("The client offered a ticket or PSK.", default=None)
    resumed: bool | None = column("The server accepted it.", default=None)
    hello_retry: bool = column("A HelloRetryRequest cost one round trip.", default=False)
    renegotiations: int = column(
        "Further handshakes inside the connection, by their ChangeCipherSpec (up to TLS 1.2).",
        default=0,
    )
    secure_renegotiation: bool | None = column(
        "Both hellos signal RFC 5746 (up to TLS 1.2); None = TLS 1.3, or a hello was not captured.",
        default=None,
    )
    group: str | None = column(
        "Group of the key exchange, by its IANA name; None = none or unreadable.", default=None
    )
    early_data: bool | None = column("The client offered early data.", default=None)
    early_data_accepted: bool | None = column(
        "The server took it; None = none was offered, or that is not known: without keys only the "
        "refusal of the session, or a retry, tells.",
        default=None,
    )
    alpn_offered: list[str] = column(
        "Application protocols the client offered, in its order.", default_factory=list
    )
    ech_offered: bool | None = column(
        "ClientHello has encrypted_client_hello (possibly GREASE).", default=None
    )
    ech: Literal["accepted", "rejected", "unused"] | None = column(
        'Which ClientHello the server answered, as the key log tells: "accepted" = the encrypted '
        'one, "rejected" = the one in clear text, "unused" = that one, and whether the extension '
        "was only GREASE can't be told; None = not offered, or not known.",
        default=None,
    )
    server_name_outer: str | None = column(
        "The name in clear text, where ECH was accepted: of the service that hides the server.",
        default=None,
    )
    ocsp_requested: bool | None = column("ClientHello has status_request.", default=None)
    ocsp_stapled: bool | None = column(
        "The server stapled a response; None = unreadable.", default=None
    )
    alert: str | None = column(
        'First fatal alert in clear, "server: handshake_failure".', default=None
    )
    decrypted: Literal["yes", "no", "partial"] = column("How far it was readable.", default="no")
    why_not: str | None = column("Why not, as a clause.", default=None)
    tunnelled: bool = column(
        "It runs through a proxy, behind what the client asked that in clear text (CONNECT).",
        default=False,
    )
    start_ns: int | None = column("First byte of ClientHello seen.", unit="ns", default=None)
    end_ns: int | None = column(
        "Last byte of the handshake seen: of the client's Finished (TLS 1.3), else of the later "
        "Finished; of the earlier one where application data did not wait for it (False Start).",
        unit="ns",
        default=None,
    )
    duration_ns: int | None = column("end_ns - start_ns.", unit="ns", default=None)
    end_certain: bool = column("end_ns is read off, not inferred.", default=False)


_TLS13_OVERHEAD: Final = 17  # inner content type and a 16-octet tag (RFC 8446, section 5.2)
_GCM_OVERHEAD: Final = 24  # explicit nonce and tag (RFC 5288, section 3)
_CHACHA20_OVERHEAD: Final = 16  # the tag alone (RFC 7905, section 2)


def record_overhead(tls: TlsSummary | None) -> int:
    """Octets of a protected record's fragment that are not content, padding aside.

    Of the AEAD suites; without a known version as in TLS 1.3.
    """
    if tls is None or tls.version is None or tls.version == "TLS 1.3":
        return _TLS13_OVERHEAD
    if tls.cipher_suite and "CHACHA20" in tls.cipher_suite:
        return _CHACHA20_OVERHEAD
    return _GCM_OVERHEAD


@quick_dataclass
class Connection:
    """A TCP connection: one use of a 4-tuple from SYN (or first packet) to its end."""

    connection_no: int = column("0-based in order of first packet.")
    transport: Literal["tcp", "quic"] = column("Which transport.")
    tcp_stream: int | None = column("Wireshark's tcp.stream number; None inside tunnels.")
    client_ip: str = column("Address of the side that opened it (inferred without a SYN).")
    client_port: int = column("Its port.")
    server_ip: str = column("Address of the other side.")
    server_port: int = column("Its port.")
    roles_certain: bool = column("A SYN or SYN-ACK told client from server.")
    start_ns: int = column("First packet.", unit="ns")
    end_ns: int = column("Last packet.", unit="ns")
    first_packet_no: int = column("First packet.")
    last_packet_no: int = column("Last packet.")
    packet_count: int = column("Packets.")
    client_bytes: int = column("Distinct stream bytes from the client.", unit="bytes", default=0)
    server_bytes: int = column("Distinct stream bytes from the server.", unit="bytes", default=0)
    vantage_side: Literal["client", "server", "middle", "unknown"] = column(
        "Where the capture was made, seen from this connection.", default="unknown"
    )
    vantage_confidence: float = column("0 to 1.", default=0.0)
    syn_packet_no: int | None = column("First SYN.", default=None)
    syn_ack_packet_no: int | None = column(
        "The SYN-ACK that completed the handshake.", default=None
    )
    established_packet_no: int | None = column("The client's ACK of it.", default=None)
    syn_ns: int | None = column("First SYN.", unit="ns", default=None)
    syn_last_ns: int | None = column(
        "The last SYN before the SYN-ACK (later than syn_ns after a loss).", unit="ns", default=None
    )
    syn_ack_ns: int | None = column("The SYN-ACK that was answered.", unit="ns", default=None)
    established_ns: int | None = column("The client's ACK of the SYN-ACK.", unit="ns", default=None)
    client_side_rtt_ns: int | None = column(
        "Handshake round trip between the capture point and the client.", unit="ns", default=None
    )
    server_side_rtt_ns: int | None = column(
        "Handshake round trip between the capture point and the server.", unit="ns", default=None
    )
    rtt_ns: int | None = column(
        "Handshake round trip: both sides' together; None if it can't be measured.",
        unit="ns",
        default=None,
    )
    syn_retransmissions: int = column("SYNs and SYN-ACKs sent again.", default=0)
    retry_packet_nos: list[int] = column("Those packets.", default_factory=list)
    refused: bool = column("RST answered the SYN.", default=False)
    reset_by: Literal["client", "server"] | None = column("Who sent the first RST.", default=None)
    reset_ns: int | None = column("When.", unit="ns", default=None)
    fin_ns: int | None = column("First FIN.", unit="ns", default=None)
    window_scale_client: int | None = column(
        "Shift the client announced; None unknown.", default=None
    )
    window_scale_server: int | None = column(
        "Shift the server announced; None unknown.", default=None
    )
    mss_client: int | None = column("MSS option of the SYN.", unit="bytes", default=None)
    mss_server: int | None = column("MSS option of the SYN-ACK.", unit="bytes", default=None)
    retransmissions: int = column("Data segments sent again.", default=0)
    retransmissions_spurious: int = column("Of these, known to be needless.", default=0)
    retransmissions_by_mechanism: dict[str, int] = column("Counts.", default_factory=dict)
    missing_bytes: int = column(
        "Stream bytes the capture lacks, both directions.", unit="bytes", default=0
    )
    protocol: str = column(
        'What it carries: "http/1.1", "h2" (clear text), "tls", "dns", "opaque" (unreadable) or '
        '"none" (no payload).',
        default="none",
    )
    server_name: str | None = column(
        "SNI (of the encrypted ClientHello where it could be read), else the Host of a request, "
        "else the name that DNS, or the capture file, gave.",
        default=None,
    )
    alpn: str | None = column(
        "Agreed application protocol. What TLS 1.3 hides without keys is inferred where it can "
        "be: the only one offered, or the one that fits the length of EncryptedExtensions.",
        default=None,
    )
    tls: TlsSummary | None = column("TLS facts; None without TLS.", default=None)
    lookup_no: int | None = column("The DNS lookup whose answer it used.", default=None)
    tunnel_no: int = column(
        "The tunnel its first packet was inside of (Tunnel.tunnel_no); 0 = none.", default=0
    )
    preconnected: bool = column("Opened long before its first request.", default=False)
