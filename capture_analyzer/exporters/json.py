"""The analysis as JSON, schema `capture-analyzer/analysis/1`.

The same input and version give the same bytes: keys and rows are in a stated order, and
nothing of the clock, the host or the paths of files is written. Instants and durations are
integers in ns, null where unknown; only `epoch_ns`, which is past 2^53, is a decimal string.
Text is escaped to ASCII, so that no captured character has a meaning to what reads the file.

The bulk is put together as text, which takes a fraction of the time of building dictionaries
for `json.dumps`: exchanges and connections row by row, ledger and events many rows at once.
"""

from __future__ import annotations

import functools
import itertools
import json
import math
from collections.abc import Callable, Iterator, Sequence
from json.encoder import encode_basestring_ascii as quoted
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.exporters.contract import Meta
from capture_analyzer.exporters.destination import Target, open_text
from capture_analyzer.exporters.rows import Words, choice, chosen, fixed, joined, numbers
from capture_analyzer.model.analysis import Analysis, Tables
from capture_analyzer.model.anomalies import Anomaly
from capture_analyzer.model.causes import CAUSE_NAMES
from capture_analyzer.model.connections import Connection, TlsSummary
from capture_analyzer.model.events import EVENT_KINDS, Events
from capture_analyzer.model.exchanges import ExchangeColumns, Exchanges
from capture_analyzer.model.findings import DetectorOutcome, Finding
from capture_analyzer.model.packets import MECHANISMS
from capture_analyzer.model.waits import Ledger

META = Meta(name="json", title="the whole analysis as JSON", suffix=".json")

SCHEMA: Final = "capture-analyzer/analysis/1"
_ROWS_AT_ONCE: Final = 2_000  # rows a piece of text: bounded memory, few calls
_TABLE_ROWS_AT_ONCE: Final = 8_000  # of ledger and events: the working memory stays in cache
_Section = tuple[str, Sequence[Any], Callable[[Any], str] | None]
"""Name, rows, and how a row is written; exchanges are written many at a time."""
_CAUSES: Final = choice([*map(quoted, CAUSE_NAMES)])
_EVENT_KINDS: Final = choice([*map(quoted, EVENT_KINDS)])
_NEXT: Final = choice([",", "\n"])  # a row of the same exchange, of another
_IF_PRESENT: Final = choice([",", ""])


def export(analysis: Analysis, destination: Target) -> None:
    """Write an analysis.

    Raises:
        OutputError: the destination can't be written.
    """
    tables = analysis.tables
    sections: list[_Section] = [
        ("detectors", analysis.detectors, _detector),
        ("connections", tables.connections, _connection),
        ("exchanges", tables.exchanges, None),
        ("findings", analysis.findings, _finding),
        ("anomalies", tables.anomalies, _anomaly),
    ]

    def piece(place: tuple[int, int]) -> str:
        """The text of some rows of a section."""
        number, first = place
        _, rows, one = sections[number]
        stop = min(first + _ROWS_AT_ONCE, len(rows))
        if one is None:
            return _exchanges(tables, first, stop)
        return ",\n".join(map(one, rows[first:stop]))

    firsts = [range(0, len(rows), _ROWS_AT_ONCE) for _, rows, _ in sections]
    pieces = analysis.scheduler.map(
        piece, [(number, first) for number, part in enumerate(firsts) for first in part]
    )
    with open_text(destination) as file:
        file.write(f'{{\n"schema": {quoted(SCHEMA)},\n')
        generator = {"name": "capture-analyzer", "version": analysis.version}
        file.write(f'"generator": {_document(generator)},\n')
        file.write(f'"capture": {_document(_capture(tables))}')
        for (name, _, _), part in zip(sections, firsts, strict=True):
            file.write(f",\n{quoted(name)}: [")
            before = "\n"
            for text in itertools.islice(pieces, len(part)):
                file.write(before)
                file.write(text)
                before = ",\n"
            file.write("\n]" if part else "]")
        assert next(pieces, None) is None
        file.write("\n}\n")


def _document(value: Any) -> str:
    """Plain values as compact JSON; raises for NaN, which JSON doesn't have."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False, default=_plain)


def _plain(value: object) -> Any:
    """A NumPy scalar, which a detector may leave among its measures, as a Python number."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} has no place in the result")


