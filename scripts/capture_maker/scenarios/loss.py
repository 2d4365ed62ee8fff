"""Segments that are lost, late or repeated, from the client's and the server's side.

All have a round trip of 30 ms and 20 Mbit/s. "evident" in the truth says whether the capture
shows a retransmission by itself: where the first copy was lost before it reached the capture
and nothing behind it had arrived, only IP IDs and the pause tell.
"""

from __future__ import annotations

from collections.abc import Callable

from capture_maker.http import Reply, Write, request, response
from capture_maker.network import Fault, Vantage
from capture_maker.scenarios.basic import HOST, get, has_data
from capture_maker.simulation import MS, Process
from capture_maker.stage import Form, Stage, scenario

SIZE = 60_000
LOSS_DETECTORS = (
    "tcp/fast-retransmission",
    "tcp/tail-loss",
    "tcp/retransmission-timeout",
    "tcp/spurious-retransmission",
    "tcp/reordering",
)


def last_byte(start: int) -> Callable[..., bool]:
    """Picks segments that hold the last bytes of the response that begins at an offset."""
    end = start + len(response("200 OK", b"d" * SIZE, "Content-Type: application/octet-stream"))
    return lambda packet: has_data(packet) and packet.end == end


def holds(offset: int) -> Callable[..., bool]:
    """Picks segments that hold a byte of the stream."""
    return lambda packet: has_data(packet) and packet.offset <= offset < packet.end


def _play(stage: Stage, *faults: Fault) -> None:
    host, path = stage.server("app", "192.0.2.10", 30 * MS, 20_000_000)
    path.faults += faults

    def route(method: str, target: str) -> Reply:
        if target == "/download":
            body = response("200 OK", b"d" * SIZE, "Content-Type: application/octet-stream")
            return Reply(8 * MS, [Write(body)])
        return Reply(8 * MS, [Write(response("200 OK", b"small"))])

    stage.serve(host, 80, route)

    def client() -> Process:
        http = yield from stage.open(host, 80)
        assert http
        yield from http.call(get("/download"))
        yield 40 * MS
        yield from http.call(request("POST", "/order", HOST, content=b"sku=A-17&count=3"))
        http.close()

    stage.simulation.start(client())


def _register(
    name: str,
    describe: str,
    fire: str | None,
    faults: Callable[[], list[Fault]],
    vantages: tuple[Vantage, ...] = ("client", "server"),
    may: tuple[str, ...] = (),
) -> None:
    for vantage in vantages:

        @scenario(
            f"{name}-{vantage}",
            f"{describe} Captured at the {vantage}.",
            form=Form(vantage=vantage),
            fire={fire: None} if fire else {},
            silent=(
                "tcp/syn-retransmission",
                "http/slow-server",
                *(d for d in LOSS_DETECTORS if d != fire and d not in may),
            ),
        )
        def play(stage: Stage) -> None:
            """Play with the faults."""
            _play(stage, *faults())


_register(
    "loss-none",
    "Near miss of all losses: a download of 60 KB and a small request, nothing is lost.",
    None,
    list,
)
_register(
    "loss-fast",
    "The 12th data segment of a download of 60 KB is lost and repaired after duplicate ACKs.",
    "tcp/fast-retransmission",
    lambda: [Fault("client", has_data, "drop", (12,))],
    ("client", "middle", "server"),
)
_register(
    "loss-tail",
    "The last segment of a download is lost and repaired by a tail loss probe.",
    "tcp/tail-loss",
    lambda: [Fault("client", last_byte(0), "drop", (1,))],
)
_register(
    "loss-rto",
    """The last segment of a download and the tail loss probe that repeats it are lost; the
    retransmission timer repairs it.""",
    "tcp/retransmission-timeout",
    lambda: [Fault("client", last_byte(0), "drop", (1, 2))],
)
_register(
    "loss-request",
    """The only segment of the second request is lost and repeated by a tail loss probe, after two
    round trips and 200 ms.""",
    "tcp/tail-loss",
    lambda: [Fault("server", has_data, "drop", (2,))],
)
_register(
    "reordering",
    """The last segment but one of a download is 6 ms late and overtaken by the last one; nothing is
    lost and nothing is repeated.""",
    "tcp/reordering",
    lambda: [Fault("client", holds(SIZE - 2_000), "delay", (1,), extra_ns=6 * MS)],
)
_register(
    "spurious",
    """The 12th data segment of a download is 60 ms late: the server repeats it though it was not
    lost, and the client says so by D-SACK.""",
    "tcp/spurious-retransmission",
    lambda: [Fault("client", holds(17_000), "delay", (1,), extra_ns=60 * MS)],
    may=("tcp/reordering",),  # which it is, too, where it is seen
)
_register(
    "duplicated",
    """Near miss of retransmissions: the network delivers the 12th data segment twice, 3 ms apart.
    Nobody repeated it.""",
    None,
    lambda: [Fault("client", has_data, "duplicate", (12,), extra_ns=3 * MS)],
    ("client",),
)
