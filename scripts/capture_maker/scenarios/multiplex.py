"""HTTP/2: many streams on one connection."""

from __future__ import annotations

from collections.abc import Callable

from h2.errors import ErrorCodes

from capture_maker.http import Write
from capture_maker.http2 import Answer, Client, Server, answer
from capture_maker.network import Fault
from capture_maker.scenarios.basic import has_data
from capture_maker.simulation import MS, Process
from capture_maker.stage import Form, Stage, scenario
from capture_maker.tls import client_context, server_context

API = "api.example"
THINK_MS = (10, 300, 50, 120, 20, 200, 80, 40)
FIELDS = (("user-agent", "agent/3.2"), ("accept", "application/json"))
JSON = ("content-type", "application/json")


def think(method: str, target: str) -> Answer:
    """The time that the target names, and an answer of the size that it names."""
    parts = dict(part.split("=") for part in target.partition("?")[2].split("&"))
    content = b'{"rows":"' + b"r" * int(parts.get("size", 700)) + b'"}'
    return answer(200, content, JSON, think_ns=int(parts["ms"]) * MS)


def _play(
    stage: Stage,
    route: Callable[[str, str], Answer],
    talk: Callable[[Client], Process],
    *,
    tls: bool = True,
    faults: tuple[Fault, ...] = (),
    rtt_ns: int = 30 * MS,
    bits_per_second: int = 100_000_000,
) -> list[Server]:
    host, path = stage.server("api", "203.0.113.20", rtt_ns, bits_per_second)
    path.faults += faults
    port = 443 if tls else 8080
    servers = stage.serve_http2(host, port, route, server_context(API, alpn="h2") if tls else None)

    def run() -> Process:
        context = client_context(stage.key_log, alpn="h2") if tls else None
        socket = yield from stage.open_socket(
            host, port, context=context, server_name=API if tls else None
        )
        assert socket is not None
        client = Client(stage.simulation, socket)
        yield from talk(client)
        yield 30 * MS
        client.close()

    stage.simulation.start(run())
    return servers


def eight(client: Client) -> Process:
    """Eight requests at once, then two one after the other."""
    calls = []
    for ms in THINK_MS:
        calls.append(client.send("GET", f"/think?ms={ms}&size=900", API, FIELDS))
        yield 150_000
    for call in calls:
        yield from client.wait(call)
    yield 50 * MS
    yield from client.call("POST", "/think?ms=30", API, (*FIELDS, JSON), b'{"sku":["A-17","B-4"]}')
    yield 20 * MS
    yield from client.call("GET", "/think?ms=5&size=20000", API, FIELDS)


SOUND = (
    "tcp/syn-retransmission",
    "http/server-errors",
    "capture/not-decrypted",
    "h2/goaway-or-reset",
    "h2/loss-blocks-streams",
    "tls/hello-retry-request",
)


@scenario(
    "h2-tls",
    """HTTP/2 over TLS 1.3 (ALPN h2) with keys: eight streams at once, think 10, 300, 50, 120, 20,
    200, 80 and 40 ms, answered as they are done; then 30 and 5 ms (20 KB). Captured at the
    client.""",
    form=Form(keys=True),
    silent=SOUND,
)
def h2_tls(stage: Stage) -> None:
    """Many streams, all well."""
    _play(stage, think, eight)


@scenario(
    "h2-tls-server",
    "The same as h2-tls, captured at the server.",
    form=Form(keys=True, vantage="server"),
    silent=SOUND,
)
def h2_tls_server(stage: Stage) -> None:
    """Many streams, all well."""
    _play(stage, think, eight)


@scenario(
    "h2c-prior-knowledge",
    """The same requests in clear text with prior knowledge on port 8080: known by the connection
    preface. One answer has an interim 103 and a trailer section.""",
    silent=SOUND,
)
def h2c_prior_knowledge(stage: Stage) -> None:
    """HTTP/2 in clear text."""

    def route(method: str, target: str) -> Answer:
        if target == "/hints":
            return Answer(
                25 * MS,
                200,
                [JSON, ("server", "example-httpd")],
                [Write(b"[1," * 300), Write(b"2]", 10 * MS)],
                interim=103,
                trailers=[("checksum", "1234abcd")],
            )
        return think(method, target)

    def talk(client: Client) -> Process:
        yield from eight(client)
        yield from client.call("GET", "/hints", API, FIELDS)

    _play(stage, route, talk, tls=False)


