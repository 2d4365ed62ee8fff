"""Leaves out what was not asked for, before anything costly is done with it.

Whole connections are kept or left out: one that was open before the span of time asked for is
analysed from its beginning, since without its handshakes little can be said about it. Of its
exchanges those are shown that overlap the span. Numbers of packets and of Wireshark's streams
stay those of the whole capture.
"""

from __future__ import annotations

import dataclasses
import ipaddress
import re
from collections.abc import Sequence
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.anomalies import Anomaly
from capture_analyzer.model.capture import Capture
from capture_analyzer.model.certificates import OcspFetch
from capture_analyzer.model.column import NO_TIME
from capture_analyzer.model.connections import Connection
from capture_analyzer.model.events import Events
from capture_analyzer.model.exchanges import Exchanges
from capture_analyzer.model.lookups import Lookup
from capture_analyzer.model.packets import TCP, UDP, Packets
from capture_analyzer.model.quick_dataclass import quick_dataclass
from capture_analyzer.model.selection import Selection
from capture_analyzer.model.waits import Ledger, Waits
from capture_analyzer.pipeline.flows import Flows, endpoint_keys
from capture_analyzer.protocols.tls.hello import MalformedHelloError, parse_client_hello

_Table = TypeVar("_Table", Events, Waits, Ledger)

DNS_PORT: Final = 53

MAX_HELLO_BYTES: Final = 16 << 10
"""Looked at for a name: the longest TLS record, more than the head of a request takes."""

_MAX_HELLO_PACKETS: Final = 12

_RECORD_BYTES: Final = 5
_HEAD_BYTES: Final = 9  # of a record and of the handshake message in it
# Compiled when there is a selection, which mostly there is not.
_HOST: Final = rb"(?i)\r?\nhost:[ \t]*([\w.*-]+|\[[0-9a-f:.]+\])(?::\d+)?[ \t]*\r?\n"
_REQUEST: Final = rb"[A-Z][A-Z-]{1,20} \S+ HTTP/1\.[01]\r?\n"


def select(
    selection: Selection,
    capture: Capture,
    packets: Packets,
    flows: Flows,
    lookups: Sequence[Lookup],
) -> tuple[Flows, list[Anomaly]]:
    """The connections that are asked for; the packets of the others become unknown ones.

    Writes ``packets``: `connection_no`, `left_out`, and `protocol` and `tcp_header_bytes` of
    what is left out, which hides it from all that follows. DNS datagrams stay for now.

    Args:
        selection: what is asked for.
        capture: the bytes.
        packets: the packets, with connection numbers.
        flows: all connections.
        lookups: all lookups.

    Returns:
        The connections asked for, and a note that some were left out, if some were.
    """
    span = selection.span(capture.epoch_ns)
    first = flows.order[flows.bounds[:-1]]
    kept = np.ones(len(flows), np.bool_)
    if selection.by_time:
        kept &= _within(packets.time_ns[flows.order], flows.bounds, span)
    kept &= _by_port(selection, packets, first)
    if selection.by_host:
        by_address = _by_address(selection, packets, first)
        if selection.names:
            named = _addresses_of(selection, capture, packets, lookups)
            answered = _at(packets, first, named)
            unsure = np.flatnonzero(kept & ~by_address)
            by_address[unsure] = _by_name(
                selection, capture, packets, flows, unsure, answered[unsure]
            )
        kept &= by_address
    selected = np.zeros(len(packets), np.bool_)
    of_connection = np.repeat(kept, np.diff(flows.bounds))
    selected[flows.order[of_connection]] = True
    _datagrams(selection, capture, packets, lookups, selected)
    packets.left_out = ~selected
    out = ~selected & ((packets.protocol == TCP) | (packets.protocol == UDP))
    dns = (packets.source_port == DNS_PORT) | (packets.destination_port == DNS_PORT)
    out &= ~((packets.protocol == UDP) & dns)
    _hide(packets, out)
    numbers = np.flatnonzero(kept)
    bounds = np.zeros(len(numbers) + 1, np.int64)
    np.cumsum(np.diff(flows.bounds)[numbers], out=bounds[1:])
    order = flows.order[of_connection]
    packets.connection_no[:] = -1
    packets.connection_no[order] = np.repeat(
        np.arange(len(numbers), dtype=np.int32), np.diff(bounds)
    )
    notes = []
    if len(numbers) < len(kept):
        asked = {
            "--host": selection.by_host,
            "--port": selection.ports,
            "--from, --to": selection.by_time,
        }
        options = ", ".join(option for option, used in asked.items() if used)
        detail = f"only {len(numbers):,} of {len(kept):,} connections are analysed ({options})"
        notes.append(Anomaly("selection", "analyzer", detail))
    return Flows(order, bounds, flows.from_low[of_connection], stream_nos=numbers), notes


