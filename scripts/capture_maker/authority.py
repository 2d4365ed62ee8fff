"""A certificate authority of our own: chains and OCSP responses of every kind.

All keys are Ed25519 keys made from names, so that everything is the same in every run.
"""

from __future__ import annotations

import datetime
import functools
import hashlib

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.x509 import ocsp
from cryptography.x509.oid import AuthorityInformationAccessOID, NameOID

from capture_maker.network import number

NOW = datetime.datetime(2026, 3, 3, 14, 7, 11)  # noqa: DTZ001 - the captures' clock, UTC
DAY = datetime.timedelta(days=1)
RESPONDER = "ocsp.ca.example"


def _key(name: str) -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(
        hashlib.sha256(b"capture maker authority " + name.encode()).digest()
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


_ISSUER = _name("Capture Maker Issuing CA")


@functools.cache
def issuer() -> x509.Certificate:
    """The authority's certificate."""
    key = _key("issuer")
    begin, end = NOW - 1000 * DAY, NOW + 1000 * DAY
    return (
        x509.CertificateBuilder(_ISSUER, _ISSUER, key.public_key(), 2, begin, end)
        .add_extension(x509.BasicConstraints(True, 0), critical=True)
        .sign(key, None)
    )


def certificate(
    name: str,
    *,
    end: datetime.timedelta = 60 * DAY,
    responder: str | None = RESPONDER,
    must_staple: bool = False,
    more_names: int = 0,
) -> x509.Certificate:
    """A server's certificate, valid for 30 days and until `end` from the captures' day."""
    names = [name, *(f"shop-{index:04d}.customers.example" for index in range(more_names))]
    builder = x509.CertificateBuilder(
        _ISSUER,
        _name(name),
        _key(name).public_key(),
        number("authority", name, end.days),
        NOW - 30 * DAY,
        NOW + end,
    ).add_extension(x509.SubjectAlternativeName([x509.DNSName(n) for n in names]), critical=False)
    if responder:
        access = x509.AccessDescription(
            AuthorityInformationAccessOID.OCSP,
            x509.UniformResourceIdentifier(f"http://{responder}/"),
        )
        builder = builder.add_extension(x509.AuthorityInformationAccess([access]), critical=False)
    if must_staple:
        feature = x509.TLSFeature([x509.TLSFeatureType.status_request])
        builder = builder.add_extension(feature, critical=False)
    return builder.sign(_key("issuer"), None)


def chain(own: x509.Certificate) -> list[bytes]:
    """DER of a chain."""
    return [one.public_bytes(serialization.Encoding.DER) for one in (own, issuer())]


def question(own: x509.Certificate) -> bytes:
    """An OCSP request for a certificate."""
    builder = ocsp.OCSPRequestBuilder().add_certificate(own, issuer(), hashes.SHA1())
    return builder.build().public_bytes(serialization.Encoding.DER)


def answer(
    own: x509.Certificate,
    *,
    begin: datetime.timedelta = -DAY,
    end: datetime.timedelta = 6 * DAY,
    revoked: bool = False,
) -> bytes:
    """An OCSP response about a certificate, valid from `begin` to `end` of the captures' day."""
    status = ocsp.OCSPCertStatus.REVOKED if revoked else ocsp.OCSPCertStatus.GOOD
    builder = ocsp.OCSPResponseBuilder().add_response(
        own,
        issuer(),
        hashes.SHA1(),
        status,
        NOW + begin,
        NOW + end,
        NOW - 2 * DAY if revoked else None,
        None,
    )
    builder = builder.responder_id(ocsp.OCSPResponderEncoding.HASH, issuer())
    return builder.sign(_key("issuer"), None).public_bytes(serialization.Encoding.DER)