def _number(value: float | None) -> str:
    return "null" if value is None else str(value)


def _text(value: str | None) -> str:
    return "null" if value is None else quoted(value)


def _truth(value: bool | None) -> str:
    return "null" if value is None else "true" if value else "false"


def _fraction(value: float) -> float:
    """A confidence: enough digits, and the same on every machine."""
    return round(float(value), 4)


def _capture(tables: Tables) -> dict[str, Any]:
    return {
        "epoch_ns": str(tables.epoch_ns),
        "duration_ns": tables.duration_ns,
        "packet_count": len(tables.packets),
        "byte_count": sum(file.byte_count for file in tables.files),
        "files": [
            {"name": file.name, "format": file.format, "packet_count": file.packet_count}
            for file in tables.files
        ],
        "redaction": tables.redaction.level,
    }


def _detector(row: DetectorOutcome) -> str:
    return _document({"id": row.id, "outcome": row.outcome, "reason": row.reason})


def _anomaly(row: Anomaly) -> str:
    return _document(
        {
            "code": row.code,
            "origin": row.origin,
            "connection_no": row.connection_no,
            "packet_no": row.packet_no,
            "detail": row.detail,
            "count": row.count,
        }
    )


def _connection(row: Connection) -> str:
    # Asked for None here and not in `_number`: the calls would take a good part of the time.
    mechanisms = row.retransmissions_by_mechanism
    by_mechanism = _by_mechanism(mechanisms) if mechanisms else ""
    near, far, rtt = row.client_side_rtt_ns, row.server_side_rtt_ns, row.rtt_ns
    name, alpn = row.server_name, row.alpn
    return (
        f'{{"connection_no":{row.connection_no},"transport":{quoted(row.transport)},'
        f'"tcp_stream":{_number(row.tcp_stream)},'
        f'"client":{{"ip":{quoted(row.client_ip)},"port":{row.client_port}}},'
        f'"server":{{"ip":{quoted(row.server_ip)},"port":{row.server_port}}},'
        f'"server_name":{"null" if name is None else quoted(name)},'
        f'"alpn":{"null" if alpn is None else quoted(alpn)},'
        f'"preconnected":{"true" if row.preconnected else "false"},'
        f'"start_ns":{row.start_ns},"end_ns":{row.end_ns},'
        f'"first_packet_no":{row.first_packet_no},"packet_count":{row.packet_count},'
        f'"vantage":{{"side":{quoted(row.vantage_side)},'
        f'"confidence":{_fraction(row.vantage_confidence)}}},'
        f'"handshake":{{"client_side_rtt_ns":{"null" if near is None else near},'
        f'"server_side_rtt_ns":{"null" if far is None else far},'
        f'"rtt_ns":{"null" if rtt is None else rtt},'
        f'"syn_retransmissions":{row.syn_retransmissions}}},'
        f'"tls":{"null" if row.tls is None else _tls(row.tls)},'
        f'"retransmissions":{{"total":{row.retransmissions},'
        f'"spurious":{row.retransmissions_spurious},"by_mechanism":{{{by_mechanism}}}}}}}'
    )


def _by_mechanism(counts: dict[str, int]) -> str:
    return ",".join(f"{quoted(name)}:{counts[name]}" for name in MECHANISMS if name in counts)


def _tls(tls: TlsSummary) -> str:
    return (
        f'{{"version":{_text(tls.version)},"cipher_suite":{_text(tls.cipher_suite)},'
        f'"resumed":{_truth(tls.resumed)},"hello_retry":{_truth(tls.hello_retry)},'
        f'"early_data":{_truth(tls.early_data)},"ocsp_stapled":{_truth(tls.ocsp_stapled)},'
        f'"decrypted":{quoted(tls.decrypted)},"why_not":{_text(tls.why_not)},'
        f'"duration_ns":{_number(tls.duration_ns)}}}'
    )


def _exchanges(tables: Tables, first: int, stop: int) -> str:
    """Exchanges ``first .. stop - 1``, each with its part of the ledger and its events."""
    ledger, events = tables.ledger, tables.events
    numbers = range(first, stop)
    heads, bodies = _exchange_numbers(tables.exchanges.columns, slice(first, stop))
    streams, ends = _streams(tables.exchanges, numbers)
    parts = zip(
        heads,
        _exchange_texts(tables.exchanges, numbers),
        bodies,
        _by_exchange(ledger.exchange_no, numbers, functools.partial(_ledger, ledger)),
        streams,
        _by_exchange(events.exchange_no, numbers, functools.partial(_events, events)),
        ends,
        strict=True,
    )
    return "".join(itertools.chain.from_iterable(parts)).removesuffix(",\n")


