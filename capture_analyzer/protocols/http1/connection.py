"""Both directions of a connection that speaks HTTP/1.x, watched together.

Requests are read by their own framing; how a response is framed depends on its request
(RFC 9112, section 6.3), so responses are read beside them. What can't be read is skipped up
to the next start line: a passive parser gives up a message, never the connection.
"""

from __future__ import annotations

from typing import Final

from capture_analyzer.model.messages import Message
from capture_analyzer.model.quick_dataclass import quick_dataclass
from capture_analyzer.protocols.http1 import content as framing
from capture_analyzer.protocols.http1.direction import Direction, Head, Located, Parsed, Problem
from capture_analyzer.protocols.http1.head import FieldLines
from capture_analyzer.protocols.http1.source import Source

__all__ = ["MAX_MESSAGES", "Located", "Parsed", "Problem", "parse"]

MAX_MESSAGES: Final = 1 << 20
"""Messages read of one direction: more than any capture that fits the rest of the analysis."""


def parse(client: Source, server: Source, lines: FieldLines) -> Parsed:
    """Read the messages of both directions.

    Args:
        client: the client's direction.
        server: the server's.
        lines: reads header sections.
    """
    return _Connection(client, server, lines).parse()


@quick_dataclass
class _Request:
    """A request as pairing and response framing need it."""

    message: Message
    method: str
    may_tunnel: bool


class _Connection:
    def __init__(self, client: Source, server: Source, lines: FieldLines) -> None:
        self.parsed = Parsed()
        self.lines = lines
        self.client = Direction(client, lines, self.parsed)
        self.server = Direction(server, lines, self.parsed)
        self.requests: list[_Request] = []
        self.responses: list[Message] = []

    def parse(self) -> Parsed:
        server = self.server
        waiting = 0  # the oldest request without a response
        interim: list[Message] = []
        blocked = False  # the last request may open a tunnel
        tunnel = False
        first = server.unread_begin()
        if first is not None:
            self.responses.append(first)
        while not tunnel:
            while not blocked and (request := self.next_request()) is not None:
                self.requests.append(request)
                blocked = request.may_tunnel
            head = server.next_head()
            if head is None:
                break
            opening_ns = interim[0].seen_ns if interim else head.message.seen_ns
            answered = self.answered(waiting, opening_ns, head.skipped)
            request = self.requests[answered] if answered >= 0 else None
            response, is_tunnel = self.response(head, request)
            status = response.status or 0
            if status < 200 and status != 101:
                interim.append(response)
                continue
            response.interim, interim = interim, []
            if request is not None:
                response.pair_no = request.message.pair_no = answered
                waiting = answered + 1
                if blocked and waiting == len(self.requests):
                    blocked, tunnel = False, is_tunnel
            else:
                tunnel = is_tunnel
            response.upgrade = tunnel
            self.responses.append(response)
        if blocked and not tunnel and self.requests[-1].method != "CONNECT":
            # No answer to it was captured; what looks like requests are some.
            while (request := self.next_request()) is not None:
                self.requests.append(request)
        if interim and waiting < len(self.requests):
            self.requests[waiting].message.interim = interim
        self.parsed.messages = [request.message for request in self.requests] + self.responses
        return self.parsed

    def answered(self, waiting: int, seen_ns: int, skipped: bool) -> int:
        """Index of the request that a response answers, -1 if it was not captured.

        A response that was seen before a request does not answer it. Behind a stretch that
        the capture lacks, it answers the last request that was seen before it.
        """
        requests = self.requests
        if waiting >= len(requests) or requests[waiting].message.seen_ns > seen_ns:
            return -1
        while (
            skipped
            and waiting + 1 < len(requests)
            and requests[waiting + 1].message.seen_ns <= seen_ns
        ):
            waiting += 1
        return waiting

    def next_request(self) -> _Request | None:
        head = self.client.next_head()
        if head is None or len(self.requests) >= MAX_MESSAGES:
            return None
        message, section = head.message, head.section
        method, target = head.line
        message.method = method
        message.target = self.lines.reduce.target(target)
        authority = section.host
        if method == "CONNECT":
            authority = target
            message.target = self.lines.reduce.authority(target)
        elif "://" in target[:16]:
            # absolute-form (RFC 9112, section 3.2.2)
            authority = target.partition("://")[2].partition("/")[0].partition("?")[0]
        if authority:
            message.authority = self.lines.reduce.authority(authority)
            if self.parsed.server_name is None:
                self.parsed.server_name = _host(authority)
        kind, length, problem = framing.request_framing(method, section)
        self.client.add_content(head, kind, length, problem)
        return _Request(message, method, method == "CONNECT" or section.upgrade)

    def response(self, head: Head, request: _Request | None) -> tuple[Message, bool]:
        """The response with its content, and whether a tunnel follows it."""
        message = head.message
        status = int(head.line[0])
        message.status = status
        method = request.method if request else None
        kind, length, problem = framing.response_framing(status, method, head.section)
        if request is None and kind in ("length", "chunked") and self.server.begins(head.end):
            kind = "none"  # the request, which was not captured, must have been a HEAD
        self.server.add_content(head, kind, length, problem)
        return message, kind == "tunnel"


def _host(authority: str) -> str | None:
    """The host of an authority, without port and brackets."""
    authority = authority.rpartition("@")[2]
    if authority.startswith("["):
        return authority[1:].partition("]")[0] or None
    return authority.partition(":")[0] or None
