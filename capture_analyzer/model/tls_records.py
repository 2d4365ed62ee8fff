"""Tables `tls_records` and `handshake_messages`."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Final, overload

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

_HANDSHAKE_TYPES: Final[dict[int, str]] = {
    # RFC 8446, appendix B.3; RFC 5246, section 7.4; RFC 6066, section 8
    0: "hello_request",
    1: "client_hello",
    2: "server_hello",
    3: "hello_verify_request",
    4: "new_session_ticket",
    5: "end_of_early_data",
    6: "hello_retry_request",
    8: "encrypted_extensions",
    11: "certificate",
    12: "server_key_exchange",
    13: "certificate_request",
    14: "server_hello_done",
    15: "certificate_verify",
    16: "client_key_exchange",
    20: "finished",
    21: "certificate_url",
    22: "certificate_status",
    23: "supplemental_data",
    24: "key_update",
    25: "compressed_certificate",
    67: "next_protocol",
    254: "message_hash",
}
HANDSHAKE_NAMES: Final = tuple(
    _HANDSHAKE_TYPES.get(number, f"handshake_{number}") for number in range(256)
)
"""Names of handshake messages by their type, as RFC 8446 spells them, else "handshake_" with the
number. A HelloRetryRequest, which travels as a ServerHello, goes by the number once given to it."""


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


_MESSAGE_NAMES: Final = tuple(field.name for field in dataclasses.fields(HandshakeMessage))
_MESSAGE_COLUMNS: Final = attrgetter(*_MESSAGE_NAMES)


@quick_dataclass
class HandshakeMessages(Sequence[HandshakeMessage]):
    """Handshake messages as rows that are made when they are looked at.

    Every connection has some, and few questions are about them. Ordered by connection, then
    direction (client first), then order of sending.
    """

    connection_no: NDArray[np.int32] = column("Connection.", default_factory=empty_array(np.int32))
    from_client: NDArray[np.bool_] = column(
        "Sent by the client.", default_factory=empty_array(np.bool_)
    )
    type: NDArray[np.uint8] = column(
        "Index into HANDSHAKE_NAMES.",
        names=HANDSHAKE_NAMES,
        default_factory=empty_array(np.uint8),
    )
    length: NDArray[np.int32] = column(
        "Body length.", unit="bytes", default_factory=empty_array(np.int32)
    )
    first_packet_no: NDArray[np.int32] = column(
        "Packet with its first byte.", default_factory=empty_array(np.int32)
    )
    last_packet_no: NDArray[np.int32] = column(
        "Packet that completed it.", default_factory=empty_array(np.int32)
    )
    seen_ns: NDArray[np.int64] = column(
        "First byte captured.", unit="ns", default_factory=empty_array(np.int64)
    )
    complete_ns: NDArray[np.int64] = column(
        "Complete in order.", unit="ns", default_factory=empty_array(np.int64)
    )

    def __len__(self) -> int:
        return len(self.connection_no)

    @overload
    def __getitem__(self, index: int) -> HandshakeMessage: ...

    @overload
    def __getitem__(self, index: slice) -> list[HandshakeMessage]: ...

    def __getitem__(self, index: int | slice) -> HandshakeMessage | list[HandshakeMessage]:
        return list(self)[index]

    def __iter__(self) -> Iterator[HandshakeMessage]:
        return self._rows(slice(None))

    @classmethod
    def of(cls, rows: Iterable[HandshakeMessage]) -> HandshakeMessages:
        """Messages as columns."""
        table = cls()
        columns = zip(*map(_MESSAGE_COLUMNS, rows), strict=True)
        for name, values in zip(_MESSAGE_NAMES, columns, strict=False):
            codes = [HANDSHAKE_NAMES.index(one) for one in values] if name == "type" else values
            setattr(table, name, np.array(codes, getattr(table, name).dtype))
        return table

    def rows(self, connection_nos: Iterable[int], *types: str) -> Iterator[HandshakeMessage]:
        """The messages of some connections, of these types if any are given, in order."""
        wanted = np.zeros(int(self.connection_no.max(initial=-1)) + 1, np.bool_)
        wanted[[number for number in connection_nos if number < len(wanted)]] = True
        chosen = wanted[self.connection_no]
        if types:
            of_type = np.zeros(len(HANDSHAKE_NAMES), np.bool_)
            of_type[[HANDSHAKE_NAMES.index(name) for name in types]] = True
            chosen &= of_type[self.type]
        return self._rows(np.flatnonzero(chosen))

    def _rows(self, index: slice | NDArray[np.intp]) -> Iterator[HandshakeMessage]:
        return map(
            HandshakeMessage,
            self.connection_no[index].tolist(),
            self.from_client[index].tolist(),
            [HANDSHAKE_NAMES[number] for number in self.type[index].tolist()],
            self.length[index].tolist(),
            self.first_packet_no[index].tolist(),
            self.last_packet_no[index].tolist(),
            self.seen_ns[index].tolist(),
            self.complete_ns[index].tolist(),
        )
