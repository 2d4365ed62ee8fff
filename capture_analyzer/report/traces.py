"""Connections over time: the packets of a time-sequence graph, and what held their senders back.

A report holds the traces of the connections that findings name and of the slowest exchanges, up
to a fixed number of packets; of a long connection it holds a choice. The sums are made from all
of its packets (`trace_sums`), so that they are right in either case. A report without charts
lists the remarkable packets only.

`assets/traces.js` reads it back; the two must change together.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.analysis import Analysis, Tables
from capture_analyzer.model.column import rows_equal
from capture_analyzer.model.holes import HOLE_KINDS
from capture_analyzer.model.limits import LIMITS
from capture_analyzer.model.packets import FIN, LABELS, MECHANISMS, RST, SPURIOUS, SYN, Packets
from capture_analyzer.model.quick_dataclass import quick_dataclass
from capture_analyzer.model.rtt_samples import RttSamples
from capture_analyzer.model.sender_limits import SENDER_LIMITS
from capture_analyzer.model.stalls import STALLS
from capture_analyzer.model.tcp_segments import TcpSegments
from capture_analyzer.report import packet_rows
from capture_analyzer.report.strings import StringTable
from capture_analyzer.report.trace_choice import extremes, thinned
from capture_analyzer.report.trace_stretches import (
    LIMIT_LOOKS,
    SENDER_LOOKS,
    carried,
    held,
    holes,
    lasted,
    limited,
    longest,
    queues,
    silences,
)
from capture_analyzer.report.trace_sums import sums

MAX_POINTS: Final = 16_000  # packets in a report: at some 20 bytes each, 320 KB
MAX_CONNECTION_POINTS: Final = 3_000  # of one; more are closer than the pixels of a screen
MAX_CONNECTIONS: Final = 40  # whose sums and stretches add up to some kilobytes each
MAX_LISTED: Final = 600  # packets in a report without charts, 12 KB
MAX_CONNECTION_LISTED: Final = 60
MAX_SAMPLES: Final = 400  # round trips of a direction

_CODE: Final = {name: code for code, name in enumerate(LABELS)}
_PLAIN: Final = np.array(
    [name in ("original", "ack", "window_update", "dup_ack", "other") for name in LABELS]
)
_HIDDEN: Final = _CODE["capture_duplicate"]  # was on the wire once

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@quick_dataclass
class _Points:
    """The packets of one connection that were on the wire, in columns of equal length.

    Attributes:
        index: packet_no - 1.
        row: their rows in `TcpSegments`.
        flight: bytes of the own direction that are not acknowledged behind it.
        left: likewise of the other direction.
        noted: listed as packets to note.
        remarkable: 2 = kept wherever possible, 1 = likewise behind those, 0 = ordinary.
    """

    index: NDArray[np.intp]
    row: NDArray[np.intp]
    flight: Ints
    left: Ints
    noted: Bools
    remarkable: NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.index)


def columns(
    analysis: Analysis, unit: int, strings: StringTable, *, charts: bool = True
) -> dict[str, Any]:
    """The traces of a report.

    Args:
        analysis: what to show.
        unit: the number of nanoseconds in which times are counted.
        strings: the report's texts.
        charts: whether they will be drawn, or listed only.
    """
    tables = analysis.tables
    numbers = chosen(analysis)
    segments = tables.tcp_segments.of(numbers)
    samples = tables.rtt_samples.of(numbers)
    limits, stalls = tables.sender_limits.of(numbers), tables.stalls.of(numbers)
    repeats = tables.repeats.of(numbers)
    named = np.array([no for row in analysis.findings for no in row.packet_nos], np.int64)
    kinds: dict[tuple[int, ...], int] = {}
    room = MAX_POINTS if charts else MAX_LISTED
    most = MAX_CONNECTION_POINTS if charts else MAX_CONNECTION_LISTED
    traces = []
    for number in numbers:
        points = _points(tables, segments, number, named)
        if not len(points):
            continue
        kept = thinned(points.remarkable, points.flight, _windows(segments, points), most)
        if not charts:
            kept = kept[points.noted[kept]]
        if len(kept) > room:
            continue
        room -= len(kept)
        trace = _packets(tables.packets, segments, points, kept, kinds, unit)
        mine = rows_equal(samples.connection_no, number)
        trace.update(
            no=number,
            of=len(points),
            noted=int(np.count_nonzero(points.noted)),
            held=held(tables, number, unit),
            holes=holes(tables.holes, number, unit),
            queues=queues(tables, number, unit),
            limited=limited(limits, number, unit),
            silences=silences(stalls, number, unit),
            carried=carried(repeats, number, unit),
            sums=[
                sums(tables, segments, samples, limits, number, way, unit) for way in (True, False)
            ],
            trips=[_samples(samples, mine, way, unit) if charts else None for way in (True, False)],
        )
        traces.append(trace)
    return {
        "limits": [[*LIMIT_LOOKS[name], meaning] for name, meaning in LIMITS.items()],
        "senderLimits": [[*SENDER_LOOKS[name], told] for name, told in SENDER_LIMITS.items()],
        "stalls": [meaning for _, meaning in STALLS.values()],
        "holes": [strings.number(name) for name in HOLE_KINDS],
        "mechanisms": [strings.number(name.replace("_", " ") or None) for name in MECHANISMS],
        "kinds": [
            [
                from_client,
                strings.number(packet_rows.flag_names(flags)),
                strings.number(LABELS[label].replace("_", " ")),
                strings.number(MECHANISMS[mechanism].replace("_", " ") or None),
                strings.number(SPURIOUS[spurious] or None),
            ]
            for from_client, flags, label, mechanism, spurious in kinds
        ],
        "list": traces,
    }


def chosen(analysis: Analysis) -> list[int]:
    """Connections to show: those of findings, of the slowest exchanges, then the biggest."""
    tables = analysis.tables
    graded = sorted(analysis.findings, key=lambda row: row.severity == "info")
    numbers = [row.connection_no for row in graded if row.connection_no is not None]
    interesting = packet_rows.interesting(analysis)[: 50 * MAX_CONNECTIONS]
    numbers += [tables.exchanges[exchange_no].connection_no for exchange_no in interesting]
    distinct = list(dict.fromkeys(numbers))
    if len(distinct) < MAX_CONNECTIONS:
        biggest = sorted(
            tables.connections, key=lambda row: (-row.client_bytes - row.server_bytes, row.start_ns)
        )
        distinct = list(dict.fromkeys(distinct + [row.connection_no for row in biggest]))
    return [no for no in distinct if tables.connections[no].transport == "tcp"][:MAX_CONNECTIONS]


def _points(tables: Tables, segments: TcpSegments, number: int, named: NDArray[Any]) -> _Points:
    packets = tables.packets
    rows = segments.rows_of(number)
    row = np.arange(rows.start, rows.stop)
    index = segments.packet_no[rows].astype(np.intp) - 1
    real = packets.label[index] != _HIDDEN
    row, index = row[real], index[real]
    remarkable = np.zeros(len(index), np.uint8)
    remarkable[segments.sack_count[row] > 0] = 1
    remarkable[packets.label[index] == _CODE["dup_ack"]] = 1
    noted = ~_PLAIN[packets.label[index]] | (packets.mechanism[index] > 0)
    noted |= (packets.flags[index] & (SYN | FIN | RST)) != 0
    noted |= segments.window_bytes[row] == 0
    remarkable[noted] = 2
    remarkable[np.isin(index + 1, _marking(tables, number))] = 2
    remarkable[np.isin(index + 1, named)] = 2
    return _Points(
        index=index,
        row=row,
        flight=np.maximum(segments.sent[row] - segments.peer_acked[row], 0),
        left=np.maximum(segments.peer_sent[row] - segments.acked[row], 0),
        noted=noted,
        remarkable=remarkable,
    )


def _marking(tables: Tables, number: int) -> NDArray[np.int32]:
    """Packets that begin or end the stretches which are drawn."""
    holes_, limits = tables.holes, tables.limits
    open_ = longest(lasted(holes_), holes_.connection_no, number)
    held = longest(limits.to_ns - limits.from_ns, limits.connection_no, number)
    return np.concatenate(
        [
            holes_.opened_packet_no[open_],
            holes_.filled_packet_no[open_],
            limits.from_packet_no[held],
            limits.to_packet_no[held],
        ]
    )


def _windows(segments: TcpSegments, points: _Points) -> Ints:
    window = segments.window_bytes[points.row]
    return np.where(window < 0, np.iinfo(np.int64).max, window)


def _packets(
    packets: Packets,
    segments: TcpSegments,
    points: _Points,
    kept: NDArray[Any],
    kinds: dict[tuple[int, ...], int],
    unit: int,
) -> dict[str, Any]:
    """Columns of the packets that are kept.

    `offset` counts from where the same side's packet before it ended, `acked` from its
    acknowledgement, `window` from its window. `sacks` is [place, from, length, from ...], from
    the acknowledgement on.
    """
    index, row = points.index[kept], points.row[kept]
    from_client = segments.from_client[row]
    length = packets.payload_bytes[index].astype(np.int64)
    codes = [
        kinds.setdefault(key, len(kinds))
        for key in zip(
            from_client.astype(np.int64).tolist(),
            packets.flags[index].tolist(),
            packets.label[index].tolist(),
            packets.mechanism[index].tolist(),
            packets.spurious[index].tolist(),
            strict=True,
        )
    ]
    offset, acked, window = (np.zeros(len(row), np.int64) for _ in range(3))
    for way in (True, False):
        mine = np.flatnonzero(from_client == way)
        begin = segments.offset[row[mine]]
        end = begin + length[mine]
        offset[mine] = begin - np.concatenate(([0], end[:-1])) if len(mine) else 0
        acked[mine] = np.diff(segments.acked[row[mine]], prepend=0)
        window[mine] = np.diff(segments.window_bytes[row[mine]], prepend=0)
    sacks = []
    for place in np.flatnonzero(segments.sack_count[row]).tolist():
        first = int(segments.sack_first[row[place]])
        blocks: list[int] = [place]
        for at in range(first, first + int(segments.sack_count[row[place]])):
            blocks.append(int(segments.sack_from[at] - segments.acked[row[place]]))
            blocks.append(int(segments.sack_to[at] - segments.sack_from[at]))
        sacks.append(blocks)
    return {
        "packet": np.diff(index + 1, prepend=0).tolist(),
        "time": np.diff(packets.time_ns[index] // unit, prepend=0).tolist(),
        "kind": codes,
        "bytes": length.tolist(),
        "offset": offset.tolist(),
        "acked": acked.tolist(),
        "window": window.tolist(),
        "flight": points.flight[kept].tolist(),
        "left": points.left[kept].tolist(),
        "sacks": sacks,
    }


def _samples(samples: RttSamples, mine: slice, way: bool, unit: int) -> list[list[int]]:
    """Round trips of one direction: times and packets as differences, trips, smoothed ones."""
    places = np.arange(mine.start, mine.stop)
    places = places[samples.from_client[mine] == way]
    places = places[extremes(samples.rtt_ns[places], MAX_SAMPLES)]
    return [
        np.diff(samples.time_ns[places] // unit, prepend=0).tolist(),
        (samples.rtt_ns[places] // unit).tolist(),
        (samples.srtt_ns[places] // unit).tolist(),
        np.diff(samples.answer_packet_no[places], prepend=0).tolist(),
    ]
