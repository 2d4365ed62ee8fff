"""Certificate and CertificateStatus messages, and what the certificates in them say.

TLS 1.2 lists certificates (RFC 5246, section 7.4.2) and staples an OCSP response in a message
of its own (RFC 6066, section 8). TLS 1.3 lists entries with extensions, and the staple is one
of them (RFC 8446, section 4.4.2).
"""

from __future__ import annotations

import datetime
import re
from typing import Any, Final

from capture_analyzer.model.quick_dataclass import quick_dataclass

MAX_CERTIFICATES: Final = 16
"""Read of a chain; real ones have two to five."""

MAX_NAMES: Final = 100
"""DNS names kept of a certificate; some of content networks have as many."""

_STATUS_REQUEST: Final = 5
_OCSP: Final = 1  # CertificateStatusType (RFC 6066, section 8)
_URL: Final = re.compile(
    r"https?://(\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9_.-]{1,253})(?:[:/]|$)", re.I
)
_HOST: Final = re.compile(r"(?:\*\.)?[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,252})")


class MalformedCertificateError(Exception):
    """A message or a certificate breaks the rules. The message says how."""


@quick_dataclass(frozen=True)
class Entry:
    """A certificate of a chain: its DER bytes and the OCSP response stapled for it."""

    der: bytes
    staple: bytes | None = None


@quick_dataclass(frozen=True)
class Identity:
    """What names a certificate to an OCSP responder (RFC 6960, section 4.1.1).

    Attributes:
        serial: its serial number.
        issuer_name: DER of its issuer's name.
        issuer_key: the issuer's public key, as the bits that are hashed; None if the issuer is
            not in the chain.
    """

    serial: int
    issuer_name: bytes
    issuer_key: bytes | None = None


@quick_dataclass(frozen=True)
class Facts:
    """What a certificate says. Instants are seconds since 1970."""

    name: str | None
    dns_names: list[str]
    not_before_s: int
    not_after_s: int
    key_type: str
    self_signed: bool
    must_staple: bool
    ocsp_responder: str | None
    identity: Identity
    subject: bytes
    public_key: bytes


def parse_certificate(body: bytes, *, tls13: bool) -> list[Entry]:
    """The entries of a Certificate message.

    Raises:
        MalformedCertificateError: its lengths contradict each other.
    """
    at = 0
    if tls13:
        at = 1 + _take(body, 0, 1)
    size = _take(body, at, 3)
    at += 3
    stop = at + size
    if stop != len(body):
        raise MalformedCertificateError("a Certificate message has a wrong length")
    entries: list[Entry] = []
    while at < stop and len(entries) < MAX_CERTIFICATES:
        size = _take(body, at, 3)
        at += 3
        if at + size > stop:
            raise MalformedCertificateError("a certificate is longer than its message")
        der = body[at : at + size]
        at += size
        staple = None
        if tls13:
            size = _take(body, at, 2)
            at += 2
            if at + size > stop:
                raise MalformedCertificateError("extensions are longer than their message")
            staple = _staple(body[at : at + size])
            at += size
        entries.append(Entry(der, staple))
    return entries


def parse_certificate_status(body: bytes) -> bytes:
    """The OCSP response in a CertificateStatus (RFC 6066, section 8).

    Raises:
        MalformedCertificateError: it has another form.
    """
    if _take(body, 0, 1) != _OCSP or _take(body, 1, 3) != len(body) - 4:
        raise MalformedCertificateError("a CertificateStatus has no OCSP response")
    return body[4:]


def _staple(extensions: bytes) -> bytes | None:
    at = 0
    while at + 4 <= len(extensions):
        kind, size = _take(extensions, at, 2), _take(extensions, at + 2, 2)
        at += 4
        if kind == _STATUS_REQUEST:
            return parse_certificate_status(extensions[at : at + size])
        at += size
    return None


def _take(data: bytes, at: int, size: int) -> int:
    if at + size > len(data):
        raise MalformedCertificateError("a Certificate message is cut short")
    return int.from_bytes(data[at : at + size], "big")


