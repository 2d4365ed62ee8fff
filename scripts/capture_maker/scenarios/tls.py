"""TLS connections: versions, resumption, HelloRetryRequest, a failure."""

from __future__ import annotations

import ssl
from typing import cast

from capture_maker.http import Client, Reply, Write, reply, response
from capture_maker.scenarios.basic import get
from capture_maker.simulation import MS, Process
from capture_maker.stage import Stage, scenario
from capture_maker.tls import TlsSocket, client_context, server_context

API = "api.example"


def route(method: str, target: str) -> Reply:
    """A small and a large answer."""
    if target == "/large":
        return Reply(120 * MS, [Write(response("200 OK", b"L" * 30_000))])
    return reply("200 OK", b"s" * 1_500, think_ns=40 * MS)


def two_calls(http: Client) -> Process:
    """GET /small, and GET /large a while later."""
    yield from http.call(get("/small", API))
    yield 60 * MS
    yield from http.call(get("/large", API))


def _connection(stage: Stage, server: ssl.SSLContext, client: ssl.SSLContext) -> None:
    host, _ = stage.server("api", "203.0.113.20", 24 * MS)
    stage.serve_tls(host, 443, route, server)

    def run() -> Process:
        http = yield from stage.open(host, 443, context=client, server_name=API)
        if http:
            yield from two_calls(http)
            http.close()

    stage.simulation.start(run())


@scenario(
    "tls12-no-keys",
    "TLS 1.2 without keys: the handshake takes two round trips; two requests, think 40 and 120 ms.",
    fire={"capture/not-decrypted": None},
    silent=("tcp/syn-retransmission", "tls/slow-handshake", "tls/old-version"),
)
def tls12_no_keys(stage: Stage) -> None:
    """A TLS 1.2 connection."""
    version = ssl.TLSVersion.TLSv1_2
    _connection(stage, server_context(API), client_context(stage.key_log, version))


@scenario(
    "tls13-resumed",
    """TLS 1.3 without keys: a full handshake, then a second connection that is resumed with the
    ticket of the first (no certificate).""",
    fire={"capture/not-decrypted": None},
    silent=("tcp/syn-retransmission", "tls/not-resumed", "tls/slow-handshake"),
)
def tls13_resumed(stage: Stage) -> None:
    """Two connections."""
    host, _ = stage.server("api", "203.0.113.20", 24 * MS)
    stage.serve_tls(host, 443, route, server_context(API))
    context = client_context(stage.key_log)

    def run() -> Process:
        session = None
        for _ in range(2):
            http = yield from stage.open(
                host, 443, context=context, server_name=API, session=session
            )
            assert http
            yield from two_calls(http)
            session = cast("TlsSocket", http.socket).tls.session
            http.close()
            yield 300 * MS

    stage.simulation.start(run())


@scenario(
    "tls13-hrr",
    """TLS 1.3 without keys: the server wants a P-384 key share, the client sent another: a
    HelloRetryRequest costs a round trip.""",
    fire={"capture/not-decrypted": None, "tls/hello-retry-request": None},
    silent=("tcp/syn-retransmission",),
    hello_retry=True,
)
def tls13_hrr(stage: Stage) -> None:
    """A connection with HelloRetryRequest."""
    _connection(stage, server_context(API, group="secp384r1"), client_context(stage.key_log))


@scenario(
    "tls-alert",
    """The client offers only suites that the server has not: fatal alert handshake_failure, the
    connection closes, there is no request.""",
    fire={"tls/handshake-failure": None},
    silent=("tcp/syn-retransmission", "http/slow-server"),
    alert="server: handshake_failure",
)
def tls_alert(stage: Stage) -> None:
    """A handshake that fails."""
    version = ssl.TLSVersion.TLSv1_2
    server, client = server_context(API, version=version), client_context(None, version)
    server.set_ciphers("ECDHE-ECDSA-AES128-GCM-SHA256")
    client.set_ciphers("ECDHE-ECDSA-CHACHA20-POLY1305")
    _connection(stage, server, client)
