"""The incident that `scripts/analyze` shows: an agent on a problem host, slow in many ways."""

from __future__ import annotations

import json

from capture_maker.dns import Answer
from capture_maker.http import Client, Reply, reply, request
from capture_maker.llm import WORDS, alone, chat, chunked
from capture_maker.network import Fault
from capture_maker.scenarios.basic import has_data, is_syn
from capture_maker.simulation import MS, SECOND, Process
from capture_maker.stage import Form, Stage, scenario
from capture_maker.tls import client_context, server_context

LLM, TOOLS, FLAGS = "api.llm.example", "tools.svc.example", "flags.svc.example"


def chat_stream(
    first_token_ns: int, gaps_ns: list[int], words: list[str], head_ns: int | None = None
) -> Reply:
    """A chat completion, streamed: head and role after `head_ns`, then a word an event.

    Args:
        first_token_ns: from the request to the first word.
        gaps_ns: pauses before the second, third ... word; the last one is used on.
        words: the answer.
        head_ns: from the request to the head of the response; None: just before the first
            word.
    """
    head_ns = first_token_ns - 1 * MS if head_ns is None else head_ns
    return chunked(head_ns, alone(chat(first_token_ns - head_ns, gaps_ns, words)))


def chat_request(host: str, prompt: str, turn: int) -> bytes:
    """A request for a chat completion."""
    content = json.dumps(
        {
            "model": "example-large-2",
            "stream": True,
            "messages": [
                {"role": "system", "content": "You are the order desk's assistant. " * 12},
                {"role": "user", "content": f"{prompt} (turn {turn})"},
            ],
        }
    ).encode()
    return request(
        "POST",
        "/v1/chat/completions",
        host,
        "User-Agent: agent/3.2 python-httpx/0.27",
        "Accept: text/event-stream",
        "Authorization: Bearer sk-example-000000000000",
        "Content-Type: application/json",
        content=content,
    )


def _llm_route() -> object:
    turns = iter(
        [
            chat_stream(2_600 * MS, [22 * MS] * 19 + [700 * MS] + [24 * MS], WORDS),
            chat_stream(420 * MS, [25 * MS], WORDS[:24]),
            chat_stream(310 * MS, [21 * MS], WORDS[8:40]),
        ]
    )

    def route(method: str, target: str) -> Reply:
        if target.endswith("/models"):
            listing = json.dumps({"data": [{"id": f"example-{n}"} for n in range(40)]}).encode()
            return reply("200 OK", listing, "Content-Type: application/json", think_ns=18 * MS)
        return next(turns)

    return route


def _tools_route(method: str, target: str) -> Reply:
    think = {"/v1/stock": 900, "/v1/orders": 35, "/v1/export": 20}
    path = target.split("?")[0]
    size = 60_000 if path == "/v1/export" else 700
    body = b'{"rows":"' + b"r" * size + b'"}'
    return reply(
        "200 OK", body, "Content-Type: application/json", think_ns=think.get(path, 12) * MS
    )


def _tool(method: str, target: str, content: bytes = b"") -> bytes:
    return request(
        method,
        target,
        TOOLS,
        "User-Agent: agent/3.2 python-httpx/0.27",
        "Accept: application/json",
        "X-Api-Key: tool-key-000000",
        content=content,
    )


