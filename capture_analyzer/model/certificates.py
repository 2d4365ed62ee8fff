"""Tables `certificates` and `ocsp_fetches`: what servers show of themselves, and who checks it."""

from __future__ import annotations

from typing import Literal

from capture_analyzer.model.column import column
from capture_analyzer.model.quick_dataclass import quick_dataclass

FetchPhase = Literal["handshake", "request", "beside", "unknown"]


@quick_dataclass
class Certificate:
    """A certificate that servers presented, once for each chain and stapled response.

    Connections that were shown the same bytes share a row, whoever their server was.
    """

    chain_no: int = column("Which chain, 0-based in order of first appearance.")
    position: int = column("Its place in the chain; 0 = the server's own.")
    connection_nos: list[int] = column("Connections that were shown it.")
    length: int = column("Of its DER encoding.", unit="bytes", default=0)
    name: str | None = column(
        "Its first DNS name, else its common name where that is a host name; None = neither, as "
        "of an authority.",
        default=None,
    )
    dns_names: list[str] = column("DNS names it is for, at most 100.", default_factory=list)
    not_before_ns: int | None = column("Valid from.", unit="ns", default=None)
    not_after_ns: int | None = column("Valid until.", unit="ns", default=None)
    key_type: str | None = column(
        'Kind and size of its key: "RSA 2048", "EC secp256r1" ...', default=None
    )
    self_signed: bool | None = column("Subject and issuer are the same.", default=None)
    must_staple: bool | None = column(
        "It asks for a stapled response (RFC 7633: TLS feature status_request).", default=None
    )
    ocsp_responder: str | None = column(
        "Host of the OCSP responder it names (RFC 5280, section 4.2.2.1); None = it names none.",
        default=None,
    )
    staple_bytes: int | None = column(
        "Length of the OCSP response stapled for it; None = there was none.",
        unit="bytes",
        default=None,
    )
    staple_response: str | None = column(
        'What the responder said of the question: "successful", "try_later" ...; "malformed" '
        "where it can't be read.",
        default=None,
    )
    staple_status: str | None = column(
        'What it says of the certificate: "good", "revoked" or "unknown".', default=None
    )
    staple_for_this: bool | None = column(
        "It is about this certificate; None = can't be told.", default=None
    )
    staple_this_update_ns: int | None = column("From when on it is right.", unit="ns", default=None)
    staple_next_update_ns: int | None = column(
        "Until when; None = it does not say.", unit="ns", default=None
    )


@quick_dataclass
class OcspFetch:
    """A question of a client to an OCSP responder over HTTP (RFC 6960, appendix A)."""

    exchange_no: int | None = column(
        "The exchange it is; None = the responder could not be reached.", default=None
    )
    responder: str = column("Host of the responder.", default="")
    asked_connection_no: int = column("The connection to the responder.", default=0)
    connection_no: int | None = column(
        "The TLS connection whose certificate it is about; None = none fits.", default=None
    )
    tied_by: Literal["certificate", "responder", "time", "nothing"] = column(
        "How that is known: the certificate's own identifiers, the responder it names, or only "
        "that it came at the right time.",
        default="nothing",
    )
    phase: FetchPhase = column(
        "What waited: the client's part of the handshake, its first request, or nothing "
        "(beside); unknown = no connection fits.",
        default="unknown",
    )
    from_ns: int = column(
        "It began: the responder's lookup, or the first SYN, or the question.",
        unit="ns",
        default=0,
    )
    to_ns: int | None = column(
        "The answer was there, or the client gave up; None = neither was captured.",
        unit="ns",
        default=None,
    )
    outcome: Literal["answered", "refused", "given_up", "unknown"] = column(
        "How it ended.", default="unknown"
    )
    waited_until_ns: int | None = column(
        "Where the client went on, if it waited.", unit="ns", default=None
    )
    confidence: float = column("That it was waited for, 0 to 1.", default=0.0)
    first_packet_no: int | None = column("The first packet of it.", default=None)
    last_packet_no: int | None = column("The packet that ended it.", default=None)
    next_packet_no: int | None = column("The packet with which the client went on.", default=None)
