"""HTTP/1.1 as it may be: framings, pipelining, interim and early responses."""

from __future__ import annotations

import zlib

from capture_maker.http import Reply, Write, chunk, reply, request, response
from capture_maker.scenarios.basic import HOST, get
from capture_maker.simulation import MS, Process
from capture_maker.stage import Stage, scenario

STORY = b"".join(b"Line %d of a text that compresses well.\n" % n for n in range(400))


def _keep_alive_route(method: str, target: str) -> Reply:
    think = 4 * MS
    if target == "/no-content":
        return Reply(think, [Write(response("204 No Content", length=False))])
    if target == "/not-modified":
        head = response("304 Not Modified", b"", 'ETag: "7"', "Content-Length: 5000", length=False)
        return Reply(think, [Write(head)])
    if method == "HEAD":
        return Reply(think, [Write(response("200 OK", b"", "Content-Length: 12000", length=False))])
    if target == "/chunked":
        head = response(
            "200 OK", b"", "Transfer-Encoding: chunked", "Trailer: Checksum", length=False
        )
        return Reply(
            think,
            [
                Write(head + chunk(b"first part, ")),
                Write(chunk(b"c" * 5_000), 6 * MS),
                Write(b"0\r\nChecksum: 1234abcd\r\n\r\n", 2 * MS),
            ],
        )
    if target == "/gzip":
        packed = zlib.compress(STORY, 9, wbits=31)
        return reply("200 OK", packed, "Content-Encoding: gzip", think_ns=think)
    if target == "/upload":
        continued = b"HTTP/1.1 100 Continue\r\n\r\n"
        return Reply(think, [Write(response("201 Created", b"stored"))], interim=continued)
    if target == "/too-large":
        return Reply(
            2 * MS,
            [Write(response("413 Content Too Large", b"no", "Connection: close"))],
            early=True,
        )
    return reply("200 OK", b"plain content of " + target.encode(), think_ns=think)


@scenario(
    "http-keepalive",
    """Healthy HTTP/1.1, a near miss for everything: 13 requests on three connections. The first:
    GET, HEAD, 204, 304, chunked with a trailer, gzip, two pipelined requests, 100 (Continue);
    its sequence numbers wrap. The second: three GETs with pauses. The third: an early 413 before
    the content is complete. Captured at the client.""",
    silent=(
        "http/slow-server",
        "tcp/syn-retransmission",
        "capture/not-decrypted",
        "tcp/fast-retransmission",
        "tcp/retransmission-timeout",
        "tcp/tail-loss",
        "tcp/reordering",
        "dns/slow-lookup",
    ),
)
def http_keep_alive(stage: Stage) -> None:
    """Three connections."""
    host, _ = stage.server("app", "192.0.2.10", 16 * MS)
    stage.serve(host, 80, _keep_alive_route)

    def first() -> Process:
        http = yield from stage.open(host, 80, isns=(0xFFFFFE00, 0xFFFFF000))
        assert http
        yield from http.call(get("/page"))
        yield from http.call(request("HEAD", "/page", HOST, "Accept: */*"))
        yield from http.call(request("POST", "/no-content", HOST, content=b"a=1&b=2"))
        yield from http.call(request("GET", "/not-modified", HOST, 'If-None-Match: "7"'))
        yield 50 * MS
        yield from http.call(get("/chunked"))
        yield from http.call(request("GET", "/gzip", HOST, "Accept-Encoding: gzip"))
        yield 20 * MS
        one, two = http.send(get("/pipelined/1")), http.send(get("/pipelined/2"))
        yield from http.wait(one)
        yield from http.wait(two)
        yield 8 * MS
        head = request("PUT", "/upload", HOST, "Expect: 100-continue", "Content-Length: 20000")
        upload = http.send(head)
        while not upload.interim or http.read < http.endpoint.rcv_nxt:
            data = yield from http.socket.receive()
            http.read += len(data)
        yield 200_000
        http.more(upload, b"U" * 20_000)
        yield from http.wait(upload)
        http.close()

    def second() -> Process:
        http = yield from stage.open(host, 80)
        assert http
        for turn in range(3):
            yield from http.call(get(f"/poll/{turn}"))
            yield 90 * MS
        http.close()

    def third() -> Process:
        http = yield from stage.open(host, 80)
        assert http
        call = http.send(request("POST", "/too-large", HOST, "Content-Length: 40000"))
        for _ in range(4):
            http.more(call, b"p" * 10_000)
            yield 12 * MS
        yield from http.wait(call)
        http.close()

    stage.simulation.start(first())
    stage.simulation.start(second(), 25 * MS)
    stage.simulation.start(third(), 60 * MS)


def _statuses(stage: Stage, statuses: dict[int, str], count: int) -> None:
    """So many requests on one connection; `statuses` of some of them, the others succeed."""
    host, _ = stage.server("app", "192.0.2.10", 20 * MS)

    def route(method: str, target: str) -> Reply:
        status = statuses.get(int(target.rpartition("/")[2]), "200 OK")
        think_ms = 40 if status.startswith("500") else 12
        json = "Content-Type: application/json"
        return reply(status, b'{"state":1}', json, think_ns=think_ms * MS)

    stage.serve(host, 80, route)

    def run() -> Process:
        http = yield from stage.open(host, 80)
        assert http
        for number in range(1, count + 1):
            yield from http.call(get(f"/orders/{number}"))
            yield 8 * MS
        http.close()

    stage.simulation.start(run())


@scenario(
    "http-server-errors",
    "Twenty requests on one connection, of which four fail: 503, 502, and 500 twice.",
    fire={"http/server-errors": None},
    silent=("http/slow-server", "tcp/syn-retransmission"),
)
def http_server_errors(stage: Stage) -> None:
    """A server that fails often."""
    failed = {4: "503 Service Unavailable", 5: "502 Bad Gateway"}
    failed |= dict.fromkeys((11, 16), "500 Internal Server Error")
    _statuses(stage, failed, 20)


@scenario(
    "http-one-error",
    "Twenty-five requests on one connection, of which one fails with 500.",
    fire={"http/server-errors": None},
    silent=("http/slow-server", "tcp/syn-retransmission"),
)
def http_one_error(stage: Stage) -> None:
    """A server that fails once."""
    _statuses(stage, {9: "500 Internal Server Error"}, 25)


@scenario(
    "http-client-errors",
    """Near miss of server-errors: ten requests, of which four are refused for what the client did:
    404 twice, 400 and 429.""",
    silent=("http/slow-server", "http/server-errors", "tcp/syn-retransmission"),
)
def http_client_errors(stage: Stage) -> None:
    """A client that errs."""
    failed = dict.fromkeys((2, 5), "404 Not Found")
    _statuses(stage, {**failed, 6: "400 Bad Request", 9: "429 Too Many Requests"}, 10)
