"""Tables `messages` and `fields`: HTTP messages as found in a stream."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple, overload

from capture_analyzer.model.column import column
from capture_analyzer.model.events import EVENT_KIND_CODE, EVENT_KINDS, Events
from capture_analyzer.model.quick_dataclass import quick_dataclass


@quick_dataclass
class Field:
    """A header or trailer field, its value reduced as the redaction level says."""

    name: str = column("Lower-case name.")
    value: str = column("Value, or … with its length where it is redacted.")
    trailer: bool = column("From the trailer section.", default=False)
    certainty: Literal["certain", "inferred", "unknown"] = column(
        "How it is known.", default="certain"
    )


class MessageEvent(NamedTuple):
    """An event inside a streamed response; `pipeline.events` makes table `events` of them.

    Attributes:
        seen_ns, in_order_ns, usable_ns: the three times of its last byte.
        packet_no: the packet that holds it.
        kind: name in EVENT_KINDS.
        size_bytes: length of its data.
        generated_chars: characters of generated content.
        output_tokens: as the server counts them so far; -1 = it does not say.
        offset, end_offset: transport stream offsets of its first byte and behind its last.
    """

    seen_ns: int
    in_order_ns: int
    usable_ns: int
    packet_no: int
    kind: str
    size_bytes: int
    generated_chars: int
    output_tokens: int
    offset: int
    end_offset: int


class EventRows(Sequence[MessageEvent]):
    """Events first .. stop - 1 of a table, as rows that are made when they are looked at.

    Events that are found by whole-array operations stay in their columns.
    """

    __slots__ = ("first", "stop", "table")

    def __init__(self, table: Events, first: int, stop: int) -> None:
        self.table = table
        self.first = first
        self.stop = stop

    def __len__(self) -> int:
        return self.stop - self.first

    @overload
    def __getitem__(self, index: int) -> MessageEvent: ...

    @overload
    def __getitem__(self, index: slice) -> list[MessageEvent]: ...

    def __getitem__(self, index: int | slice) -> MessageEvent | list[MessageEvent]:
        return list(self)[index]

    def first_content_ns(self) -> int | None:
        """When the first generated content could be used."""
        kinds = self.table.kind[self.first : self.stop].tobytes()
        index = kinds.find(EVENT_KIND_CODE["content"])
        return None if index < 0 else int(self.table.time_ns[self.first + index])

    def __iter__(self) -> Iterator[MessageEvent]:
        table, rows = self.table, slice(self.first, self.stop)
        return map(
            MessageEvent,
            table.seen_ns[rows].tolist(),
            table.in_order_ns[rows].tolist(),
            table.time_ns[rows].tolist(),
            table.packet_no[rows].tolist(),
            [EVENT_KINDS[code] for code in table.kind[rows].tolist()],
            table.size_bytes[rows].tolist(),
            table.generated_chars[rows].tolist(),
            table.output_tokens[rows].tolist(),
            table.offset[rows].tolist(),
            table.end_offset[rows].tolist(),
        )


@quick_dataclass
class StreamFacts:
    """What a streamed response says as a whole, by its events; never its text."""

    events: Sequence[MessageEvent] = column("Its events, in order.", default_factory=list)
    ended: bool = column("Its end marker came.", default=False)
    marker_known: bool = column(
        "Its API is known to close every answer with an end marker.", default=False
    )
    finish: str | None = column("The reason the API gives for ending.", default=None)
    error_code: str | None = column("Code of an error event.", default=None)
    input_tokens: int | None = column("As the server counts them.", default=None)
    output_tokens: int | None = column("As the server counts them.", default=None)
    cadence_ns: int | None = column(
        "Its usual pace: median gap between the instants at which generated content came; None "
        "= too few.",
        unit="ns",
        default=None,
    )
    inferred: bool = column(
        "Its events are inferred from the sizes and times of encrypted records.", default=False
    )
    confidence: float = column("That it is a stream of events, 0 to 1.", default=1.0)
    undecoded: bool = column("Its content coding could not be decoded to the end.", default=False)

    def first_content_ns(self) -> int | None:
        """When the first generated content could be used; None if there is none."""
        if isinstance(self.events, EventRows):
            return self.events.first_content_ns()
        return next((event.usable_ns for event in self.events if event.kind == "content"), None)


@quick_dataclass
class Message:
    """A request or a response.

    Content is never kept: only its lengths and whether it ended. Where `start_certain` is
    false the capture began inside the message.
    """

    connection_no: int = column("Connection.")
    from_client: bool = column("True for a request.")
    offset: int = column("Stream offset of its first byte.", unit="bytes")
    length: int = column("Bytes on the stream: header section, framing and content.", unit="bytes")
    protocol: str = column('"http/1.1", "http/1.0" or "h2".')
    method: str | None = column("Request method.", default=None)
    target: str | None = column(
        "Request target, its query reduced as the redaction level says.", default=None
    )
    authority: str | None = column("Host field, or authority of the target.", default=None)
    status: int | None = column("Status code of a response.", default=None)
    fields: list[Field] = column("Header and trailer fields, in order.", default_factory=list)
    content_bytes: int = column(
        "Content length after transfer coding, before content coding.", unit="bytes", default=0
    )
    decoded_bytes: int | None = column(
        "Content length after content coding, if it was decoded.", unit="bytes", default=None
    )
    transport_offset: int | None = column(
        "Offset of its first byte in the transport's stream, in front of any decryption; None = "
        "the same.",
        unit="bytes",
        default=None,
    )
    first_packet_no: int = column("Packet with its first byte.", default=0)
    head_packet_no: int = column("Packet that completed the header section.", default=0)
    last_packet_no: int = column("Packet that completed it.", default=0)
    seen_ns: int = column("First byte captured.", unit="ns", default=0)
    start_ns: int = column(
        "First byte decryptable (in clear text: in order).", unit="ns", default=0
    )
    head_ns: int | None = column(
        "Header section complete; None = the capture lacks it.", unit="ns", default=None
    )
    end_ns: int | None = column("Last byte decryptable; None = cut.", unit="ns", default=None)
    last_ns: int = column("Last byte of it that was captured.", unit="ns", default=0)
    complete: bool = column("It ended by its own framing.", default=False)
    start_certain: bool = column("Its first byte was captured.", default=True)
    missing_bytes: int = column("Bytes of it that the capture lacks.", unit="bytes", default=0)
    upgrade: bool = column("After it the connection speaks another protocol.", default=False)
    tunnelled: bool = column(
        "It was inside of TLS behind a CONNECT, not in front of it.", default=False
    )
    pair_no: int | None = column(
        "Number on its connection of the request, which its response repeats; None = the other "
        "half is missing or it can't be told.",
        default=None,
    )
    stream_id: int | None = column("HTTP/2 stream; None in HTTP/1.x.", default=None)
    reset_code: int | None = column(
        "Error code of an RST_STREAM from its sender; None without one.", default=None
    )
    reset_ns: int | None = column("When that was usable.", unit="ns", default=None)
    stream: StreamFacts | None = column(
        "Facts of a streamed response; None = it is none.", default=None
    )
    model: str | None = column("Model that a request to an LLM API names.", default=None)
    max_tokens: int | None = column("Most tokens it asks for.", default=None)
    interim: list[Message] = column("1xx responses before a final response.", default_factory=list)
