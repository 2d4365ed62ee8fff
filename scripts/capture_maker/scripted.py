"""TLS up to 1.2 by a script: handshakes that OpenSSL would not make, such as stapled responses.

Python's ssl module can't staple, choose a chain's certificates freely, or pause inside a flight.
This socket writes the messages itself. Nothing is negotiated and nothing is secret: behind the
handshake bytes are masked, in records as long as AES-GCM would make them (RFC 5288). Without
keys, which nobody has, such a capture can't be told from a real one.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Generator
from typing import Any

from capture_maker.simulation import US, Process, Signal
from capture_maker.tcp import Endpoint
from capture_maker.tls import RECORD_HEADER, TlsSocket

CHANGE, ALERT, HANDSHAKE, DATA = 20, 21, 22, 23
_SUITES = {0x0303: 0xC02B, 0x0302: 0xC009, 0x0301: 0xC009}
_NAMES = {0x0303: "TLSv1.2", 0x0302: "TLSv1.1", 0x0301: "TLSv1.0"}
_LEAD, _TAG = 8, 16
MAX_PLAINTEXT = 1 << 14


@dataclasses.dataclass(slots=True)
class Script:
    """How a handshake goes.

    Attributes:
        chain: DER of the server's certificates, its own first.
        staple: OCSP response that the server staples.
        ask_status: the client sends status_request.
        version: agreed version.
        hello_pause_ns: the server works so long before its ServerHello.
        certificate_pause_ns: so long between its ServerHello and its Certificate.
        client_pause_ns: the client works so long before it goes on.
        finish_pause_ns: the server works so long before its Finished (up to TLS 1.2).
        retry: the server asks for another ClientHello first (TLS 1.3).
        early: early data that the client sends and the server rejects (TLS 1.3).
        check: what the client does once it has the server's flight, and waits for.
    """

    chain: list[bytes]
    staple: bytes | None = None
    ask_status: bool = True
    version: int = 0x0303
    hello_pause_ns: int = 0
    certificate_pause_ns: int = 0
    client_pause_ns: int = 0
    finish_pause_ns: int = 0
    early: bytes = b""
    retry: bool = False
    check: Callable[[], Process] | None = None


class _Facts:
    """What the stage asks a TLS connection for."""

    session_reused = False

    def __init__(self, version: int) -> None:
        self._version = version

    def version(self) -> str:
        return _NAMES[self._version]

    def cipher(self) -> tuple[str, str, int]:
        suite = "ECDHE-ECDSA-AES128-GCM-SHA256" if self._version == 0x0303 else "AES128-SHA"
        return suite, self.version(), 128


def _vector(data: bytes, size: int) -> bytes:
    return len(data).to_bytes(size, "big") + data


def _extension(kind: int, data: bytes) -> bytes:
    return kind.to_bytes(2, "big") + _vector(data, 2)


def _message(kind: int, body: bytes) -> bytes:
    return bytes((kind,)) + _vector(body, 3)


def _draw(size: int, *seed: object) -> bytes:
    return hashlib.shake_256(repr(seed).encode()).digest(size)


class ScriptedSocket(TlsSocket):
    """A TLS connection that follows a script; see `layer`."""

    def __init__(self, endpoint: Endpoint, script: Script, server_name: str | None) -> None:
        self.endpoint = endpoint
        self.script = script
        self.name = server_name
        self.tls: Any = _Facts(script.version)
        self._seed = (endpoint.connection.number, endpoint.active)
        self._buffer = b""
        self._sent = 0

    def handshake(self, work_ns: int = 700 * US) -> Generator[int | Signal, None, bool]:
        """Follow the script."""
        yield from self._client(work_ns) if self.endpoint.active else self._server(work_ns)
        return True

    def _client(self, work_ns: int) -> Generator[int | Signal, None, None]:
        script = self.script
        self._write(HANDSHAKE, _message(1, self._client_hello()), version=0x0301)
        while True:
            _, body = yield from self._record()
            if body.endswith(_message(14, b"")):
                break
        yield work_ns + script.client_pause_ns
        if script.check is not None:
            yield from script.check()
        self._write(HANDSHAKE, _message(16, _vector(_draw(32, *self._seed, "key"), 1)))
        self._finish()
        yield from self._record()
        yield from self._record()

    def _server(self, work_ns: int) -> Generator[int | Signal, None, None]:
        script = self.script
        yield from self._record()
        yield work_ns + script.hello_pause_ns
        hello = self._server_hello()
        rest = _message(11, _vector(b"".join(_vector(der, 3) for der in script.chain), 3))
        if script.staple is not None and script.ask_status:
            rest += _message(22, b"\1" + _vector(script.staple, 3))
        exchange = b"\3\0\x1d" + _vector(_draw(32, *self._seed, "share"), 1)
        if script.version == 0x0303:
            exchange += b"\4\3"  # the signature's algorithm, which older versions don't name
        rest += _message(12, exchange + _vector(_draw(71, *self._seed, "signature"), 2))
        rest += _message(14, b"")
        if script.certificate_pause_ns:
            self._write(HANDSHAKE, _message(2, hello))
            yield script.certificate_pause_ns
            self._write(HANDSHAKE, rest)
        else:
            self._write(HANDSHAKE, _message(2, hello) + rest)
        for _ in range(3):
            yield from self._record()
        yield work_ns + script.finish_pause_ns
        self._finish()

    def _client_hello(self) -> bytes:
        script = self.script
        extensions = b""
        if self.name:
            name = _vector(b"\0" + _vector(self.name.encode(), 2), 2)
            extensions += _extension(0, name)
        if script.ask_status:
            extensions += _extension(5, b"\1\0\0\0\0")
        extensions += _extension(10, _vector(b"\0\x1d", 2)) + _extension(13, _vector(b"\4\3", 2))
        extensions += _extension(16, _vector(_vector(b"http/1.1", 1), 2))
        suite = _SUITES[script.version].to_bytes(2, "big")
        version = script.version.to_bytes(2, "big")
        random = _draw(32, *self._seed, "random")
        return version + random + b"\0" + _vector(suite, 2) + b"\1\0" + _vector(extensions, 2)

    def _server_hello(self) -> bytes:
        script = self.script
        extensions = _extension(16, _vector(_vector(b"http/1.1", 1), 2))
        if script.staple is not None and script.ask_status:
            extensions += _extension(5, b"")
        suite = _SUITES[script.version].to_bytes(2, "big")
        version, random = script.version.to_bytes(2, "big"), _draw(32, *self._seed, "random")
        return version + random + b"\0" + suite + b"\0" + _vector(extensions, 2)

    def _finish(self) -> None:
        self._write(CHANGE, b"\1")
        self._write(HANDSHAKE, _draw(_LEAD + 16 + _TAG, *self._seed, "finished"))

    def _write(self, kind: int, data: bytes, *, version: int | None = None) -> tuple[int, int]:
        number = (version or self.script.version).to_bytes(2, "big")
        parts = [data[at : at + MAX_PLAINTEXT] for at in range(0, len(data), MAX_PLAINTEXT)]
        return self._send_records(
            b"".join(bytes((kind,)) + number + _vector(part, 2) for part in parts)
        )

    def _record(self) -> Generator[Signal, None, tuple[int, bytes]]:
        """The next record; (0, b"") at the end."""
        while True:
            if len(self._buffer) >= RECORD_HEADER:
                size = RECORD_HEADER + int.from_bytes(self._buffer[3:5])
                if len(self._buffer) >= size:
                    record, self._buffer = self._buffer[:size], self._buffer[size:]
                    return record[0], record[RECORD_HEADER:]
            data = yield from self.endpoint.receive()
            if not data:
                return 0, b""
            self._buffer += data

    def send(self, data: bytes) -> tuple[int, int]:
        """Mask and write."""
        records = b""
        number = self.script.version.to_bytes(2, "big")
        for at in range(0, len(data), MAX_PLAINTEXT):
            part = data[at : at + MAX_PLAINTEXT]
            self._sent += 1
            lead = self._sent.to_bytes(_LEAD, "big")
            tag = _draw(_TAG, *self._seed, self._sent)
            records += bytes((DATA,)) + number + _vector(lead + _mask(part) + tag, 2)
        return self._send_records(records)

    def locate(self, start: int, index: int) -> int:
        """The TCP stream offset of the masked form of a byte."""
        for first, end in self.endpoint.connection.records[self.endpoint.active]:
            if first < start:
                continue
            size = end - first - RECORD_HEADER - _LEAD - _TAG
            if index < size:
                return first + RECORD_HEADER + _LEAD + index
            index -= size
        raise ValueError("the write has no such byte")

    def receive(self) -> Generator[Signal, None, bytes]:
        """Wait for content and take it."""
        while True:
            kind, body = yield from self._record()
            if kind == DATA:
                return _mask(body[_LEAD:-_TAG])
            if kind in (0, ALERT):
                return b""

    def close(self) -> None:
        """An alert as long as close_notify, then FIN."""
        self._write(ALERT, _draw(_LEAD + 2 + _TAG, *self._seed, "close"))
        self.endpoint.close()


def _mask(data: bytes) -> bytes:
    return bytes(byte ^ 0xA5 for byte in data)


def layer(script: Script) -> Callable[..., TlsSocket]:
    """What makes sockets of a script, for `Stage.serve_tls` and `Stage.open_socket`."""

    def make(
        endpoint: Endpoint,
        context: object,
        *,
        server_name: str | None = None,
        session: object = None,
    ) -> TlsSocket:
        return ScriptedSocket(endpoint, script, server_name)

    return make
