"""Certificate messages of both forms, what certificates say, and OCSP about them."""

from __future__ import annotations

import base64
import datetime

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509 import ocsp
from cryptography.x509.oid import AuthorityInformationAccessOID, NameOID

from capture_analyzer.protocols import ocsp as parser
from capture_analyzer.protocols.tls.certificates import (
    Entry,
    Identity,
    MalformedCertificateError,
    parse_certificate,
    parse_certificate_status,
    read_certificate,
)

BEGIN = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
END = datetime.datetime(2026, 4, 1, tzinfo=datetime.UTC)
KEY = ec.generate_private_key(ec.SECP256R1())
DER = serialization.Encoding.DER


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def make(
    subject: str = "Jane Doe",
    *names: str,
    issuer: str = "Test CA",
    serial: int = 7,
    responder: str | None = None,
    must_staple: bool = False,
) -> x509.Certificate:
    """A certificate."""
    builder = x509.CertificateBuilder(
        _name(issuer), _name(subject), KEY.public_key(), serial, BEGIN, END
    )
    if names:
        san = x509.SubjectAlternativeName([x509.DNSName(name) for name in names])
        builder = builder.add_extension(san, critical=False)
    if responder:
        where = x509.UniformResourceIdentifier(responder)
        access = x509.AccessDescription(AuthorityInformationAccessOID.OCSP, where)
        builder = builder.add_extension(x509.AuthorityInformationAccess([access]), critical=False)
    if must_staple:
        feature = x509.TLSFeature([x509.TLSFeatureType.status_request])
        builder = builder.add_extension(feature, critical=False)
    return builder.sign(KEY, hashes.SHA256())


def vector(data: bytes, size: int) -> bytes:
    return len(data).to_bytes(size, "big") + data


def test_a_chain_of_tls12() -> None:
    body = vector(vector(b"one", 3) + vector(b"two", 3), 3)
    assert parse_certificate(body, tls13=False) == [Entry(b"one"), Entry(b"two")]


def test_a_chain_of_tls13_with_a_staple() -> None:
    status = b"\1" + vector(b"response", 3)
    other = b"\0\x12" + vector(b"sct", 2)
    extensions = other + b"\0\5" + vector(status, 2)
    entries = vector(b"one", 3) + vector(extensions, 2) + vector(b"two", 3) + vector(b"", 2)
    body = vector(b"context", 1) + vector(entries, 3)
    assert parse_certificate(body, tls13=True) == [Entry(b"one", b"response"), Entry(b"two")]


@pytest.mark.parametrize("tls13", [False, True])
def test_every_cut_is_noticed(tls13: bool) -> None:
    entry = vector(b"one", 3) + (vector(b"", 2) if tls13 else b"")
    body = (b"\0" if tls13 else b"") + vector(entry * 2, 3)
    for size in range(len(body)):
        with pytest.raises(MalformedCertificateError):
            parse_certificate(body[:size], tls13=tls13)
    with pytest.raises(MalformedCertificateError):
        parse_certificate(body + b"x", tls13=tls13)


def test_certificate_status() -> None:
    assert parse_certificate_status(b"\1" + vector(b"response", 3)) == b"response"
    for bad in (b"", b"\2" + vector(b"response", 3), b"\1" + vector(b"response", 3)[:-1]):
        with pytest.raises(MalformedCertificateError):
            parse_certificate_status(bad)


def test_what_a_certificate_says() -> None:
    made = make("api.example", "api.example", "*.api.example", responder="http://OCSP.example:80/x")
    facts = read_certificate(made.public_bytes(DER))
    assert facts.name == "api.example"
    assert facts.dns_names == ["api.example", "*.api.example"]
    assert (facts.not_before_s, facts.not_after_s) == (BEGIN.timestamp(), END.timestamp())
    assert facts.key_type == "EC secp256r1"
    assert facts.ocsp_responder == "ocsp.example"
    assert (facts.self_signed, facts.must_staple) == (False, False)
    assert read_certificate(make(must_staple=True).public_bytes(DER)).must_staple
    assert read_certificate(make("A", issuer="A").public_bytes(DER)).self_signed


def test_a_person_is_not_named() -> None:
    facts = read_certificate(make("Jane Doe").public_bytes(DER))
    assert facts.name is None
    facts = read_certificate(make("jane.doe@mail.example").public_bytes(DER))
    assert facts.name is None


@pytest.mark.parametrize("where", ["ldap://x/y", "http://", "http://a b/", "x" * 500])
def test_a_responder_that_is_none(where: str) -> None:
    assert read_certificate(make(responder=where).public_bytes(DER)).ocsp_responder is None


