"""An HTTP/1.1 server with scripted replies, and a client that follows the script."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Generator, Sequence
from typing import Protocol

from capture_maker.network import work_ns
from capture_maker.simulation import Process, Signal, Simulation
from capture_maker.tcp import ConnectionResetError_, Endpoint
from capture_maker.tls import TlsSocket
from capture_maker.truth import Call

Socket = Endpoint | TlsSocket


@dataclasses.dataclass(slots=True)
class Write:
    """One write of a server's program: so long after the one before it.

    Attributes:
        data: what is written.
        after_ns: the pause before it.
        events: (offset in `data` just behind its last byte, kind) of each server-sent event
            that ends in it.
    """

    data: bytes
    after_ns: int = 0
    events: tuple[tuple[int, str], ...] = ()


@dataclasses.dataclass(slots=True)
class Reply:
    """What the server does with a request.

    Attributes:
        think_ns: from the whole request (or its head, if `early`) to the first write.
        writes: the response, head included.
        interim: a 1xx response sent as soon as the head of the request is there.
        early: answer without waiting for the request's content.
        close: close the connection afterwards.
        abort: reset the connection afterwards.
        kind: "http" or "sse".
        complete: whether the response is whole by its own framing.
        then: what runs the connection after the response (an upgrade or a tunnel).
    """

    think_ns: int
    writes: Sequence[Write]
    interim: bytes = b""
    early: bool = False
    close: bool = False
    abort: bool = False
    kind: str = "http"
    complete: bool = True
    then: Callable[[Socket], Process] | None = None


class Route(Protocol):
    """Chooses the reply to a request."""

    def __call__(self, method: str, target: str) -> Reply:
        """The reply to a request."""


def endpoint_of(socket: Socket) -> Endpoint:
    """The TCP endpoint under a socket."""
    return socket.endpoint if isinstance(socket, TlsSocket) else socket


def response(
    status: str,
    content: bytes = b"",
    *fields: str,
    length: bool = True,
) -> bytes:
    """A response with its head."""
    lines = [f"HTTP/1.1 {status}", "Server: example-httpd", *fields]
    if length:
        lines.append(f"Content-Length: {len(content)}")
    return "\r\n".join([*lines, "", ""]).encode("utf-8", "surrogateescape") + content


def request(method: str, target: str, host: str, *fields: str, content: bytes = b"") -> bytes:
    """A request with its head."""
    lines = [f"{method} {target} HTTP/1.1", f"Host: {host}", *fields]
    if content:
        lines.append(f"Content-Length: {len(content)}")
    return "\r\n".join([*lines, "", ""]).encode("utf-8", "surrogateescape") + content


def reply(status: str, content: bytes = b"", *fields: str, think_ns: int = 0) -> Reply:
    """A reply in one write."""
    return Reply(think_ns, [Write(response(status, content, *fields))])


def chunk(data: bytes) -> bytes:
    """A chunk of the chunked coding (RFC 9112, section 7.1)."""
    return b"%x\r\n%s\r\n" % (len(data), data)


class Reader:
    """Takes bytes from a socket as a parser wants them."""

    def __init__(self, socket: Socket) -> None:
        self.socket = socket
        self.data = b""
        self.taken = 0  # plaintext bytes handed out

    def until(self, mark: bytes) -> Generator[Signal, None, bytes | None]:
        """Read up to and with a mark; None at the end of the stream."""
        while mark not in self.data:
            more = yield from self.socket.receive()
            if not more:
                return None
            self.data += more
        head, _, self.data = self.data.partition(mark)
        self.taken += len(head) + len(mark)
        return head + mark

    def exactly(self, count: int) -> Generator[Signal, None, bytes | None]:
        """Read so many bytes."""
        while len(self.data) < count:
            more = yield from self.socket.receive()
            if not more:
                return None
            self.data += more
        head, self.data = self.data[:count], self.data[count:]
        self.taken += count
        return head


def serve(simulation: Simulation, socket: Socket, route: Route) -> Process:
    """Answer requests on one connection, one after the other."""
    endpoint = endpoint_of(socket)
    connection = endpoint.connection
    reader = Reader(socket)
    sent = 0
    while True:
        try:
            head = yield from reader.until(b"\r\n\r\n")
        except ConnectionResetError_:
            return
        if head is None:
            yield work_ns("close", connection.number)
            socket.close()
            return
        method, target, _ = head.split(b"\r\n")[0].decode("utf-8", "surrogateescape").split(" ", 2)
        answer = route(method, target)
        call = connection.calls[connection.taken]
        connection.taken += 1
        if answer.interim:
            call.interim.append(int(answer.interim.split()[1]))
            yield work_ns("interim", connection.number)
            socket.send(answer.interim)
            sent += len(answer.interim)
        before = sent
        length = 0
        for line in head.lower().split(b"\r\n"):
            if line.startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        if not answer.early:
            yield from reader.exactly(length)
            call.received_ns = simulation.now
        yield answer.think_ns + work_ns("answer", connection.number, connection.taken)
        start = end = None
        for number_, write in enumerate(answer.writes):
            if write.after_ns:
                yield write.after_ns
            if number_ == 0:
                call.answered_ns = simulation.now
                call.status = int(write.data.split()[1])
                call.kind, call.complete = answer.kind, answer.complete
            if number_ == len(answer.writes) - 1:
                call.response_plain_end = sent + len(write.data)
            a, end = socket.send(write.data)
            start = a if start is None else start
            sent += len(write.data)
            call.response = (start, end)
            call.response_length = sent - before
            for offset, kind in write.events:
                call.events.append((socket.locate(a, offset - 1) + 1, kind))
        call.done = True
        if answer.early:
            yield from reader.exactly(length)
        if answer.then:
            yield from answer.then(socket)
            return
        if answer.abort:
            call.ended = "rst"
            endpoint.abort()
            return
        if answer.close:
            if not answer.complete:
                call.ended = "fin"
            socket.close()
            return


class Client:
    """The client's side of one connection."""

    def __init__(self, simulation: Simulation, socket: Socket) -> None:
        self.simulation = simulation
        self.socket = socket
        self.endpoint = endpoint_of(socket)
        self.read = 0  # plaintext bytes

    def send(self, data: bytes, name: str = "") -> Call:
        """Send a request (or its first part; the rest by `more`)."""
        first = data.split(b"\r\n")[0].decode("utf-8", "surrogateescape").split(" ")
        call = Call(name or first[1], first[0], first[1])
        self.endpoint.connection.calls.append(call)
        call.request = self.socket.send(data)
        call.request_length = len(data)
        return call

    def more(self, call: Call, data: bytes) -> None:
        """Send more of a request."""
        call.request = (call.request[0], self.socket.send(data)[1])
        call.request_length += len(data)

    def wait(self, call: Call) -> Generator[int | Signal, None, bool]:
        """Read until the response is complete; False if the stream ended before."""
        while not (call.response_plain_end and self.read >= call.response_plain_end):
            data = yield from self.socket.receive()
            if not data:
                return False
            self.read += len(data)
        return True

    def call(self, data: bytes, name: str = "") -> Generator[int | Signal, None, Call]:
        """Send a request and wait for its response."""
        sent = self.send(data, name)
        yield from self.wait(sent)
        yield work_ns("read", self.endpoint.connection.number, len(self.endpoint.buffer))
        return sent

    def close(self) -> None:
        """Close the connection."""
        self.socket.close()
