"""TLS that costs time or fails: certificates, OCSP, slow steps, tiny records, old versions."""

from __future__ import annotations

import base64
import itertools
import ssl
from collections.abc import Callable, Generator, Sequence

from capture_maker import authority
from capture_maker.authority import DAY, RESPONDER
from capture_maker.dns import Answer
from capture_maker.http import Client, Reply, Write, reply, request, response
from capture_maker.network import Host
from capture_maker.scenarios.basic import get
from capture_maker.scripted import Script, layer
from capture_maker.simulation import MS, Process, Signal
from capture_maker.stage import Stage, scenario
from capture_maker.tcp import Endpoint
from capture_maker.tls import TlsSocket, client_context, server_context

API = "api.example"
CONTEXT = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # scripted sockets have no use for one
QUIET = ("tcp/syn-retransmission", "http/slow-server")


def route(method: str, target: str) -> Reply:
    """A small answer."""
    return reply("200 OK", b"s" * 1_500, think_ns=40 * MS)


def connect(stage: Stage, host: Host, script: Script) -> Generator[int | Signal, None, Client]:
    """A scripted connection."""
    socket = yield from stage.open_socket(
        host, 443, context=CONTEXT, server_name=API, layer=layer(script)
    )
    assert socket is not None
    return Client(stage.simulation, socket)


def visits(stage: Stage, *scripts: Script, rtt_ns: int = 24 * MS, apart_ns: int = 300 * MS) -> None:
    """One connection after the other, each with a request."""
    host, _ = stage.server("api", "203.0.113.20", rtt_ns)
    stage.serve_tls(
        host,
        443,
        route,
        CONTEXT,
        _in_turn(scripts),
    )

    def run() -> Process:
        for script in scripts:
            http = yield from connect(stage, host, script)
            yield from http.call(get("/small", API))
            http.close()
            yield apart_ns

    stage.simulation.start(run())


def _in_turn(scripts: Sequence[Script]) -> Callable[..., TlsSocket]:
    """A layer that follows another script on each connection."""
    turns = itertools.chain(scripts)

    def make(endpoint: Endpoint, context: object) -> TlsSocket:
        return layer(next(turns))(endpoint, context)

    return make


OWN = authority.certificate(API)


def script(**values: object) -> Script:
    """A handshake with a good certificate."""
    return Script(**{"chain": authority.chain(OWN), **values})  # type: ignore[arg-type]


@scenario(
    "ocsp-stapled",
    """TLS 1.2: the client asks for the certificate's status, the server staples a good response;
    nobody fetches anything.""",
    fire={"capture/not-decrypted": None},
    silent=(
        *QUIET,
        "tls/ocsp-not-stapled",
        "tls/ocsp-staple-invalid",
        "tls/ocsp-staple-delay",
        "tls/ocsp-blocking-fetch",
        "tls/certificate-expiry",
        "tls/large-certificate-chain",
        "tls/slow-handshake",
        "tls/old-version",
        "tls/handshake-failure",
        "tls/not-resumed",
        "tls/tiny-records",
    ),
)
def ocsp_stapled(stage: Stage) -> None:
    """One connection."""
    visits(stage, script(staple=authority.answer(OWN)))


@scenario(
    "ocsp-no-responder",
    "The client asks for the certificate's status; the certificate names no responder.",
    silent=(*QUIET, "tls/ocsp-not-stapled"),
)
def ocsp_no_responder(stage: Stage) -> None:
    """One connection."""
    own = authority.certificate(API, responder=None)
    visits(stage, Script(authority.chain(own)))


STAPLES = {
    "expired": (authority.answer(OWN, begin=-9 * DAY, end=-2 * DAY), "had expired two days before"),
    "revoked": (authority.answer(OWN, revoked=True), "says that the certificate is revoked"),
    "other": (authority.answer(authority.certificate("www.example")), "is for another certificate"),
}


def _staple(name: str, staple: bytes, what: str) -> None:
    @scenario(
        f"ocsp-staple-{name}",
        f"The server staples an OCSP response that {what}.",
        fire={"tls/ocsp-staple-invalid": None},
        silent=(*QUIET, "tls/ocsp-not-stapled", "tls/certificate-expiry"),
    )
    def play(stage: Stage) -> None:
        visits(stage, script(staple=staple))


