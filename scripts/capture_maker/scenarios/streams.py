"""Streamed answers: healthy ones of every API, and all that can go wrong with them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from capture_maker import http2, llm
from capture_maker.http import Client, Reply, Write
from capture_maker.llm import ANSWER_NEEDLE, COOKIE, QUERY, WORDS, alone, chat, chunked
from capture_maker.network import Fault, Packet
from capture_maker.scenarios.basic import has_data
from capture_maker.simulation import MS, Process
from capture_maker.stage import Form, Stage, scenario
from capture_maker.tls import client_context, server_context

API = "api.example"
SAID = [*WORDS[:10], ANSWER_NEEDLE, *WORDS[10:31]]
GAPS = [25 * MS, 30 * MS, 20 * MS] * 3 + [25 * MS]
TARGET = f"/v1/chat/completions?team={QUERY}"
SET_COOKIE = f"Set-Cookie: session={COOKIE}"
KEYS = Form(keys=True)


def ask(
    stage: Stage,
    *connections: Sequence[Reply],
    target: str = TARGET,
    faults: tuple[Fault, ...] = (),
    rtt_ns: int = 30 * MS,
    bits_per_second: int = 100_000_000,
) -> None:
    """TLS 1.3 connections one after the other; on each, a request for each of its replies."""
    host, path = stage.server("api", "203.0.113.20", rtt_ns, bits_per_second)
    path.faults += faults
    turns = itertools.chain(*connections)
    stage.serve_tls(host, 443, lambda method, target: next(turns), server_context(API))

    def run() -> Process:
        context = client_context(stage.key_log)
        for replies in connections:
            http = yield from stage.open(host, 443, context=context, server_name=API)
            assert isinstance(http, Client)
            for _ in replies:
                call = http.send(llm.post(target, API, llm.asking()))
                if not (yield from http.wait(call)):
                    break
                yield 40 * MS
            if not http.endpoint.reset:
                http.close()

    stage.simulation.start(run())


def steady(stall_ns: int = 0) -> Reply:
    """A chat completion: head and role at 20 ms, first word at 350 ms, then steadily."""
    gaps = [*GAPS, stall_ns or 25 * MS, 25 * MS]
    return chunked(20 * MS, alone(chat(330 * MS, gaps, SAID)), SET_COOKIE)


@scenario(
    "sse-stream",
    """A chat completion over TLS 1.3, streamed steadily: head and role at 20 ms, the first word at
    350 ms, then 31 words at 20 to 30 ms.""",
    form=KEYS,
    silent=(
        "tcp/syn-retransmission",
        "http/slow-server",
        "llm/stream-stall",
        "llm/slow-first-token",
        "llm/truncated-stream",
        "tls/record-wait",
        "http/server-errors",
        "capture/not-decrypted",
    ),
)
def sse_stream(stage: Stage) -> None:
    """A steady stream."""
    ask(stage, [steady()])


@scenario(
    "sse-stall",
    "The same as sse-stream, but the model stops for 700 ms after the 11th word.",
    form=KEYS,
    fire={"llm/stream-stall": (670, 710)},
    silent=("tcp/syn-retransmission", "http/slow-server", "llm/truncated-stream"),
)
def sse_stall(stage: Stage) -> None:
    """A stream that stalls."""
    ask(stage, [steady(700 * MS)])


@scenario(
    "sse-loss",
    """The same as sse-stream, but a segment with a word is lost and repaired: what looks like a
    stall of the model is the network's.""",
    form=KEYS,
    silent=("tcp/syn-retransmission", "http/slow-server", "llm/truncated-stream"),
)
def sse_loss(stage: Stage) -> None:
    """A stream with one loss."""
    ask(stage, [steady()], faults=(Fault("client", has_data, "drop", (15,)),))


def lost_again(which: int, repeats: int = 4) -> Fault:
    """The segment with data of this number, from 1, is lost, and its first repeats as well."""
    count = itertools.count(1)
    lost: list[int] = []

    def matches(packet: Packet) -> bool:
        if not has_data(packet):
            return False
        if next(count) == which or (packet.offset in lost and len(lost) <= repeats):
            lost.append(packet.offset)
            return True
        return False

    return Fault("client", matches, "drop")


