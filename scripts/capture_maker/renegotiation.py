"""TLS 1.2 sockets that shake hands again inside the connection (RFC 5246, 7.4.1; RFC 5746).

Python's ssl module does not renegotiate. Behind a handshake by OpenSSL this socket protects and
opens records itself, with keys made of the master secret in the key log; the second handshake
agrees on a master secret of our own, which goes into the key log, too.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Generator, Iterator
from pathlib import Path

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from capture_maker import authority
from capture_maker.scripted import _draw, _extension, _message, _vector
from capture_maker.simulation import US, Signal
from capture_maker.tls import RECORD_HEADER, TlsSocket, place_of

CHANGE, ALERT, HANDSHAKE, DATA = 20, 21, 22, 23
SUITE = 0xC02B  # ECDHE-ECDSA-AES128-GCM-SHA256
MAX_PLAINTEXT = 1 << 14
_RANDOM = slice(RECORD_HEADER + 6, RECORD_HEADER + 38)  # in the record of a hello


def _prf(secret: bytes, label: bytes, seed: bytes, length: int) -> bytes:
    """RFC 5246, section 5, with SHA-256."""
    seed = label + seed
    out, a = b"", seed
    while len(out) < length:
        a = hmac.digest(secret, a, "sha256")
        out += hmac.digest(secret, a + seed, "sha256")
    return out[:length]


class Keys:
    """One direction's key of AES-128-GCM (RFC 5288)."""

    def __init__(self, key: bytes, iv: bytes, sequence: int) -> None:
        self.cipher = AESGCM(key)
        self.iv = iv
        self.sequence = sequence

    @classmethod
    def pair(cls, master: bytes, client: bytes, server: bytes, sequence: int) -> tuple[Keys, Keys]:
        """(client's, server's) keys (RFC 5246, section 6.3)."""
        block = _prf(master, b"key expansion", server + client, 40)
        return cls(block[:16], block[32:36], sequence), cls(block[16:32], block[36:], sequence)

    def _covered(self, kind: int, size: int) -> bytes:
        header = bytes((kind,)) + b"\x03\x03" + size.to_bytes(2, "big")
        covered = self.sequence.to_bytes(8, "big") + header
        self.sequence += 1
        return covered

    def seal(self, kind: int, data: bytes) -> bytes:
        """A protected record."""
        nonce = self.sequence.to_bytes(8, "big")
        covered = self._covered(kind, len(data))
        sealed = nonce + self.cipher.encrypt(self.iv + nonce, data, covered)
        return bytes((kind,)) + b"\x03\x03" + _vector(sealed, 2)

    def open(self, record: bytes) -> tuple[int, bytes]:
        """(type, plaintext) of a record."""
        nonce, sealed = record[RECORD_HEADER : RECORD_HEADER + 8], record[RECORD_HEADER + 8 :]
        covered = self._covered(record[0], len(sealed) - 16)
        return record[0], self.cipher.decrypt(self.iv + nonce, sealed, covered)


