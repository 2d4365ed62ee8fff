"""Which packets a report lists, and their columns.

A small capture is listed whole. Of a large one the report holds the packets that findings and
the ledgers of the most interesting exchanges name, up to a fixed number.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.analysis import Analysis
from capture_analyzer.model.column import NO_TIME
from capture_analyzer.model.packets import LABELS, MECHANISMS, SPURIOUS
from capture_analyzer.report.strings import StringTable

MAX_PACKETS: Final = 4000  # at some 18 bytes a row this adds at most 75 KB to a report

_FLAGS: Final = ((0x02, "SYN"), (0x01, "FIN"), (0x04, "RST"), (0x08, "PSH"), (0x10, "ACK"))


def chosen(analysis: Analysis) -> NDArray[np.int64]:
    """Indices of the packets to list, ascending."""
    tables = analysis.tables
    count = len(tables.packets)
    if count <= MAX_PACKETS:
        return np.arange(count, dtype=np.int64)
    taken = np.zeros(count + 1, np.bool_)  # by packet_no; 0 stands for none
    room = MAX_PACKETS
    ledger = tables.ledger

    def take(numbers: NDArray[np.int64]) -> None:
        nonlocal room
        numbers = numbers[(numbers > 0) & (numbers <= count)]
        fresh = np.unique(numbers[~taken[numbers]])[:room]
        taken[fresh] = True
        room -= len(fresh)

    for finding in analysis.findings:
        take(np.array(finding.packet_nos, np.int64))
    for exchange_no in interesting(analysis):
        if room <= 0:
            break
        rows = ledger.rows_of(exchange_no)
        named = [ledger.packet_a[rows], ledger.packet_b[rows], ledger.packet_c[rows]]
        take(np.concatenate(named).astype(np.int64))
    return np.flatnonzero(taken[1:]).astype(np.int64)


def interesting(analysis: Analysis) -> list[int]:
    """Exchanges that findings name, by finding, then the others, slowest first."""
    exchanges = analysis.tables.exchanges
    named = [
        number
        for finding in analysis.findings
        if finding.severity != "info"
        for number in finding.exchange_nos[:MAX_PACKETS]
    ]
    slowest = sorted(
        exchanges, key=lambda row: (row.start_ns - max(row.last_ns, row.end_ns or 0), row.start_ns)
    )
    named += [row.exchange_no for row in slowest[:MAX_PACKETS]]
    return list(dict.fromkeys(named))


def columns(analysis: Analysis, unit: int, strings: StringTable) -> dict[str, Any]:
    """The listed packets: numbers and times as differences, what they are through a table.

    `unit` is the number of nanoseconds in which times are counted. A row of `kinds` is
    [from client (1, 0, -1 unknown), flags, label, mechanism, spurious], as string numbers.
    """
    packets = analysis.tables.packets
    index = chosen(analysis)
    kinds: dict[tuple[int, ...], int] = {}
    codes = [
        kinds.setdefault(key, len(kinds))
        for key in zip(
            packets.from_client[index].tolist(),
            packets.flags[index].tolist(),
            packets.label[index].tolist(),
            packets.mechanism[index].tolist(),
            packets.spurious[index].tolist(),
            packets.protocol[index].tolist(),
            strict=True,
        )
    ]
    return {
        "all": len(index) == len(packets),
        "total": len(packets),
        "no": np.diff(index + 1, prepend=0).tolist(),
        "time": _times(packets.time_ns[index], unit),
        "connection": packets.connection_no[index].tolist(),
        "bytes": packets.payload_bytes[index].tolist(),
        "kind": codes,
        "kinds": [
            [
                from_client,
                strings.number(flag_names(flags) if protocol == 6 else _protocol(protocol)),
                strings.number(LABELS[label].replace("_", " ")),
                strings.number(MECHANISMS[mechanism].replace("_", " ") or None),
                strings.number(SPURIOUS[spurious] or None),
            ]
            for from_client, flags, label, mechanism, spurious, protocol in kinds
        ],
    }


def _times(times: NDArray[np.int64], unit: int) -> list[int | None]:
    """Each time as the difference to the one before; None where a packet has none."""
    result: list[int | None] = []
    last = 0
    for ns in times.tolist():
        if ns == NO_TIME:
            result.append(None)
        else:
            result.append(ns // unit - last)
            last = ns // unit
    return result


def flag_names(flags: int) -> str:
    """TCP flags by their names."""
    return ", ".join(name for bit, name in _FLAGS if flags & bit)


def _protocol(protocol: int) -> str:
    return {1: "ICMP", 17: "UDP", 58: "ICMPv6"}.get(protocol, "")
