"""How clients use their connections: stale ones, needless new ones, too few; and near misses."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Sequence

from capture_maker.http import Client, Reply, Write, reply, response
from capture_maker.network import Fault, Host
from capture_maker.scenarios.basic import HOST, get
from capture_maker.simulation import MS, SECOND, Process, Signal
from capture_maker.stage import Stage, scenario
from capture_maker.tcp import ConnectionResetError_
from capture_maker.tls import client_context, server_context

POOLS = (
    "http/stale-connection",
    "http/connection-not-reused",
    "http/connection-limit-queueing",
)
RTT = 40 * MS
IDLE_NS = 12 * SECOND
THINKS_MS = (90, 70, 95, 60, 92, 84, 50, 75, 64, 88, 72, 96, 66, 54, 83, 62)
Opener = Callable[[], Generator[int | Signal, None, Client | None]]


def others(*fire: str) -> tuple[str, ...]:
    """The detectors of this module but some: they must be silent."""
    return tuple(name for name in (*POOLS, "http/slow-server") if name not in fire)


def _route(method: str, target: str) -> Reply:
    think = int(target.rpartition("-")[2]) if "-" in target else 5
    return reply("200 OK", b"n" * 900, "Content-Type: text/plain", think_ns=think * MS)


def _server(stage: Stage) -> Host:
    host, _ = stage.server("app", "192.0.2.10", RTT)
    stage.serve(host, 80, _route)
    return host


# ---- connections that are no longer there ---------------------------------------------


def _forget(host: Host) -> None:
    """The server's side loses its connections without a word, as a balancer that restarts."""
    for endpoint in list(host.endpoints.values()):
        endpoint._forget()


@scenario(
    "stale-reset",
    """After two requests a connection is idle for 12 s. A balancer in front of the server has
    forgotten it: it answers the third request with a reset, and the client repeats that on a new
    connection. An idle time of 4 s before did no harm.""",
    fire={"http/stale-connection": (75, 95), "tcp/reset-in-exchange": None},
    silent=others("http/stale-connection"),
)
def stale_reset(stage: Stage) -> None:
    """A balancer with a short memory."""
    host = _server(stage)
    _stale_reset(stage, host, lambda: stage.open(host, 80))