@scenario(
    "llm-incident",
    """An order desk's agent is slow. Captured on its host: names are looked up (tools.svc.example
    takes 600 ms); HTTPS to api.llm.example: a streamed chat completion whose first token takes
    2.6 s and which stalls 700 ms in the middle, and two prompt ones; plain HTTP to
    tools.svc.example: /v1/stock thinks 900 ms, the answer of /v1/export loses one segment;
    flags.svc.example: the SYN is lost and repeated after 1 s.""",
    form=Form(keys=True),
    fire={
        "http/slow-server": (890, 915),
        "llm/slow-first-token": (2_590, 2_615),
        "llm/stream-stall": (670, 710),
        "tcp/syn-retransmission": (990, 1_010),
        "dns/slow-lookup": (595, 610),
        "tcp/fast-retransmission": None,
    },
    silent=("tcp/retransmission-timeout", "tcp/zero-window-stall", "capture/not-decrypted"),
)
def llm_incident(stage: Stage) -> None:
    """An agent's turn, with everything that can be slow."""
    llm, _ = stage.server("llm", "203.0.113.40", 28 * MS, 100_000_000)
    tools, tools_path = stage.server("tools", "192.0.2.80", 9 * MS, 50_000_000)
    flags, flags_path = stage.server("flags", "192.0.2.90", 7 * MS)
    flags_path.faults.append(Fault("server", is_syn, "drop", (1,)))
    # The 21st data segment to the client is in the middle of the export.
    tools_path.faults.append(
        Fault("client", lambda p: has_data(p) and p.offset > 1_000, "drop", (24,))
    )
    stage.serve_tls(llm, 443, _llm_route(), server_context(LLM))  # type: ignore[arg-type]
    stage.serve(tools, 80, _tools_route)

    def flags_route(method: str, target: str) -> Reply:
        return reply("200 OK", b'{"new-router":true}', think_ns=2 * MS)

    stage.serve(flags, 80, flags_route)
    resolver = stage.resolver(
        {
            (LLM, "A"): Answer(("203.0.113.40",), 3 * MS),
            (LLM, "AAAA"): Answer((), 4 * MS),
            (TOOLS, "A"): Answer(("192.0.2.80",), 600 * MS),
            (TOOLS, "AAAA"): Answer((), 2 * MS),
            (FLAGS, "A"): Answer(("192.0.2.90",), 2 * MS),
            (FLAGS, "AAAA"): Answer((), 2 * MS),
        }
    )
    context = client_context(stage.key_log)

    def look_up(name: str) -> Process:
        yield from resolver.ask(stage.client, stage.ledger, name, ("A", "AAAA"))
        yield 400_000

    def flag_check() -> Process:
        yield from look_up(FLAGS)
        http = yield from stage.open(flags, 80)
        assert http
        yield from http.call(request("GET", "/flags/order-desk", FLAGS, "User-Agent: agent/3.2"))
        yield 1 * SECOND
        http.close()

    def warm_up() -> Process:
        """Lists the models on a connection of its own, beside the chat."""
        http = yield from stage.open(llm, 443, context=context, server_name=LLM)
        assert http
        yield from http.call(request("GET", "/v1/models", LLM, "User-Agent: agent/3.2"))
        yield 40 * MS
        http.close()

    def tool_calls(http: Client) -> Process:
        yield from http.call(_tool("GET", "/v1/orders?customer=C-1042&open=true"))
        yield 6 * MS
        yield from http.call(_tool("POST", "/v1/stock", b'{"sku":["A-17","B-4"],"site":"north"}'))
        yield 11 * MS
        yield from http.call(_tool("GET", "/v1/export?customer=C-1042"))
        yield 8 * MS
        yield from http.call(_tool("PUT", "/v1/delivery/88121", b'{"day":"thursday"}'))

    def agent() -> Process:
        yield from look_up(LLM)
        stage.simulation.start(warm_up(), 2 * MS)
        chat = yield from stage.open(llm, 443, context=context, server_name=LLM)
        assert chat
        yield from chat.call(chat_request(LLM, "Why is order 88121 late?", 1))
        yield 15 * MS
        yield from look_up(TOOLS)
        http = yield from stage.open(tools, 80)
        assert http
        yield from tool_calls(http)
        yield 9 * MS
        yield from chat.call(chat_request(LLM, "Summarise what the tools said.", 2))
        yield 20 * MS
        yield from http.call(_tool("POST", "/v1/notes", b'{"order":88121,"note":"recount"}'))
        yield 5 * MS
        yield from chat.call(chat_request(LLM, "Write the message to the customer.", 3))
        yield 30 * MS
        yield from http.call(_tool("POST", "/v1/messages", b'{"to":"C-1042","text":"..."}'))
        http.close()
        chat.close()

    stage.simulation.start(agent())
    stage.simulation.start(flag_check(), 120 * MS)
