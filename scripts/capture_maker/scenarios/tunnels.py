"""Connections that become something else: an upgrade to WebSocket, a CONNECT tunnel."""

from __future__ import annotations

import struct
from collections.abc import Generator

from capture_maker.http import (
    Client,
    Reply,
    Socket,
    Write,
    endpoint_of,
    reply,
    request,
    response,
    serve,
)
from capture_maker.network import Host
from capture_maker.scenarios.basic import HOST
from capture_maker.simulation import MS, Process, Signal
from capture_maker.stage import Form, Stage, scenario
from capture_maker.tls import TlsSocket, client_context, server_context


def frame(text: bytes, *, masked: bool) -> bytes:
    """A WebSocket text frame (RFC 6455, section 5.2)."""
    key = b"\x11\x22\x33\x44"
    head = struct.pack("!BB", 0x81, len(text) | (0x80 if masked else 0))
    if not masked:
        return head + text
    return head + key + bytes(c ^ key[n % 4] for n, c in enumerate(text))


@scenario(
    "upgrade",
    """A GET is upgraded to WebSocket with 101 after 15 ms; then both sides exchange frames: what is
    behind the head of the response is not HTTP.""",
    silent=("tcp/syn-retransmission", "http/slow-server"),
    tunnel=True,
)
def upgrade(stage: Stage) -> None:
    """A WebSocket."""
    host, _ = stage.server("app", "192.0.2.10")

    def talk(socket: Socket) -> Process:
        for turn in range(4):
            yield from socket.receive()
            yield 12 * MS
            socket.send(frame(b"answer %d" % turn, masked=False))
        yield from socket.receive()
        socket.close()

    def route(method: str, target: str) -> Reply:
        switching = response(
            "101 Switching Protocols",
            b"",
            "Upgrade: websocket",
            "Connection: Upgrade",
            "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=",
            length=False,
        )
        return Reply(15 * MS, [Write(switching)], then=talk)

    stage.serve(host, 80, route)

    def client() -> Process:
        http = yield from stage.open(host, 80)
        assert http
        yield from http.call(
            request(
                "GET",
                "/socket",
                HOST,
                "Upgrade: websocket",
                "Connection: Upgrade",
                "Sec-WebSocket-Version: 13",
                "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
            )
        )
        for turn in range(4):
            http.socket.send(frame(b"question %d" % turn, masked=True))
            yield from http.socket.receive()
            yield 30 * MS
        http.close()

    stage.simulation.start(client())


def through(stage: Stage, proxy: Host) -> Generator[int | Signal, None, Client]:
    """Ask a proxy for a tunnel to api.example, and start TLS inside of it."""
    http = yield from stage.open(proxy, 3128)
    assert http
    yield from http.call(request("CONNECT", "api.example:443", "api.example:443"))
    http.endpoint.connection.tls_inside = True
    secure = TlsSocket(http.endpoint, client_context(stage.key_log), server_name="api.example")
    assert (yield from secure.handshake(300_000))
    return Client(stage.simulation, secure)


@scenario(
    "connect",
    """A CONNECT to a proxy answers after 25 ms; TLS 1.3 runs in the tunnel, with one request (think
    60 ms) that can't be read.""",
    silent=("tcp/syn-retransmission", "http/slow-server"),
    tunnel=True,
)
def connect(stage: Stage) -> None:
    """A tunnel."""
    proxy, _ = stage.server("proxy", "192.0.2.31", 14 * MS)
    inner = server_context("api.example")

    def tunnel(socket: Socket) -> Process:
        secure = TlsSocket(endpoint_of(socket), inner)
        if (yield from secure.handshake()):
            yield from secure.receive()
            yield 60 * MS
            secure.send(response("200 OK", b"inside" * 300))
            yield from secure.receive()
            secure.close()

    def route(method: str, target: str) -> Reply:
        established = response("200 Connection established", length=False)
        return Reply(25 * MS, [Write(established)], then=tunnel)

    stage.serve(proxy, 3128, route)

    def client() -> Process:
        inside = yield from through(stage, proxy)
        inside.socket.send(request("GET", "/inside", "api.example"))
        yield from inside.socket.receive()
        yield 10 * MS
        inside.close()

    stage.simulation.start(client())


@scenario(
    "connect-keys",
    """A CONNECT to a proxy answers after 25 ms; in the tunnel TLS 1.3, with keys, and two requests
    (think 60 and 20 ms), the second 80 ms behind the first.""",
    form=Form(keys=True),
    silent=("tcp/syn-retransmission", "http/slow-server", "capture/not-decrypted"),
)
def connect_keys(stage: Stage) -> None:
    """A tunnel whose inside can be read."""
    proxy, _ = stage.server("proxy", "192.0.2.31", 14 * MS)
    inner = server_context("api.example")

    def inside(method: str, target: str) -> Reply:
        think_ns = 60 * MS if target == "/first" else 20 * MS
        return reply("200 OK", b"inside" * 300, think_ns=think_ns)

    def tunnel(socket: Socket) -> Process:
        secure = TlsSocket(endpoint_of(socket), inner)
        if (yield from secure.handshake()):
            yield from serve(stage.simulation, secure, inside)

    def route(method: str, target: str) -> Reply:
        established = response("200 Connection established", length=False)
        return Reply(25 * MS, [Write(established)], then=tunnel)

    stage.serve(proxy, 3128, route)

    def client() -> Process:
        within = yield from through(stage, proxy)
        yield from within.call(request("GET", "/first", "api.example"))
        yield 80 * MS
        yield from within.call(request("GET", "/second", "api.example"))
        within.close()

    stage.simulation.start(client())