def _stale_reset(stage: Stage, host: Host, open_: Opener) -> None:
    def client() -> Process:
        http = yield from open_()
        assert http
        yield from http.call(get("/orders/1"))
        yield 4 * SECOND
        yield from http.call(get("/orders/2"))
        stage.simulation.after(IDLE_NS // 2, lambda: _forget(host))
        yield IDLE_NS
        call = http.send(get("/orders/3"))
        call.ended = "rst"
        with contextlib.suppress(ConnectionResetError_):
            yield from http.wait(call)
        http = yield from open_()
        assert http
        yield from http.call(get("/orders/3"))
        http.close()

    stage.simulation.start(client())


@scenario(
    "stale-reset-tls",
    "The same as stale-reset over TLS 1.3, without keys.",
    fire={
        "http/stale-connection": (110, 150),
        "tcp/reset-in-exchange": None,
        "capture/not-decrypted": None,
    },
    silent=others("http/stale-connection"),
)
def stale_reset_tls(stage: Stage) -> None:
    """Nothing but sizes and times."""
    host, open_ = _secure(stage)
    _stale_reset(stage, host, open_)


def _secure(stage: Stage) -> tuple[Host, Opener]:
    """A server with TLS, and what opens a connection to it."""
    host, _ = stage.server("app", "192.0.2.10", RTT)
    stage.serve_tls(host, 443, _route, server_context(HOST))
    context = client_context(stage.key_log)
    return host, lambda: stage.open(host, 443, context=context, server_name=HOST)


@scenario(
    "stale-silent",
    """After a request a connection is idle for 12 s. A NAT gateway has forgotten it and drops what
    comes: the second request and its repeats go unanswered until the client gives up after 2.5 s
    and repeats it on a new connection.""",
    fire={"http/stale-connection": (2_530, 2_560)},
    silent=others("http/stale-connection"),
)
def stale_silent(stage: Stage) -> None:
    """A gateway with a short memory."""
    host, path = stage.server("app", "192.0.2.10", RTT)
    stage.serve(host, 80, _route)

    def client() -> Process:
        http = yield from stage.open(host, 80)
        assert http
        yield from http.call(get("/orders/1"))
        yield IDLE_NS
        lost = http.endpoint.connection
        for side in ("server", "client"):
            path.faults.append(Fault(side, lambda p: p.connection is lost, "drop"))
        http.send(get("/orders/2")).ended = "rst"
        yield 2_500 * MS
        http.endpoint.abort()
        http = yield from stage.open(host, 80)
        assert http
        yield from http.call(get("/orders/2"))
        http.close()

    stage.simulation.start(client())


@scenario(
    "stale-not",
    """Near misses of stale-reset: after an idle time of 12 s the server takes a request, works on
    it for 300 ms and then resets the connection (a crash); the client asks again on a new one, on
    which the server crashes in the middle of its answer; on a third, all is well.""",
    fire={"tcp/reset-in-exchange": None},
    silent=others(),
)
def stale_not(stage: Stage) -> None:
    """A server that crashes."""
    host, _ = stage.server("app", "192.0.2.10", RTT)
    asked: list[str] = []

    def route(method: str, target: str) -> Reply:
        asked.append(target)
        if asked.count("/report") == 1 and target == "/report":
            return Reply(300 * MS, [], complete=False, abort=True)
        if asked.count("/report") == 2 and target == "/report":
            part = response("200 OK", b"r" * 60_000)[:30_000]
            return Reply(5 * MS, [Write(part), Write(b"r", 60 * MS)], complete=False, abort=True)
        return _route(method, target)

    stage.serve(host, 80, route)

    def client() -> Process:
        http = yield from stage.open(host, 80)
        assert http
        yield from http.call(get("/orders/1"))
        yield IDLE_NS
        for _ in range(3):
            with contextlib.suppress(ConnectionResetError_):
                yield from http.call(get("/report"))
            if len(asked) < 4:
                http = yield from stage.open(host, 80)
                assert http
        http.close()

    stage.simulation.start(client())


# ---- connections that nobody needed ------------------------------------------------------


@scenario(
    "not-reused-close",
    """Five requests, one after the other; the server closes its connection behind each answer and
    says so (Connection: close), so that each needs a new one.""",
    fire={"http/connection-not-reused": (155, 170)},
    silent=others("http/connection-not-reused"),
)
def not_reused_close(stage: Stage) -> None:
    """A server that closes."""
    host, _ = stage.server("app", "192.0.2.10", RTT)

    def route(method: str, target: str) -> Reply:
        answer = reply("200 OK", b"n" * 900, "Connection: close", think_ns=5 * MS)
        answer.close = True
        return answer

    stage.serve(host, 80, route)

    def client() -> Process:
        for number in range(5):
            http = yield from stage.open(host, 80)
            assert http
            yield from http.call(get(f"/orders/{number}"))
            http.close()
            yield 30 * MS

    stage.simulation.start(client())


@scenario(
    "not-reused-idle",
    """Four requests, one after the other, each on a new connection although those before are open
    and idle.""",
    fire={"http/connection-not-reused": (115, 130)},
    silent=others("http/connection-not-reused"),
)
def not_reused_idle(stage: Stage) -> None:
    """A client that forgets its connections."""
    host = _server(stage)

    def client() -> Process:
        opened: list[Client] = []
        for number in range(4):
            http = yield from stage.open(host, 80)
            assert http
            opened.append(http)
            yield from http.call(get(f"/orders/{number}"))
            yield 60 * MS
        for http in opened:
            http.close()

    stage.simulation.start(client())


@scenario(
    "reused",
    """Near misses of not-reused-idle: a second connection is opened while the first is busy; two
    more are opened for requests that run side by side with one on an idle connection; an idle one
    that the server has closed is not used again.""",
    silent=others(),
)
def reused(stage: Stage) -> None:
    """A client that needs what it opens."""
    host = _server(stage)

    def one(target: str, http: Client | None = None) -> Process:
        http = http or (yield from stage.open(host, 80))
        assert http
        yield from http.call(get(target))

    def client() -> Process:
        first = yield from stage.open(host, 80)
        assert first
        call = first.send(get("/report-90"))
        yield 20 * MS
        yield from one("/orders/1")
        yield from first.wait(call)
        yield 400 * MS
        # Three at a time: one takes the idle connection, the others new ones.
        host.endpoints[_server_side(host, 1)].close()
        yield 100 * MS
        stage.simulation.start(one("/orders/2-80", first))
        stage.simulation.start(one("/orders/3-80"))
        stage.simulation.start(one("/orders/4-80"))

    stage.simulation.start(client())


def _server_side(host: Host, number: int) -> tuple[tuple[str, int], tuple[str, int]]:
    """The server's endpoint of its connection with this number, by order of opening."""
    return next(key for key, end in host.endpoints.items() if end.connection.number == number)


# ---- too few connections -------------------------------------------------------------------


def _page(stage: Stage, thinks_ms: Sequence[int], connections: int, open_: Opener) -> None:
    """So many requests at once, over at most so many connections."""
    waiting = [f"/part/{number}-{think}" for number, think in enumerate(thinks_ms)]

    def worker() -> Process:
        http = yield from open_()
        assert http
        while waiting:
            yield from http.call(get(waiting.pop(0)))
        yield 100 * MS
        http.close()

    for _ in range(connections):
        stage.simulation.start(worker())


@scenario(
    "six-connections",
    """A page of 16 parts, requested at once by a client that opens six connections at most: ten of
    them wait until a connection is free.""",
    fire={"http/connection-limit-queueing": (230, 330)},
    silent=others("http/connection-limit-queueing"),
)
def six_connections(stage: Stage) -> None:
    """HTTP/1.1 as browsers do it."""
    host = _server(stage)
    _page(stage, THINKS_MS, 6, lambda: stage.open(host, 80))


@scenario(
    "six-connections-tls",
    "The same as six-connections over TLS 1.3, without keys.",
    fire={"http/connection-limit-queueing": (230, 370), "capture/not-decrypted": None},
    silent=others("http/connection-limit-queueing"),
)
def six_connections_tls(stage: Stage) -> None:
    """Nothing but sizes and times."""
    _, open_ = _secure(stage)
    _page(stage, THINKS_MS, 6, open_)


@scenario(
    "six-enough",
    """Near misses of six-connections: six parts on six connections, then a chain of requests of
    which each needs the answer before it, while the other connections are idle or, one of them,
    busy.""",
    silent=others(),
)
def six_enough(stage: Stage) -> None:
    """A chain."""
    host = _server(stage)
    opened: list[Client] = []

    def part(number: int) -> Process:
        http = yield from stage.open(host, 80)
        assert http
        opened.append(http)
        yield from http.call(get(f"/part/{number}-{60 + number}"))

    def client() -> Process:
        for number in range(6):
            stage.simulation.start(part(number))
        yield 400 * MS
        long = opened[1].send(get("/slow-90"))
        for number in range(6):
            yield from opened[0].call(get(f"/chain/{number}"))
        yield from opened[1].wait(long)
        for http in opened:
            http.close()

    stage.simulation.start(client())
