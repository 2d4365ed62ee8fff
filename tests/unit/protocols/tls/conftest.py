"""Real TLS sessions between two ends in memory, as packets with times."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import ssl
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

RTT_NS = 30_000_000


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with a self-signed certificate for api.example and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "api.example")])
    now = datetime.datetime.now(datetime.UTC)
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("api.example")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    path = tmp_path_factory.mktemp("certificate") / "both.pem"
    path.write_bytes(
        signed.public_bytes(serialization.Encoding.PEM)
        + key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return path


@dataclasses.dataclass
class Talk:
    """A session seen at the client: what each side sent, and when it was seen there."""

    client: list[tuple[int, int, bytes]] = dataclasses.field(default_factory=list)
    server: list[tuple[int, int, bytes]] = dataclasses.field(default_factory=list)
    session: ssl.SSLSession | None = None
    finished_ns: int = 0  # when the client's last handshake bytes were seen


@dataclasses.dataclass
class Talker:
    """Makes sessions between one client's and one server's settings."""

    client_context: ssl.SSLContext
    server_context: ssl.SSLContext

    def talk(
        self,
        script: list[tuple[str, bytes, int]],
        *,
        session: ssl.SSLSession | None = None,
        close: bool = True,
    ) -> Talk:
        """Shake hands, then follow a script of (side, bytes to write, ns to wait before)."""
        talk = Talk()
        to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
        client = self.client_context.wrap_bio(
            to_client, to_server, server_hostname="api.example", session=session
        )
        server = self.server_context.wrap_bio(
            to_server_copy := ssl.MemoryBIO(), to_client_copy := (ssl.MemoryBIO()), server_side=True
        )
        now, packet_no = 0, 0

        def deliver() -> None:
            """Carry what both sides have written to the other, half a round trip each way."""
            nonlocal now, packet_no
            data = to_server.read()
            if data:
                packet_no += 1
                talk.client.append((now, packet_no, data))
                to_server_copy.write(data)
            data = to_client_copy.read()
            if data:
                packet_no += 1
                talk.server.append((now, packet_no, data))
                to_client.write(data)

        client_done = server_done = False
        while not (client_done and server_done):
            if not client_done:
                client_done = _shake(client)
                deliver()
                if client_done:
                    talk.finished_ns = now
            now += RTT_NS
            if not server_done:
                server_done = _shake(server)
            deliver()
        for side, data, wait_ns in script:
            now += wait_ns
            writer, reader = (client, server) if side == "client" else (server, client)
            writer.write(data)
            deliver()
            while _read(reader):
                pass
            while _read(client):  # tickets
                pass
        talk.session = client.session
        if close:
            for end in (client, server):
                _unwrap(end)
                deliver()
        return talk


def _shake(end: ssl.SSLObject) -> bool:
    try:
        end.do_handshake()
    except ssl.SSLWantReadError:
        return False
    return True


def _read(end: ssl.SSLObject) -> bytes:
    try:
        return end.read(1 << 16)
    except ssl.SSLWantReadError:
        return b""


def _unwrap(end: ssl.SSLObject) -> None:
    with contextlib.suppress(ssl.SSLWantReadError, ssl.SSLSyscallError):
        end.unwrap()


@pytest.fixture
def talker(certificate: Path) -> Callable[..., Talker]:
    """Builds a Talker: TLS version, client certificate or not, server's group, ALPN."""

    def build(
        version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3,
        *,
        client_certificate: bool = False,
        group: str | None = None,
        alpn: tuple[list[str], list[str]] | None = None,
        tickets: int | None = None,
    ) -> Talker:
        client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        client.load_verify_locations(certificate)
        server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        server.load_cert_chain(certificate)
        for context in (client, server):
            context.minimum_version = context.maximum_version = version
        if client_certificate:
            server.verify_mode = ssl.CERT_REQUIRED
            server.load_verify_locations(certificate)
            client.load_cert_chain(certificate)
        if group:
            server.set_ecdh_curve(group)
        if alpn:
            client.set_alpn_protocols(alpn[0])
            server.set_alpn_protocols(alpn[1])
        if tickets is not None:
            server.num_tickets = tickets
        return Talker(client, server)

    return build
