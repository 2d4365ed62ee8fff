"""DNS messages (RFC 1035, section 4), as far as a lookup needs them."""

from __future__ import annotations

import ipaddress
import struct
from typing import Final, NamedTuple

from capture_analyzer.wire.text import printable

MAX_POINTERS: Final = 32
"""Compression pointers followed in one name. They must lead backwards; a name has at most 127
labels, and real ones need one or two pointers."""
MAX_RECORDS: Final = 512  # answers read of one message: a datagram of 4,096 octets holds 250

_TYPES: Final = {
    1: "A", 2: "NS", 5: "CNAME", 6: "SOA", 12: "PTR", 15: "MX", 16: "TXT", 28: "AAAA",
    33: "SRV", 35: "NAPTR", 43: "DS", 46: "RRSIG", 48: "DNSKEY", 64: "SVCB", 65: "HTTPS",
    255: "ANY", 257: "CAA",
}  # fmt: skip
_RCODES: Final = (
    "NOERROR", "FORMERR", "SERVFAIL", "NXDOMAIN", "NOTIMP", "REFUSED", "YXDOMAIN", "YXRRSET",
    "NXRRSET", "NOTAUTH", "NOTZONE",
)  # fmt: skip
_HEADER: Final = struct.Struct(">HHHHHH")
_RECORD: Final = struct.Struct(">HHIH")


class DnsMessage(NamedTuple):
    """A question or an answer.

    Attributes:
        id: the transaction.
        response: it is an answer.
        truncated: it was cut to fit its datagram (TC).
        rcode: response code by name.
        name: name of the first question, lower-case, without the final dot.
        type: type of the first question by name, or "TYPE" and its number.
        addresses: those of the A and AAAA records in the answer section, as text.
    """

    id: int
    response: bool
    truncated: bool
    rcode: str
    name: str
    type: str
    addresses: tuple[str, ...]


class MalformedDnsError(ValueError):
    """The octets are no DNS message with a question."""


def parse(data: bytes) -> DnsMessage:
    """Read a message. A cut answer section gives the records before the cut.

    Raises:
        MalformedDnsError: there is no header or no whole question.
    """
    if len(data) < _HEADER.size:
        raise MalformedDnsError("shorter than a DNS header")
    number, flags, questions, answers, _, _ = _HEADER.unpack_from(data)
    if flags >> 11 & 0xF or not questions:
        raise MalformedDnsError("no query with a question")
    name, at = _name(data, _HEADER.size)
    if at + 4 > len(data):
        raise MalformedDnsError("cut in its question")
    kind = int.from_bytes(data[at : at + 2], "big")
    at += 4
    try:
        for _ in range(min(questions, MAX_RECORDS) - 1):
            at = _name(data, at)[1] + 4
        addresses = _addresses(data, at, min(answers, MAX_RECORDS))
    except MalformedDnsError:
        addresses = []
    rcode = flags & 0xF
    return DnsMessage(
        id=number,
        response=bool(flags & 0x8000),
        truncated=bool(flags & 0x0200),
        rcode=_RCODES[rcode] if rcode < len(_RCODES) else f"RCODE{rcode}",
        name=name,
        type=_TYPES.get(kind, f"TYPE{kind}"),
        addresses=tuple(addresses),
    )


def _name(data: bytes, at: int) -> tuple[str, int]:
    """(name, position behind it), with compression (RFC 1035, section 4.1.4)."""
    labels: list[bytes] = []
    behind = -1
    pointers = 0
    total = 0
    while True:
        if at >= len(data):
            raise MalformedDnsError("cut in a name")
        length = data[at]
        if length >= 0xC0:
            if at + 1 >= len(data):
                raise MalformedDnsError("cut in a name")
            target = (length & 0x3F) << 8 | data[at + 1]
            if behind < 0:
                behind = at + 2
            pointers += 1
            if target >= at or pointers > MAX_POINTERS:
                raise MalformedDnsError("a name that leads nowhere")
            at = target
            continue
        if length > 63:
            raise MalformedDnsError("a label of an unknown kind")
        at += 1
        if not length:
            break
        total += length + 1
        if total > 255 or at + length > len(data):
            raise MalformedDnsError("a name that is too long")
        labels.append(data[at : at + length])
        at += length
    return printable(b".".join(labels)).lower(), at if behind < 0 else behind


def _addresses(data: bytes, at: int, count: int) -> list[str]:
    found: list[str] = []
    for _ in range(count):
        try:
            _, at = _name(data, at)
        except MalformedDnsError:
            break
        if at + _RECORD.size > len(data):
            break
        kind, _, _, length = _RECORD.unpack_from(data, at)
        at += _RECORD.size
        content = data[at : at + length]
        at += length
        if len(content) < length:
            break
        if (kind, length) in ((1, 4), (28, 16)):
            found.append(str(ipaddress.ip_address(content)))
    return found
