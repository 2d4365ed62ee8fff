"""Streamed answers: healthy ones of every API, and all that can go wrong with them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from capture_maker import llm
from capture_maker.http import Client, Reply
from capture_maker.http2 import Client as Http2Client
from capture_maker.llm import ANSWER_NEEDLE, COOKIE, QUERY, WORDS, alone, chat, chunked
from capture_maker.network import Fault
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
    replies: Iterable[Reply],
    *,
    target: str = TARGET,
    faults: tuple[Fault, ...] = (),
    rtt_ns: int = 30 * MS,
    bits_per_second: int = 100_000_000,
) -> None:
    """One request for each reply, one after the other, on one TLS 1.3 connection."""
    host, path = stage.server("api", "203.0.113.20", rtt_ns, bits_per_second)
    path.faults += faults
    given = list(replies)
    turns = iter(given)
    stage.serve_tls(host, 443, lambda method, target: next(turns), server_context(API))

    def run() -> Process:
        context = client_context(stage.key_log)
        http = yield from stage.open(host, 443, context=context, server_name=API)
        assert isinstance(http, Client)
        for _ in given:
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


@scenario(
    "sse-loss-twice",
    """The same as sse-stream, but a segment with a word is lost, and its retransmission too: the
    stream stands still until the retransmission timer repairs it. Nobody but the network is to
    blame.""",
    form=KEYS,
    fire={"llm/stream-stall": (200, 500)},
    silent=("tcp/syn-retransmission", "http/slow-server", "llm/truncated-stream"),
)
def sse_loss_twice(stage: Stage) -> None:
    """A stream with a loss that is repaired late."""
    lost: list[int] = []

    def segment(packet: object) -> bool:
        """The 15th segment with data, and its first repeat."""
        if not has_data(packet):  # type: ignore[arg-type]
            return False
        offset = packet.offset  # type: ignore[attr-defined]
        count = next(counter)
        if count == 15:
            lost.append(offset)
            return True
        if lost and offset == lost[0] and len(lost) == 1:
            lost.append(offset)
            return True
        return False

    counter = itertools.count(1)
    ask(stage, [steady()], faults=(Fault("client", segment, "drop"),))


@scenario(
    "sse-slow-first-token",
    """Two chat completions over TLS 1.3. The model needs 2.6 s to the first word of the first one,
    whose head and role come at 20 ms; the second one starts after 300 ms.""",
    form=KEYS,
    fire={"llm/slow-first-token": (2_500, 2_650)},
    silent=("llm/stream-stall", "llm/truncated-stream", "tcp/syn-retransmission"),
)
def sse_slow_first_token(stage: Stage) -> None:
    """A late first word."""
    late = chunked(20 * MS, alone(chat(2_580 * MS, [22 * MS], SAID)))
    prompt = chunked(20 * MS, alone(chat(280 * MS, [22 * MS], SAID[:12])))
    ask(stage, [late, prompt])


@scenario(
    "sse-slow-head",
    """A chat completion whose head comes only with its first word, after 2.4 s; then a word every
    20 ms.""",
    form=KEYS,
    fire={"llm/slow-first-token": (2_350, 2_450)},
    silent=("llm/stream-stall", "llm/truncated-stream"),
)
def sse_slow_head(stage: Stage) -> None:
    """Head and first word are late together."""
    ask(stage, [chunked(2_400 * MS, alone(chat(1 * MS, [20 * MS], SAID)))])


@scenario(
    "sse-long",
    """Near miss of slow-first-token and stream-stall: a long answer that starts after 250 ms and
    then comes slowly but steadily, a word every 90 to 110 ms, for 6 s.""",
    form=KEYS,
    silent=("llm/slow-first-token", "llm/stream-stall", "llm/truncated-stream"),
)
def sse_long(stage: Stage) -> None:
    """A slow, steady model."""
    words = (SAID * 2)[:60]
    gaps = [90 * MS, 110 * MS, 100 * MS] * 20
    ask(stage, [chunked(20 * MS, alone(chat(230 * MS, gaps, words, usage=True)))])


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
    "sse-truncated",
    """The server closes the connection in the middle of a streamed chat completion: FIN after 14
    words, without the last chunk and without [DONE].""",
    form=KEYS,
    fire={"llm/truncated-stream": None},
    silent=("llm/slow-first-token", "llm/stream-stall"),
)
def sse_truncated(stage: Stage) -> None:
    """A stream that ends too early."""
    events = chat(280 * MS, [25 * MS], SAID)[:15]
    ask(stage, [chunked(20 * MS, alone(events), whole=False)])


@scenario(
    "sse-reset",
    "The same as sse-truncated, but the server resets the connection (RST).",
    form=KEYS,
    fire={"llm/truncated-stream": None},
    silent=("llm/slow-first-token", "llm/stream-stall"),
)
def sse_reset(stage: Stage) -> None:
    """A stream that is reset."""
    events = chat(280 * MS, [25 * MS], SAID)[:15]
    ask(stage, [chunked(20 * MS, alone(events), whole=False, abort=True)])


@scenario(
    "sse-no-done",
    """The chat completion's chunked content ends properly, but without finish_reason and [DONE]:
    something between cut the stream off.""",
    form=KEYS,
    fire={"llm/truncated-stream": None},
    silent=("llm/slow-first-token", "llm/stream-stall"),
)
def sse_no_done(stage: Stage) -> None:
    """A stream that ends by its framing only."""
    ask(stage, [chunked(20 * MS, alone(chat(280 * MS, [25 * MS], SAID)[:15]))])


@scenario(
    "sse-generic",
    """Near miss of truncated-stream: a server of no known API streams events without any end
    marker; the content ends properly.""",
    form=KEYS,
    silent=("llm/truncated-stream", "llm/stream-stall", "llm/slow-first-token"),
)
def sse_generic(stage: Stage) -> None:
    """Events of an API without markers."""
    events = [
        llm.Event(llm.sse({"text": word}), "content", 200 * MS if number == 0 else 30 * MS)
        for number, word in enumerate(SAID[:16])
    ]
    ask(stage, [chunked(20 * MS, alone(events))], target="/generate")


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


def _over_http2(stage: Stage, faults: tuple[Fault, ...] = ()) -> None:
    host, path = stage.server("api", "203.0.113.20", 30 * MS, 100_000_000)
    path.faults += faults
    events = {1: chat(330 * MS, GAPS, SAID, usage=True), 2: chat(210 * MS, GAPS, SAID[:16])}
    turns = iter(events.values())

    def route(method: str, target: str) -> llm.http2.Answer:
        if method == "GET":
            listing = b'{"data":["%s"]}' % (b"m" * 900)
            json = ("content-type", "application/json")
            return llm.http2.answer(200, listing, json, think_ns=8 * MS)
        return llm.framed(20 * MS, alone(next(turns)), ("set-cookie", f"session={COOKIE}"))

    stage.serve_http2(host, 443, route, server_context(API, alpn="h2"))

    def run() -> Process:
        context = client_context(stage.key_log, alpn="h2")
        socket = yield from stage.open_socket(host, 443, context=context, server_name=API)
        assert socket is not None
        client = Http2Client(stage.simulation, socket)
        first = client.send("POST", TARGET, API, llm.REQUEST_FIELDS, llm.asking(), name="chat 1")
        yield 90 * MS
        yield from client.call("GET", "/v1/models", API, llm.REQUEST_FIELDS[:3])
        yield 110 * MS
        second = client.send("POST", TARGET, API, llm.REQUEST_FIELDS, llm.asking(), name="chat 2")
        yield from client.wait(second)
        yield from client.wait(first)
        yield 30 * MS
        client.close()

    stage.simulation.start(run())


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
    _over_http2(stage)


@scenario(
    "sse-h2-loss",
    """The same as sse-h2, but one segment with a word is lost: the words of the other stream wait
    behind it as well.""",
    form=KEYS,
    silent=("llm/slow-first-token", "llm/truncated-stream", "http/slow-server"),
)
def sse_h2_loss(stage: Stage) -> None:
    """Streams over HTTP/2 with a loss."""
    _over_http2(stage, (Fault("client", has_data, "drop", (22,)),))
