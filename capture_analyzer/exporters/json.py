"""The analysis as JSON, schema `capture-analyzer/analysis/1`.

The same input and version give the same bytes: keys and rows are in a stated order, and
nothing of the clock, the host or the paths of files is written. Instants and durations are
integers in ns, null where unknown; only `epoch_ns`, which is past 2^53, is a decimal string.
Text is escaped to ASCII, so that no captured character has a meaning to what reads the file.

The bulk (exchanges, connections, ledger) is put together as text, one row a line: that
takes a quarter of the time of building dictionaries for `json.dumps`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from json.encoder import encode_basestring_ascii as quoted
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.exporters.contract import Meta
from capture_analyzer.exporters.destination import Target, open_text
from capture_analyzer.model.analysis import Analysis, Tables
from capture_analyzer.model.causes import CAUSE_NAMES
from capture_analyzer.model.connections import Connection, TlsSummary
from capture_analyzer.model.events import EVENT_KINDS, Events
from capture_analyzer.model.exchanges import Exchange
from capture_analyzer.model.findings import Finding
from capture_analyzer.model.packets import MECHANISMS
from capture_analyzer.model.waits import Ledger

META = Meta(name="json", title="the whole analysis as JSON", suffix=".json")

SCHEMA: Final = "capture-analyzer/analysis/1"
_ROWS_AT_ONCE: Final = 2_000  # exchanges a piece of text: bounded memory, few calls
_CAUSES: Final = tuple(map(quoted, CAUSE_NAMES))
_EVENT_KINDS: Final = tuple(map(quoted, EVENT_KINDS))


def export(analysis: Analysis, destination: Target) -> None:
    """Write an analysis.

    Raises:
        OutputError: the destination can't be written.
    """
    tables = analysis.tables
    sections: dict[str, Iterable[str]] = {
        "detectors": (
            _document({"id": row.id, "outcome": row.outcome, "reason": row.reason})
            for row in analysis.detectors
        ),
        "connections": map(_connection, tables.connections),
        "exchanges": _exchanges(tables),
        "findings": map(_finding, analysis.findings),
        "anomalies": (
            _document(
                {
                    "code": row.code,
                    "origin": row.origin,
                    "connection_no": row.connection_no,
                    "packet_no": row.packet_no,
                    "detail": row.detail,
                    "count": row.count,
                }
            )
            for row in tables.anomalies
        ),
    }
    with open_text(destination) as file:
        file.write(f'{{\n"schema": {quoted(SCHEMA)},\n')
        generator = {"name": "capture-analyzer", "version": analysis.version}
        file.write(f'"generator": {_document(generator)},\n')
        file.write(f'"capture": {_document(_capture(tables))}')
        for name, rows in sections.items():
            file.write(f",\n{quoted(name)}: [")
            before = "\n"
            for piece in _pieces(rows):
                file.write(before)
                file.write(piece)
                before = ",\n"
            file.write("]" if before == "\n" else "\n]")
        file.write("\n}\n")


def _pieces(rows: Iterable[str]) -> Iterator[str]:
    """Rows joined to longer texts."""
    waiting: list[str] = []
    for row in rows:
        waiting.append(row)
        if len(waiting) == _ROWS_AT_ONCE:
            yield ",\n".join(waiting)
            waiting.clear()
    if waiting:
        yield ",\n".join(waiting)


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


def _connection(row: Connection) -> str:
    mechanisms = row.retransmissions_by_mechanism
    by_mechanism = ",".join(
        f"{quoted(name)}:{mechanisms[name]}" for name in MECHANISMS if name in mechanisms
    )
    return (
        f'{{"connection_no":{row.connection_no},"transport":{quoted(row.transport)},'
        f'"tcp_stream":{_number(row.tcp_stream)},'
        f'"client":{{"ip":{quoted(row.client_ip)},"port":{row.client_port}}},'
        f'"server":{{"ip":{quoted(row.server_ip)},"port":{row.server_port}}},'
        f'"server_name":{_text(row.server_name)},"alpn":{_text(row.alpn)},'
        f'"preconnected":{_truth(row.preconnected)},'
        f'"start_ns":{row.start_ns},"end_ns":{row.end_ns},'
        f'"first_packet_no":{row.first_packet_no},"packet_count":{row.packet_count},'
        f'"vantage":{{"side":{quoted(row.vantage_side)},'
        f'"confidence":{_fraction(row.vantage_confidence)}}},'
        f'"handshake":{{"client_side_rtt_ns":{_number(row.client_side_rtt_ns)},'
        f'"server_side_rtt_ns":{_number(row.server_side_rtt_ns)},'
        f'"rtt_ns":{_number(row.rtt_ns)},"syn_retransmissions":{row.syn_retransmissions}}},'
        f'"tls":{"null" if row.tls is None else _tls(row.tls)},'
        f'"retransmissions":{{"total":{row.retransmissions},'
        f'"spurious":{row.retransmissions_spurious},"by_mechanism":{{{by_mechanism}}}}}}}'
    )


def _tls(tls: TlsSummary) -> str:
    return (
        f'{{"version":{_text(tls.version)},"cipher_suite":{_text(tls.cipher_suite)},'
        f'"resumed":{_truth(tls.resumed)},"hello_retry":{_truth(tls.hello_retry)},'
        f'"early_data":{_truth(tls.early_data)},"ocsp_stapled":{_truth(tls.ocsp_stapled)},'
        f'"decrypted":{quoted(tls.decrypted)},"why_not":{_text(tls.why_not)},'
        f'"duration_ns":{_number(tls.duration_ns)}}}'
    )


def _exchanges(tables: Tables) -> Iterator[str]:
    """Rows of exchanges, each with its part of the ledger and its events."""
    rows = tables.exchanges
    entry_bounds = _bounds(tables.ledger.exchange_no, len(rows))
    event_bounds = _bounds(tables.events.exchange_no, len(rows))
    for first in range(0, len(rows), _ROWS_AT_ONCE):
        batch = rows[first : first + _ROWS_AT_ONCE]
        stop = first + len(batch)
        first_entry, first_event = entry_bounds[first], event_bounds[first]
        entries = _ledger(tables.ledger, slice(first_entry, entry_bounds[stop]))
        events = _events(tables.events, slice(first_event, event_bounds[stop]))
        for index, row in enumerate(batch, first):
            ledger = entries[
                entry_bounds[index] - first_entry : entry_bounds[index + 1] - first_entry
            ]
            own = events[event_bounds[index] - first_event : event_bounds[index + 1] - first_event]
            yield _exchange(row, ",".join(ledger), ",".join(own))


def _bounds(exchange_nos: NDArray[np.int32], count: int) -> list[int]:
    """Where the rows of each exchange begin in a table ordered by exchange, and the end."""
    numbers = np.arange(count + 1, dtype=exchange_nos.dtype)
    bounds: list[int] = np.searchsorted(exchange_nos, numbers).tolist()
    return bounds


def _ledger(ledger: Ledger, part: slice) -> list[str]:
    """Entries of the ledger as text."""
    columns = zip(
        ledger.from_ns[part].tolist(),
        ledger.to_ns[part].tolist(),
        ledger.cause[part].tolist(),
        _packet_lists(ledger, part),
        strict=True,
    )
    causes = _CAUSES
    return [
        f'{{"from_ns":{begin},"to_ns":{end},"cause":{causes[cause]},"packet_nos":[{packets}]}}'
        for begin, end, cause, packets in columns
    ]


def _packet_lists(ledger: Ledger, part: slice) -> list[str]:
    """The distinct packets of each entry in order, separated by commas."""
    numbers = np.stack([ledger.packet_a[part], ledger.packet_b[part], ledger.packet_c[part]])
    numbers.sort(axis=0)
    numbers[:2][numbers[:2] == numbers[1:]] = 0  # a repeat becomes absent, like what is 0
    return list(map(_packet_list, *numbers.tolist()))


def _packet_list(low: int, middle: int, high: int) -> str:
    if middle:
        return f"{low},{middle},{high}" if low else f"{middle},{high}"
    if low:
        return f"{low},{high}"
    return f"{high}" if high else ""


def _exchange(row: Exchange, ledger: str, events: str) -> str:
    phases = row.phases
    return (
        f'{{"exchange_no":{row.exchange_no},"connection_no":{row.connection_no},'
        f'"stream_id":{_number(row.stream_id)},"protocol":"{row.protocol}","kind":"{row.kind}",'
        f'"inferred":{_truth(row.inferred)},"method":{_text(row.method)},'
        f'"authority":{_text(row.authority)},"path":{_text(row.path)},'
        f'"status":{_number(row.status)},"grpc_status":{_number(row.grpc_status)},'
        f'"start_ns":{row.start_ns},"request_start_ns":{row.request_start_ns},'
        f'"end_ns":{_number(row.end_ns)},'
        f'"phases":{{"dns_ns":{_number(phases.dns_ns)},"connect_ns":{_number(phases.connect_ns)},'
        f'"tls_ns":{_number(phases.tls_ns)},"idle_ns":{_number(phases.idle_ns)},'
        f'"send_ns":{_number(phases.send_ns)},"wait_ns":{_number(phases.wait_ns)},'
        f'"receive_ns":{_number(phases.receive_ns)}}},'
        f'"ttfb_ns":{_number(row.ttfb_ns)},"ttft_ns":{_number(row.ttft_ns)},'
        f'"request_bytes":{row.request_bytes},"response_bytes":{row.response_bytes},'
        f'"packets":{{"request_first":{_number(row.request_first_packet_no)},'
        f'"request_last":{_number(row.request_last_packet_no)},'
        f'"response_first":{_number(row.response_first_packet_no)},'
        f'"response_last":{_number(row.response_last_packet_no)}}},'
        f'"ledger":[{ledger}],"stream":{_stream(row)},'
        f'"events":{"null" if row.stream is None else f"[{events}]"}}}'
    )


def _stream(row: Exchange) -> str:
    """What a streamed answer says as a whole."""
    stream = row.stream
    if stream is None:
        return "null"
    return (
        f'{{"model":{_text(row.model)},"max_tokens":{_number(row.max_tokens)},'
        f'"ended":{_truth(stream.ended)},"finish":{_text(stream.finish)},'
        f'"error_code":{_text(stream.error_code)},'
        f'"input_tokens":{_number(stream.input_tokens)},'
        f'"output_tokens":{_number(stream.output_tokens)}}}'
    )


def _events(events: Events, part: slice) -> list[str]:
    """Events of streamed answers as text."""
    columns = zip(
        events.time_ns[part].tolist(),
        events.seen_ns[part].tolist(),
        events.in_order_ns[part].tolist(),
        events.kind[part].tolist(),
        events.size_bytes[part].tolist(),
        events.packet_no[part].tolist(),
        strict=True,
    )
    kinds = _EVENT_KINDS
    return [
        f'{{"time_ns":{time},"seen_ns":{seen},"in_order_ns":{in_order},"kind":{kinds[kind]},'
        f'"bytes":{size},"packet_no":{packet_no}}}'
        for time, seen, in_order, kind, size, packet_no in columns
    ]


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
