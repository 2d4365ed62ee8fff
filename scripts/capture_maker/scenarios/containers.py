"""The same conversation in every container and link type, and captures that lack something."""

from __future__ import annotations

from typing import Any

from capture_maker.dns import Answer
from capture_maker.http import Reply, Write, reply, response
from capture_maker.network import Packet
from capture_maker.scenarios.basic import HOST, get
from capture_maker.simulation import MS, Process
from capture_maker.stage import Form, Stage, scenario
from capture_maker.tls import client_context, server_context

QUIET = ("http/slow-server", "tcp/syn-retransmission", "dns/slow-lookup")


def _route(method: str, target: str) -> Reply:
    if target == "/data":
        return Reply(30 * MS, [Write(response("200 OK", b"z" * 25_000))])
    return reply("200 OK", b"hello", "Content-Type: text/plain", think_ns=20 * MS)


def _play(stage: Stage) -> None:
    """A lookup, one connection, three requests."""
    address = "2001:db8:5::10" if stage.ipv6 else "192.0.2.10"
    host, _ = stage.server("app", address, 20 * MS)
    stage.serve(host, 80, _route)
    kind = "AAAA" if stage.ipv6 else "A"
    resolver = stage.resolver({(HOST, kind): Answer((address,), 3 * MS)})

    def client() -> Process:
        yield from resolver.ask(stage.client, stage.ledger, HOST, (kind,))
        http = yield from stage.open(host, 80)
        assert http
        yield from http.call(get("/hello"))
        yield 25 * MS
        yield from http.call(get("/data"))
        yield 25 * MS
        yield from http.call(get("/again"))
        http.close()

    stage.simulation.start(client())


def _register(name: str, describe: str, form: Form, **facts: Any) -> None:
    text = f"A lookup, one connection, three prompt requests: {describe}"
    ipv6 = facts.pop("ipv6", False)
    fire = facts.pop("fire", None)
    scenario(name, text, form=form, fire=fire, silent=QUIET, ipv6=ipv6, **facts)(_play)


def not_in(first: int, last: int) -> Any:
    """Keeps all packets but those at 0-based positions first to last."""
    return lambda position, packet: not first <= position <= last


def _behind_start(position: int, packet: Packet) -> bool:
    """Everything from the second segment of the second response on."""
    return position >= 14


_register("vlan", "802.1Q tags.", Form(link="vlan"))
_register("sll", "Linux cooked capture (tcpdump -i any of old).", Form(link="sll"))
_register("sll2", "Linux cooked capture v2 (tcpdump -i any).", Form(link="sll2"))
_register("rawip", "raw IP, as on a tun device.", Form(link="rawip"))
_register("ipv6", "IPv6.", Form(), ipv6=True)
_register("nanosecond", "pcap with nanoseconds.", Form(nanoseconds=True))
_register("big-endian", "pcap in the other byte order.", Form(order=">"))
_register("gzip", "pcap in gzip.", Form(gzip=True))
_register("middle", "seen half-way.", Form(vantage="middle"))
_register(
    "pcapng-sections",
    "pcapng with two sections, the second in the other byte order and with nanoseconds.",
    Form(format="pcapng", two_sections=True),
)
_register(
    "capture-gap",
    """the capture (not the network) lost six packets in the middle of the second response; the
    client acknowledged what they held.""",
    Form(keeps=not_in(20, 25)),
    fire={"capture/packets-missing": None},
    gap=True,
)
_register(
    "mid-connection",
    "the capture starts in the middle of the second response.",
    Form(keeps=_behind_start),
)
_register("cut-file", "the file ends in the middle of a packet.", Form(cut_bytes=2_000), cut=True)
_register(
    "snaplen-96",
    "only 96 bytes of each packet were kept, so the heads of requests can't be read.",
    Form(snap_length=96),
    unreadable=True,
)


@scenario(
    "pcapng-dsb",
    """TLS 1.3 in pcapng with the keys inside (Decryption Secrets Block); two requests, think 20 and
    30 ms.""",
    form=Form(format="pcapng", keys_inside=True, nanoseconds=True),
    silent=("tcp/syn-retransmission",),
)
def pcapng_dsb(stage: Stage) -> None:
    """A TLS connection."""
    host, _ = stage.server("api", "203.0.113.20", 20 * MS)
    stage.serve_tls(host, 443, _route, server_context("api.example"))

    def client() -> Process:
        context = client_context(stage.key_log)
        http = yield from stage.open(host, 443, context=context, server_name="api.example")
        assert http
        yield from http.call(get("/hello", "api.example"))
        yield 25 * MS
        yield from http.call(get("/data", "api.example"))
        http.close()

    stage.simulation.start(client())