def _hide(packets: Packets, rows: NDArray[np.bool_]) -> None:
    packets.protocol[rows] = 0
    packets.tcp_header_bytes[rows] = 0


def _within(
    time_ns: NDArray[np.int64], bounds: NDArray[np.int64], span: tuple[int, int]
) -> NDArray[np.bool_]:
    """Which groups have a packet in a span; those end to end, each with at least one."""
    if not len(time_ns):
        return np.empty(0, np.bool_)
    inside = (time_ns >= span[0]) & (time_ns <= span[1])
    return np.logical_or.reduceat(inside, bounds[:-1])


def _by_port(
    selection: Selection, packets: Packets, rows: NDArray[np.integer]
) -> NDArray[np.bool_]:
    """Which packets have one of the ports at either end."""
    if not selection.ports:
        return np.ones(len(rows), np.bool_)
    result: NDArray[np.bool_] = np.isin(packets.source_port[rows], selection.ports)
    result |= np.isin(packets.destination_port[rows], selection.ports)
    return result


def _by_address(
    selection: Selection, packets: Packets, rows: NDArray[np.integer]
) -> NDArray[np.bool_]:
    """Which packets have one of the addresses at either end."""
    wanted = [
        number
        for number, text in enumerate(packets.addresses)
        if any(ipaddress.ip_address(text) in network for network in selection.networks)
    ]
    return _at(packets, rows, wanted)


def _at(packets: Packets, rows: NDArray[np.integer], wanted: Sequence[int]) -> NDArray[np.bool_]:
    """Which packets have one of these addresses, by number, at either end."""
    known = np.zeros(len(packets.addresses) + 1, np.bool_)  # the last one for -1
    known[list(wanted)] = True
    result: NDArray[np.bool_] = known[packets.source[rows]] | known[packets.destination[rows]]
    return result


def _addresses_of(
    selection: Selection, capture: Capture, packets: Packets, lookups: Sequence[Lookup]
) -> list[int]:
    """The addresses, by number, that DNS or the capture file gives for the names asked for."""
    known = {
        address
        for lookup in lookups
        if selection.fits_name(lookup.name)
        for address in lookup.addresses
    }
    known |= {address for address, name in capture.names.items() if selection.fits_name(name)}
    return [number for number, text in enumerate(packets.addresses) if text in known]


def _by_name(
    selection: Selection,
    capture: Capture,
    packets: Packets,
    flows: Flows,
    numbers: NDArray[np.intp],
    answered: NDArray[np.bool_],
) -> NDArray[np.bool_]:
    """Which of these connections go to one of the names.

    What the client itself names counts (SNI, or the Host field of the first request); where it
    names nothing, the answers of DNS.
    """
    result = answered.copy()
    holds = np.flatnonzero(packets.payload_captured[flows.order] > 0)
    first = np.searchsorted(holds, flows.bounds[numbers])
    last = np.searchsorted(holds, flows.bounds[numbers + 1])
    for index, (begin, end) in enumerate(zip(first.tolist(), last.tolist(), strict=True)):
        some = flows.order[holds[begin : min(end, begin + _MAX_HELLO_PACKETS)]]
        name = _first_name(capture, packets, some)
        if name is not None:
            result[index] = selection.fits_name(name)
    return result


def _first_name(capture: Capture, packets: Packets, rows: NDArray[np.int32]) -> str | None:
    """The server's name in the first bytes of a connection, whose first packets these are."""
    data = b""
    following = -1
    for row in rows.tolist():
        if data and (
            packets.seq[row] != following or packets.source[row] != packets.source[rows[0]]
        ):
            continue
        at, size = int(packets.payload_offset[row]), int(packets.payload_captured[row])
        data += capture.buffers[packets.buffer_no[row]][at : at + min(size, MAX_HELLO_BYTES)]
        following = (int(packets.seq[row]) + int(packets.payload_bytes[row])) & 0xFFFFFFFF
        if data[0] != 0x16:
            break
        wanted = _RECORD_BYTES + int.from_bytes(data[3:5], "big")
        if len(data) >= min(wanted, MAX_HELLO_BYTES) or size < packets.payload_bytes[row]:
            break
    if data[:1] == b"\x16" and data[5:6] == b"\x01":
        length = int.from_bytes(data[6:9], "big")
        try:
            return parse_client_hello(data[_HEAD_BYTES : _HEAD_BYTES + length]).server_name
        except MalformedHelloError:
            return None
    if re.match(_REQUEST, data):
        host = re.search(_HOST, data)
        return None if host is None else host.group(1).decode("ascii", "replace").strip("[]")
    return None


