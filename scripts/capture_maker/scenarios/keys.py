"""TLS connections with their keys: versions, suites, key updates, and keys that don't fit."""

from __future__ import annotations

import hashlib
import ssl
from typing import Any, cast

from capture_maker.ech import EchSocket
from capture_maker.http import Client, Reply, Write, reply, response
from capture_maker.http import request as http_request
from capture_maker.llm import ANSWER_NEEDLE, COOKIE, QUERY, TOKEN
from capture_maker.network import Packet
from capture_maker.records import RecordSocket
from capture_maker.renegotiation import Tls12Socket
from capture_maker.simulation import MS, Process
from capture_maker.stage import Form, Stage, scenario
from capture_maker.tls import TlsSocket, client_context, server_context

API = "api.example"
QUIET = ("tcp/syn-retransmission", "http/slow-server", "http/server-errors", "tls/old-version")
DECRYPTED = (*QUIET, "capture/not-decrypted")


def get(target: str) -> bytes:
    """A request with things that must not get out."""
    return http_request(
        "GET",
        f"{target}?customer={QUERY}",
        API,
        "User-Agent: curl/8.5.0",
        f"Authorization: Bearer {TOKEN}",
        "Accept: */*",
    )


def route(method: str, target: str) -> Reply:
    """A small and a large answer."""
    cookie = f"Set-Cookie: session={COOKIE}"
    if target.startswith("/large"):
        body = ANSWER_NEEDLE.encode() + b"L" * 30_000
        return Reply(90 * MS, [Write(response("200 OK", body, cookie))])
    return reply("200 OK", ANSWER_NEEDLE.encode() + b"s" * 1_500, cookie, think_ns=40 * MS)


def _connections(
    stage: Stage, server: ssl.SSLContext, client: ssl.SSLContext, *, count: int = 1
) -> None:
    """Connections one after the other, each but the first resumed, with two calls each."""
    host, _ = stage.server("api", "203.0.113.20", 24 * MS)
    stage.serve_tls(host, 443, route, server)

    def run() -> Process:
        session = None
        for _ in range(count):
            http = yield from stage.open(
                host, 443, context=client, server_name=API, session=session
            )
            assert http
            yield from http.call(get("/small"))
            yield 60 * MS
            yield from http.call(get("/large"))
            session = cast("TlsSocket", http.socket).tls.session
            http.close()
            yield 200 * MS

    stage.simulation.start(run())


def _plain(stage: Stage) -> None:
    _connections(stage, server_context(API), client_context(stage.key_log))


@scenario(
    "tls13-download",
    """Near miss of record-wait: a download of 200 KB over TLS 1.3 in records of 16 KB, each of
    which takes 26 ms to arrive; but nobody waits for a first byte or an event.""",
    form=Form(keys=True),
    silent=(*DECRYPTED, "tls/record-wait"),
)
def tls13_download(stage: Stage) -> None:
    """A large answer."""
    host, _ = stage.server("api", "203.0.113.20", 24 * MS, 5_000_000)

    def download(method: str, target: str) -> Reply:
        kind = "Content-Type: application/octet-stream"
        head = response("200 OK", b"", kind, "Content-Length: 200000", length=False)
        return Reply(15 * MS, [Write(head), Write(b"B" * 200_000)])

    stage.serve_tls(host, 443, download, server_context(API))

    def run() -> Process:
        http = yield from stage.open(
            host, 443, context=client_context(stage.key_log), server_name=API
        )
        assert http
        yield from http.call(get("/download"))
        http.close()

    stage.simulation.start(run())


@scenario(
    "tls13-split-hello",
    """Near miss of hello-retry-request: the ClientHello of a TLS 1.3 handshake comes in two TLS
    records and two segments. Two requests, think 40 and 90 ms.""",
    form=Form(keys=True),
    silent=(*DECRYPTED, "tls/hello-retry-request"),
)
def tls13_split_hello(stage: Stage) -> None:
    """A ClientHello in two pieces."""
    host, _ = stage.server("api", "203.0.113.20", 24 * MS)
    stage.serve_tls(host, 443, route, server_context(API))

    def layer(*args: Any, **more: Any) -> TlsSocket:
        made = TlsSocket(*args, **more)
        made.split_hello = True
        return made

    def run() -> Process:
        context = client_context(stage.key_log)
        socket = yield from stage.open_socket(
            host, 443, context=context, server_name=API, layer=layer
        )
        assert socket
        http = Client(stage.simulation, socket)
        yield from http.call(get("/small"))
        yield 60 * MS
        yield from http.call(get("/large"))
        http.close()

    stage.simulation.start(run())


