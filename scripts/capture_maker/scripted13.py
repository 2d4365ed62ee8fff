"""TLS 1.3 by a script: handshakes that OpenSSL would not make, such as stapled responses.

The handshake messages are our own, protected with secrets of our own, which go into the key log
(RFC 8446). Nothing is agreed on by Diffie-Hellman; with the key log, or without any, such a
capture can't be told from a real one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

from capture_maker.records import Keys
from capture_maker.scripted import Script, _draw, _extension, _message, _vector
from capture_maker.simulation import US, Signal
from capture_maker.tcp import Endpoint
from capture_maker.tls import RECORD_HEADER, TlsSocket, place_of

CHANGE, ALERT, HANDSHAKE, DATA = 20, 21, 22, 23
SUITE, CIPHER = 0x1301, "TLS_AES_128_GCM_SHA256"
MAX_PLAINTEXT = 1 << 14
_RETRY = hashlib.sha256(b"HelloRetryRequest").digest()
_FINISHED_BYTES = 4 + 32 + 17
_LABELS = ("HANDSHAKE_TRAFFIC_SECRET", "TRAFFIC_SECRET_0")


class _Facts:
    """What the stage asks a TLS connection for."""

    session_reused = False

    def version(self) -> str:
        return "TLSv1.3"

    def cipher(self) -> tuple[str, str, int]:
        return CIPHER, self.version(), 128


class ScriptedSocket13(TlsSocket):
    """A TLS 1.3 connection that follows a script; see `layer`."""

    def __init__(
        self, endpoint: Endpoint, script: Script, server_name: str | None, key_log: Path
    ) -> None:
        self.endpoint = endpoint
        self.script = script
        self.name = server_name
        self.key_log = key_log
        self.tls: Any = _Facts()
        self._seed = (endpoint.connection.number, endpoint.active)
        self._buffer = b""
        self._spans: list[tuple[int, int, int]] = []

    def handshake(self, work_ns: int = 700 * US) -> Generator[int | Signal, None, bool]:
        """Follow the script."""
        yield from self._client(work_ns) if self.endpoint.active else self._server(work_ns)
        return True

    def _client(self, work_ns: int) -> Generator[int | Signal, None, None]:
        script = self.script
        hello = self._client_hello()
        self._clear(HANDSHAKE, _message(1, hello), version=b"\x03\x01")
        self._take_keys(hello[2:34])
        logged = [(side, label) for side in ("CLIENT", "SERVER") for label in _LABELS]
        if script.early:
            logged.append(("CLIENT", "EARLY_TRAFFIC_SECRET"))
        with self.key_log.open("a") as file:
            for side, label in logged:
                secret = _secret(hello[2:34], side, label)
                file.write(f"{side}_{label} {hello[2:34].hex()} {secret.hex()}\n")
        if script.early:
            secret = _secret(hello[2:34], "CLIENT", "EARLY_TRAFFIC_SECRET")
            self._send_records(Keys(secret, CIPHER).seal(DATA, script.early))
        if script.retry:
            yield from self._record()  # HelloRetryRequest
            yield work_ns
            self._clear(CHANGE, b"\1")
            self._clear(HANDSHAKE, _message(1, self._client_hello(again=True)))
        yield from self._record()  # ServerHello
        while True:
            _, content = self.into.open((yield from self._record()))
            if content.endswith(self._finished("server")):
                break
        yield work_ns + script.client_pause_ns
        if script.check is not None:
            yield from script.check()
        self._clear(CHANGE, b"\1")
        self._say(HANDSHAKE, self._finished("client"))
        self._next_keys(out=True, into=True)

    def _server(self, work_ns: int) -> Generator[int | Signal, None, None]:
        script = self.script
        record = yield from self._record()
        self._random = record[11:43]
        self._take_keys(self._random)
        if script.retry:
            yield work_ns
            session = record[44 : 44 + record[43]]
            asked = _extension(43, b"\3\4") + _extension(51, b"\0\x1d")
            head = b"\3\3" + _RETRY + _vector(session, 1) + SUITE.to_bytes(2, "big")
            self._clear(HANDSHAKE, _message(2, head + b"\0" + _vector(asked, 2)))
            while (record := (yield from self._record()))[0] != HANDSHAKE:
                pass  # ChangeCipherSpec, and early data that is skipped
        yield work_ns + script.hello_pause_ns
        self._clear(HANDSHAKE, _message(2, self._server_hello(record[44 : 44 + record[43]])))
        self._clear(CHANGE, b"\1")
        alpn = _extension(16, _vector(_vector(b"http/1.1", 1), 2))
        flight = _message(8, _vector(alpn, 2))
        entries = b""
        for place, der in enumerate(script.chain):
            status = b""
            if place == 0 and script.staple is not None and script.ask_status:
                status = _extension(5, b"\1" + _vector(script.staple, 3))
            entries += _vector(der, 3) + _vector(status, 2)
        flight += _message(11, b"\0" + _vector(entries, 3))
        flight += _message(15, b"\4\3" + _vector(_draw(71, *self._seed, "signature"), 2))
        flight += self._finished("server")
        yield script.certificate_pause_ns
        self._say(HANDSHAKE, flight)
        self._next_keys(out=True, into=False)
        while True:
            record = yield from self._record()
            if record[0] == DATA and len(record) == RECORD_HEADER + _FINISHED_BYTES:
                break  # before it stand ChangeCipherSpec, and early data that is skipped
        self._next_keys(out=False, into=True)
        yield work_ns
        ticket = _draw(192, *self._seed, "ticket")
        body = (7200).to_bytes(4, "big") + _draw(4, *self._seed, "age") + _vector(b"\0" * 8, 1)
        self._say(HANDSHAKE, _message(4, body + _vector(ticket, 2) + b"\0\0"))

    def _client_hello(self, *, again: bool = False) -> bytes:
        extensions = b""
        if self.name:
            extensions += _extension(0, _vector(b"\0" + _vector(self.name.encode(), 2), 2))
        if self.script.ask_status:
            extensions += _extension(5, b"\1\0\0\0\0")
        extensions += _extension(10, _vector(b"\0\x1d", 2)) + _extension(13, _vector(b"\4\3", 2))
        extensions += _extension(16, _vector(_vector(b"http/1.1", 1), 2))
        extensions += _extension(43, b"\2\3\4") + _extension(45, b"\1\1")
        share = b"\0\x1d" + _vector(_draw(32, *self._seed, "share"), 2)
        extensions += _extension(51, _vector(share, 2))
        if self.script.early and not again:
            identity = _vector(_draw(192, *self._seed, "identity"), 2) + bytes(4)
            binder = _vector(_draw(32, *self._seed, "binder"), 1)
            offered = _vector(identity, 2) + _vector(binder, 2)
            extensions += _extension(42, b"") + _extension(41, offered)
        random, session = (_draw(32, *self._seed, what) for what in ("random", "session"))
        suites = _vector(SUITE.to_bytes(2, "big"), 2)
        head = b"\3\3" + random + _vector(session, 1)
        return head + suites + b"\1\0" + _vector(extensions, 2)

    def _server_hello(self, session: bytes) -> bytes:
        share = b"\0\x1d" + _vector(_draw(32, *self._seed, "share"), 2)
        extensions = _extension(43, b"\3\4") + _extension(51, share)
        head = b"\3\3" + _draw(32, *self._seed, "random") + _vector(session, 1)
        return head + SUITE.to_bytes(2, "big") + b"\0" + _vector(extensions, 2)

    def _finished(self, side: str) -> bytes:
        return _message(20, hashlib.sha256(f"{side} finished".encode()).digest())

    def _take_keys(self, random: bytes) -> None:
        own, peer = ("CLIENT", "SERVER") if self.endpoint.active else ("SERVER", "CLIENT")
        made = [
            [Keys(_secret(random, side, label), CIPHER) for label in _LABELS]
            for side in (own, peer)
        ]
        self.out, self._next_out = made[0]
        self.into, self._next_into = made[1]

    def _next_keys(self, *, out: bool, into: bool) -> None:
        self.out = self._next_out if out else self.out
        self.into = self._next_into if into else self.into

    def _clear(self, kind: int, data: bytes, version: bytes = b"\x03\x03") -> None:
        parts = [data[at : at + MAX_PLAINTEXT] for at in range(0, len(data), MAX_PLAINTEXT)]
        self._send_records(b"".join(bytes((kind,)) + version + _vector(p, 2) for p in parts))

    def _say(self, kind: int, data: bytes) -> None:
        self._send_records(self.out.seal(kind, data))

    def _record(self) -> Generator[Signal, None, bytes]:
        """The next whole record; b"" at the end."""
        while True:
            if len(self._buffer) >= RECORD_HEADER:
                size = RECORD_HEADER + int.from_bytes(self._buffer[3:5])
                if len(self._buffer) >= size:
                    record, self._buffer = self._buffer[:size], self._buffer[size:]
                    if record[0] == CHANGE and self.endpoint.active:
                        continue
                    return record
            data = yield from self.endpoint.receive()
            if not data:
                return b""
            self._buffer += data

    def send(self, data: bytes) -> tuple[int, int]:
        """Encrypt and write; returns the offsets of the records in the TCP stream."""
        start, sealed = len(self.endpoint.buffer), b""
        for at in range(0, len(data), MAX_PLAINTEXT):
            part = data[at : at + MAX_PLAINTEXT]
            record = self.out.seal(DATA, part)
            first = start + len(sealed)
            self._spans.append((first, first + len(record), len(part)))
            sealed += record
        return self._send_records(sealed)

    def locate(self, start: int, index: int) -> int:
        """See `TlsSocket.locate`."""
        return place_of(self._spans, start, index)

    def receive(self) -> Generator[Signal, None, bytes]:
        """Wait for content and take it."""
        while True:
            record = yield from self._record()
            if not record:
                return b""
            kind, content = self.into.open(record)
            if kind == DATA:
                return content
            if kind == ALERT:
                return b""

    def close(self) -> None:
        """close_notify, then FIN."""
        self._say(ALERT, b"\1\0")
        self.endpoint.close()


def _secret(random: bytes, side: str, label: str) -> bytes:
    return hashlib.sha256(f"{random.hex()} {side} {label}".encode()).digest()


def layer13(script: Script, key_log: Path) -> Callable[..., TlsSocket]:
    """What makes sockets of a script, for `Stage.serve_tls` and `Stage.open_socket`."""

    def make(
        endpoint: Endpoint,
        context: object,
        *,
        server_name: str | None = None,
        session: object = None,
    ) -> TlsSocket:
        return ScriptedSocket13(endpoint, script, server_name, key_log)

    return make
