"""TLS 1.3 by a script: stapled OCSP responses, slow servers, early data that is rejected."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

from capture_maker import authority
from capture_maker.authority import DAY
from capture_maker.http import Client
from capture_maker.scenarios.basic import get
from capture_maker.scenarios.tls_faults import API, CONTEXT, OWN, QUIET, route, script, visits
from capture_maker.scripted import Script
from capture_maker.scripted13 import layer13
from capture_maker.simulation import MS, Process
from capture_maker.stage import Form, Stage, scenario
from capture_maker.tcp import Endpoint
from capture_maker.tls import TlsSocket

GOOD = authority.answer(OWN)
SLOW = {"tls/ocsp-staple-delay": (190.0, 260.0), "tls/slow-handshake": (190.0, 260.0)}
KEYS = Form(keys=True)


def _visits(stage: Stage, *scripts: Script) -> None:
    """One connection after the other, each with a request."""
    host, _ = stage.server("api", "203.0.113.20", 24 * MS)
    stage.serve_tls(host, 443, route, CONTEXT, _in_turn(stage, scripts))

    def run() -> Process:
        for one in scripts:
            socket = yield from stage.open_socket(
                host, 443, context=CONTEXT, server_name=API, layer=layer13(one, stage.key_log)
            )
            assert socket is not None
            http = Client(stage.simulation, socket)
            yield from http.call(get("/small", API))
            http.close()
            yield 300 * MS

    stage.simulation.start(run())


def _in_turn(stage: Stage, scripts: Sequence[Script]) -> Callable[..., TlsSocket]:
    turns = itertools.chain(scripts)

    def make(endpoint: Endpoint, context: object) -> TlsSocket:
        return layer13(next(turns), stage.key_log)(endpoint, context)

    return make


@scenario(
    "ocsp13-staple-slow",
    """TLS 1.3 with keys: the server staples; for the first client it fetches the response while the
    client waits, 250 ms before its ServerHello. Two more connections are quick.""",
    form=KEYS,
    fire=dict(SLOW),
    silent=(*QUIET, "tls/ocsp-not-stapled", "tls/ocsp-staple-invalid"),
)
def ocsp13_staple_slow(stage: Stage) -> None:
    """Three connections."""
    quick = script(staple=GOOD)
    _visits(stage, script(staple=GOOD, hello_pause_ns=250 * MS), quick, quick)


@scenario(
    "ocsp13-staple-slow-once",
    """TLS 1.3 with keys: the same with one connection only. That the server answers the client's
    Finished at once is all there is to compare with.""",
    form=KEYS,
    fire=dict(SLOW),
    silent=(*QUIET, "tls/ocsp-not-stapled", "tls/ocsp-staple-invalid"),
)
def ocsp13_staple_slow_once(stage: Stage) -> None:
    """One connection."""
    _visits(stage, script(staple=GOOD, hello_pause_ns=250 * MS))


@scenario(
    "ocsp-staple-slow-server",
    """Near miss of ocsp-staple-delay: the server staples and takes 120 ms before its ServerHello in
    each of three handshakes: it is just slow.""",
    fire={"tls/slow-handshake": (300, 380)},
    silent=(*QUIET, "tls/ocsp-not-stapled", "tls/ocsp-staple-delay"),
)
def ocsp_staple_slow_server(stage: Stage) -> None:
    """Three connections, all slow."""
    visits(stage, *[script(staple=GOOD, hello_pause_ns=120 * MS)] * 3)


@scenario(
    "ocsp-staple-slow-throughout",
    """Near miss of ocsp-staple-delay: one handshake; the server takes 150 ms before its ServerHello
    and as long before its Finished.""",
    fire={"tls/slow-handshake": (130, 320)},
    silent=(*QUIET, "tls/ocsp-not-stapled", "tls/ocsp-staple-delay"),
)
def ocsp_staple_slow_throughout(stage: Stage) -> None:
    """One connection of a server that is slow in every step."""
    visits(stage, script(staple=GOOD, hello_pause_ns=150 * MS, finish_pause_ns=150 * MS))


STAPLES = {
    "good": (GOOD, "is good and fresh", {}),
    "expired": (
        authority.answer(OWN, begin=-9 * DAY, end=-2 * DAY),
        "had expired two days before",
        {"tls/ocsp-staple-invalid": None},
    ),
    "revoked": (
        authority.answer(OWN, revoked=True),
        "says that the certificate is revoked",
        {"tls/ocsp-staple-invalid": None},
    ),
    "other": (
        authority.answer(authority.certificate("www.example")),
        "is for another certificate",
        {"tls/ocsp-staple-invalid": None},
    ),
}


def _staple(name: str, staple: bytes, what: str, fire: dict[str, None]) -> None:
    silent = ("tls/ocsp-not-stapled", "tls/certificate-expiry", "tls/ocsp-staple-delay")

    @scenario(
        f"ocsp13-staple-{name}",
        f"""TLS 1.3 with keys: the server staples an OCSP response, in its CertificateEntry, that
        {what}.""",
        form=KEYS,
        fire=dict(fire),
        silent=(*QUIET, *silent, *(() if fire else ("tls/ocsp-staple-invalid",))),
    )
    def play(stage: Stage) -> None:
        _visits(stage, script(staple=staple))


for _name, (_response, _what, _fire) in STAPLES.items():
    _staple(_name, _response, _what, _fire)


@scenario(
    "tls13-early-rejected",
    """TLS 1.3 with keys: the client sends its request as early data, the server does not take its
    ticket and skips it; after a full handshake the client sends the request again.""",
    form=KEYS,
    fire={"tls/not-resumed": None},
    silent=(*QUIET, "capture/not-decrypted", "tls/slow-handshake"),
)
def tls13_early_rejected(stage: Stage) -> None:
    """Early data that is not taken."""
    _visits(stage, script(ask_status=False, early=get("/small", API)))


@scenario(
    "tls13-early-retried",
    """TLS 1.3 with keys: the client sends its request as early data, the server wants another
    ClientHello first and skips it; behind the handshake the client sends the request again.""",
    form=KEYS,
    fire={"tls/hello-retry-request": None, "tls/not-resumed": None},
    silent=(*QUIET, "capture/not-decrypted", "tls/slow-handshake"),
    hello_retry=True,
)
def tls13_early_retried(stage: Stage) -> None:
    """Early data in front of a retry."""
    _visits(stage, script(ask_status=False, early=get("/small", API), retry=True))
