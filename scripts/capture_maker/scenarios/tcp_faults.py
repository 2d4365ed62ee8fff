"""What goes wrong in TCP beside losses, what a capture can lack, and near misses of all of it.

The network is the one of `loss` unless said: a round trip of 30 ms and 20 Mbit/s.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from capture_maker.dns import Answer
from capture_maker.headers import UDP
from capture_maker.http import Reply, Write, reply, request, response
from capture_maker.network import Fault, Host, Packet, number
from capture_maker.network import Path as Way
from capture_maker.scenarios.basic import HOST, get, has_data, simple_route
from capture_maker.simulation import MS, SECOND, US, Process
from capture_maker.stage import Form, Stage, scenario
from capture_maker.tcp import ConnectionResetError_

RTT = 30 * MS
RATE = 20_000_000
LIMITS = (
    "tcp/zero-window-stall",
    "tcp/receive-window-limited",
    "tcp/nagle-delayed-ack",
    "tcp/queueing-delay",
    "tcp/idle-restart",
)
LOSSES = (
    "tcp/fast-retransmission",
    "tcp/tail-loss",
    "tcp/retransmission-timeout",
    "tcp/spurious-retransmission",
    "tcp/reordering",
    "tcp/path-mtu-black-hole",
)
SETUP = (
    "tcp/syn-retransmission",
    "tcp/connection-refused",
    "tcp/connect-timeout",
    "tcp/reset-in-exchange",
)
HYGIENE = (
    "capture/packets-missing",
    "capture/truncated-packets",
    "capture/duplicate-packets",
    "capture/offloaded-segments",
    "capture/one-direction",
    "capture/clock-step",
)


def others(*fire: str) -> tuple[str, ...]:
    """All of these detectors but some: they must be silent."""
    return tuple(name for name in (*LIMITS, *LOSSES, *SETUP, *HYGIENE) if name not in fire)


def download(size: int, think_ns: int = 5 * MS) -> Reply:
    """A response of so many bytes, head included, in one write."""
    field = "Content-Type: application/octet-stream"
    head = len(response("200 OK", b"d" * size, field)) - size
    return Reply(think_ns, [Write(response("200 OK", b"d" * (size - head), field))])


def _sizes(stage: Stage, rtt_ns: int = RTT, rate: int = RATE) -> tuple[Host, Way]:
    """A server that answers /SIZE with so many bytes."""
    host, path = stage.server("app", "192.0.2.10", rtt_ns, rate)

    def route(method: str, target: str) -> Reply:
        return download(int(target.rsplit("/", 1)[-1]))

    stage.serve(host, 80, route)
    return host, path


def _fetch(stage: Stage, host: Host, *targets: str, pause_ns: int = 50 * MS) -> None:
    """One connection, one request after the other."""

    def client() -> Process:
        http = yield from stage.open(host, 80)
        assert http
        for target in targets:
            yield from http.call(get(target))
            yield pause_ns
        http.close()

    stage.simulation.start(client())


# ---- windows ---------------------------------------------------------------------------


@scenario(
    "zero-window",
    """The client does not read for 1.5 s; its receive buffer of 16 KB is full, it offers a window
    of 0, the server probes, then the window opens. Captured at the client.""",
    fire={"tcp/zero-window-stall": (1_350, 1_500)},
    silent=(*LOSSES, *SETUP, *HYGIENE, "tcp/nagle-delayed-ack", "tcp/queueing-delay"),
)
@scenario(
    "zero-window-server",
    "The same as zero-window, captured at the server.",
    form=Form(vantage="server"),
    fire={"tcp/zero-window-stall": (1_350, 1_530)},
    silent=(*LOSSES, *SETUP, *HYGIENE, "tcp/nagle-delayed-ack", "tcp/queueing-delay"),
)
def zero_window(stage: Stage) -> None:
    """A client that is busy."""
    stage.client.receive_buffer = 16_384
    host, _ = _sizes(stage)

    def client() -> Process:
        http = yield from stage.open(host, 80)
        assert http
        call = http.send(get("/40000"))
        yield 1_500 * MS
        yield from http.wait(call)
        http.close()

    stage.simulation.start(client())


@scenario(
    "zero-window-idle",
    """Near miss of zero-window: the client's buffer is full and it offers a window of 0, but the
    answer was just as long: nobody has to wait.""",
    silent=others(),
)
def zero_window_idle(stage: Stage) -> None:
    """A buffer that is just large enough."""
    stage.client.receive_buffer = 16_384
    host, _ = _sizes(stage)

    def client() -> Process:
        http = yield from stage.open(host, 80)
        assert http
        call = http.send(get("/16000"))
        yield 900 * MS
        yield from http.wait(call)
        yield 60 * MS
        yield from http.call(get("/300"))
        http.close()

    stage.simulation.start(client())


@scenario(
    "window-limited",
    """A download of 100 KB over a round trip of 60 ms on a fast network, but the client's receive
    buffer is fixed at 12 KB: one window in each round trip.""",
    fire={"tcp/receive-window-limited": (400, 620)},
    silent=others("tcp/receive-window-limited"),
)
def window_limited(stage: Stage) -> None:
    """A small buffer."""
    stage.client.receive_buffer = 12_288
    host, _ = _sizes(stage, 60 * MS, 200_000_000)
    _fetch(stage, host, "/100000")


@scenario(
    "window-ample",
    """Near miss of window-limited: the same download with a buffer that grows. The congestion
    window limits it in the first round trips.""",
    silent=others(),
)
def window_ample(stage: Stage) -> None:
    """Slow start."""
    host, _ = _sizes(stage, 60 * MS, 200_000_000)
    _fetch(stage, host, "/100000")


# ---- Nagle -----------------------------------------------------------------------------


def _orders(stage: Stage, rtt_ns: int, gap_ns: int = 0, count: int = 6) -> None:
    """Requests whose head and content are two small writes."""
    host, _ = stage.server("app", "192.0.2.10", rtt_ns, 100_000_000)
    stage.serve(host, 80, simple_route)

    def client() -> Process:
        http = yield from stage.open(host, 80)
        assert http
        for turn in range(count):
            content = b'{"sku":"A-17","count":3,"note":"%s"}' % (b"n" * 200)
            whole = request("POST", f"/order/{turn}", HOST, content=content)
            head = len(whole) - len(content)
            call = http.send(whole[:head])
            if gap_ns:
                yield gap_ns
            http.more(call, whole[head:])
            yield from http.wait(call)
            yield 20 * MS
        http.close()

    stage.simulation.start(client())


@scenario(
    "nagle-client",
    """Six requests, head and content in two small writes, with Nagle's algorithm: the content waits
    for the server's delayed acknowledgement of the head (the first one does not delay it).""",
    fire={"tcp/nagle-delayed-ack": (200, 260)},
    silent=others("tcp/nagle-delayed-ack"),
)
@scenario(
    "nagle-client-server",
    "The same as nagle-client, captured at the server.",
    form=Form(vantage="server"),
    fire={"tcp/nagle-delayed-ack": (200, 260)},
    silent=others("tcp/nagle-delayed-ack"),
)
def nagle_client(stage: Stage) -> None:
    """Write, write, read."""
    stage.client.nodelay = False
    _orders(stage, 4 * MS)


