"""OCSP (RFC 6960): requests and responses, as HTTP carries them and as servers staple them."""

from __future__ import annotations

import base64
import binascii
import re
from typing import Any, Final

from capture_analyzer.model.quick_dataclass import quick_dataclass
from capture_analyzer.protocols.tls.certificates import Identity, element

REQUEST_TYPE: Final = "application/ocsp-request"
RESPONSE_TYPE: Final = "application/ocsp-response"

MAX_REQUEST_BYTES: Final = 4096
"""A request for a certificate has about a hundred bytes."""

_ESCAPED: Final = re.compile("%([0-9A-Fa-f]{2})")
_SHORTEST_PATH: Final = 60  # base64 of the shortest request is longer
_HASHES: Final = frozenset({"sha1", "sha256", "sha384"})


class MalformedOcspError(Exception):
    """Not an OCSP message."""


@quick_dataclass(frozen=True)
class CertificateId:
    """Which certificate is meant (RFC 6960, section 4.1.1)."""

    algorithm: str
    name_hash: bytes
    key_hash: bytes
    serial: int

    def names(self, identity: Identity) -> bool | None:
        """Whether it means this certificate; None where the hash is not known here."""
        if self.serial != identity.serial:
            return False
        if self.algorithm not in _HASHES:
            return None
        from hashlib import new  # few captures have OCSP, and this loads all of OpenSSL

        if new(self.algorithm, identity.issuer_name).digest() != self.name_hash:
            return False
        if identity.issuer_key is None:
            return True
        return new(self.algorithm, identity.issuer_key).digest() == self.key_hash


@quick_dataclass(frozen=True)
class OcspResponse:
    """A response: what became of the question, and the answer. Instants: seconds since 1970."""

    response: str
    status: str | None = None
    certificate: CertificateId | None = None
    this_update_s: int | None = None
    next_update_s: int | None = None


def parse_request(der: bytes) -> CertificateId:
    """Which certificate an OCSP request asks for (the first, as the library reads only one).

    Raises:
        MalformedOcspError: it is none.
    """
    from cryptography.x509 import ocsp

    if len(der) > MAX_REQUEST_BYTES or der[:1] != b"\x30":
        raise MalformedOcspError
    try:
        return _id(ocsp.load_der_ocsp_request(der))
    except Exception as error:  # the library's own errors are of many kinds
        raise MalformedOcspError from error


def request_in_path(path: str) -> CertificateId | None:
    """The request in the path of a GET (RFC 6960, appendix A.1.1); None if there is none."""
    last = path.split("?", 1)[0]
    if len(last) < _SHORTEST_PATH or len(last) > 2 * MAX_REQUEST_BYTES:
        return None
    text = _ESCAPED.sub(lambda found: chr(int(found[1], 16)), last)
    # base64 may hold slashes, so the request can begin behind any of the first ones.
    begin = text.find("/M") if "/M" in text else -1  # 0x30: a SEQUENCE
    while begin >= 0:
        part = text[begin + 1 :]
        try:
            return parse_request(base64.b64decode(part + "=" * (-len(part) % 4), validate=True))
        except (binascii.Error, ValueError, MalformedOcspError):
            begin = text.find("/M", begin + 1) if begin < _SHORTEST_PATH else -1
    return None


def parse_response(der: bytes) -> OcspResponse:
    """What an OCSP response says.

    Raises:
        MalformedOcspError: it is none.
    """
    from cryptography.x509 import ocsp

    try:
        try:
            response = ocsp.load_der_ocsp_response(der)
        except ValueError:
            response = ocsp.load_der_ocsp_response(_without_version(der))
        result = response.response_status.name.lower()
        if response.response_status is not ocsp.OCSPResponseStatus.SUCCESSFUL:
            return OcspResponse(result)
        single = next(iter(response.responses))
        next_update = single.next_update_utc
        return OcspResponse(
            result,
            single.certificate_status.name.lower(),
            _id(single),
            int(single.this_update_utc.timestamp()),
            None if next_update is None else int(next_update.timestamp()),
        )
    except Exception as error:  # the library's own errors are of many kinds
        raise MalformedOcspError from error


def _without_version(der: bytes) -> bytes:
    """A response without the version that DER leaves out, being the default, and some write.

    Only for reading: the signature does not fit any more.

    Raises:
        ValueError: it has another form.
    """
    outer = _parts(_content(der, 0x30))
    inner = _parts(_content(_content(outer[1], 0xA0), 0x30))
    basic = _parts(_content(_content(inner[1], 0x04), 0x30))
    data = _parts(_content(basic[0], 0x30))
    if data[0] != b"\xa0\3\2\1\0":
        raise ValueError("no version")
    basic[0] = _made(0x30, *data[1:])
    inner[1] = _made(0x04, _made(0x30, *basic))
    outer[1] = _made(0xA0, _made(0x30, *inner))
    return _made(0x30, *outer)


def _parts(content: bytes) -> list[bytes]:
    """The elements in the content of a constructed element."""
    parts: list[bytes] = []
    at = 0
    while at < len(content):
        _, end = element(content, at)
        if end > len(content):
            raise ValueError("an element is cut short")
        parts.append(content[at:end])
        at = end
    if not parts:
        raise ValueError("no elements")
    return parts


def _content(der: bytes, tag: int) -> bytes:
    """What is in an element with this tag."""
    begin, end = element(der, 0)
    if der[0] != tag or end != len(der):
        raise ValueError("another element")
    return der[begin:end]


def _made(tag: int, *parts: bytes) -> bytes:
    content = b"".join(parts)
    size = len(content)
    if size < 0x80:
        return bytes((tag, size)) + content
    length = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes((tag, 0x80 | len(length))) + length + content


def _id(message: Any) -> CertificateId:
    return CertificateId(
        message.hash_algorithm.name,
        message.issuer_name_hash,
        message.issuer_key_hash,
        message.serial_number,
    )