@scenario(
    "sse-loss-again",
    """The same as sse-stream, but a segment with a word is lost, and its first four repeats too:
    the stream stands still for a quarter of a second. Nobody but the network is to blame.""",
    form=KEYS,
    fire={"llm/stream-stall": (200, 500)},
    silent=("tcp/syn-retransmission", "http/slow-server", "llm/truncated-stream"),
)
def sse_loss_again(stage: Stage) -> None:
    """A stream with a loss that is repaired late."""
    ask(stage, [steady()], faults=(lost_again(15),))


@scenario(
    "sse-slow-first",
    """Two chat completions over TLS 1.3 whose first word is late. Of the first one, head and role
    come at 30 ms, the first word at 2.6 s; of the second one, all of them come after 2.4 s. Then a
    word every 25 ms.""",
    form=KEYS,
    fire={"llm/slow-first-token": (4_800, 5_050)},
    silent=("llm/stream-stall", "llm/truncated-stream", "tcp/syn-retransmission"),
)
def sse_slow_first(stage: Stage) -> None:
    """Late first words."""
    early_head = chunked(30 * MS, alone(chat(2_570 * MS, [25 * MS], SAID[:21])))
    late_head = chunked(2_400 * MS, alone(chat(0, [25 * MS], SAID[:21])))
    ask(stage, [early_head, late_head])


@scenario(
    "sse-slow-steady",
    """Near miss of stream-stall and of slow-first-token: the answer starts after 300 ms and then
    comes slowly but steadily, a word every 300 ms, for more than 4 s; token counts at the end.""",
    form=KEYS,
    silent=("llm/slow-first-token", "llm/stream-stall", "llm/truncated-stream"),
)
def sse_slow_steady(stage: Stage) -> None:
    """A slow, steady model."""
    ask(stage, [chunked(20 * MS, alone(chat(280 * MS, [300 * MS], SAID[:15], usage=True)))])


@scenario(
    "sse-records-16k",
    """A chat completion whose server writes in TLS records of 16 KB, each over 12 segments, on a
    link of 3 Mbit/s with a round trip of 60 ms: events wait for the end of their record, the
    first one (the window of 10 segments holds it up) by more than a round trip.""",
    form=KEYS,
    fire={"tls/record-wait": None},
    silent=("tcp/syn-retransmission", "llm/truncated-stream"),
)
def sse_records_16k(stage: Stage) -> None:
    """Large records."""
    groups = llm.gather(chat(330 * MS, [3 * MS], SAID * 7), 16_000)
    ask(stage, [chunked(20 * MS, groups)], rtt_ns=60 * MS, bits_per_second=3_000_000)


@scenario(
    "sse-big-records",
    """A chat completion whose events are large (13 KB of JSON each, in a TLS record of its own over
    ten segments) on a link where a record takes 40 ms to arrive: each event waits for the end of
    its record. Nothing is lost.""",
    form=KEYS,
    fire={"tls/record-wait": None},
    silent=("tcp/syn-retransmission", "llm/truncated-stream", "llm/slow-first-token"),
)
def sse_big_records(stage: Stage) -> None:
    """Large events."""
    filler = {"logprobs": "p" * 13_000}
    events = [
        llm.Event(llm.chat_event({"role": "assistant"}, **filler), "role"),
        *[
            llm.Event(llm.chat_event({"content": word}, **filler), "content", 150 * MS)
            for word in SAID[:12]
        ],
        llm.Event(llm.sse("[DONE]"), "end", 5 * MS),
    ]
    ask(stage, [chunked(30 * MS, alone(events))], bits_per_second=2_800_000)


@scenario(
    "sse-truncated",
    """Streams that end without their end marker, on two connections. On the first: an answer of a
    messages API that ends as it should (message_stop), then a chat completion whose content ends
    properly after 12 words, but without [DONE]. On the second one: a chat completion that the
    server ends with RST after 8 words.""",
    form=KEYS,
    fire={"llm/truncated-stream": None},
    silent=("llm/slow-first-token", "llm/stream-stall"),
)
def sse_truncated(stage: Stage) -> None:
    """Streams that end too early."""
    sound = chunked(20 * MS, alone(llm.messages(280 * MS, [25 * MS], SAID[:14])))
    short = chunked(20 * MS, alone(chat(280 * MS, [25 * MS], SAID)[:13]))
    events = chat(280 * MS, [25 * MS], SAID)[:9]
    reset = chunked(20 * MS, alone(events), whole=False, abort=True)
    ask(stage, [sound, short], [reset])