@scenario(
    "nagle-off-pause",
    """Near miss of nagle-client: the same requests without Nagle's algorithm, and the program
    waits 40 ms of its own between the two writes.""",
    silent=others(),
)
def nagle_off_pause(stage: Stage) -> None:
    """A pause."""
    _orders(stage, 4 * MS, gap_ns=40 * MS)


@scenario(
    "delayed-ack-only",
    """Near miss of nagle-client: requests in one write each; the server thinks for 70 ms and
    acknowledges after 40 ms. Nothing is held back.""",
    silent=others(),
)
def delayed_ack_only(stage: Stage) -> None:
    """An acknowledgement that is late and costs nothing."""
    host, _ = stage.server("app", "192.0.2.10", 4 * MS, 100_000_000)
    stage.client.nodelay = False

    def route(method: str, target: str) -> Reply:
        return reply("200 OK", b"late", think_ns=70 * MS)

    stage.serve(host, 80, route)
    _fetch(stage, host, *(f"/{turn}" for turn in range(5)))


@scenario(
    "nagle-server",
    """Answers whose head and content are two small writes, with Nagle's algorithm at the server:
    the content waits for the client's delayed acknowledgement of the head.""",
    fire={"tcp/nagle-delayed-ack": (160, 260)},
    silent=others("tcp/nagle-delayed-ack"),
)
def nagle_server(stage: Stage) -> None:
    """Two writes of the server."""
    host, _ = stage.server("app", "192.0.2.10", 4 * MS, 100_000_000)
    host.nodelay = False

    def route(method: str, target: str) -> Reply:
        whole = response("200 OK", b"x" * 300)
        return Reply(3 * MS, [Write(whole[:-300]), Write(whole[-300:])])

    stage.serve(host, 80, route)
    _fetch(stage, host, *(f"/{turn}" for turn in range(6)))