@scenario(
    "tls13-hrr-keys",
    """TLS 1.3 with keys: the server wants a P-384 key share, the client sent another: a
    HelloRetryRequest costs a round trip of 24 ms. Two requests, think 40 and 90 ms.""",
    form=Form(keys=True),
    fire={"tls/hello-retry-request": (20, 30)},
    silent=DECRYPTED,
    hello_retry=True,
)
def tls13_hrr_keys(stage: Stage) -> None:
    """A connection with HelloRetryRequest."""
    _connections(stage, server_context(API, group="secp384r1"), client_context(stage.key_log))


@scenario(
    "tls13-resumed-keys",
    """TLS 1.3 with keys: a full handshake, then a second connection resumed with the ticket of
    the first; two requests on each.""",
    form=Form(keys=True),
    silent=(*DECRYPTED, "tls/hello-retry-request", "tls/record-wait"),
)
def tls13_resumed_keys(stage: Stage) -> None:
    """Tickets and resumption."""
    _connections(stage, server_context(API), client_context(stage.key_log), count=2)


@scenario(
    "tls13-chacha",
    "TLS 1.3 with keys: TLS_CHACHA20_POLY1305_SHA256; two requests, think 40 and 90 ms.",
    form=Form(keys=True),
    silent=DECRYPTED,
    openssl="Ciphersuites = TLS_CHACHA20_POLY1305_SHA256",
)
def tls13_chacha(stage: Stage) -> None:
    """Another cipher."""
    _plain(stage)


@scenario(
    "tls13-aes128",
    "TLS 1.3 with keys: TLS_AES_128_GCM_SHA256; two requests, think 40 and 90 ms.",
    form=Form(keys=True),
    silent=DECRYPTED,
    openssl="Ciphersuites = TLS_AES_128_GCM_SHA256",
)
def tls13_aes128(stage: Stage) -> None:
    """Another cipher."""
    _plain(stage)


@scenario(
    "tls13-keyupdate",
    """TLS 1.3 with keys: records padded to hide their length; both sides update their keys between
    the requests, the server once more in the middle of an answer of many small records.""",
    form=Form(keys=True),
    silent=DECRYPTED,
    misleading=True,
)
def tls13_keyupdate(stage: Stage) -> None:
    """Updated keys and padding."""
    host, _ = stage.server("api", "203.0.113.20", 24 * MS)
    sockets: list[RecordSocket] = []

    def layer(*args: object, **more: object) -> RecordSocket:
        made = RecordSocket(*args, key_log=stage.key_log, **more)
        made.padding = 70
        sockets.append(made)
        return made

    def answer(method: str, target: str) -> Reply:
        server = sockets[1]
        if target.startswith("/small"):
            return route(method, target)
        server.record_bytes = 300  # several records go into a segment
        given = route(method, target)
        data = given.writes[0].data
        stage.simulation.after(given.think_ns + 5 * MS, server.update_keys)
        return Reply(given.think_ns, [Write(data[:9_000]), Write(data[9_000:], 12 * MS)])

    context = server_context(API)
    context.num_tickets = 0
    stage.serve_tls(host, 443, answer, context, layer)

    def run() -> Process:
        socket = yield from stage.open_socket(
            host, 443, context=client_context(stage.key_log), server_name=API, layer=layer
        )
        assert isinstance(socket, RecordSocket)
        http = Client(stage.simulation, socket)
        yield from http.call(get("/small"))
        socket.update_keys()
        yield 30 * MS
        sockets[1].update_keys()
        yield 30 * MS
        yield from http.call(get("/large"))
        socket.padding = 0
        yield from http.call(get("/small"))
        http.close()

    stage.simulation.start(run())


@scenario(
    "tls12-keys",
    """TLS 1.2 with keys: ECDHE with AES-256-GCM, then a second connection resumed with a session
    ticket; two requests on each, think 40 and 90 ms.""",
    form=Form(keys=True),
    silent=DECRYPTED,
)
def tls12_keys(stage: Stage) -> None:
    """TLS 1.2, decrypted."""
    context = client_context(stage.key_log, ssl.TLSVersion.TLSv1_2)
    _connections(stage, server_context(API), context, count=2)


@scenario(
    "tls12-chacha",
    "TLS 1.2 with keys: ECDHE with ChaCha20-Poly1305.",
    form=Form(keys=True),
    silent=DECRYPTED,
)
def tls12_chacha(stage: Stage) -> None:
    """The other cipher of TLS 1.2."""
    context = client_context(stage.key_log, ssl.TLSVersion.TLSv1_2)
    context.set_ciphers("ECDHE-ECDSA-CHACHA20-POLY1305")
    _connections(stage, server_context(API), context)