@scenario(
    "sse-closed",
    """The server closes the connection in the middle of a streamed chat completion: FIN after 14
    words, without the last chunk and without [DONE].""",
    form=KEYS,
    fire={"llm/truncated-stream": None},
    silent=("llm/slow-first-token", "llm/stream-stall"),
)
def sse_closed(stage: Stage) -> None:
    """A stream whose connection closes."""
    events = chat(280 * MS, [25 * MS], SAID)[:15]
    ask(stage, [chunked(20 * MS, alone(events), whole=False)])


@scenario(
    "sse-no-marker",
    """Near miss of truncated-stream: a server of no known API streams plain text without any end
    marker; the content ends properly.""",
    form=KEYS,
    silent=("llm/truncated-stream", "llm/stream-stall", "llm/slow-first-token"),
)
def sse_no_marker(stage: Stage) -> None:
    """Events of an API without markers."""
    events = [
        llm.Event(llm.sse(word), "content", 200 * MS if number == 0 else 30 * MS)
        for number, word in enumerate(SAID[:16])
    ]
    ask(stage, [chunked(20 * MS, alone(events))], target="/generate")


@scenario(
    "sse-cut",
    """Near miss of truncated-stream: the capture (not the stream) ends after 15 words.""",
    form=Form(keys=True, keeps=lambda number, _: number < 46),
    silent=("llm/truncated-stream", "llm/stream-stall", "llm/slow-first-token"),
)
def sse_cut(stage: Stage) -> None:
    """A capture that ends too early."""
    ask(stage, [steady()])


@scenario(
    "sse-capture-gap",
    """Near miss of truncated-stream: the capture lacks the last three packets of the answer, which
    the client acknowledged; the FIN is there.""",
    form=Form(keys=True, keeps=lambda number, _: number not in (58, 59, 60)),
    silent=("llm/truncated-stream", "llm/stream-stall", "llm/slow-first-token"),
    gap=True,
)
def sse_capture_gap(stage: Stage) -> None:
    """A capture without the end of the answer."""
    ask(stage, [steady()])


@scenario(
    "sse-anthropic",
    """Two answers of a messages API: message_start, ping, 24 content_block_delta, message_delta
    and message_stop; the second one ends with an error event (overloaded_error) after 5 words.""",
    form=KEYS,
    silent=("llm/slow-first-token", "llm/stream-stall"),
)
def sse_anthropic(stage: Stage) -> None:
    """Anthropic's API."""
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    whole = llm.messages(300 * MS, [25 * MS], SAID[:24])
    failed = [
        *llm.messages(200 * MS, [25 * MS], SAID[:24])[:8],
        llm.Event(llm.sse(error, "error"), "error", 30 * MS),
    ]
    ask(
        stage,
        [chunked(20 * MS, alone(whole)), chunked(20 * MS, alone(failed))],
        target="/v1/messages",
    )


@scenario(
    "sse-responses",
    """An answer of a responses API: response.created, response.in_progress, 24
    response.output_text.delta, response.completed.""",
    form=KEYS,
    silent=("llm/slow-first-token", "llm/stream-stall", "llm/truncated-stream"),
)
def sse_responses(stage: Stage) -> None:
    """OpenAI's newer API."""
    events = llm.responses(280 * MS, [25 * MS], SAID[:24])
    ask(stage, [chunked(20 * MS, alone(events))], target="/v1/responses")


@scenario(
    "sse-gzip",
    """The same as sse-stream in content coding gzip, flushed after each event: an event can be
    decoded when the record with its flush is complete.""",
    form=KEYS,
    silent=("llm/slow-first-token", "llm/stream-stall", "llm/truncated-stream"),
)
def sse_gzip(stage: Stage) -> None:
    """A compressed stream."""
    ask(stage, [chunked(20 * MS, alone(chat(330 * MS, GAPS, SAID)), gzip=True)])