@scenario(
    "nagle-round-trip",
    """Small writes each 8 ms over a round trip of 30 ms, with Nagle's algorithm at the server; the
    client acknowledges at once, so each segment leaves a round trip behind the one before.""",
    fire={"tcp/nagle-delayed-ack": None},
    silent=others("tcp/nagle-delayed-ack"),
)
def nagle_round_trip(stage: Stage) -> None:
    """A stream of small writes."""
    host, _ = stage.server("app", "192.0.2.10", RTT, 100_000_000)
    host.nodelay = False
    whole = response("200 OK", b"z" * 2_000)

    def route(method: str, target: str) -> Reply:
        parts = [whole[at : at + 50] for at in range(0, len(whole), 50)]
        return Reply(3 * MS, [Write(part, 8 * MS if n else 0) for n, part in enumerate(parts)])

    stage.serve(host, 80, route)
    _fetch(stage, host, "/stream")


# ---- queues and restarts ---------------------------------------------------------------


@scenario(
    "bufferbloat",
    """A download of 120 KB over 0.8 Mbit/s with an endless queue: the round trip grows from 30 ms
    to more than half a second, and a small request on another connection waits with it. Captured
    at the server.""",
    form=Form(vantage="server"),
    fire={"tcp/queueing-delay": None},
    silent=others("tcp/queueing-delay"),
)
def bufferbloat(stage: Stage) -> None:
    """A queue that nobody manages."""
    host, _ = _sizes(stage, RTT, 800_000)
    _fetch(stage, host, "/120000")

    def other() -> Process:
        http = yield from stage.open(host, 80)
        assert http
        yield from http.call(get("/200"))
        http.close()

    stage.simulation.start(other(), 800 * MS)


@scenario(
    "idle-restart",
    """Three downloads of 45 KB on one connection with pauses of 900 ms: each time the server
    starts over with ten segments, and needs two round trips where one would do.""",
    fire={"tcp/idle-restart": None},
    silent=others("tcp/idle-restart"),
)
def idle_restart(stage: Stage) -> None:
    """Slow start after idle."""
    host, _ = _sizes(stage, 60 * MS, 200_000_000)
    _fetch(stage, host, "/45000", "/45000", "/45000", pause_ns=900 * MS)


@scenario(
    "idle-short",
    """Near miss of idle-restart: the same pauses, but behind the first download the answers fit
    into ten segments.""",
    silent=others(),
)
def idle_short(stage: Stage) -> None:
    """Short answers."""
    host, _ = _sizes(stage, 60 * MS, 200_000_000)
    _fetch(stage, host, "/45000", "/9000", "/12000", pause_ns=900 * MS)