def _suite(stage: Stage, suite: str, options: int = 0) -> None:
    server, client = (
        server_context(API),
        client_context(stage.key_log, ssl.TLSVersion.TLSv1_2),
    )
    for context in (server, client):
        context.set_ciphers(f"{suite}:@SECLEVEL=0")
        context.options |= options
    _connections(stage, server, client)


@scenario(
    "tls12-cbc",
    """TLS 1.2 with ECDHE-ECDSA-AES128-SHA (CBC) and keys; the MAC is behind the ciphertext
    (encrypt_then_mac).""",
    form=Form(keys=True),
    silent=(*QUIET, "capture/not-decrypted"),
)
def tls12_cbc(stage: Stage) -> None:
    """A CBC suite."""
    _suite(stage, "ECDHE-ECDSA-AES128-SHA")


@scenario(
    "tls12-cbc-mac-first",
    "TLS 1.2 with ECDHE-ECDSA-AES256-SHA384 (CBC) and keys; the MAC is inside the ciphertext.",
    form=Form(keys=True),
    silent=(*QUIET, "capture/not-decrypted"),
)
def tls12_cbc_mac_first(stage: Stage) -> None:
    """A CBC suite without encrypt_then_mac."""
    _suite(stage, "ECDHE-ECDSA-AES256-SHA384", options=0x0008_0000)  # SSL_OP_NO_ENCRYPT_THEN_MAC


@scenario(
    "tls12-camellia",
    """TLS 1.2 with ECDHE-ECDSA-CAMELLIA128-SHA256 (CBC) and keys, without the extended master
    secret.""",
    form=Form(keys=True),
    silent=(*QUIET, "capture/not-decrypted"),
)
def tls12_camellia(stage: Stage) -> None:
    """A suite that is seldom seen."""
    _suite(stage, "ECDHE-ECDSA-CAMELLIA128-SHA256", options=1)  # SSL_OP_NO_EXTENDED_MASTER_SECRET


@scenario(
    "tls12-ccm",
    "TLS 1.2 with ECDHE-ECDSA-AES128-CCM8 and keys: tags of 8 octets.",
    form=Form(keys=True),
    silent=DECRYPTED,
)
def tls12_ccm(stage: Stage) -> None:
    """An AEAD with a short tag."""
    _suite(stage, "ECDHE-ECDSA-AES128-CCM8")


@scenario(
    "tls13-ccm",
    "TLS 1.3 with keys: TLS_AES_128_CCM_SHA256; two requests, think 40 and 90 ms.",
    form=Form(keys=True),
    silent=DECRYPTED,
    openssl="Ciphersuites = TLS_AES_128_CCM_SHA256",
)
def tls13_ccm(stage: Stage) -> None:
    """Another cipher."""
    _plain(stage)


@scenario(
    "tls12-aria",
    """TLS 1.2 with ECDHE-ECDSA-ARIA128-GCM-SHA256 and keys: its records can't be opened, and that
    is said; the requests are inferred.""",
    form=Form(keys=True),
    fire={"capture/not-decrypted": None},
    silent=QUIET,
    opaque=True,
)
def tls12_aria(stage: Stage) -> None:
    """A suite that is not supported."""
    _suite(stage, "ECDHE-ECDSA-ARIA128-GCM-SHA256")


@scenario(
    "tls12-renegotiation",
    """TLS 1.2 with keys: client and server shake hands again before the first request, and once
    more between the requests, where the server asks for it. Each time new keys come into force;
    think 40 and 90 ms.""",
    form=Form(keys=True),
    silent=(*DECRYPTED, "tls/not-resumed", "tls/slow-handshake"),
)
def tls12_renegotiation(stage: Stage) -> None:
    """Handshakes inside the connection."""
    host, _ = stage.server("api", "203.0.113.20", 24 * MS)
    sockets: list[Tls12Socket] = []
    server, client = (
        server_context(API),
        client_context(stage.key_log, ssl.TLSVersion.TLSv1_2),
    )
    for context in (server, client):
        context.set_ciphers("ECDHE-ECDSA-AES128-GCM-SHA256")

    def layer(*args: object, **more: object) -> Tls12Socket:
        return Tls12Socket(*args, key_log=stage.key_log, peers=sockets, **more)

    stage.serve_tls(host, 443, route, server, layer)

    def run() -> Process:
        socket = yield from stage.open_socket(
            host, 443, context=client, server_name=API, layer=layer
        )
        assert isinstance(socket, Tls12Socket)
        yield from socket.renegotiate()
        yield 20 * MS
        http = Client(stage.simulation, socket)
        yield from http.call(get("/small"))
        yield 60 * MS
        yield from socket.renegotiate(asked=True)
        yield 20 * MS
        yield from http.call(get("/large"))
        http.close()

    stage.simulation.start(run())