def _over_http2(
    stage: Stage,
    streams: dict[str, list[llm.Event]],
    *faults: Fault,
    others: dict[str, http2.Answer] | None = None,
) -> None:
    """Streams that overlap on one HTTP/2 connection.

    Args:
        stage: where.
        streams: events by target; the second request is sent 200 ms after the first.
        faults: what the network does.
        others: answers by target of requests sent 90 ms after the first.
    """
    host, path = stage.server("api", "203.0.113.20", 30 * MS, 100_000_000)
    path.faults += faults
    cookie = ("set-cookie", f"session={COOKIE}")

    def route(method: str, target: str) -> http2.Answer:
        if others and target in others:
            return others[target]
        return llm.framed(20 * MS, alone(streams[target]), cookie)

    stage.serve_http2(host, 443, route, server_context(API, alpn="h2"))

    def run() -> Process:
        context = client_context(stage.key_log, alpn="h2")
        socket = yield from stage.open_socket(host, 443, context=context, server_name=API)
        assert socket is not None
        client = http2.Client(stage.simulation, socket)
        calls = []
        for number, target in enumerate(streams):
            if number:
                yield 110 * MS
            calls.append(client.send("POST", target, API, llm.REQUEST_FIELDS, llm.asking()))
            if number == 0:
                yield 90 * MS
                fields = llm.REQUEST_FIELDS[:3]
                calls += [client.send("GET", other, API, fields) for other in others or ()]
        for call in calls:
            yield from client.wait(call)
        yield 30 * MS
        client.close()

    stage.simulation.start(run())


JSON = ("content-type", "application/json")
LISTING = http2.answer(200, b'{"data":["%s"]}' % (b"m" * 900), JSON, think_ns=8 * MS)
SECOND = "/v1/chat/completions"


@scenario(
    "sse-h2",
    """Two chat completions and a short request on one HTTP/2 connection over TLS 1.3, overlapping:
    first words after 350 and 230 ms, then steadily.""",
    form=KEYS,
    silent=(
        "llm/slow-first-token",
        "llm/stream-stall",
        "llm/truncated-stream",
        "capture/not-decrypted",
        "tcp/syn-retransmission",
        "http/slow-server",
    ),
)
def sse_h2(stage: Stage) -> None:
    """Streams over HTTP/2."""
    streams = {
        TARGET: chat(330 * MS, GAPS, SAID, usage=True),
        SECOND: chat(210 * MS, GAPS, SAID[:16]),
    }
    _over_http2(stage, streams, others={"/v1/models": LISTING})


@scenario(
    "sse-h2-stall",
    """A chat completion on an HTTP/2 connection; the model stops for 700 ms after the 10th word,
    while another stream on the connection goes on with a download of 40 KB: bytes arrive all the
    time, but the stall is the server's.""",
    form=KEYS,
    fire={"llm/stream-stall": (670, 710)},
    silent=("llm/slow-first-token", "llm/truncated-stream", "tcp/syn-retransmission"),
)
def sse_h2_stall(stage: Stage) -> None:
    """A stream that stalls while another does not."""
    events = chat(330 * MS, [25 * MS] * 9 + [700 * MS, 25 * MS], SAID[:20])
    writes = [Write(b"d" * 1_000, 30 * MS) for _ in range(40)]
    kind = ("content-type", "application/octet-stream")
    download = http2.Answer(10 * MS, 200, [kind], writes)
    _over_http2(stage, {TARGET: events}, others={"/v1/files/7/content": download})


@scenario(
    "sse-h2-loss",
    """Two chat completions at the same time on one HTTP/2 connection. A segment with a word of the
    first one is lost, and its first four repeats as well. The words of the second one that came
    meanwhile wait behind it.""",
    form=KEYS,
    fire={"llm/stream-stall": (200, 700)},
    silent=("llm/slow-first-token", "llm/truncated-stream", "http/slow-server"),
)
def sse_h2_loss(stage: Stage) -> None:
    """Streams over HTTP/2 with a loss."""
    streams = {TARGET: chat(330 * MS, GAPS, SAID), SECOND: chat(210 * MS, GAPS, SAID[:28])}
    _over_http2(stage, streams, lost_again(28))