def _exchange_numbers(of: ExchangeColumns, part: slice) -> tuple[list[str], list[str]]:
    """Of some exchanges what stands in front of the texts, and what behind them."""

    def number(name: str, column: NDArray[Any]) -> Iterator[Words]:
        yield fixed(f'"{name}":')
        yield numbers(column[part])
        yield fixed(",")

    heads = joined(
        fixed("\n{"),
        fixed('"exchange_no":'),
        numbers(np.arange(part.start, part.stop)),
        fixed(","),
        *number("connection_no", of.connection_no),
        *number("stream_id", of.stream_id),
    )
    bodies = joined(
        fixed("\n"),
        *number("status", of.status),
        *number("grpc_status", of.grpc_status),
        *number("start_ns", of.start_ns),
        *number("request_start_ns", of.request_start_ns),
        *number("end_ns", of.end_ns),
        fixed('"phases":{'),
        *number("dns_ns", of.dns_ns),
        *number("connect_ns", of.connect_ns),
        *number("tls_ns", of.tls_ns),
        *number("idle_ns", of.idle_ns),
        *number("send_ns", of.send_ns),
        *number("wait_ns", of.wait_ns),
        fixed('"receive_ns":'),
        numbers(of.receive_ns[part]),
        fixed("},"),
        *number("ttfb_ns", of.ttfb_ns),
        *number("ttft_ns", of.ttft_ns),
        *number("request_bytes", of.request_bytes),
        *number("response_bytes", of.response_bytes),
        fixed('"packets":{'),
        *number("request_first", of.request_first_packet_no),
        *number("request_last", of.request_last_packet_no),
        *number("response_first", of.response_first_packet_no),
        fixed('"response_last":'),
        numbers(of.response_last_packet_no[part]),
        fixed('},"ledger":['),
    )
    return heads.split("\n")[1:], bodies.split("\n")[1:]


def _exchange_texts(exchanges: Exchanges, wanted: range) -> Iterator[str]:
    """What exchanges say of themselves; those that were not read differ in their server only."""
    unread: dict[str | None, str] = {}
    owner = exchanges.columns.connection_no[wanted.start : wanted.stop].tolist()
    for row, number in zip(exchanges.made_of(wanted), owner, strict=True):
        if row is not None:
            yield _texts(row.protocol, row.kind, row.inferred, row.method, row.authority, row.path)
            continue
        name = exchanges.connections[number].server_name
        text = unread.get(name)
        if text is None:
            text = unread[name] = _texts("opaque", "opaque", True, None, name, None)
        yield text


def _texts(
    protocol: str,
    kind: str,
    inferred: bool,
    method: str | None,
    authority: str | None,
    path: str | None,
) -> str:
    return (
        f'"protocol":"{protocol}","kind":"{kind}","inferred":{_truth(inferred)},'
        f'"method":{_text(method)},"authority":{_text(authority)},"path":{_text(path)},'
    )


def _streams(exchanges: Exchanges, wanted: range) -> tuple[list[str], list[str]]:
    """What streamed answers say as a whole: in front of their events, and behind them."""
    texts = ['],"stream":null,"events":null'] * len(wanted)
    ends = ["},\n"] * len(wanted)
    for place, row in enumerate(exchanges.made_of(wanted)):
        stream = exchanges.streams.get(wanted[place])
        if stream is None:
            continue
        model, most = (None, None) if row is None else (row.model, row.max_tokens)
        texts[place] = (
            f'],"stream":{{"model":{_text(model)},"max_tokens":{_number(most)},'
            f'"ended":{_truth(stream.ended)},"finish":{_text(stream.finish)},'
            f'"error_code":{_text(stream.error_code)},'
            f'"input_tokens":{_number(stream.input_tokens)},'
            f'"output_tokens":{_number(stream.output_tokens)}}},"events":['
        )
        ends[place] = "]},\n"
    return texts, ends