for _name, (_response, _what) in STAPLES.items():
    _staple(_name, _response, _what)


def fetch(stage: Stage, responder: Host, *, give_up_ns: int = 0, by_get: bool = False) -> Process:
    """Ask the responder about the certificate; wait for the answer, or only so long."""
    http = yield from stage.open(responder, 80)
    assert http is not None
    asked = authority.question(OWN)
    if by_get:
        path = base64.b64encode(asked).decode().replace("+", "%2B").replace("=", "%3D")
        message = request("GET", f"/{path}", RESPONDER)
    else:
        kind = "Content-Type: application/ocsp-request"
        message = request("POST", "/", RESPONDER, kind, content=asked)
    call = http.send(message)
    if give_up_ns:
        yield give_up_ns
    else:
        yield from http.wait(call)
    http.close()


def _status(method: str, target: str) -> Reply:
    kind = "Content-Type: application/ocsp-response"
    return Reply(300 * MS, [Write(response("200 OK", authority.answer(OWN), kind))])


def checked(
    stage: Stage, when: str, *, give_up_ns: int = 0, by_get: bool = False, close: bool = True
) -> None:
    """A client that asks the responder: in the handshake, behind it, or beside it."""
    host, _ = stage.server("api", "203.0.113.20", 24 * MS)
    responder, _ = stage.server("responder", "203.0.113.80", 30 * MS)
    resolver = stage.resolver({(RESPONDER, "A"): Answer(addresses=("203.0.113.80",))})
    stage.serve(responder, 80, _status)

    def ask() -> Process:
        yield from resolver.ask(stage.client, stage.ledger, RESPONDER)
        yield from fetch(stage, responder, give_up_ns=give_up_ns, by_get=by_get)

    how = script(check=ask if when == "handshake" else None)
    stage.serve_tls(host, 443, route, CONTEXT, layer(how))

    def run() -> Process:
        http = yield from connect(stage, host, how)
        if when == "request":
            yield from ask()
        elif when == "beside":
            stage.simulation.start(ask())
            yield 2 * MS
        yield from http.call(get("/small", API))
        yield 200 * MS
        yield from http.call(get("/small", API))
        http.close()

    stage.simulation.start(run())


SLOW_TLS: Sequence[str] = ("tls/slow-handshake",)


@scenario(
    "ocsp-fetch-in-handshake",
    """No staple: the client asks the OCSP responder (300 ms) before it goes on with the handshake,
    about 370 ms.""",
    fire={"tls/ocsp-not-stapled": None, "tls/ocsp-blocking-fetch": (350, 385)},
    silent=("tcp/syn-retransmission", *SLOW_TLS),
)
def ocsp_in_handshake(stage: Stage) -> None:
    """A fetch inside the handshake."""
    checked(stage, "handshake")


@scenario(
    "ocsp-fetch-before-request",
    "No staple: the client asks the responder, by GET, between the handshake and its request.",
    fire={"tls/ocsp-not-stapled": None, "tls/ocsp-blocking-fetch": (350, 385)},
    silent=("tcp/syn-retransmission", *SLOW_TLS),
)
def ocsp_before_request(stage: Stage) -> None:
    """A fetch behind the handshake."""
    checked(stage, "request", by_get=True)


@scenario(
    "ocsp-fetch-given-up",
    "No staple: the client waits 250 ms for the responder, then goes on without an answer.",
    fire={"tls/ocsp-not-stapled": None, "tls/ocsp-blocking-fetch": (275, 305)},
    silent=("tcp/syn-retransmission", *SLOW_TLS),
)
def ocsp_given_up(stage: Stage) -> None:
    """A fetch that is given up."""
    checked(stage, "handshake", give_up_ns=250 * MS)


@scenario(
    "ocsp-fetch-beside",
    "No staple: the client asks the responder beside the handshake; the request does not wait.",
    fire={"tls/ocsp-not-stapled": None},
    silent=("tcp/syn-retransmission", "tls/ocsp-blocking-fetch", *SLOW_TLS),
)
def ocsp_beside(stage: Stage) -> None:
    """A fetch that nobody waits for."""
    checked(stage, "beside")


