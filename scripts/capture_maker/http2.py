"""HTTP/2 endpoints with the h2 library: a server with scripted answers, and a client.

Each frame with a message's bytes is a write of its own, so that it is known where in the TCP
stream a message begins and ends. GOAWAY is handled here: h2 takes nothing more after one,
but a connection that is shut down gracefully still ends its open streams (RFC 9113, 6.8).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Generator, Sequence

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import DataReceived, RequestReceived, ResponseReceived, StreamEnded, StreamReset
from h2.settings import SettingCodes, Settings
from hyperframe.frame import GoAwayFrame

from capture_maker.http import Socket, Write, endpoint_of
from capture_maker.network import work_ns
from capture_maker.simulation import Process, Signal, Simulation
from capture_maker.tcp import ConnectionResetError_
from capture_maker.truth import Call

FRAME_HEADER = 9
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_GOAWAY = 0x07

Fields = Sequence[tuple[str, str]]


@dataclasses.dataclass(slots=True)
class Answer:
    """What the server does with a request.

    Attributes:
        think_ns: from the whole request to the head of the response.
        status: of the final response.
        fields: its header fields.
        writes: its content; the first one goes out with the head if it has no pause.
        interim: status of a 1xx response sent when the request is complete.
        trailers: its trailer section.
        kind: "http" or "sse".
        reset: error code of the RST_STREAM that the server ends it with.
    """

    think_ns: int
    status: int = 200
    fields: Fields = ()
    writes: Sequence[Write] = ()
    interim: int | None = None
    trailers: Fields = ()
    kind: str = "http"
    reset: ErrorCodes | None = None


Route = Callable[[str, str], Answer]


def answer(status: int, content: bytes, *fields: tuple[str, str], think_ns: int = 0) -> Answer:
    """An answer in one write."""
    length = ("content-length", str(len(content)))
    return Answer(
        think_ns, status, [("server", "example-httpd"), *fields, length], [Write(content)]
    )


class _Endpoint:
    """What both sides have in common: the connection's state, frames in, frames out."""

    def __init__(self, simulation: Simulation, socket: Socket, *, client: bool) -> None:
        self.simulation = simulation
        self.socket = socket
        self.endpoint = endpoint_of(socket)
        self.connection = self.endpoint.connection
        self.connection.http2 = True
        config = H2Configuration(client_side=client, header_encoding="utf-8")
        self.state = H2Connection(config)
        self.changed = Signal(simulation)  # a window opened, a stream ended
        self.gone: int | None = None  # GOAWAY: the last stream that the peer takes
        self._received = b""
        self._preface = not client

    def flush(self) -> tuple[int, int]:
        """Write what h2 has to send; returns the span of TCP stream offsets."""
        data = self.state.data_to_send()
        if not data:
            return len(self.endpoint.buffer), len(self.endpoint.buffer)
        return self.socket.send(data)

    def frames(self, data: bytes) -> bytes:
        """Whole frames of what was received, without GOAWAY, which is taken note of."""
        self._received += data
        kept = b""
        if self._preface and len(self._received) >= len(PREFACE):
            kept, self._received = PREFACE, self._received[len(PREFACE) :]
            self._preface = False
        while not self._preface and len(self._received) >= FRAME_HEADER:
            size = FRAME_HEADER + int.from_bytes(self._received[:3], "big")
            if len(self._received) < size:
                break
            frame, self._received = self._received[:size], self._received[size:]
            if frame[3] == _GOAWAY:
                self.gone = int.from_bytes(frame[9:13], "big") & 0x7FFFFFFF
            else:
                kept += frame
        return kept

    def receive(self) -> Generator[Signal, None, list[object] | None]:
        """Wait for events; None at the end of the connection."""
        try:
            data = yield from self.socket.receive()
        except ConnectionResetError_:
            return None
        if not data:
            return None
        kept = self.frames(data)
        events: list[object] = list(self.state.receive_data(kept)) if kept else []
        for event in events:
            if isinstance(event, DataReceived) and event.flow_controlled_length:
                self.state.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        self.flush()
        return events


