"""Connections that take long to open, servers that take long to answer, and near misses."""

from __future__ import annotations

from capture_maker.dns import Answer
from capture_maker.http import Reply, Write, reply, request, response
from capture_maker.network import Fault, Packet
from capture_maker.simulation import MS, SECOND, Process
from capture_maker.stage import Form, Stage, scenario
from capture_maker.tls import client_context, server_context

WEB = "198.51.100.23"
HOST = "app.example"


def is_syn(packet: Packet) -> bool:
    """A SYN or a SYN-ACK."""
    return bool(packet.flags & 0x02)


def has_data(packet: Packet) -> bool:
    """A segment with payload."""
    return packet.protocol == 6 and bool(packet.payload)


def simple_route(method: str, target: str) -> Reply:
    """A prompt server."""
    return reply("200 OK", b'{"ok":true}', "Content-Type: application/json", think_ns=3 * MS)


def get(target: str, host: str = HOST) -> bytes:
    """A GET request as curl writes it."""
    return request("GET", target, host, "User-Agent: curl/8.5.0", "Accept: */*")


@scenario(
    "slow-server",
    """GET /report: the server thinks 800 ms over a round trip of 20 ms; GET /fast before it: 5 ms.
    HTTP/1.1 in clear, captured at the client.""",
    fire={"http/slow-server": (795, 805)},
    silent=("tcp/syn-retransmission", "capture/not-decrypted"),
)
def slow_server(stage: Stage) -> None:
    """Two requests on one connection."""
    host, _ = stage.server("app", "192.0.2.10")

    def route(method: str, target: str) -> Reply:
        think = 800 if target.startswith("/report") else 5
        return reply("200 OK", b"x" * 2_000, "Content-Type: text/plain", think_ns=think * MS)

    stage.serve(host, 80, route)

    def client() -> Process:
        http = yield from stage.open(host, 80)
        assert http
        yield from http.call(get("/fast"))
        yield 150 * MS
        yield from http.call(get("/report?month=3&format=csv"))
        http.close()

    stage.simulation.start(client())


@scenario(
    "slow-network",
    """Near miss of slow-server: the server answers within 4 ms, but the round trip is 300 ms, and
    the second answer of 120 KB takes long on a link of 2 Mbit/s. Captured at the client.""",
    silent=("http/slow-server", "tcp/syn-retransmission", "capture/not-decrypted"),
    think_tolerance_ns=3 * MS,  # two small packets take so long on this link
)
def slow_network(stage: Stage) -> None:
    """A prompt server far away."""
    host, _ = stage.server("app", "192.0.2.10", 300 * MS, 2_000_000)

    def route(method: str, target: str) -> Reply:
        size = 120_000 if target == "/big" else 400
        return reply("200 OK", b"y" * size, "Content-Type: text/plain", think_ns=4 * MS)

    stage.serve(host, 80, route)

    def client() -> Process:
        http = yield from stage.open(host, 80)
        assert http
        yield from http.call(get("/small"))
        yield 30 * MS
        yield from http.call(get("/big"))
        http.close()

    stage.simulation.start(client())


def _connect_and_get(stage: Stage, faults: list[Fault]) -> None:
    host, path = stage.server("app", "192.0.2.10", 30 * MS)
    path.faults += faults
    stage.serve(host, 80, simple_route)

    def client() -> Process:
        http = yield from stage.open(host, 80)
        assert http
        yield from http.call(get("/"))
        http.close()

    stage.simulation.start(client())


@scenario(
    "syn-lost",
    "The first SYN is lost in the network and repeated after 1 s. Captured at the client.",
    fire={"tcp/syn-retransmission": (990, 1_010)},
    silent=("http/slow-server", "tcp/retransmission-timeout"),
)
def syn_lost(stage: Stage) -> None:
    """One SYN lost."""
    _connect_and_get(stage, [Fault("server", is_syn, "drop", (1,))])


@scenario(
    "syn-ack-lost",
    """The first SYN-ACK is lost: client and server both repeat after 1 s. Captured at the client,
    where it looks like a lost SYN.""",
    fire={"tcp/syn-retransmission": (990, 1_010)},
    silent=("http/slow-server", "tcp/retransmission-timeout"),
)
def syn_ack_lost(stage: Stage) -> None:
    """One SYN-ACK lost, seen by the client."""
    _connect_and_get(stage, [Fault("client", is_syn, "drop", (1,))])