@scenario(
    "ocsp-staple-slow",
    """The server staples; for the first client it fetches the response while the client waits,
    250 ms before its Certificate. Two more connections are quick.""",
    fire={"tls/ocsp-staple-delay": None, "tls/slow-handshake": (190, 260)},
    silent=(*QUIET, "tls/ocsp-not-stapled", "tls/ocsp-staple-invalid"),
)
def ocsp_staple_slow(stage: Stage) -> None:
    """Three connections."""
    staple = authority.answer(OWN)
    quick = script(staple=staple)
    visits(stage, script(staple=staple, certificate_pause_ns=250 * MS), quick, quick)


@scenario(
    "tls-slow-client",
    "The client takes 180 ms to check the certificate before it goes on with the handshake.",
    fire={"tls/slow-handshake": (150, 190)},
    silent=(*QUIET, "tls/ocsp-blocking-fetch"),
)
def tls_slow_client(stage: Stage) -> None:
    """A slow client."""
    visits(stage, script(ask_status=False, client_pause_ns=180 * MS))


@scenario(
    "tls-long-path",
    "TLS 1.2 over a path of 280 ms: both sides are prompt.",
    silent=(*QUIET, "tls/slow-handshake", "tls/large-certificate-chain"),
)
def tls_long_path(stage: Stage) -> None:
    """A long path."""
    visits(stage, script(), rtt_ns=280 * MS)


@scenario(
    "tls-expired",
    "The server's certificate expired three days before.",
    fire={"tls/certificate-expiry": None},
    silent=(*QUIET, "tls/ocsp-staple-invalid"),
)
def tls_expired(stage: Stage) -> None:
    """An expired certificate."""
    own = authority.certificate(API, end=-3 * DAY)
    visits(stage, Script(authority.chain(own), ask_status=False))


@scenario(
    "tls-expires-soon",
    "The server's certificate has nine days left.",
    fire={"tls/certificate-expiry": None},
    silent=QUIET,
)
def tls_expires_soon(stage: Stage) -> None:
    """A certificate that has to be renewed."""
    own = authority.certificate(API, end=9 * DAY)
    visits(stage, Script(authority.chain(own), ask_status=False))


@scenario(
    "tls10",
    "A handshake of TLS 1.0.",
    fire={"tls/old-version": None},
    silent=(*QUIET, "tls/handshake-failure"),
)
def tls10(stage: Stage) -> None:
    """An old version."""
    visits(stage, script(version=0x0301, ask_status=False))


@scenario(
    "tls-large-chain",
    """The server's certificate has 600 names: its first flight has 18 KB, more than ten segments,
    and takes a round trip more.""",
    fire={"tls/large-certificate-chain": None},
    silent=QUIET,
)
def tls_large_chain(stage: Stage) -> None:
    """A chain that does not fit."""
    own = authority.certificate(API, more_names=600)
    visits(stage, Script(authority.chain(own), ask_status=False), rtt_ns=60 * MS)


@scenario(
    "tls-long-chain-fits",
    "The server's certificate has 250 names: its first flight has 9 KB and fits.",
    silent=(*QUIET, "tls/large-certificate-chain", "tls/slow-handshake"),
)
def tls_long_chain_fits(stage: Stage) -> None:
    """A chain that fits."""
    own = authority.certificate(API, more_names=250)
    visits(stage, Script(authority.chain(own), ask_status=False), rtt_ns=60 * MS)


@scenario(
    "tls-not-resumed",
    "Three connections of one client, each with a full handshake.",
    fire={"tls/not-resumed": None},
    silent=(*QUIET, "tls/slow-handshake"),
)
def tls_not_resumed(stage: Stage) -> None:
    """Full handshakes."""
    visits(stage, *[script(ask_status=False)] * 3)