@scenario(
    "tls13-ech",
    """TLS 1.3 with an encrypted ClientHello that the server accepts: in clear text stands the name
    cover.example, the server is api.example. The key log has ECH_SECRET and ECH_CONFIG under the
    outer random, all else under the inner one. Two requests, think 40 and 90 ms.""",
    form=Form(keys=True),
    silent=DECRYPTED,
    outer_name="cover.example",
)
def tls13_ech(stage: Stage) -> None:
    """A hello inside a hello."""
    host, _ = stage.server("api", "203.0.113.20", 24 * MS)
    hidden: list[bytes] = []

    def layer(*args: object, **more: object) -> EchSocket:
        return EchSocket(*args, key_log=stage.key_log, hidden=hidden, **more)

    stage.serve_tls(host, 443, route, server_context(API), layer)

    def run() -> Process:
        context = client_context(stage.key_log)
        socket = yield from stage.open_socket(
            host, 443, context=context, server_name=API, layer=layer
        )
        assert socket
        http = Client(stage.simulation, socket)
        yield from http.call(get("/small"))
        yield 60 * MS
        yield from http.call(get("/large"))
        http.close()

    stage.simulation.start(run())


def _of_another_session(lines: list[str]) -> list[str]:
    """The same lines as another client's session would have them."""
    other = []
    for line in lines:
        label, random, secret = line.split()
        made = (hashlib.sha512(f"{label} {random}".encode()).hexdigest() * 2)[: len(secret)]
        other.append(f"{label} {hashlib.sha256(random.encode()).hexdigest()} {made}")
    return other


@scenario(
    "keys-of-another-session",
    """TLS 1.3 and a key log that belongs to another session: nothing can be decrypted, and that is
    what must be said; the requests are inferred.""",
    form=Form(keys=True, keys_kept=_of_another_session),
    fire={"capture/not-decrypted": None},
    silent=QUIET,
    opaque=True,
)
def keys_of_another_session(stage: Stage) -> None:
    """Keys that don't fit."""
    _plain(stage)


def _of_the_server(lines: list[str]) -> list[str]:
    return [line for line in lines if line.startswith("SERVER_")]


@scenario(
    "keys-partial",
    """TLS 1.3 and a key log with the server's secrets only: answers can be read, requests not.""",
    form=Form(keys=True, keys_kept=_of_the_server),
    silent=QUIET,
    one_side="server",
)
def keys_partial(stage: Stage) -> None:
    """Half of the keys."""
    _plain(stage)


@scenario(
    "tls13-mid-keys",
    """TLS 1.3 with keys, but the capture starts behind the handshake: the session can be found only
    by trying the key log's secrets on the records.""",
    form=Form(keys=True, keeps=lambda number, _: number >= 14),
    silent=("tcp/syn-retransmission", "http/slow-server"),
    mid_connection=True,
)
def tls13_mid_keys(stage: Stage) -> None:
    """A capture without ClientHello."""
    _plain(stage)


def _without_a_part_of_large(number: int, packet: Packet) -> bool:
    """All but some packets in the middle of the large answer."""
    return packet.from_client or not 14_000 < packet.offset < 19_000


@scenario(
    "tls13-gap-keys",
    """TLS 1.3 with keys; the capture (not the network) lacks some packets in the middle of the
    second answer: the records with their bytes can't be opened, those behind can.""",
    form=Form(keys=True, keeps=_without_a_part_of_large),
    silent=("tcp/syn-retransmission", "http/slow-server"),
    gap=True,
)
def tls13_gap_keys(stage: Stage) -> None:
    """Records that are lost to the capture."""
    host, _ = stage.server("api", "203.0.113.20", 24 * MS)

    def answer(method: str, target: str) -> Reply:
        given = route(method, target)
        data = given.writes[0].data
        pieces = [data[at : at + 3_000] for at in range(0, len(data), 3_000)]
        return Reply(given.think_ns, [Write(piece) for piece in pieces])

    stage.serve_tls(host, 443, answer, server_context(API))

    def run() -> Process:
        http = yield from stage.open(
            host, 443, context=client_context(stage.key_log), server_name=API
        )
        assert http
        yield from http.call(get("/small"))
        yield 60 * MS
        yield from http.call(get("/large"))
        yield 60 * MS
        yield from http.call(get("/small"))
        http.close()

    stage.simulation.start(run())


@scenario(
    "pcapng-dsb-last",
    "TLS 1.3 in pcapng with the keys in a Decryption Secrets Block behind all packets.",
    form=Form(format="pcapng", keys_inside=True, keys_last=True),
    silent=DECRYPTED,
)
def pcapng_dsb_last(stage: Stage) -> None:
    """Keys that come last."""
    _plain(stage)