@scenario(
    "syn-ack-lost-server",
    "The same as syn-ack-lost, captured at the server: both SYNs and both SYN-ACKs are seen.",
    form=Form(vantage="server"),
    fire={"tcp/syn-retransmission": (990, 1_010)},
    silent=("http/slow-server", "tcp/retransmission-timeout"),
)
def syn_ack_lost_server(stage: Stage) -> None:
    """One SYN-ACK lost, seen by the server."""
    _connect_and_get(stage, [Fault("client", is_syn, "drop", (1,))])


@scenario(
    "syn-duplicated",
    """Near miss of syn-lost: the network delivers the SYN twice, 2 ms apart, with the same IP ID.
    Nobody repeated it. Captured at the server.""",
    form=Form(vantage="server"),
    silent=("tcp/syn-retransmission", "http/slow-server"),
)
def syn_duplicated(stage: Stage) -> None:
    """A copy made by the network."""
    _connect_and_get(stage, [Fault("server", is_syn, "duplicate", (1,), extra_ns=2 * MS)])


@scenario(
    "refused",
    """Near miss of syn-lost: nothing listens, the SYN is answered with RST, and the client tries
    again 250 ms later from another port, in vain, then with success.""",
    silent=("tcp/syn-retransmission", "http/slow-server"),
)
def refused(stage: Stage) -> None:
    """Two refusals, then a connection."""
    host, _ = stage.server("app", "192.0.2.10", 10 * MS)

    def client() -> Process:
        assert (yield from stage.open(host, 8080)) is None
        yield 250 * MS
        assert (yield from stage.open(host, 8080)) is None
        stage.serve(host, 8080, simple_route)
        yield 500 * MS
        http = yield from stage.open(host, 8080)
        assert http
        yield from http.call(get("/", f"{HOST}:8080"))
        http.close()

    stage.simulation.start(client())


@scenario(
    "port-reuse",
    """Near miss of syn-lost: three connections one after the other use the same client port. Each
    SYN has a new, higher sequence number; none was sent twice.""",
    silent=("tcp/syn-retransmission", "http/slow-server"),
)
def port_reuse(stage: Stage) -> None:
    """A port used again while the server is in TIME-WAIT."""
    host, _ = stage.server("app", "192.0.2.10", 12 * MS)

    def route(method: str, target: str) -> Reply:
        answer = simple_route(method, target)
        answer.close = True
        return answer

    stage.serve(host, 80, route)

    def client() -> Process:
        for turn in range(3):
            http = yield from stage.open(host, 80, local_port=45_678)
            assert http
            yield from http.call(get(f"/turn/{turn}"))
            http.close()
            yield 1 * SECOND

    stage.simulation.start(client())


@scenario(
    "tls13-no-keys",
    """TLS 1.3 without keys: two requests on one connection to api.example, think 40 ms and 650 ms;
    the answers are 1.5 KB and 30 KB. Captured at the client.""",
    fire={"capture/not-decrypted": None},
    silent=("tcp/syn-retransmission",),
)
def tls13_no_keys(stage: Stage) -> None:
    """A TLS 1.3 connection."""
    host, _ = stage.server("api", "203.0.113.20", 24 * MS)

    def route(method: str, target: str) -> Reply:
        if target == "/small":
            return reply("200 OK", b"s" * 1_500, think_ns=40 * MS)
        body = response("200 OK", b"L" * 30_000)
        return Reply(650 * MS, [Write(body)])

    stage.serve_tls(host, 443, route, server_context("api.example"))

    def client() -> Process:
        http = yield from stage.open(
            host, 443, context=client_context(stage.key_log), server_name="api.example"
        )
        assert http
        yield from http.call(get("/small", "api.example"))
        yield 200 * MS
        yield from http.call(get("/large", "api.example"))
        http.close()

    stage.simulation.start(client())


@scenario(
    "dns-slow",
    """The name lookup takes 600 ms (A; AAAA is answered at once with nothing); the connection
    and the request behind it are prompt.""",
    fire={"dns/slow-lookup": (595, 610)},
    silent=("tcp/syn-retransmission", "http/slow-server"),
)
def dns_slow(stage: Stage) -> None:
    """A slow resolver."""
    host, _ = stage.server("app", "192.0.2.10", 18 * MS)
    stage.serve(host, 80, simple_route)
    resolver = stage.resolver(
        {(HOST, "A"): Answer(("192.0.2.10",), 600 * MS), (HOST, "AAAA"): Answer((), 2 * MS)}
    )

    def client() -> Process:
        yield from resolver.ask(stage.client, stage.ledger, HOST, ("A", "AAAA"))
        yield 1 * MS
        http = yield from stage.open(host, 80)
        assert http
        yield from http.call(get("/after-lookup"))
        http.close()

    stage.simulation.start(client())
