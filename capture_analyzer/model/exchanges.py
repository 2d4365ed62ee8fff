"""Table `exchanges`: requests with their responses.

The numbers of all exchanges stand in columns, for work on all of them at once. A row
(`Exchange`) is there for each exchange that was read; of one that was inferred from packets,
which has nothing but numbers, it is made when somebody looks at it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Any, Final, Literal, overload

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.column import NO_TIME, column
from capture_analyzer.model.connections import Connection
from capture_analyzer.model.messages import Field, StreamFacts
from capture_analyzer.model.quick_dataclass import quick_dataclass


@quick_dataclass
class Phases:
    """Parts of an exchange in order; they never overlap and add up to its length.

    Absent phases are None. Unlike HAR, connect excludes tls.
    """

    dns_ns: int | None = column("Name lookup.", unit="ns", default=None)
    connect_ns: int | None = column("Transport handshake, with repeats.", unit="ns", default=None)
    tls_ns: int | None = column("TLS handshake.", unit="ns", default=None)
    idle_ns: int | None = column("Between set-up and request.", unit="ns", default=None)
    send_ns: int | None = column("First to last request byte.", unit="ns", default=None)
    wait_ns: int | None = column(
        "Last request byte to first response byte usable.", unit="ns", default=None
    )
    receive_ns: int | None = column("First to last response byte usable.", unit="ns", default=None)


@quick_dataclass
class Exchange:
    """A request with its response (RFC 9110, section 3.4), or a guess at one from packets.

    `inferred` marks opaque exchanges: a flight of encrypted client data and the server's
    flight behind it.
    """

    exchange_no: int = column("0-based in order of request_start_ns, then connection.")
    connection_no: int = column("Connection.")
    stream_id: int | None = column("HTTP/2 or HTTP/3 stream; None otherwise.")
    protocol: Literal["http/1.0", "http/1.1", "h2", "h3", "opaque"] = column("Protocol.")
    kind: Literal["http", "grpc", "sse", "websocket", "opaque"] = column("What it is.")
    inferred: bool = column("Inferred from packets, not read.")
    start_ns: int = column("Where its set-up began, else its first request byte.", unit="ns")
    request_start_ns: int = column("First request byte seen.", unit="ns")
    request_end_ns: int = column("Last request byte seen.", unit="ns")
    method: str | None = column("Request method.", default=None)
    authority: str | None = column("Host, as the request names it.", default=None)
    path: str | None = column("Request target with its query (reduced by redaction).", default=None)
    status: int | None = column("Status of the final response.", default=None)
    grpc_status: int | None = column("gRPC status.", default=None)
    response_seen_ns: int | None = column(
        "First byte of the final response captured.", unit="ns", default=None
    )
    response_start_ns: int | None = column(
        "First byte of the final response usable (decryptable).", unit="ns", default=None
    )
    response_head_ns: int | None = column("Its header section complete.", unit="ns", default=None)
    end_ns: int | None = column(
        "Later of last request byte and last response byte usable, or the reset; None = cut.",
        unit="ns",
        default=None,
    )
    last_ns: int = column(
        "Its last packet; where end_ns is None, phases and ledger end here.", unit="ns", default=0
    )
    ttfb_ns: int | None = column("response_start_ns - request_start_ns.", unit="ns", default=None)
    ttft_ns: int | None = column(
        "Time to the first event with generated content.", unit="ns", default=None
    )
    request_bytes: int = column("Request bytes on the stream.", unit="bytes", default=0)
    response_offset: int | None = column(
        "Transport stream offset of the first byte of the final response.",
        unit="bytes",
        default=None,
    )
    response_bytes: int = column("Response bytes on the stream.", unit="bytes", default=0)
    phases: Phases = column("Its phases.", default_factory=Phases)
    request_first_packet_no: int | None = column(
        "Packet with the first request byte.", default=None
    )
    request_last_packet_no: int | None = column("Packet with the last request byte.", default=None)
    response_first_packet_no: int | None = column(
        "Packet with the first response byte.", default=None
    )
    response_last_packet_no: int | None = column(
        "Packet with the last response byte.", default=None
    )
    request_records: int | None = column("TLS records of an opaque request flight.", default=None)
    response_records: int | None = column("TLS records of an opaque response flight.", default=None)
    carries_setup: bool = column("start_ns includes the connection's set-up.", default=False)
    setup_connection_nos: list[int] = column(
        "Earlier failed attempts that start_ns includes.", default_factory=list
    )
    lookup_no: int | None = column("The DNS lookup that start_ns includes.", default=None)
    reset: bool = column("A reset ended it.", default=False)
    complete: bool = column("Request and response ended by their own framing.", default=False)
    missing_bytes: int = column("Bytes of it that the capture lacks.", unit="bytes", default=0)
    shared_connection: bool = column(
        "Other exchanges were open on the connection meanwhile (pipelining, multiplexing).",
        default=False,
    )
    stream: StreamFacts | None = column(
        "Facts of its streamed answer; None = it is not a stream of events.", default=None
    )
    model: str | None = column("Model that a request to an LLM API names.", default=None)
    max_tokens: int | None = column("Most tokens it asks for.", default=None)
    interim_statuses: list[int] = column(
        "1xx responses before the final one.", default_factory=list
    )
    request_fields: list[Field] = column("Request header fields.", default_factory=list)
    response_fields: list[Field] = column(
        "Response header and trailer fields.", default_factory=list
    )


@quick_dataclass
class ExchangeColumns:
    """Numbers of exchanges, as in `Exchange` and `Phases`: one element an exchange in each array.

    NO_TIME stands for None.
    """

    connection_no: NDArray[np.int32]
    stream_id: NDArray[np.int64]
    inferred: NDArray[np.bool_]
    start_ns: NDArray[np.int64]
    request_start_ns: NDArray[np.int64]
    request_end_ns: NDArray[np.int64]
    status: NDArray[np.int64]
    grpc_status: NDArray[np.int64]
    response_seen_ns: NDArray[np.int64]
    response_start_ns: NDArray[np.int64]
    response_head_ns: NDArray[np.int64]
    end_ns: NDArray[np.int64]
    last_ns: NDArray[np.int64]
    ttfb_ns: NDArray[np.int64]
    ttft_ns: NDArray[np.int64]
    request_bytes: NDArray[np.int64]
    response_offset: NDArray[np.int64]
    response_bytes: NDArray[np.int64]
    request_first_packet_no: NDArray[np.int64]
    request_last_packet_no: NDArray[np.int64]
    response_first_packet_no: NDArray[np.int64]
    response_last_packet_no: NDArray[np.int64]
    request_records: NDArray[np.int64]
    response_records: NDArray[np.int64]
    carries_setup: NDArray[np.bool_]
    lookup_no: NDArray[np.int64]
    reset: NDArray[np.bool_]
    complete: NDArray[np.bool_]
    missing_bytes: NDArray[np.int64]
    shared_connection: NDArray[np.bool_]
    dns_ns: NDArray[np.int64]
    connect_ns: NDArray[np.int64]
    tls_ns: NDArray[np.int64]
    idle_ns: NDArray[np.int64]
    send_ns: NDArray[np.int64]
    wait_ns: NDArray[np.int64]
    receive_ns: NDArray[np.int64]

    @classmethod
    def unknown(cls, count: int) -> ExchangeColumns:
        """Columns in which all is None, 0 or false."""
        columns: dict[str, NDArray[Any]] = {}
        for name, kind in _KINDS.items():
            absent = NO_TIME if name in _OPTIONAL else 0
            columns[name] = np.full(count, absent, kind)
        return cls(**columns)

    @classmethod
    def of(cls, rows: Sequence[Exchange]) -> ExchangeColumns:
        """The numbers in rows."""
        if not rows:
            return cls.unknown(0)
        # Each row is visited once: they lie all over the memory.
        values = zip(*map(_NUMBERS_OF, rows), strict=True)
        return cls(
            *(_array(column, kind) for column, kind in zip(values, _KINDS.values(), strict=True))
        )

    @classmethod
    def joined(cls, parts: Sequence[ExchangeColumns]) -> ExchangeColumns:
        """Those of all parts, end to end."""
        if len(parts) == 1:
            return parts[0]
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in _KINDS))

    def take(self, index: NDArray[np.intp]) -> ExchangeColumns:
        """Those of some exchanges."""
        return ExchangeColumns(*(getattr(self, name)[index] for name in _KINDS))

    @property
    def until_ns(self) -> NDArray[np.int64]:
        """The end of each exchange, its last packet where it has none."""
        return np.where(self.end_ns == NO_TIME, self.last_ns, self.end_ns)


_PHASES: Final = tuple(field.name for field in dataclasses.fields(Phases))
_NUMBERS: Final = tuple(field.name for field in dataclasses.fields(ExchangeColumns))
_NUMBERS_OF: Final = attrgetter(
    *(f"phases.{name}" if name in _PHASES else name for name in _NUMBERS)
)
_KINDS: Final[dict[str, type[np.generic]]] = {
    field.name: next(
        kind for kind in (np.int32, np.bool_, np.int64) if kind.__name__ in str(field.type)
    )
    for field in dataclasses.fields(ExchangeColumns)
}
"""The type of each column."""

_ROWS_AT_ONCE: Final = 4096

_OPTIONAL: Final = frozenset(
    field.name
    for table in (Exchange, Phases)
    for field in dataclasses.fields(table)
    if field.name in _KINDS and field.type == "int | None"
)


def _array(values: Sequence[Any], kind: type[np.generic]) -> NDArray[Any]:
    """An array of numbers; NO_TIME for None."""
    absent = values.count(None)
    if absent == len(values):
        return np.full(absent, NO_TIME)
    if absent:
        values = [NO_TIME if value is None else value for value in values]
    return np.fromiter(values, kind, len(values))


class Exchanges(Sequence[Exchange]):
    """The exchanges, by exchange_no: columns of numbers, and rows that are made as needed.

    Whoever changes a column also changes the rows that there are (`made`).

    Attributes:
        columns: numbers of all exchanges.
        streams: facts of the streamed answers, by exchange_no.
        setup_connection_nos: failed attempts that set-ups include, by exchange_no.
        connections: by number; an exchange that was not read goes by its server's name.
    """

    __slots__ = ("_rows", "columns", "connections", "setup_connection_nos", "streams")

    def __init__(
        self,
        columns: ExchangeColumns,
        connections: Sequence[Connection],
        rows: list[Exchange | None] | None = None,
        streams: dict[int, StreamFacts] | None = None,
    ) -> None:
        self.columns = columns
        self.connections = connections
        self.streams = {} if streams is None else streams
        self.setup_connection_nos: dict[int, list[int]] = {}
        self._rows: list[Exchange | None] = [None] * len(self) if rows is None else rows

    @classmethod
    def of(cls, rows: Iterable[Exchange], connections: Sequence[Connection] = ()) -> Exchanges:
        """A table of rows that are there already; they get their numbers."""
        kept: list[Exchange | None] = []
        streams, attempts = {}, {}
        known = list(rows)
        for number, row in enumerate(known):
            row.exchange_no = number
            kept.append(row)
            if row.stream is not None:
                streams[number] = row.stream
            if row.setup_connection_nos:
                attempts[number] = row.setup_connection_nos
        table = cls(ExchangeColumns.of(known), connections, kept, streams)
        table.setup_connection_nos = attempts
        return table

    @classmethod
    def joined(cls, parts: Sequence[Exchanges], connections: Sequence[Connection]) -> Exchanges:
        """Tables end to end, none of which has set-ups yet."""
        rows: list[Exchange | None] = []
        streams = {}
        for part in parts:
            first = len(rows)
            for number, row in part.made():
                row.exchange_no = first + number
            rows += part._rows
            streams.update({first + number: stream for number, stream in part.streams.items()})
        columns = ExchangeColumns.joined([part.columns for part in parts])
        return cls(columns, connections, rows, streams)

    def take(self, index: NDArray[np.intp]) -> Exchanges:
        """Some of the exchanges, in the order of `index`, which numbers them anew."""
        old = index.tolist()
        rows = [self._rows[number] for number in old]
        for number, row in enumerate(rows):
            if row is not None:
                row.exchange_no = number
        new = dict(zip(old, range(len(old)), strict=True))
        table = Exchanges(
            self.columns.take(index),
            self.connections,
            rows,
            {new[number]: stream for number, stream in self.streams.items() if number in new},
        )
        table.setup_connection_nos = {
            new[number]: nos for number, nos in self.setup_connection_nos.items() if number in new
        }
        return table

    def __len__(self) -> int:
        """Number of exchanges."""
        return len(self.columns.connection_no)

    def __eq__(self, other: object) -> bool:
        """Whether the rows are equal."""
        if not isinstance(other, Sequence):
            return NotImplemented
        return list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]  # as of a list

    @overload
    def __getitem__(self, index: int) -> Exchange: ...

    @overload
    def __getitem__(self, index: slice) -> list[Exchange]: ...

    def __getitem__(self, index: int | slice) -> Exchange | list[Exchange]:
        """The row of an exchange, or of some."""
        if isinstance(index, slice):
            return [self[number] for number in range(*index.indices(len(self)))]
        row = self._rows[index]
        if row is None:
            number = index if index >= 0 else index + len(self)
            values = [getattr(self.columns, name).item(number) for name in _NUMBERS]
            row = self._rows[number] = self._row(number, values)
        return row

    def rows(self, numbers: Sequence[int] | NDArray[np.integer[Any]]) -> list[Exchange]:
        """The rows of these exchanges; those that are missing are made together."""
        wanted = list(numbers.tolist() if isinstance(numbers, np.ndarray) else numbers)
        missing = [number for number in wanted if self._rows[number] is None]
        if missing:
            columns = [getattr(self.columns, name)[missing].tolist() for name in _NUMBERS]
            for number, *values in zip(missing, *columns, strict=True):
                self._rows[number] = self._row(number, values)
        return [self[number] for number in wanted]

    def __iter__(self) -> Iterator[Exchange]:
        """The rows of all exchanges."""
        for first in range(0, len(self), _ROWS_AT_ONCE):
            yield from self.rows(range(first, min(first + _ROWS_AT_ONCE, len(self))))

    def made(self) -> Iterator[tuple[int, Exchange]]:
        """The rows that there are, with their numbers: of all exchanges that were read."""
        return ((number, row) for number, row in enumerate(self._rows) if row is not None)

    def made_of(self, numbers: range) -> list[Exchange | None]:
        """The rows of exchanges that follow each other, as far as there are rows."""
        return self._rows[numbers.start : numbers.stop]

    def write_phases(self) -> None:
        """Write the phases into the rows that there are."""
        made = list(self.made())
        if not made:
            return
        numbers = np.array([number for number, _ in made])
        phases = [
            [
                None if value == NO_TIME else value
                for value in getattr(self.columns, name)[numbers].tolist()
            ]
            for name in _PHASES
        ]
        for (_, row), *values in zip(made, *phases, strict=True):
            row.phases = Phases(*values)

    def _row(self, number: int, values: Iterable[Any]) -> Exchange:
        """The row of an exchange that was not read, of what its columns hold."""
        known: dict[str, Any] = {
            name: None if value == NO_TIME else value
            for name, value in zip(_NUMBERS, values, strict=True)
        }
        phases = Phases(*map(known.pop, _PHASES))
        return Exchange(
            exchange_no=number,
            protocol="opaque",
            kind="opaque",
            authority=self.connections[known["connection_no"]].server_name,
            phases=phases,
            setup_connection_nos=self.setup_connection_nos.get(number, []),
            stream=self.streams.get(number),
            **known,
        )


class ExchangeRows(Sequence[Exchange]):
    """Some exchanges of a table, whose rows are made when they are looked at."""

    __slots__ = ("_exchanges", "numbers")

    def __init__(self, exchanges: Exchanges, numbers: list[int]) -> None:
        self._exchanges = exchanges
        self.numbers = numbers

    def __len__(self) -> int:
        """How many they are."""
        return len(self.numbers)

    @overload
    def __getitem__(self, index: int) -> Exchange: ...

    @overload
    def __getitem__(self, index: slice) -> ExchangeRows: ...

    def __getitem__(self, index: int | slice) -> Exchange | ExchangeRows:
        """The row of one, or some of them."""
        if isinstance(index, slice):
            return ExchangeRows(self._exchanges, self.numbers[index])
        return self._exchanges[self.numbers[index]]
