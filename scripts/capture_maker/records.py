"""TLS 1.3 records of our own behind a handshake by OpenSSL.

Python's ssl module can neither update keys nor pad records. After the handshake this socket
protects and opens records itself, with the traffic secrets that OpenSSL put into the key log
(RFC 8446, sections 5 and 7).
"""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

from capture_maker.simulation import US, Signal
from capture_maker.tls import RECORD_HEADER, TlsSocket, place_of

HANDSHAKE, APPLICATION_DATA, ALERT = 22, 23, 21
KEY_UPDATE = 24
MAX_PLAINTEXT = 1 << 14
_CLOSE_NOTIFY = b"\x01\x00"


def _expand(secret: bytes, label: str, length: int, hash_: hashes.HashAlgorithm) -> bytes:
    full = b"tls13 " + label.encode()
    info = length.to_bytes(2, "big") + bytes((len(full),)) + full + b"\0"
    return HKDFExpand(hash_, length, info).derive(secret)


class Keys:
    """One direction's traffic secret, and what follows from it."""

    def __init__(self, secret: bytes, cipher: str) -> None:
        self.cipher = cipher
        self.hash = hashes.SHA384() if cipher.endswith("SHA384") else hashes.SHA256()
        self._install(secret)

    def _install(self, secret: bytes) -> None:
        self.secret = secret
        size = 16 if "AES_128" in self.cipher else 32
        key = _expand(secret, "key", size, self.hash)
        self.aead = ChaCha20Poly1305(key) if "CHACHA" in self.cipher else AESGCM(key)
        self.iv = int.from_bytes(_expand(secret, "iv", 12, self.hash), "big")
        self.sequence = 0

    def update(self) -> None:
        """The next generation of the secret (RFC 8446, section 7.2)."""
        self._install(_expand(self.secret, "traffic upd", len(self.secret), self.hash))

    def _nonce(self) -> bytes:
        nonce = (self.iv ^ self.sequence).to_bytes(12, "big")
        self.sequence += 1
        return nonce

    def seal(self, content_type: int, data: bytes, padding: int = 0) -> bytes:
        """A protected record."""
        inner = data + bytes((content_type,)) + bytes(padding)
        header = b"\x17\x03\x03" + (len(inner) + 16).to_bytes(2, "big")
        return header + self.aead.encrypt(self._nonce(), inner, header)

    def open(self, record: bytes) -> tuple[int, bytes]:
        """(content type, plaintext) of a record."""
        inner = self.aead.decrypt(self._nonce(), record[5:], record[:5]).rstrip(b"\0")
        return inner[-1], inner[:-1]


class RecordSocket(TlsSocket):
    """A TLS 1.3 socket that can pad its records and update its keys.

    The server's context must send no session tickets: they would use up sequence numbers.
    """

    padding = 0  # zero octets behind the content of each record
    record_bytes = MAX_PLAINTEXT  # most content in a record

    def __init__(self, *args: object, key_log: Path | None = None, **more: object) -> None:
        super().__init__(*args, **more)  # type: ignore[arg-type]
        self.key_log = key_log
        self._spans: list[tuple[int, int, int]] = []  # of each record sent: start, plaintext
        self._pending = b""
        self._closed = False

    def handshake(self, work_ns: int = 700 * US) -> Generator[int | Signal, None, bool]:
        """Shake hands, then take over the records."""
        done = yield from super().handshake(work_ns)
        if not done:
            return False
        assert self.key_log is not None
        rows = [line.split() for line in self.key_log.read_text().splitlines()]
        secrets = {row[0]: bytes.fromhex(row[2]) for row in rows if row[0] != "#"}
        cipher = (self.tls.cipher() or ("",))[0]
        names = ("CLIENT_TRAFFIC_SECRET_0", "SERVER_TRAFFIC_SECRET_0")
        own, peer = names if self.endpoint.active else names[::-1]
        self.out, self.into = Keys(secrets[own], cipher), Keys(secrets[peer], cipher)
        self._pending = self._incoming.read()
        return True

    def _write(self, content_type: int, data: bytes) -> tuple[int, int]:
        sealed = self.out.seal(content_type, data, self.padding)
        start = len(self.endpoint.buffer) + len(self._batch)
        self._batch += sealed
        spans = self.endpoint.connection.records.setdefault(self.endpoint.active, [])
        spans.append((start, start + len(sealed)))
        self._spans.append((start, start + len(sealed), len(data)))
        return start, start + len(sealed)

    _batch = b""

    def _send_batch(self) -> None:
        batch, self._batch = self._batch, b""
        self.endpoint.send(batch)

    def send(self, data: bytes) -> tuple[int, int]:
        """Encrypt and write; returns the offsets of the records in the TCP stream."""
        start = end = len(self.endpoint.buffer)
        for at in range(0, len(data), self.record_bytes):
            _, end = self._write(APPLICATION_DATA, data[at : at + self.record_bytes])
        self._send_batch()
        return start, end

    def locate(self, start: int, index: int) -> int:
        """See `TlsSocket.locate`."""
        return place_of(self._spans, start, index)

    def update_keys(self) -> None:
        """Send KeyUpdate (not asking for the peer's) and go on with new keys."""
        self._write(HANDSHAKE, bytes((KEY_UPDATE, 0, 0, 1, 0)))
        self._send_batch()
        self.out.update()

    def receive(self) -> Generator[Signal, None, bytes]:
        """Wait for content and take it; b"" at the end."""
        while True:
            content = self._open_pending()
            if content or self._closed:
                return content
            data = yield from self.endpoint.receive()
            if not data:
                return b""
            self._pending += data

    def _open_pending(self) -> bytes:
        content = b""
        while len(self._pending) >= RECORD_HEADER:
            size = RECORD_HEADER + int.from_bytes(self._pending[3:5], "big")
            if len(self._pending) < size:
                break
            record, self._pending = self._pending[:size], self._pending[size:]
            kind, plain = self.into.open(record)
            if kind == APPLICATION_DATA:
                content += plain
            elif kind == HANDSHAKE and plain[0] == KEY_UPDATE:
                self.into.update()
            elif kind == ALERT:
                self._closed = True
        return content

    def close(self) -> None:
        """close_notify, then FIN."""
        self._write(ALERT, _CLOSE_NOTIFY)
        self._send_batch()
        self.endpoint.close()


__all__ = ["RecordSocket"]