class Tls12Socket(TlsSocket):
    """A TLS 1.2 socket that can renegotiate.

    `peers` holds both sockets of the connection, which tell each other their randoms: the
    first handshake's are read from what they sent. Contexts must allow no other suite than
    ECDHE-ECDSA-AES128-GCM-SHA256.
    """

    certificate = authority.certificate("api.example")  # in the later handshakes

    def __init__(
        self, *args: object, key_log: Path, peers: list[Tls12Socket], **more: object
    ) -> None:
        super().__init__(*args, **more)  # type: ignore[arg-type]
        self.key_log = key_log
        self.peers = peers
        peers.append(self)
        self._pending = b""
        self._closed = False
        self._spans: list[tuple[int, int, int]] = []
        self._rounds = 0
        self._next: tuple[Keys, Keys] | None = None

    def handshake(self, work_ns: int = 700 * US) -> Generator[int | Signal, None, bool]:
        """Shake hands, then take over the records."""
        if not (yield from super().handshake(work_ns)):
            return False
        self._pending = self._incoming.read()
        return True

    def _start(self) -> None:
        if hasattr(self, "out"):
            return
        client, server = (
            bytes(
                next(peer for peer in self.peers if peer.endpoint.active is active).endpoint.buffer
            )
            for active in (True, False)
        )
        line = next(
            row.split()
            for row in self.key_log.read_text().splitlines()
            if row.startswith(f"CLIENT_RANDOM {client[_RANDOM].hex()}")
        )
        keys = Keys.pair(bytes.fromhex(line[2]), client[_RANDOM], server[_RANDOM], 1)
        self.out, self.into = keys if self.endpoint.active else keys[::-1]

    def _write(self, kind: int, data: bytes) -> bytes:
        self._start()
        return self.out.seal(kind, data)

    def send(self, data: bytes) -> tuple[int, int]:
        """Encrypt and write; returns the offsets of the records in the TCP stream."""
        start = len(self.endpoint.buffer)
        sealed = b""
        for at in range(0, len(data), MAX_PLAINTEXT):
            part = self._write(DATA, data[at : at + MAX_PLAINTEXT])
            first = start + len(sealed)
            size = len(data[at : at + MAX_PLAINTEXT])
            self._spans.append((first, first + len(part), size))
            sealed += part
        return self._send_records(sealed)

    def locate(self, start: int, index: int) -> int:
        """See `TlsSocket.locate`."""
        return place_of(self._spans, start, index, nonce=8)

    def renegotiate(self, *, asked: bool = False) -> Generator[Signal, None, None]:
        """The client shakes hands again, and waits for the end of it.

        Args:
            asked: because the server sends a HelloRequest.
        """
        if asked:
            server = next(peer for peer in self.peers if peer is not self)
            server._say(HANDSHAKE, _message(0, b""))
        else:
            self._say(HANDSHAKE, _message(1, self._hello()))
        done = self._rounds + 1
        while self._rounds < done:
            yield from self._more()
            for _ in self._opened():
                raise AssertionError("content in the middle of a handshake")

    def _say(self, kind: int, data: bytes) -> None:
        self._send_records(self._write(kind, data))

    def _seed(self, *what: object) -> tuple[object, ...]:
        first = bytes(self.endpoint.buffer)[_RANDOM].hex()
        return (first, self._rounds, self.endpoint.active, *what)

    def _hello(self) -> bytes:
        """Body of a hello, with the verify_data that RFC 5746 wants (of our own making)."""
        random = self.random = _draw(32, *self._seed("random"))
        if self.endpoint.active:
            info = _vector(_draw(12, "client"), 1)
            extensions = _extension(0xFF01, info) + _extension(10, _vector(b"\0\x1d", 2))
            suites = _vector(SUITE.to_bytes(2, "big"), 2)
            return b"\x03\x03" + random + b"\0" + suites + b"\1\0" + _vector(extensions, 2)
        info = _vector(_draw(12, "client") + _draw(12, "server"), 1)
        extensions = _extension(0xFF01, info)
        return (
            b"\x03\x03" + random + b"\0" + SUITE.to_bytes(2, "big") + b"\0" + _vector(extensions, 2)
        )

    def _flight(self) -> bytes:
        """The server's messages."""
        chain = _vector(b"".join(_vector(der, 3) for der in authority.chain(self.certificate)), 3)
        exchange = b"\3\0\x1d" + _vector(_draw(32, *self._seed("share")), 1) + b"\4\3"
        return (
            _message(2, self._hello())
            + _message(11, chain)
            + _message(12, exchange + _vector(_draw(71, *self._seed("signature")), 2))
            + _message(14, b"")
        )

    def _agree(self) -> None:
        """Both sides' next keys."""
        client = next(peer for peer in self.peers if peer.endpoint.active)
        server = next(peer for peer in self.peers if not peer.endpoint.active)
        master = hashlib.shake_256(client.random + server.random).digest(48)
        if self.endpoint.active:
            with self.key_log.open("a") as file:
                file.write(f"CLIENT_RANDOM {client.random.hex()} {master.hex()}\n")
        keys = Keys.pair(master, client.random, server.random, 0)
        self._next = keys if self.endpoint.active else keys[::-1]

    def _finish(self) -> None:
        self._say(CHANGE, b"\1")
        assert self._next
        self.out = self._next[0]
        self._say(HANDSHAKE, _message(20, _draw(12, *self._seed("finished"))))

    def _answer(self, kind: int) -> None:
        """Go on with the handshake behind a message of the peer."""
        if kind == 0:
            self._say(HANDSHAKE, _message(1, self._hello()))
        elif kind == 1:
            self._say(HANDSHAKE, self._flight())
        elif kind == 2:
            self._agree()
            self._say(HANDSHAKE, _message(16, _vector(_draw(32, *self._seed("key")), 1)))
            self._finish()
        elif kind == 16:
            self._agree()
        elif kind == 20:
            if not self.endpoint.active:
                self._finish()
            self._rounds += 1

    def _more(self) -> Generator[Signal, None, bool]:
        data = yield from self.endpoint.receive()
        self._pending += data
        return bool(data)

    def _opened(self) -> Iterator[bytes]:
        """Content of the records that are there; handshake messages are answered."""
        while len(self._pending) >= RECORD_HEADER:
            size = RECORD_HEADER + int.from_bytes(self._pending[3:5], "big")
            if len(self._pending) < size:
                return
            record, self._pending = self._pending[:size], self._pending[size:]
            self._start()
            kind, plain = self.into.open(record)
            if kind == DATA:
                yield plain
            elif kind == CHANGE:
                assert self._next
                self.into = self._next[1]
            elif kind == HANDSHAKE:
                self._answer(plain[0])
            else:
                self._closed = True

    def receive(self) -> Generator[Signal, None, bytes]:
        """Wait for content and take it; b"" at the end."""
        while True:
            content = b"".join(self._opened())
            if content or self._closed:
                return content
            if not (yield from self._more()):
                return b""

    def close(self) -> None:
        """close_notify, then FIN."""
        self._say(ALERT, b"\1\0")
        self.endpoint.close()


__all__ = ["Tls12Socket"]