# ---- losses ----------------------------------------------------------------------------


@scenario(
    "mtu-black-hole",
    """Segments of more than 1,400 bytes on the wire vanish on the way to the client, and no ICMP
    message tells the server: small answers arrive, the large one never does, and the client
    gives up after 5 s. Captured at the server.""",
    form=Form(vantage="server"),
    fire={
        "tcp/path-mtu-black-hole": None,
        "tcp/retransmission-timeout": None,
        "tcp/reset-in-exchange": None,
    },
    silent=(*LIMITS, *HYGIENE, "tcp/connection-refused", "tcp/fast-retransmission"),
)
def mtu_black_hole(stage: Stage) -> None:
    """Large packets vanish."""
    host, path = _sizes(stage)
    path.faults.append(Fault("client", lambda p: p.wire_bytes > 1_400, "drop"))

    def client() -> Process:
        http = yield from stage.open(host, 80)
        assert http
        yield from http.call(get("/400"))
        call = http.send(get("/20000"))
        call.complete, call.ended = False, "rst"
        yield 5 * SECOND
        http.endpoint.abort()

    stage.simulation.start(client())


@scenario(
    "timeout-large",
    """Near miss of mtu-black-hole: a full-size segment in the middle of a download is lost four
    times (first copy, fast repeat, two timeouts), others of its size arrive. Captured at the
    server.""",
    form=Form(vantage="server"),
    fire={"tcp/retransmission-timeout": None},
    silent=others("tcp/retransmission-timeout", "tcp/fast-retransmission"),
)
def timeout_large(stage: Stage) -> None:
    """Bad luck."""
    host, path = _sizes(stage)
    holds: Callable[[Packet], bool] = lambda p: has_data(p) and p.offset <= 30_000 < p.end  # noqa: E731
    path.faults.append(Fault("client", holds, "drop", (1, 2, 3, 4)))
    _fetch(stage, host, "/48000")


# ---- set-up and end --------------------------------------------------------------------


@scenario(
    "refused-port",
    """Nothing listens on port 8443: the SYN is answered with RST, and the client does without. A
    request on port 80 is fine.""",
    fire={"tcp/connection-refused": None},
    silent=others("tcp/connection-refused"),
)
def refused_port(stage: Stage) -> None:
    """A port that is closed."""
    host, _ = _sizes(stage)

    def client() -> Process:
        assert (yield from stage.open(host, 8443)) is None
        http = yield from stage.open(host, 80)
        assert http
        yield from http.call(get("/300"))
        http.close()

    stage.simulation.start(client())


def _give_up(stage: Stage, after_ns: int) -> None:
    """The client's program stops waiting for connections that are not up by then."""

    def give_up() -> None:
        for endpoint in list(stage.client.endpoints.values()):
            if endpoint.state == "syn-sent":
                endpoint.reset = True
                endpoint._forget()
                endpoint.established.fire()

    stage.simulation.after(after_ns, give_up)


@scenario(
    "connect-timeout",
    """A name has two addresses; a firewall drops all that goes to the first. After 2.5 s and two
    SYNs the client gives up and takes the second.""",
    fire={"tcp/connect-timeout": (2_490, 2_520), "tcp/syn-retransmission": (2_490, 2_520)},
    silent=others("tcp/connect-timeout", "tcp/syn-retransmission"),
)
def connect_timeout(stage: Stage) -> None:
    """A dead address."""
    host, _ = _sizes(stage)
    dead, _ = stage.server("dead", "192.0.2.66", RTT)
    dead.dark = True
    resolver = stage.resolver({(HOST, "A"): Answer(("192.0.2.66", "192.0.2.10"), 2 * MS)})
    _give_up(stage, 2_500 * MS)

    def client() -> Process:
        yield from resolver.ask(stage.client, stage.ledger, HOST)
        assert (yield from stage.open(dead, 80)) is None
        http = yield from stage.open(host, 80)
        assert http
        yield from http.call(get("/300"))
        http.close()

    stage.simulation.start(client())