def test_garbage_is_no_certificate() -> None:
    for bad in (b"", b"\x30", make().public_bytes(DER)[:-9], b"\x30\x82" + bytes(500)):
        with pytest.raises(MalformedCertificateError):
            read_certificate(bad)


CA = make("Test CA")
OWN = make("api.example", serial=1234)


def question(own: x509.Certificate, algorithm: hashes.HashAlgorithm) -> bytes:
    builder = ocsp.OCSPRequestBuilder().add_certificate(own, CA, algorithm)
    return builder.build().public_bytes(DER)


@pytest.mark.parametrize("algorithm", [hashes.SHA1(), hashes.SHA256()])
def test_whom_a_request_means(algorithm: hashes.HashAlgorithm) -> None:
    asked = parser.parse_request(question(OWN, algorithm))
    facts, ca = (read_certificate(c.public_bytes(DER)) for c in (OWN, CA))
    identity = Identity(1234, facts.identity.issuer_name, ca.public_key)
    assert asked.names(identity) is True
    assert asked.names(Identity(1235, facts.identity.issuer_name)) is False
    assert asked.names(Identity(1234, b"other")) is False
    assert asked.names(Identity(1234, facts.identity.issuer_name, b"other")) is False
    assert asked.names(Identity(1234, facts.identity.issuer_name)) is True


def test_a_hash_that_is_not_known() -> None:
    asked = parser.CertificateId("sha3-512", b"", b"", 1234)
    assert asked.names(Identity(1234, b"x")) is None
    assert asked.names(Identity(1, b"x")) is False


@pytest.mark.parametrize("prefix", ["/", "/status/", "/M/"])
def test_a_request_in_a_path(prefix: str) -> None:
    text = base64.b64encode(question(OWN, hashes.SHA1())).decode()
    for path in (prefix + text, prefix + text.replace("+", "%2B").replace("/", "%2F")):
        found = parser.request_in_path(path)
        assert found is not None
        assert found.serial == 1234
    assert parser.request_in_path(prefix + text.rstrip("=")) is not None


def test_other_paths() -> None:
    for path in ("/", "/M" + "A" * 80, "/" + "M" * 9000, "/M" * 60, "/%zz" + "M" * 70):
        assert parser.request_in_path(path) is None


def test_responses() -> None:
    builder = ocsp.OCSPResponseBuilder().add_response(
        OWN, CA, hashes.SHA1(), ocsp.OCSPCertStatus.GOOD, BEGIN, None, None, None
    )
    builder = builder.responder_id(ocsp.OCSPResponderEncoding.HASH, CA)
    response = parser.parse_response(builder.sign(KEY, hashes.SHA256()).public_bytes(DER))
    assert (response.response, response.status) == ("successful", "good")
    assert (response.this_update_s, response.next_update_s) == (BEGIN.timestamp(), None)
    assert response.certificate is not None
    assert response.certificate.serial == 1234
    failed = ocsp.OCSPResponseBuilder.build_unsuccessful(ocsp.OCSPResponseStatus.TRY_LATER)
    assert parser.parse_response(failed.public_bytes(DER)).response == "try_later"
    for bad in (b"", b"\x30\x00", failed.public_bytes(DER)[:-1]):
        with pytest.raises(parser.MalformedOcspError):
            parser.parse_response(bad)
        with pytest.raises(parser.MalformedOcspError):
            parser.parse_request(bad)


def test_a_version_that_is_written_out() -> None:
    """DER leaves a default value out; responders that write it are read nevertheless."""

    def made(tag: int, *parts: bytes) -> bytes:
        content = b"".join(parts)
        return bytes((tag, 0x82)) + vector(content, 2)

    builder = ocsp.OCSPResponseBuilder().add_response(
        OWN, CA, hashes.SHA1(), ocsp.OCSPCertStatus.REVOKED, BEGIN, END, BEGIN, None
    )
    builder = builder.responder_id(ocsp.OCSPResponderEncoding.HASH, CA)
    response = builder.sign(KEY, hashes.SHA256())
    data = response.tbs_response_bytes
    size = 4 if data[1] == 0x82 else 3 if data[1] == 0x81 else 2
    longer = made(0x30, b"\xa0\3\2\1\0", data[size:])
    basic = made(0x30, longer, b"\x30\x0a\6\x08\x2a\x86\x48\xce\x3d\4\3\2", b"\3\2\0\0")
    kind = b"\6\x09\x2b\6\1\5\5\7\x30\1\1"
    der = made(0x30, b"\x0a\1\0", made(0xA0, made(0x30, kind, made(4, basic))))
    read = parser.parse_response(der)
    assert (read.status, read.next_update_s) == ("revoked", END.timestamp())
    for size in range(len(der)):
        with pytest.raises(parser.MalformedOcspError):
            parser.parse_response(der[:size])