def _trickle(method: str, target: str) -> Answer:
    """An answer in many small writes."""
    start = int(target.rpartition("=")[2])
    writes = [Write(b"t" * 600, 14 * MS) for _ in range(18)]
    return Answer(start * MS, 200, [("content-type", "application/octet-stream")], writes)


def _four(client: Client) -> Process:
    calls = [client.send("GET", f"/feed?start={start}", API, FIELDS) for start in (5, 8, 11, 14)]
    for call in calls:
        yield from client.wait(call)


@scenario(
    "h2-loss",
    """Four answers trickle at the same time over one HTTP/2 connection; a segment of one of them is
    lost, and what came for the other three meanwhile waits behind it until it is repaired.""",
    form=Form(keys=True),
    fire={"h2/loss-blocks-streams": None},
    silent=("http/slow-server", "tcp/syn-retransmission", "capture/not-decrypted"),
)
def h2_loss(stage: Stage) -> None:
    """One loss, four streams."""
    fault = Fault("client", has_data, "drop", (30,))
    _play(stage, _trickle, _four, faults=(fault,), rtt_ns=40 * MS)


@scenario(
    "h2-reset",
    """Three streams at once: one is well (60 ms), one is cancelled by the client after 100 ms
    (RST_STREAM CANCEL), one is ended by the server in mid-answer (INTERNAL_ERROR).""",
    form=Form(keys=True),
    fire={"h2/goaway-or-reset": None},
    silent=("tcp/syn-retransmission", "capture/not-decrypted"),
)
def h2_reset(stage: Stage) -> None:
    """Streams that are reset."""

    def route(method: str, target: str) -> Answer:
        if target == "/broken":
            writes = [Write(b"b" * 2_000), Write(b"b" * 2_000, 20 * MS)]
            return Answer(30 * MS, 200, [JSON], writes, reset=ErrorCodes.INTERNAL_ERROR)
        return think(method, target)

    def talk(client: Client) -> Process:
        well = client.send("GET", "/think?ms=60", API, FIELDS)
        slow = client.send("GET", "/think?ms=2000", API, FIELDS)
        broken = client.send("GET", "/broken", API, FIELDS)
        yield 100 * MS
        client.cancel(slow)
        yield from client.wait(well)
        yield from client.wait(broken)
        yield 20 * MS
        yield from client.call("GET", "/think?ms=10", API, FIELDS)

    _play(stage, route, talk)


@scenario(
    "h2-goaway",
    """The server shuts down while three streams are open: GOAWAY names the second one as the last
    that it takes. Two are answered; the third never is, and the client repeats it on a new
    connection.""",
    form=Form(keys=True),
    fire={"h2/goaway-or-reset": None},
    silent=("tcp/syn-retransmission", "capture/not-decrypted"),
)
def h2_goaway(stage: Stage) -> None:
    """A server that shuts down."""
    host, _ = stage.server("api", "203.0.113.20", 30 * MS)
    servers = stage.serve_http2(host, 443, think, server_context(API, alpn="h2"))

    def connect() -> Process:
        context = client_context(stage.key_log, alpn="h2")
        socket = yield from stage.open_socket(host, 443, context=context, server_name=API)
        assert socket is not None
        return Client(stage.simulation, socket)

    def run() -> Process:
        client = yield from connect()
        calls = [client.send("GET", f"/think?ms={ms}", API, FIELDS) for ms in (70, 90, 110)]
        stage.simulation.after(50 * MS, lambda: servers[0].go_away(3))
        for call in calls:
            answered = yield from client.wait(call)
            assert answered is (call.stream_id != 5)
        client.close()
        again = yield from connect()
        yield from again.call("GET", "/think?ms=110", API, FIELDS)
        yield 30 * MS
        again.close()

    stage.simulation.start(run())