def _datagrams(
    selection: Selection,
    capture: Capture,
    packets: Packets,
    lookups: Sequence[Lookup],
    selected: NDArray[np.bool_],
) -> None:
    """Mark the UDP packets asked for: those between the same two ends are kept together."""
    rows = np.flatnonzero(packets.protocol == UDP)
    kept = _by_port(selection, packets, rows)
    if selection.by_host:
        # A name inside is encrypted (QUIC): what DNS answered has to do.
        wanted = _addresses_of(selection, capture, packets, lookups) if selection.names else []
        kept &= _by_address(selection, packets, rows) | _at(packets, rows, wanted)
    rows = rows[kept]
    if selection.by_time and len(rows):
        keys, _ = endpoint_keys(packets, rows)
        order = np.argsort(keys, kind="stable")
        starts = np.flatnonzero(np.diff(keys[order], prepend=keys[order[0]] + np.uint64(1)))
        bounds = np.append(starts, len(rows))
        span = selection.span(capture.epoch_ns)
        inside = _within(packets.time_ns[rows[order]], bounds, span)
        rows = rows[order[np.repeat(inside, np.diff(bounds))]]
    selected[rows] = True


@quick_dataclass
class Shown:
    """Tables whose rows are about exchanges and lookups; `limit` leaves rows out."""

    connections: Sequence[Connection]
    lookups: list[Lookup]
    exchanges: Exchanges
    events: Events
    waits: Waits
    ledger: Ledger
    ocsp_fetches: list[OcspFetch]


def limit(selection: Selection, epoch_ns: int, packets: Packets, shown: Shown) -> Shown:
    """Leave out exchanges outside of the span asked for, and lookups of what is left out.

    Writes ``packets`` (the DNS datagrams) and the numbers in the rows that stay.
    """
    span = selection.span(epoch_ns)
    shown.lookups = _limit_lookups(selection, span, shown)
    for lookup in shown.lookups:
        packets.left_out[np.array(lookup.packet_nos) - 1] = False
    _hide(packets, packets.left_out & (packets.protocol == UDP))
    if not selection.by_time:
        return shown
    columns = shown.exchanges.columns
    last_ns = np.array([connection.end_ns for connection in shown.connections], np.int64)
    end_ns = np.where(columns.end_ns == NO_TIME, last_ns[columns.connection_no], columns.end_ns)
    kept = np.flatnonzero((columns.start_ns <= span[1]) & (end_ns >= span[0]))
    number = np.full(len(shown.exchanges) + 1, -1, np.int32)  # the last one for -1
    number[kept] = np.arange(len(kept), dtype=np.int32)
    fetches = []
    for fetch in shown.ocsp_fetches:
        if fetch.exchange_no is not None:
            fetch.exchange_no = int(number[fetch.exchange_no])
        if fetch.exchange_no != -1:
            fetches.append(fetch)
    of_none = shown.waits.exchange_no < 0
    return Shown(
        shown.connections,
        shown.lookups,
        shown.exchanges.take(kept),
        _renumbered(shown.events, number),
        _renumbered(shown.waits, number, of_none),
        _renumbered(shown.ledger, number),
        fetches,
    )


def _renumbered(
    table: _Table, number: NDArray[np.int32], also: NDArray[np.bool_] | None = None
) -> _Table:
    """The rows of exchanges that are kept, and these too."""
    new = number[table.exchange_no]
    kept = new >= 0
    if also is not None:
        kept |= also
    columns = {field.name: getattr(table, field.name)[kept] for field in dataclasses.fields(table)}
    columns["exchange_no"] = new[kept]
    return type(table)(**columns)


def _limit_lookups(selection: Selection, span: tuple[int, int], shown: Shown) -> list[Lookup]:
    """Lookups that a connection used; those for the names, or of the time, asked for."""
    kept: list[Lookup] = []
    number: dict[int, int] = {}
    for lookup in shown.lookups:
        used = bool(lookup.connection_nos) or selection.fits_name(lookup.name)
        if not used and (not selection.ports or DNS_PORT in selection.ports):
            end_ns = lookup.start_ns if lookup.end_ns is None else lookup.end_ns
            ends = ipaddress.ip_address(lookup.client_ip), ipaddress.ip_address(lookup.server_ip)
            used = lookup.start_ns <= span[1] and end_ns >= span[0]
            used &= not selection.by_host or any(
                address in network for address in ends for network in selection.networks
            )
        if used:
            number[lookup.lookup_no] = len(kept)
            lookup.lookup_no = len(kept)
            kept.append(lookup)
    for connection in shown.connections:
        if connection.lookup_no is not None:
            connection.lookup_no = number[connection.lookup_no]
    of_exchange = shown.exchanges.columns.lookup_no
    for place in np.flatnonzero(of_exchange != NO_TIME).tolist():
        of_exchange[place] = number[int(of_exchange[place])]
    for _, exchange in shown.exchanges.made():
        if exchange.lookup_no is not None:
            exchange.lookup_no = number[exchange.lookup_no]
    return kept
