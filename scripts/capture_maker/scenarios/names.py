"""Name lookups: failures, repeats, and lookups that nobody waited for."""

from __future__ import annotations

from capture_maker.dns import Answer
from capture_maker.scenarios.basic import HOST, get, simple_route
from capture_maker.simulation import MS, SECOND, Process
from capture_maker.stage import Stage, scenario


@scenario(
    "dns-nxdomain",
    """NXDOMAIN for app.example.internal.example (a search list), then app.example is found and
    used. All answers are prompt.""",
    fire={"dns/failed-lookup": None},
    silent=("dns/slow-lookup", "tcp/syn-retransmission"),
)
def dns_nxdomain(stage: Stage) -> None:
    """A search list."""
    host, _ = stage.server("app", "192.0.2.10")
    stage.serve(host, 80, simple_route)
    wrong = f"{HOST}.internal.example"
    resolver = stage.resolver(
        {
            (wrong, "A"): Answer((), 2 * MS, "NXDOMAIN"),
            (HOST, "A"): Answer(("192.0.2.10",), 2 * MS),
        }
    )

    def client() -> Process:
        yield from resolver.ask(stage.client, stage.ledger, wrong)
        yield from resolver.ask(stage.client, stage.ledger, HOST)
        http = yield from stage.open(host, 80)
        assert http
        yield from http.call(get("/"))
        http.close()

    stage.simulation.start(client())


@scenario(
    "dns-unused",
    """Near miss of dns-slow: a lookup of other.example takes 700 ms, but nobody waits for it; the
    connection to app.example uses an address it knew.""",
    silent=("dns/slow-lookup", "dns/failed-lookup", "tcp/syn-retransmission", "http/slow-server"),
)
def dns_unused(stage: Stage) -> None:
    """A lookup beside."""
    host, _ = stage.server("app", "192.0.2.10")
    stage.serve(host, 80, simple_route)
    resolver = stage.resolver({("other.example", "A"): Answer(("192.0.2.99",), 700 * MS)})

    def lookup() -> Process:
        yield from resolver.ask(stage.client, stage.ledger, "other.example")

    def client() -> Process:
        http = yield from stage.open(host, 80)
        assert http
        for turn in range(3):
            yield from http.call(get(f"/turn/{turn}"))
            yield 250 * MS
        http.close()

    stage.simulation.start(lookup())
    stage.simulation.start(client(), 5 * MS)


@scenario(
    "dns-lost",
    "The first question is lost and asked again after 1 s; then all is prompt.",
    fire={"dns/slow-lookup": (995, 1_020)},
    silent=("tcp/syn-retransmission", "http/slow-server"),
)
def dns_lost(stage: Stage) -> None:
    """A question that is repeated."""
    host, _ = stage.server("app", "192.0.2.10")
    stage.serve(host, 80, simple_route)
    resolver = stage.resolver({(HOST, "A"): Answer(("192.0.2.10",), 2 * MS, lost=1)})

    def client() -> Process:
        yield from resolver.ask(stage.client, stage.ledger, HOST, retry_ns=1 * SECOND)
        http = yield from stage.open(host, 80)
        assert http
        yield from http.call(get("/"))
        http.close()

    stage.simulation.start(client())