def read_certificate(der: bytes) -> Facts:
    """What a certificate says.

    Raises:
        MalformedCertificateError: it can't be read.
    """
    from cryptography import x509
    from cryptography.hazmat.primitives import serialization

    try:
        certificate = x509.load_der_x509_certificate(der)
        key = certificate.public_key()
        info = key.public_bytes(
            serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        names = _dns_names(certificate)
        issuer, subject = certificate.issuer.public_bytes(), certificate.subject.public_bytes()
        return Facts(
            name=names[0] if names else _common_name(certificate),
            dns_names=names,
            not_before_s=_seconds(certificate.not_valid_before_utc),
            not_after_s=_seconds(certificate.not_valid_after_utc),
            key_type=_key_type(key),
            self_signed=issuer == subject,
            must_staple=_must_staple(certificate),
            ocsp_responder=_responder(certificate),
            identity=Identity(certificate.serial_number, issuer),
            subject=subject,
            public_key=_key_bits(info),
        )
    except MalformedCertificateError:
        raise
    except Exception as error:  # the library's own errors are of many kinds
        raise MalformedCertificateError("a certificate can't be read") from error


def _seconds(when: datetime.datetime) -> int:
    return int(when.timestamp())


def _extension(certificate: Any, kind: Any) -> Any:
    """The value of an extension; None if it is absent or can't be read."""
    try:
        return certificate.extensions.get_extension_for_class(kind).value
    except Exception:
        return None


def _dns_names(certificate: Any) -> list[str]:
    from cryptography import x509

    names = _extension(certificate, x509.SubjectAlternativeName)
    if names is None:
        return []
    found = names.get_values_for_type(x509.DNSName)
    return [name for name in found[:MAX_NAMES] if _HOST.fullmatch(name)]


def _common_name(certificate: Any) -> str | None:
    """The common name where it is a host name: any other may be a person's."""
    from cryptography.x509.oid import NameOID

    for attribute in certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME):
        text = attribute.value
        if isinstance(text, str) and "." in text and _HOST.fullmatch(text):
            return text
    return None


def _must_staple(certificate: Any) -> bool:
    from cryptography import x509

    features = _extension(certificate, x509.TLSFeature)
    return features is not None and x509.TLSFeatureType.status_request in features


def _responder(certificate: Any) -> str | None:
    """Host of the first OCSP responder in the authority information access."""
    from cryptography import x509
    from cryptography.x509.oid import AuthorityInformationAccessOID

    access = _extension(certificate, x509.AuthorityInformationAccess)
    for description in access or ():
        location = description.access_location
        if description.access_method == AuthorityInformationAccessOID.OCSP and isinstance(
            location, x509.UniformResourceIdentifier
        ):
            host = _URL.match(location.value)
            if host:
                return host[1].lower()
    return None


def _key_type(key: Any) -> str:
    from cryptography.hazmat.primitives.asymmetric import ec, rsa

    if isinstance(key, rsa.RSAPublicKey):
        return f"RSA {key.key_size}"
    if isinstance(key, ec.EllipticCurvePublicKey):
        return f"EC {key.curve.name}"
    return type(key).__name__.removeprefix("_").removesuffix("PublicKey")


def _key_bits(info: bytes) -> bytes:
    """The bits of the subjectPublicKey, which an OCSP request hashes (RFC 6960, 4.1.1)."""
    at, _ = element(info, 0)
    _, stop = element(info, at)  # the algorithm
    begin, end = element(info, stop)
    return info[begin + 1 : end]  # without the count of unused bits


def element(der: bytes, at: int) -> tuple[int, int]:
    """Where the content of the DER element at an offset begins and ends.

    Raises:
        ValueError: its length is cut short, or not told.
    """
    if at + 1 >= len(der):
        raise ValueError("an element is cut short")
    length = der[at + 1]
    at += 2
    if length & 0x80:
        count = length & 0x7F
        if not 0 < count <= 4 or at + count > len(der):
            raise ValueError("an element's length is not told")
        length = int.from_bytes(der[at : at + count], "big")
        at += count
    return at, at + length