@scenario(
    "connect-cut",
    """Near miss of connect-timeout: the SYN to the second server was repeated once and not yet
    answered when the capture ends.""",
    form=Form(keeps=lambda _, packet: packet.tapped["client"] < 1_500 * MS),
    fire={"tcp/syn-retransmission": None},
    silent=others("tcp/syn-retransmission"),
)
def connect_cut(stage: Stage) -> None:
    """A capture that ends too early."""
    host, _ = _sizes(stage)
    dead, _ = stage.server("dead", "192.0.2.66", RTT)
    dead.dark = True
    _give_up(stage, 3_500 * MS)

    def client() -> Process:
        yield from stage.open(dead, 80)

    stage.simulation.start(client(), 100 * MS)
    _fetch(stage, host, "/300", "/400", pause_ns=1_250 * MS)


@scenario(
    "reset-in-answer",
    """The server resets the connection after 30 KB of an answer of 90 KB.""",
    fire={"tcp/reset-in-exchange": None},
    silent=others("tcp/reset-in-exchange"),
)
def reset_in_answer(stage: Stage) -> None:
    """A server that dies."""
    host, _ = stage.server("app", "192.0.2.10", RTT, RATE)

    def route(method: str, target: str) -> Reply:
        if target == "/small":
            return download(400)
        whole = response("200 OK", b"d" * 90_000)
        parts = [Write(whole[:20_000]), Write(whole[20_000:30_000], 120 * MS)]
        return Reply(5 * MS, parts, complete=False, abort=True)

    stage.serve(host, 80, route)

    def client() -> Process:
        http = yield from stage.open(host, 80)
        assert http
        yield from http.call(get("/small"))
        with contextlib.suppress(ConnectionResetError_):
            yield from http.call(get("/large"))

    stage.simulation.start(client())


@scenario(
    "reset-behind",
    """Near miss of reset-in-answer: the client resets the connection after it has read the whole
    answer.""",
    silent=others(),
)
def reset_behind(stage: Stage) -> None:
    """A client in a hurry."""
    host, _ = _sizes(stage)

    def client() -> Process:
        http = yield from stage.open(host, 80)
        assert http
        yield from http.call(get("/30000"))
        yield 45 * MS
        http.endpoint.abort()

    stage.simulation.start(client())


# ---- what a capture can lack -----------------------------------------------------------


def _mixed(stage: Stage, lose: bool = False) -> None:
    """Some requests, with one loss if wanted."""
    host, path = _sizes(stage)
    if lose:
        path.faults.append(Fault("client", has_data, "drop", (12,)))
    _fetch(stage, host, "/400", "/22000", "/900")


@scenario(
    "mirrored",
    """A mirror port copies every packet twice, 40 µs apart; one segment is truly lost and
    repeated.""",
    form=Form(twice_ns=40 * US),
    fire={"capture/duplicate-packets": None, "tcp/fast-retransmission": None},
    silent=others("capture/duplicate-packets", "tcp/fast-retransmission"),
)
@scenario(
    "two-points",
    """The captures of client and server merged into one file: every packet that arrived is there
    twice, with another time to live and at another time. One segment is truly lost.""",
    form=Form(merged=True),
    fire={"capture/duplicate-packets": None, "tcp/fast-retransmission": None},
    silent=others("capture/duplicate-packets", "tcp/fast-retransmission"),
)
@scenario(
    "lost-not-missing",
    """Near miss of a capture that lacks packets, and of duplicates: one segment is lost in the
    network and repeated; the capture is whole.""",
    fire={"tcp/fast-retransmission": None},
    silent=others("tcp/fast-retransmission"),
)
def mirrored(stage: Stage) -> None:
    """With one loss."""
    _mixed(stage, lose=True)


