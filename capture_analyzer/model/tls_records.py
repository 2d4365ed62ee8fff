"""Tables `tls_records` (columns) and `handshake_messages` (rows)."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.column import column, empty_array
from capture_analyzer.model.quick_dataclass import quick_dataclass

ROLES: Final = (
    "unknown",
    "handshake",
    "change_cipher_spec",
    "alert",
    "application",
    "ticket",
    "early_data",
)
"""Names for the codes in `TlsRecords.role`: what a record carries. "ticket" is a
NewSessionTicket behind the handshake of TLS 1.3, "early_data" 0-RTT application data,
"unknown" what can't be told (a heartbeat, or a type that does not exist)."""

ROLE_CODE: Final = {name: code for code, name in enumerate(ROLES)}
"""A role's number in the `role` column."""


@quick_dataclass
class TlsRecords:
    """One element a TLS record in each array.

    Ordered by connection, then direction (client first), then stream offset.
    """

    connection_no: NDArray[np.int32] = column("Connection.", default_factory=empty_array(np.int32))
    from_client: NDArray[np.bool_] = column(
        "Sent by the client.", default_factory=empty_array(np.bool_)
    )
    offset: NDArray[np.int64] = column(
        "Stream offset of its header.", unit="bytes", default_factory=empty_array(np.int64)
    )
    length: NDArray[np.int32] = column(
        "Fragment length, without the five header bytes.",
        unit="bytes",
        default_factory=empty_array(np.int32),
    )
    content_type: NDArray[np.uint8] = column(
        "Outer content type (20 to 24).", default_factory=empty_array(np.uint8)
    )
    first_packet_no: NDArray[np.int32] = column(
        "Packet that holds its first byte.", default_factory=empty_array(np.int32)
    )
    last_packet_no: NDArray[np.int32] = column(
        "Packet that completed it.", default_factory=empty_array(np.int32)
    )
    seen_ns: NDArray[np.int64] = column(
        "First byte captured.", unit="ns", default_factory=empty_array(np.int64)
    )
    in_order_ns: NDArray[np.int64] = column(
        "First byte readable in order.", unit="ns", default_factory=empty_array(np.int64)
    )
    complete_ns: NDArray[np.int64] = column(
        "All of it there in order: decryptable; NO_TIME where its last byte was not captured.",
        unit="ns",
        default_factory=empty_array(np.int64),
    )
    complete: NDArray[np.bool_] = column(
        "The capture holds all of it.", default_factory=empty_array(np.bool_)
    )
    role: NDArray[np.uint8] = column(
        "What it carries: index into ROLES.", names=ROLES, default_factory=empty_array(np.uint8)
    )
    role_inferred: NDArray[np.bool_] = column(
        "The role is inferred from order, lengths and times: the type inside is encrypted.",
        default_factory=empty_array(np.bool_),
    )
    plaintext_bytes: NDArray[np.int32] = column(
        "Length of what is inside; -1 where it was not decrypted.",
        unit="bytes",
        default_factory=empty_array(np.int32),
    )

    def __len__(self) -> int:
        return len(self.offset)


@quick_dataclass
class HandshakeMessage:
    """A TLS handshake message that could be read."""

    connection_no: int = column("Connection.")
    from_client: bool = column("Sent by the client.")
    type: str = column('Its name in RFC 8446: "client_hello" ...')
    length: int = column("Body length.", unit="bytes")
    first_packet_no: int = column("Packet with its first byte.")
    last_packet_no: int = column("Packet that completed it.")
    seen_ns: int = column("First byte captured.", unit="ns")
    complete_ns: int = column("Complete in order.", unit="ns")