def _by_exchange(
    exchange_nos: NDArray[np.int32],
    wanted: range,
    text_of: Callable[[slice, Words], str],
) -> Iterator[str]:
    """For each exchange its rows of a table as text, separated by commas.

    Args:
        exchange_nos: whose each row is, in ascending order.
        wanted: numbers of exchanges that follow each other.
        text_of: the text of some of the rows, each with something given in front of it.
    """
    edges = np.arange(wanted.start, wanted.stop + 1, dtype=exchange_nos.dtype)
    bounds = np.searchsorted(exchange_nos, edges)
    count = len(wanted)
    first = 0
    while first < count:
        full = np.searchsorted(bounds, bounds[first] + _TABLE_ROWS_AT_ONCE, "right")
        stop = max(int(full) - 1, first + 1)
        rows = slice(int(bounds[first]), int(bounds[stop]))
        owners = exchange_nos[rows]
        new = np.ones(len(owners), np.bool_)
        new[1:] = owners[1:] != owners[:-1]
        texts = iter(text_of(rows, chosen(new, _NEXT)).split("\n")[1:])
        for empty in (bounds[first:stop] == bounds[first + 1 : stop + 1]).tolist():
            yield "" if empty else next(texts)
        first = stop


def _ledger(ledger: Ledger, part: slice, front: Words) -> str:
    """Entries of the ledger as text."""
    packets = _distinct(ledger.packet_a[part], ledger.packet_b[part], ledger.packet_c[part])
    absent = [column == 0 for column in packets]
    return joined(
        front,
        fixed('{"from_ns":'),
        numbers(ledger.from_ns[part]),
        fixed(',"to_ns":'),
        numbers(ledger.to_ns[part]),
        fixed(',"cause":'),
        chosen(ledger.cause[part], _CAUSES),
        fixed(',"packet_nos":['),
        numbers(packets[0], absent[0]),
        chosen(absent[0], _IF_PRESENT),
        numbers(packets[1], absent[1]),
        chosen(absent[1], _IF_PRESENT),
        numbers(packets[2], absent[2]),
        fixed("]}"),
    )


def _distinct(
    a: NDArray[np.int32], b: NDArray[np.int32], c: NDArray[np.int32]
) -> Sequence[NDArray[np.int32]]:
    """Three packets of each row in order; a repeat becomes absent (0), and those come first."""
    a, b = np.minimum(a, b), np.maximum(a, b)
    b, c = np.minimum(b, c), np.maximum(b, c)
    a, b = np.minimum(a, b), np.maximum(a, b)
    a[a == b] = 0
    b[b == c] = 0
    return np.minimum(a, b), np.maximum(a, b), c


def _events(events: Events, part: slice, front: Words) -> str:
    """Events of streamed answers as text."""
    return joined(
        front,
        fixed('{"time_ns":'),
        numbers(events.time_ns[part]),
        fixed(',"seen_ns":'),
        numbers(events.seen_ns[part]),
        fixed(',"in_order_ns":'),
        numbers(events.in_order_ns[part]),
        fixed(',"kind":'),
        chosen(events.kind[part], _EVENT_KINDS),
        fixed(',"bytes":'),
        numbers(events.size_bytes[part]),
        fixed(',"packet_no":'),
        numbers(events.packet_no[part]),
        fixed("}"),
    )


def _finding(row: Finding) -> str:
    measures = {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in row.measures.items()
    }
    return _document(
        {
            "finding_no": row.finding_no,
            "detector": row.detector,
            "severity": row.severity,
            "confidence": _fraction(row.confidence),
            "connection_no": row.connection_no,
            "connection_nos": row.connection_nos,
            "exchange_nos": row.exchange_nos,
            "from_ns": row.from_ns,
            "to_ns": row.to_ns,
            "count": row.count,
            "cost_ns": row.cost_ns,
            "counted_in": row.counted_in,
            "estimated_saving_ns": row.estimated_saving_ns,
            "summary": row.summary,
            "action": row.action,
            "advice": row.advice,
            "measures": measures,
            "examples": [
                {
                    "packet_nos": example.packet_nos,
                    "cost_ns": example.cost_ns,
                    "exchange_no": example.exchange_no,
                }
                for example in row.examples
            ],
            "packet_nos": row.packet_nos,
            "packet_total": row.packet_total,
            "display_filter": row.display_filter,
        }
    )
