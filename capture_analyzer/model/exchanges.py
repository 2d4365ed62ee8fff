"""Table `exchanges`: requests with their responses."""

from __future__ import annotations

from typing import Literal

from capture_analyzer.model.column import column
from capture_analyzer.model.messages import Field, StreamFacts
from capture_analyzer.model.quick_dataclass import quick_dataclass


@quick_dataclass
class Phases:
    """Parts of an exchange in order; they never overlap and add up to its length.

    Absent phases are None. Unlike HAR, connect excludes tls.
    """

    dns_ns: int | None = column("Name lookup.", unit="ns", default=None)
    connect_ns: int | None = column("Transport handshake, with repeats.", unit="ns", default=None)
    tls_ns: int | None = column("TLS handshake.", unit="ns", default=None)
    idle_ns: int | None = column("Between set-up and request.", unit="ns", default=None)
    send_ns: int | None = column("First to last request byte.", unit="ns", default=None)
    wait_ns: int | None = column(
        "Last request byte to first response byte usable.", unit="ns", default=None
    )
    receive_ns: int | None = column("First to last response byte usable.", unit="ns", default=None)


@quick_dataclass
class Exchange:
    """A request with its response (RFC 9110, section 3.4), or a guess at one from packets.

    `inferred` marks opaque exchanges: a flight of encrypted client data and the server's
    flight behind it.
    """

    exchange_no: int = column("0-based in order of request_start_ns, then connection.")
    connection_no: int = column("Connection.")
    stream_id: int | None = column("HTTP/2 or HTTP/3 stream; None otherwise.")
    protocol: Literal["http/1.0", "http/1.1", "h2", "h3", "opaque"] = column("Protocol.")
    kind: Literal["http", "grpc", "sse", "websocket", "opaque"] = column("What it is.")
    inferred: bool = column("Inferred from packets, not read.")
    start_ns: int = column("Where its set-up began, else its first request byte.", unit="ns")
    request_start_ns: int = column("First request byte seen.", unit="ns")
    request_end_ns: int = column("Last request byte seen.", unit="ns")
    method: str | None = column("Request method.", default=None)
    authority: str | None = column("Host, as the request names it.", default=None)
    path: str | None = column("Request target with its query (reduced by redaction).", default=None)
    status: int | None = column("Status of the final response.", default=None)
    grpc_status: int | None = column("gRPC status.", default=None)
    response_seen_ns: int | None = column(
        "First byte of the final response captured.", unit="ns", default=None
    )
    response_start_ns: int | None = column(
        "First byte of the final response usable (decryptable).", unit="ns", default=None
    )
    response_head_ns: int | None = column("Its header section complete.", unit="ns", default=None)
    end_ns: int | None = column(
        "Later of last request byte and last response byte usable, or the reset; None = cut.",
        unit="ns",
        default=None,
    )
    last_ns: int = column(
        "Its last packet; where end_ns is None, phases and ledger end here.", unit="ns", default=0
    )
    ttfb_ns: int | None = column("response_start_ns - request_start_ns.", unit="ns", default=None)
    ttft_ns: int | None = column(
        "Time to the first event with generated content.", unit="ns", default=None
    )
    request_bytes: int = column("Request bytes on the stream.", unit="bytes", default=0)
    response_offset: int | None = column(
        "Transport stream offset of the first byte of the final response.",
        unit="bytes",
        default=None,
    )
    response_bytes: int = column("Response bytes on the stream.", unit="bytes", default=0)
    phases: Phases = column("Its phases.", default_factory=Phases)
    request_first_packet_no: int | None = column(
        "Packet with the first request byte.", default=None
    )
    request_last_packet_no: int | None = column("Packet with the last request byte.", default=None)
    response_first_packet_no: int | None = column(
        "Packet with the first response byte.", default=None
    )
    response_last_packet_no: int | None = column(
        "Packet with the last response byte.", default=None
    )
    request_records: int | None = column("TLS records of an opaque request flight.", default=None)
    response_records: int | None = column("TLS records of an opaque response flight.", default=None)
    carries_setup: bool = column("start_ns includes the connection's set-up.", default=False)
    setup_connection_nos: list[int] = column(
        "Earlier failed attempts that start_ns includes.", default_factory=list
    )
    lookup_no: int | None = column("The DNS lookup that start_ns includes.", default=None)
    reset: bool = column("A reset ended it.", default=False)
    complete: bool = column("Request and response ended by their own framing.", default=False)
    missing_bytes: int = column("Bytes of it that the capture lacks.", unit="bytes", default=0)
    shared_connection: bool = column(
        "Other exchanges were open on the connection meanwhile (pipelining, multiplexing).",
        default=False,
    )
    stream: StreamFacts | None = column(
        "Facts of its streamed answer; None = it is not a stream of events.", default=None
    )
    model: str | None = column("Model that a request to an LLM API names.", default=None)
    max_tokens: int | None = column("Most tokens it asks for.", default=None)
    interim_statuses: list[int] = column(
        "1xx responses before the final one.", default_factory=list
    )
    request_fields: list[Field] = column("Request header fields.", default_factory=list)
    response_fields: list[Field] = column(
        "Response header and trailer fields.", default_factory=list
    )
