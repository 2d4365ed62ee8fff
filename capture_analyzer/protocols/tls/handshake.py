"""Handshake messages and alerts that travel in clear, out of the records that carry them.

A message may be spread over records, and a record may hold several messages (RFC 8446,
section 5.1; RFC 5246, section 6.2.1). Reading one direction ends where the clear part does:
at its ChangeCipherSpec, save behind a HelloRetryRequest, where one may stand before the
second hello (RFC 8446, appendix D.4), or at its first application data.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Final

from capture_analyzer.model.quick_dataclass import quick_dataclass
from capture_analyzer.protocols.tls.hello import HELLO_RETRY_RANDOM

CHANGE_CIPHER_SPEC: Final = 20
ALERT: Final = 21
HANDSHAKE: Final = 22
APPLICATION_DATA: Final = 23

CLIENT_HELLO: Final = 1
SERVER_HELLO: Final = 2
NEW_SESSION_TICKET: Final = 4
HELLO_RETRY_REQUEST: Final = 6  # not on the wire, where it is a ServerHello
ENCRYPTED_EXTENSIONS: Final = 8
CERTIFICATE: Final = 11
SERVER_KEY_EXCHANGE: Final = 12
SERVER_HELLO_DONE: Final = 14
FINISHED: Final = 20
CERTIFICATE_STATUS: Final = 22
COMPRESSED_CERTIFICATE: Final = 25

MESSAGE_HEADER_BYTES: Final = 4  # type and length

MAX_HANDSHAKE_BYTES: Final = 1 << 18
"""Clear handshake bytes read of one direction. Certificate chains of 100 KB exist; a peer that
sends more than this is not shaking hands."""

MAX_MESSAGES: Final = 64
"""Handshake messages read of one direction: a handshake has at most about ten."""

Noted = tuple[bool, int, int, int, int]
"""(from_client, type, length of the body, records of its first and last byte) of a message."""


@quick_dataclass
class ClearMessage:
    """A handshake message: its type, body, and the records of its first and last byte."""

    type: int
    body: bytes
    first_record: int
    last_record: int

    def noted(self, from_client: bool, start: int = 0) -> Noted:
        """What is kept of it: its records by their index behind `start`."""
        first, last = self.first_record - start, self.last_record - start
        kind = HELLO_RETRY_REQUEST if _asks_again(self) else self.type
        return from_client, kind, len(self.body), first, last


@quick_dataclass
class ClearPart:
    """What one direction says in clear.

    Attributes:
        messages: handshake messages in order.
        alerts: (level, description, record) of each alert.
        change_cipher_spec: index of the first ChangeCipherSpec record, None if there is none.
        encrypted_from: index of the first record that may be encrypted (or the number of
            records looked at).
        broken: the capture lacks handshake bytes, so messages may be missing.
        malformed: a record's content breaks the rules.
        skipped: early data between the two ClientHellos of a retry, which the server does not
            take (RFC 8446, section 4.2.10).
    """

    messages: list[ClearMessage] = dataclasses.field(default_factory=list)
    alerts: list[tuple[int, int, int]] = dataclasses.field(default_factory=list)
    change_cipher_spec: int | None = None
    encrypted_from: int = 0
    broken: bool = False
    malformed: bool = False
    skipped: list[int] = dataclasses.field(default_factory=list)


def read_clear(
    content_types: Sequence[int],
    fragment: Callable[[int], bytes | None],
    *,
    start: int = 0,
    stop: int | None = None,
    hello_again: bool = False,
) -> ClearPart:
    """Read the clear part of one direction.

    Args:
        content_types: of records, among them its first ones.
        fragment: gives a record's content by index; None if the capture lacks some of it.
        start: index of its first record.
        stop: index behind the last of those that are looked at; None: of all.
        hello_again: a HelloRetryRequest has been seen from the other side, so that the
            second ClientHello may follow a ChangeCipherSpec.
    """
    part = ClearPart()
    messages = part.messages
    pending = bytearray()  # the begin of a message whose rest is still to come
    pending_record = start
    total = 0
    if stop is None:
        stop = len(content_types)
    part.encrypted_from = stop
    for index in range(start, stop):
        kind = content_types[index]
        if kind == HANDSHAKE:
            if part.change_cipher_spec is not None and not hello_again:
                break
            data = fragment(index)
            if data is None:
                part.broken = True
                break
            total += len(data)
            if not pending:
                pending_record = index
                if len(data) > 4 and int.from_bytes(data[1:4], "big") == len(data) - 4:
                    # Mostly a record holds one message.
                    messages.append(ClearMessage(data[0], data[4:], index, index))
                    hello_again = hello_again or _asks_again(messages[-1])
                    data = b""
            pending += data
            if pending:
                at, size = 0, len(pending)
                while size - at >= 4:
                    end = at + 4 + int.from_bytes(pending[at + 1 : at + 4], "big")
                    if end > size:
                        break
                    body = bytes(pending[at + 4 : end])
                    messages.append(ClearMessage(pending[at], body, pending_record, index))
                    hello_again = hello_again or _asks_again(messages[-1])
                    at = end
                    pending_record = index
                del pending[:at]
            if total > MAX_HANDSHAKE_BYTES or len(messages) > MAX_MESSAGES:
                part.malformed = True
                break
        elif kind == CHANGE_CIPHER_SPEC:
            if part.change_cipher_spec is None:
                part.change_cipher_spec = index
        elif kind == ALERT:
            data = fragment(index)
            if part.change_cipher_spec is not None and (data is None or len(data) != 2):
                break  # encrypted
            if data is not None and len(data) == 2:
                part.alerts.append((data[0], data[1], index))
            else:
                part.malformed |= data is not None
        elif hello_again and [message.type for message in messages] == [CLIENT_HELLO]:
            part.skipped.append(index)
        else:
            break
    else:
        return part
    part.encrypted_from = index
    return part


def _asks_again(message: ClearMessage) -> bool:
    """Whether it is a HelloRetryRequest."""
    return message.type == SERVER_HELLO and is_hello_retry(message.body)


def split_messages(parts: Sequence[tuple[int, bytes]]) -> list[ClearMessage]:
    """Handshake messages out of opened records, which a message may be spread over.

    Args:
        parts: (index of the record, its plaintext) in order. A message of which a part is
            missing ends the list.
    """
    messages: list[ClearMessage] = []
    pending = bytearray()
    pending_record = 0
    for record, plaintext in parts:
        if not pending:
            pending_record = record
            size = len(plaintext) - 4
            whole = size >= 0 and int.from_bytes(plaintext[1:4], "big") == size
            if whole and len(messages) < MAX_MESSAGES:  # mostly a record holds one message
                messages.append(ClearMessage(plaintext[0], plaintext[4:], record, record))
                continue
        pending += plaintext
        at = 0
        while len(pending) - at >= 4 and len(messages) < MAX_MESSAGES:
            stop = at + 4 + int.from_bytes(pending[at + 1 : at + 4], "big")
            if stop > len(pending):
                break
            messages.append(
                ClearMessage(pending[at], bytes(pending[at + 4 : stop]), pending_record, record)
            )
            at = stop
            pending_record = record
        del pending[:at]
    return messages


def is_hello_retry(body: bytes) -> bool:
    """Whether a ServerHello's body is that of a HelloRetryRequest."""
    return body[2:34] == HELLO_RETRY_RANDOM