class TinyWrites(TlsSocket):
    """The server's program writes an answer's pieces one by one."""

    def send(self, data: bytes) -> tuple[int, int]:
        """A record for each few bytes, each sent by itself."""
        if self.endpoint.active:
            return super().send(data)
        first = last = 0
        at, step = 0, 0
        while at < len(data):
            size = 3 + 5 * (step % 3)
            start, last = super().send(data[at : at + size])
            first = first if step else start
            at, step = at + size, step + 1
        return first, last


@scenario(
    "tls-tiny-records",
    "The server writes its answer in pieces of 3 to 13 bytes, each a TLS record and a segment.",
    fire={"tls/tiny-records": None},
    silent=QUIET,
)
def tls_tiny_records(stage: Stage) -> None:
    """Tiny records."""
    host, _ = stage.server("api", "203.0.113.20", 24 * MS)
    stage.serve_tls(host, 443, route, server_context(API), TinyWrites)
    _calls(stage, host, 1)


class SmallRecords(TlsSocket):
    """The server's TLS layer makes records of one segment, as some do at first."""

    def send(self, data: bytes) -> tuple[int, int]:
        """A record for each 1,369 bytes, and one for the rest."""
        spans = [
            super(SmallRecords, self).send(data[at : at + 1_369])
            for at in range(0, len(data), 1_369)
        ]
        return spans[0][0], spans[-1][1]


@scenario(
    "tls-spilled-records",
    """Answers of 1,378 bytes in records of 1,369: each is a full record and one of 9 bytes, which
    is the rest of a write and no tiny write.""",
    silent=(*QUIET, "tls/tiny-records"),
)
def tls_spilled_records(stage: Stage) -> None:
    """Full records with a rest."""

    def spill(method: str, target: str) -> Reply:
        head = len(response("200 OK", b"x" * 1_000))
        return reply("200 OK", b"x" * (1_000 + 1_378 - head), think_ns=20 * MS)

    host, _ = stage.server("api", "203.0.113.20", 24 * MS)
    stage.serve_tls(host, 443, spill, server_context(API), SmallRecords)
    _calls(stage, host, 24)


class DynamicRecords(TlsSocket):
    """The server's TLS layer begins with records of one segment and makes large ones later."""

    small = 0  # records of one segment sent since the beginning, or the last pause

    def send(self, data: bytes) -> tuple[int, int]:
        """40 records of 1,369 bytes, then of 16 KB."""
        if self.endpoint.active:
            return super().send(data)
        first = last = at = 0
        while at < len(data):
            size = 1_369 if self.small < 40 else 16_384
            self.small += 1
            start, last = super().send(data[at : at + size])
            first = first if at else start
            at += size
        return first, last


@scenario(
    "tls-dynamic-records",
    """Two answers of 90 KB with 1.5 s between them; the server sends 40 records of 1,369 bytes,
    then records of 16 KB, and begins with small ones again after the pause.""",
    silent=(*QUIET, "tls/tiny-records", "tls/record-wait"),
)
def tls_dynamic_records(stage: Stage) -> None:
    """Records that grow."""
    host, _ = stage.server("api", "203.0.113.20", 24 * MS)
    sockets: list[DynamicRecords] = []

    def make(*args: object, **more: object) -> DynamicRecords:
        sockets.append(DynamicRecords(*args, **more))  # type: ignore[arg-type]
        return sockets[-1]

    def large(method: str, target: str) -> Reply:
        sockets[-1].small = 0
        return reply("200 OK", b"L" * 90_000, think_ns=20 * MS)

    stage.serve_tls(host, 443, large, server_context(API), make)

    def run() -> Process:
        http = yield from stage.open(
            host, 443, context=client_context(stage.key_log), server_name=API
        )
        assert http is not None
        for _ in range(2):
            yield from http.call(get("/large", API))
            yield 1_500 * MS
        http.close()

    stage.simulation.start(run())


def _calls(stage: Stage, host: Host, count: int) -> None:
    def run() -> Process:
        http = yield from stage.open(
            host, 443, context=client_context(stage.key_log), server_name=API
        )
        assert http is not None
        for _ in range(count):
            yield from http.call(get("/small", API))
            yield 30 * MS
        http.close()

    stage.simulation.start(run())