class Server(_Endpoint):
    """Answers the streams of one connection, each in a process of its own."""

    def __init__(
        self,
        simulation: Simulation,
        socket: Socket,
        route: Route,
        settings: dict[SettingCodes, int] | None = None,
    ) -> None:
        super().__init__(simulation, socket, client=False)
        self.route = route
        self.last_stream: int | None = None  # as our own GOAWAY said
        if settings:
            self.state.local_settings = Settings(client=False, initial_values=settings)
        self._calls: dict[int, Call] = {}

    def run(self) -> Process:
        """Serve until the client closes."""
        self.state.initiate_connection()
        self.flush()
        while True:
            events = yield from self.receive()
            if events is None:
                yield work_ns("close", self.connection.number)
                self.socket.close()
                return
            for event in events:
                if isinstance(event, RequestReceived):
                    own = [c for c in self.connection.calls if c.stream_id == event.stream_id]
                    self._calls[event.stream_id] = own[0]
                elif isinstance(event, StreamEnded):
                    call = self._calls[event.stream_id]
                    call.received_ns = self.simulation.now
                    self.simulation.start(self._answer(call, self.route(call.method, call.target)))
            self.changed.fire()

    def go_away(self, last_stream: int, code: ErrorCodes = ErrorCodes.NO_ERROR) -> None:
        """Take no streams above this one; those below go on."""
        frame = GoAwayFrame(0)
        frame.last_stream_id, frame.error_code = last_stream, int(code)
        self.last_stream = last_stream
        self.flush()
        self.socket.send(frame.serialize())

    def _answer(self, call: Call, given: Answer) -> Process:
        stream = call.stream_id
        assert stream is not None
        if given.interim:
            yield work_ns("interim", self.connection.number, stream)
            call.interim.append(given.interim)
            self.state.send_headers(stream, [(":status", str(given.interim))])
            self.flush()
        yield given.think_ns + work_ns("answer", self.connection.number, stream)
        if self._over(stream):
            return
        call.answered_ns, call.status = self.simulation.now, given.status
        call.kind = given.kind
        head = [(":status", str(given.status)), *given.fields]
        self.state.send_headers(stream, head, end_stream=not given.writes and not given.trailers)
        if not given.writes or given.writes[0].after_ns:
            call.response = self.flush()
        for number, write in enumerate(given.writes):
            if write.after_ns:
                yield write.after_ns
            last = number == len(given.writes) - 1 and given.reset is None and not given.trailers
            if not (yield from self._write(call, stream, write, last=last)):
                return
        if given.trailers:
            self.state.send_headers(stream, list(given.trailers), end_stream=True)
            self._note(call, self.flush())
        if given.reset is not None:
            self.state.reset_stream(stream, given.reset)
            call.reset, call.reset_code = (False, self.flush()[1]), int(given.reset)
        call.done = True

    def _write(self, call: Call, stream: int, write: Write, *, last: bool) -> Process:
        """One write of content, in as many DATA frames as windows and frame size ask for."""
        at = 0
        while True:
            if self._room(stream) <= 0 and write.data:
                self._note(call, self.flush())  # the head need not wait
            while not self._over(stream) and self._room(stream) <= 0 and at < len(write.data):
                yield self.changed
            if self._over(stream):
                return False
            size = min(len(write.data) - at, self._room(stream))
            done = at + size == len(write.data)
            head = self.state.data_to_send()  # goes out in the same write
            self.state.send_data(stream, write.data[at : at + size], end_stream=last and done)
            span = self.socket.send(head + self.state.data_to_send())
            self._note(call, span)
            lead = len(head) + FRAME_HEADER - at
            call.events += [
                (self.socket.locate(span[0], lead + offset - 1) + 1, kind)
                for offset, kind in write.events
                if at < offset <= at + size
            ]
            call.response_length += size
            at += size
            if done:
                return True

    def _note(self, call: Call, span: tuple[int, int]) -> None:
        if span[0] < span[1]:
            call.response = (call.response[0] if call.response else span[0], span[1])

    def _room(self, stream: int) -> int:
        window = self.state.local_flow_control_window(stream)
        return min(window, self.state.max_outbound_frame_size)

    def _over(self, stream: int) -> bool:
        state = self.state.streams.get(stream)
        refused = self.last_stream is not None and stream > self.last_stream
        return state is None or state.closed or refused


class Client(_Endpoint):
    """The client's side of one connection; calls may run at the same time."""

    def __init__(
        self,
        simulation: Simulation,
        socket: Socket,
        settings: dict[SettingCodes, int] | None = None,
        connection_window: int = 0,
    ) -> None:
        super().__init__(simulation, socket, client=True)
        self.over = False
        if settings:
            self.state.local_settings = Settings(client=True, initial_values=settings)
        self.state.initiate_connection()
        if connection_window:
            self.state.increment_flow_control_window(connection_window)
        self.flush()
        self._ended: set[int] = set()
        simulation.start(self._read())

    def _read(self) -> Process:
        while True:
            events = yield from self.receive()
            if events is None:
                self.over = True
                self.changed.fire()
                return
            for event in events:
                if isinstance(event, StreamEnded | StreamReset):
                    assert event.stream_id is not None
                    self._ended.add(event.stream_id)
                if isinstance(event, ResponseReceived | DataReceived | StreamEnded | StreamReset):
                    self.changed.fire()
            if self.gone is not None:
                self.changed.fire()

    def send(
        self,
        method: str,
        path: str,
        authority: str,
        fields: Fields = (),
        content: bytes = b"",
        name: str = "",
    ) -> Call:
        """Send a request in one write (its content must fit into a frame)."""
        stream = self.state.get_next_available_stream_id()
        call = Call(name or path, method, path, stream_id=stream)
        self.connection.calls.append(call)
        scheme = "https" if self.connection.tls else "http"
        head = [
            (":method", method),
            (":path", path),
            (":scheme", scheme),
            (":authority", authority),
            *fields,
        ]
        self.state.send_headers(stream, head, end_stream=not content)
        if content:
            self.state.send_data(stream, content, end_stream=True)
        call.request = self.flush()
        call.request_length = len(content)
        call.complete = False
        return call

    def wait(self, call: Call) -> Generator[int | Signal, None, bool]:
        """Wait until the response is complete; False if it never will be."""
        stream = call.stream_id
        assert stream is not None
        while stream not in self._ended:
            if self.over or (self.gone is not None and stream > self.gone):
                return False
            yield self.changed
        call.complete = call.reset is None
        yield work_ns("read", self.connection.number, stream)
        return call.complete

    def call(
        self, method: str, path: str, authority: str, fields: Fields = (), content: bytes = b""
    ) -> Generator[int | Signal, None, Call]:
        """Send a request and wait for its response."""
        sent = self.send(method, path, authority, fields, content)
        yield from self.wait(sent)
        return sent

    def cancel(self, call: Call, code: ErrorCodes = ErrorCodes.CANCEL) -> None:
        """End a stream with RST_STREAM."""
        assert call.stream_id is not None
        self.state.reset_stream(call.stream_id, code)
        call.reset, call.reset_code = (True, self.flush()[1]), int(code)

    def close(self) -> None:
        """GOAWAY, then close the connection."""
        self.state.close_connection()
        self.flush()
        self.socket.close()
