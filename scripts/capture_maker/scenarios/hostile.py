"""Strings that try to be executed, to break a terminal or to turn text around."""

from __future__ import annotations

from capture_maker.dns import Answer
from capture_maker.http import Reply, Write, request, response
from capture_maker.simulation import MS, Process
from capture_maker.stage import Stage, scenario
from capture_maker.tls import client_context, server_context

SCRIPT = "<script>window.hostile=1</script>"
IMAGE = '"><img/src=x/onerror=window.hostile=1>'
ANSI = "\x1b]0;hostile\x07\x1b[31m\x1b[2J"
BIDI = "\u202egnp.exe\u2066\u200f"
STRINGS = (
    SCRIPT,
    IMAGE,
    "</script><svg/onload=window.hostile=1>",
    "javascript:window.hostile=1//",
    "{{constructor.constructor('window.hostile=1')()}}${window.hostile=1}",
    "`;window.hostile=1;//\u2028\u2029",
    "'-window.hostile=1-'<!--",
    "__proto__",
    ANSI,
    BIDI,
    "=cmd|'/c_calc'!A1",
    "[bold red]rich[/][link=http://hostile.example]",
)


@scenario(
    "hostile-strings",
    """Targets, fields, reasons, a Host, a server name and DNS names full of HTML, scripts, terminal
    escapes, spreadsheet formulas, bidirectional marks and bytes that are no UTF-8. The server
    thinks 700 ms once, so that a finding carries such a string.""",
    fire={"http/slow-server": (695, 710)},
    silent=("tcp/syn-retransmission",),
)
def hostile_strings(stage: Stage) -> None:
    """One plain connection, one TLS connection, lookups."""
    host, _ = stage.server("app", "192.0.2.66")
    names = ("<script>window", "\x1b[31mred\x07", "\xff\xfe\x00\x80", '"><img onerror=x>')
    labels = [f"{name}.example" for name in names]
    resolver = stage.resolver({(n, "A"): Answer(("192.0.2.66",), 2 * MS) for n in labels})
    replies = iter(range(100))

    def route(method: str, target: str) -> Reply:
        turn = next(replies)
        text = STRINGS[turn % len(STRINGS)]
        head = response(
            f"200 {text}",
            f"<body>{text}".encode("utf-8", "surrogateescape"),
            f"X-Note: {text}",
            f"Content-Type: text/html; charset={text}",
            f"Set-Cookie: {text}=1",
        )
        return Reply(700 * MS if turn == 1 else 3 * MS, [Write(head)])

    stage.serve(host, 80, route)
    stage.serve_tls(host, 443, route, server_context("hostile.example"))

    def client() -> Process:
        for name in labels:
            yield from resolver.ask(stage.client, stage.ledger, name)
        http = yield from stage.open(host, 80)
        assert http
        for text in STRINGS:
            target = f"/{text}?{text}={text}".replace(" ", "_")
            yield from http.call(
                request(
                    "GET", target, text.replace(" ", "_"), f"User-Agent: {text}", f"{SCRIPT}: x"
                )
            )
            yield 2 * MS
        yield from http.call(request("GET", "/\udcff\udcfe\udc80", "\udcff.example", "X: \udcff"))
        yield from http.call(request(f"{IMAGE}", "/method", "app.example"))
        yield from http.call(
            request("GET", "/" + "A" * 6_000, "app.example", "X-Long: " + "<" * 3_000)
        )
        http.close()
        secure = yield from stage.open(
            host,
            443,
            context=client_context(None),
            server_name="<img/src=x/onerror=hostile>.example",
        )
        assert secure
        yield from secure.call(request("GET", "/secret", "hostile.example"))
        secure.close()

    stage.simulation.start(client())
