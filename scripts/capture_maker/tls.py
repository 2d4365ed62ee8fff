"""TLS over an endpoint by Python's ssl module, and certificates of a CA of our own.

Keys of certificates are derived from their names and signatures are deterministic, so the
certificates are the same in every run. The handshakes are not: OpenSSL draws its randoms.
"""

from __future__ import annotations

import contextlib
import datetime
import functools
import hashlib
import ssl
import tempfile
from collections.abc import Generator, Iterable
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from capture_maker.network import number
from capture_maker.simulation import US, Process, Signal
from capture_maker.tcp import Endpoint

_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551  # of P-256
RECORD_HEADER = 5
_VALID = (datetime.datetime(2026, 1, 1), datetime.datetime(2027, 1, 1))  # noqa: DTZ001


def _key(name: str) -> ec.EllipticCurvePrivateKey:
    scalar = int.from_bytes(hashlib.sha256(b"capture maker " + name.encode()).digest()) % _ORDER
    return ec.derive_private_key(scalar, ec.SECP256R1())


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


@functools.cache
def certificate_chain(*names: str) -> bytes:
    """PEM of a server's key, its certificate and that of the CA that signed it."""
    key, ca_key = _key(names[0]), _key("ca")
    issuer = _name("Capture Maker Test CA")
    ca = (
        x509.CertificateBuilder(issuer, issuer, ca_key.public_key(), 1, *_VALID)
        .add_extension(x509.BasicConstraints(True, 0), critical=True)
        .sign(ca_key, hashes.SHA256(), ecdsa_deterministic=True)
    )
    own = (
        x509.CertificateBuilder(
            issuer, _name(names[0]), key.public_key(), number("serial", *names), *_VALID
        )
        .add_extension(
            x509.SubjectAlternativeName([x509.DNSName(n) for n in names]), critical=False
        )
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(ca_key, hashes.SHA256(), ecdsa_deterministic=True)
    )
    pem = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return pem + b"".join(c.public_bytes(serialization.Encoding.PEM) for c in (own, ca))


def server_context(
    *names: str,
    version: ssl.TLSVersion | None = None,
    group: str | None = None,
    alpn: str = "http/1.1",
) -> ssl.SSLContext:
    """A server's context with a certificate for these names; `group`: the only key share."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.NamedTemporaryFile(suffix=".pem") as file:
        file.write(certificate_chain(*names))
        file.flush()
        context.load_cert_chain(file.name)
    context.set_alpn_protocols([alpn])
    if version:
        context.minimum_version = context.maximum_version = version
    if group:
        context.set_ecdh_curve(group)
    return context


def client_context(
    key_log: Path | None = None,
    version: ssl.TLSVersion | None = None,
    alpn: str = "http/1.1",
) -> ssl.SSLContext:
    """A client's context; it does not check certificates, which are of no concern here."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols([alpn])
    if version:
        context.minimum_version = context.maximum_version = version
    if key_log:
        context.keylog_filename = str(key_log)
    return context


class TlsSocket:
    """A TLS connection over an endpoint, with the endpoint's manner of use."""

    split_hello = False  # the first record is sent as two, each in a segment of its own

    def __init__(
        self,
        endpoint: Endpoint,
        context: ssl.SSLContext,
        *,
        server_name: str | None = None,
        session: ssl.SSLSession | None = None,
    ) -> None:
        self.endpoint = endpoint
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(
            self._incoming,
            self._outgoing,
            server_side=not endpoint.active,
            server_hostname=server_name,
            session=session,
        )
        self._walked = 0

    def handshake(self, work_ns: int = 700 * US) -> Generator[int | Signal, None, bool]:
        """Shake hands; False if the other side, or ours, refused."""
        while True:
            try:
                self.tls.do_handshake()
            except ssl.SSLWantReadError:
                self._flush()
                data = yield from self.endpoint.receive()
                if not data:
                    return False
                yield work_ns  # keys and signatures take time
                self._incoming.write(data)
            except ssl.SSLError:
                self._flush()  # the alert
                return False
            else:
                self._flush()
                return True

    def send(self, data: bytes) -> tuple[int, int]:
        """Encrypt and write; returns the offsets of the records in the TCP stream."""
        self.tls.write(data)
        return self._flush()

    def locate(self, start: int, index: int) -> int:
        """The TCP stream offset of the ciphertext of a plaintext byte.

        AEADs keep the order and length of what they protect, so it can be said to the byte.

        Args:
            start: where the records of the write begin in the TCP stream.
            index: the byte's index in what was written.
        """
        cipher = self.tls.cipher() or ("", "", 0)
        gcm12 = self.tls.version() == "TLSv1.2" and "CHACHA" not in cipher[0]
        lead = RECORD_HEADER + (8 if gcm12 else 0)  # RFC 5288: an explicit nonce
        behind = 16 if self.tls.version() == "TLSv1.2" else 17  # tag, inner type
        for first, end in self.endpoint.connection.records[self.endpoint.active]:
            if first < start:
                continue
            size = end - first - lead - behind
            if index < size:
                return first + lead + index
            index -= size
        raise ValueError("the write has no such byte")

    def receive(self) -> Generator[Signal, None, bytes]:
        """Wait for content and take it; b"" at the end."""
        while True:
            try:
                return self.tls.read(1 << 20)
            except ssl.SSLWantReadError:
                self._flush()
                data = yield from self.endpoint.receive()
                if not data:
                    return b""
                self._incoming.write(data)
            except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
                return b""

    def close(self) -> None:
        """close_notify, then FIN."""
        with contextlib.suppress(ssl.SSLError):
            self.tls.unwrap()
        self._flush()
        self.endpoint.close()

    def _flush(self) -> tuple[int, int]:
        data = self._outgoing.read()
        if data and self.split_hello:
            self.split_hello = False
            half = len(data) // 2
            self._send_records(data[:3] + (half - RECORD_HEADER).to_bytes(2, "big") + data[5:half])
            data = data[:3] + (len(data) - half).to_bytes(2, "big") + data[half:]
        return self._send_records(data)

    def _send_records(self, data: bytes) -> tuple[int, int]:
        start = len(self.endpoint.buffer)
        records = self.endpoint.connection.records.setdefault(self.endpoint.active, [])
        at = 0
        while at < len(data):
            size = 5 + int.from_bytes(data[at + 3 : at + 5])
            records.append((start + at, start + at + size))
            at += size
        if data:
            return self.endpoint.send(data)
        return start, start


__all__ = ["Process", "TlsSocket", "certificate_chain", "client_context", "server_context"]


def place_of(
    spans: Iterable[tuple[int, int, int]], start: int, index: int, *, nonce: int = 0
) -> int:
    """Where a byte of content lies in the stream, for `TlsSocket.locate`.

    Args:
        spans: of each record: begin, end, size of its content.
        start: where the write with the byte began in the stream.
        index: of the byte in that write.
        nonce: octets in front of the ciphertext of each record.
    """
    for first, _, size in spans:
        if first < start:
            continue
        if index < size:
            return first + RECORD_HEADER + nonce + index
        index -= size
    raise ValueError("the write has no such byte")