@scenario(
    "client-only",
    "Only what the client sent was captured.",
    form=Form(keeps=lambda _, packet: packet.from_client),
    fire={"capture/one-direction": None},
    silent=others("capture/one-direction"),
    half=True,
)
def client_only(stage: Stage) -> None:
    """Half a capture."""
    _mixed(stage)


def _polls(stage: Stage) -> None:
    """Twelve requests, a quarter of a second apart."""
    host, _ = _sizes(stage)
    _fetch(stage, host, *(f"/{600 + turn}" for turn in range(12)), pause_ns=250 * MS)


@scenario(
    "clock-step",
    "The capturing host's clock is set back by 400 ms in the middle.",
    form=Form(clock=lambda now: now - (400 * MS if now > 1_700 * MS else 0)),
    fire={"capture/clock-step": None},
    silent=others("capture/clock-step"),
    clock_step=True,
)
@scenario(
    "queue-order",
    """Near miss of clock-step: the capture took packets from several queues and wrote some in the
    wrong order.""",
    form=Form(queues=9),
    silent=others(),
    clock_step=True,
)
def clock_step(stage: Stage) -> None:
    """Regular requests."""
    _polls(stage)


@scenario(
    "offloaded",
    """The server's network interface cuts segments apart behind the capture: up to 14 KB in one
    packet. Captured at the server.""",
    form=Form(vantage="server"),
    fire={"capture/offloaded-segments": None},
    silent=others("capture/offloaded-segments"),
)
def offloaded(stage: Stage) -> None:
    """Segmentation offload."""
    host, _ = stage.server("app", "192.0.2.10", RTT, 200_000_000)
    stage.serve(host, 80, lambda _, target: download(int(target.rsplit("/", 1)[-1])))
    serve = host.listeners[80]

    def accept(endpoint: object) -> None:
        endpoint.mss *= 10  # type: ignore[attr-defined]
        serve(endpoint)  # type: ignore[arg-type]

    host.listeners[80] = accept
    _fetch(stage, host, "/400", "/40000")


@scenario(
    "jumbo",
    """Near miss of offloaded: both sides agreed on segments of 8,960 bytes (jumbo frames).""",
    form=Form(vantage="server"),
    silent=others(),
)
def jumbo(stage: Stage) -> None:
    """Large frames."""
    stage.client.mtu = 9_000
    host, _ = stage.server("app", "192.0.2.10", RTT, 200_000_000)
    host.mtu = 9_000
    stage.serve(host, 80, lambda _, target: download(int(target.rsplit("/", 1)[-1])))
    _fetch(stage, host, "/400", "/40000")


@scenario(
    "snaplen-80",
    "Only 80 bytes of each packet were kept: nothing of the requests can be read.",
    form=Form(snap_length=80),
    fire={"capture/truncated-packets": None},
    silent=others("capture/truncated-packets"),
    unreadable=True,
)
def snaplen_80(stage: Stage) -> None:
    """Heads cut off."""
    _mixed(stage)


@scenario(
    "snaplen-elsewhere",
    """Near miss of snaplen-80: 400 bytes of each packet were kept, which only cuts some datagrams
    that have nothing to do with the requests.""",
    form=Form(snap_length=400),
    silent=others(),
)
def snaplen_elsewhere(stage: Stage) -> None:
    """Large datagrams beside small requests."""
    host, _ = _sizes(stage)
    _fetch(stage, host, "/200", "/180", "/220")

    def noise() -> Process:
        for turn in range(6):
            yield 30 * MS
            stage.network.send(
                Packet(
                    (stage.client.addresses[0], 40_123),
                    (host.addresses[0], 5_140),
                    UDP,
                    number("noise", turn) & 0xFFFF,
                    b"",
                    payload=b"log line " * 120,
                )
            )

    stage.simulation.start(noise())
