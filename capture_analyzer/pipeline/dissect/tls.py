"""TLS connections: records of all of them at once, then each one's handshake."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.anomalies import Anomaly
from capture_analyzer.model.column import NO_TIME
from capture_analyzer.model.connections import Connection, TlsSummary
from capture_analyzer.model.quick_dataclass import quick_dataclass
from capture_analyzer.model.secrets import Secrets
from capture_analyzer.model.tls_records import ROLE_CODE, HandshakeMessages, TlsRecords
from capture_analyzer.pipeline.certificates import Presented
from capture_analyzer.pipeline.dissect.guard import Guard
from capture_analyzer.pipeline.dissect.handshakes import Handshakes
from capture_analyzer.pipeline.dissect.heads import HEAD_RECORDS, Heads
from capture_analyzer.pipeline.dissect.records import AllRecords
from capture_analyzer.pipeline.reassemble import Streams
from capture_analyzer.protocols.tls.connection import Understood
from capture_analyzer.protocols.tls.handshake import (
    ALERT,
    APPLICATION_DATA,
    CHANGE_CIPHER_SPEC,
    CLIENT_HELLO,
    HANDSHAKE,
    SERVER_HELLO,
)
from capture_analyzer.protocols.tls.records import (
    Chunks,
    Walked,
    to_table,
    walk_rows,
)
from capture_analyzer.protocols.tls.roles import CLOSE_NOTIFY_BYTES

if TYPE_CHECKING:
    from capture_analyzer.pipeline.dissect.decrypt import OpenedConnection

MANY: Final = 64
"""From so many connections on usual handshakes are read at once: fewer cost less one by one."""

_ROLE_OF_TYPE: Final = np.zeros(256, np.uint8)
_ROLE_OF_TYPE[CHANGE_CIPHER_SPEC] = ROLE_CODE["change_cipher_spec"]
_ROLE_OF_TYPE[ALERT] = ROLE_CODE["alert"]
_ROLE_OF_TYPE[HANDSHAKE] = ROLE_CODE["handshake"]
_ROLE_OF_TYPE[APPLICATION_DATA] = ROLE_CODE["application"]


@quick_dataclass
class DissectedTls:
    """Rows of all TLS connections."""

    records: TlsRecords
    handshake_messages: HandshakeMessages
    anomalies: list[Anomaly]
    presented: Presented


def dissect_tls(
    streams: Streams,
    connections: Sequence[Connection],
    numbers: NDArray[np.int64],
    *,
    secrets: Secrets | None,
    guard: Guard,
    read: Callable[[Connection, OpenedConnection], None],
) -> DissectedTls:
    """Walk the records of TLS connections, read their handshakes, decrypt what can be.

    Sets `protocol`, `tls`, `alpn` and `server_name` of these connections.

    Args:
        streams: of all connections.
        connections: all of them.
        numbers: which of them speak TLS, ascending.
        secrets: of the key logs; None if none was given.
        guard: keeps one connection's failure from the others.
        read: called with every connection that could be decrypted, and its plaintext, which
            is not kept: all of it together may be as large as the capture.
    """
    rows = np.repeat(2 * numbers, 2)
    rows[1::2] += 1
    chunks = Chunks(
        streams.bounds,
        streams.starts,
        streams.lengths,
        streams.packet_nos,
        streams.seen_ns,
        streams.in_order_ns,
        streams.buffer_nos,
        streams.buffer_offsets,
        streams.buffers,
        streams.origins,
    )
    walked = walk_rows(chunks, rows)
    records = to_table(chunks, walked, (walked.row >> 1).astype(np.int32), (walked.row & 1) == 0)
    first = np.searchsorted(walked.row, rows)
    totals = np.searchsorted(walked.row, rows, "right") - first
    messages = Handshakes()
    presented = Presented()
    anomalies = _lost_boundaries(walked)
    special, roles = array("q"), array("B")  # records, and what they carry
    plain: list[tuple[int, Connection, Understood]] = []  # to be decrypted
    clear_types = np.zeros(len(connections), np.bool_)  # the outer type tells what is inside
    alone = np.ones(len(numbers), np.bool_)
    if len(numbers) >= MANY:
        from capture_analyzer.protocols.tls.usual import find_usual

        speakers = [connections[number] for number in numbers.tolist()]
        usual = find_usual(
            chunks, walked, records, first, totals, _rtts_ns(speakers), most=HEAD_RECORDS
        )
        alone[usual.places] = False
        for index, place in enumerate(usual.places.tolist()):
            connection = speakers[place]
            _fill(
                connection,
                usual.summaries[index],
                usual.server_names[index],
                usual.alpns[index],
            )
            if secrets is not None:
                plain.append((place, connection, usual.understood(index)))
        for side, kind in ((usual.client, CLIENT_HELLO), (usual.server, SERVER_HELLO)):
            messages.add_filling(numbers[usual.places], kind, side.first, records)
        special.frombytes(usual.special.tobytes())
        roles.frombytes(usual.roles.tobytes())
    heads = Heads(streams, chunks, walked, records, first, totals, np.flatnonzero(~alone))
    for place in np.flatnonzero(alone).tolist():
        number = int(numbers[place])
        connection = connections[number]
        connection.protocol = "tls"
        with guard(number):
            understood = heads.understand(place, connection)
            summary = understood.summary
            failed = _incomplete(summary) and not heads.carries_data(place)
            _fill(connection, summary, understood.server_name, understood.alpn, failed=failed)
            if secrets is not None and not failed:
                plain.append((place, connection, understood))
            messages.add(number, understood.messages, heads.first_of(place))
            if understood.certificate is not None:
                _present(presented, connection, understood)
            clear_types[number] = not understood.tls13
            for row, of_row in (
                (2 * place, understood.client_roles),
                (2 * place + 1, understood.server_roles),
            ):
                start = heads.first[row]
                for index, role in of_row:
                    special.append(start + index)
                    roles.append(role)
            for clause, from_client, index in understood.problems:
                anomalies.append(heads.problem(place, number, clause, from_client, index))
    _set_roles(records, clear_types, walked, first, totals, streams)
    records.role[np.frombuffer(special, np.int64)] = np.frombuffer(roles, np.uint8)
    _count_handshakes(connections, walked, clear_types)
    if secrets is not None:
        from capture_analyzer.pipeline.dissect.decrypt import Waiting, open_connection, set_roles
        from capture_analyzer.protocols.tls.sessions import SessionFinder

        plain.sort(key=_place)
        finder = SessionFinder(_unnamed(secrets, plain))
        waiting = Waiting(read, guard)
        everything = AllRecords.of(
            chunks, records, walked.row, walked.first_chunk, walked.last_chunk
        )
        for place, connection, understood in plain:
            number = connection.connection_no
            with guard(number):
                client, server = (
                    heads.side(
                        everything, 2 * place, number, True, understood.client_protected_from
                    ),
                    heads.side(
                        everything, 2 * place + 1, number, False, understood.server_protected_from
                    ),
                )
                found = open_connection(
                    connection, understood, client, server, records, secrets, finder
                )
                if found is not None:
                    messages.add(number, found.messages, heads.first_of(place))
                    anomalies += found.anomalies
                    if understood.certificate is not None and understood.tls13:
                        _present(presented, connection, understood)
                    waiting.add(connection, found)
        waiting.finish()
        set_roles(everything, records)
    return DissectedTls(records, messages.table(records), anomalies, presented)


def _present(presented: Presented, connection: Connection, understood: Understood) -> None:
    """Note the certificates of a connection, and whether a response was stapled."""
    assert understood.certificate is not None
    stapled = presented.add(
        connection.connection_no,
        understood.certificate,
        understood.certificate_status,
        tls13=understood.tls13,
    )
    if connection.tls is not None and understood.tls13:
        connection.tls.ocsp_stapled = stapled


def _unnamed(
    secrets: Secrets, plain: Sequence[tuple[int, Connection, Understood]]
) -> list[tuple[bytes, dict[str, bytes]]]:
    """The sessions of the key logs that no captured ClientHello names."""
    named = {understood.client_random for _, _, understood in plain}
    return [(random, labels) for random, labels in secrets.sessions() if random not in named]


def _fill(
    connection: Connection,
    summary: TlsSummary,
    server_name: str | None,
    alpn: str | None,
    *,
    failed: bool = False,
) -> None:
    if failed:
        summary.why_not = "the handshake was not completed"
    elif summary.start_ns is None or summary.version is None:
        summary.why_not = "the handshake was not captured"
    else:
        summary.why_not = "no key log was given"
    connection.protocol = "tls"
    connection.tls = summary
    connection.alpn = alpn
    connection.server_name = server_name or connection.server_name


def _rtts_ns(connections: Sequence[Connection]) -> NDArray[np.int64]:
    """Round trips between the capture point and the servers; NO_TIME where there is none."""
    rtts = (connection.server_side_rtt_ns for connection in connections)
    return np.array([NO_TIME if rtt is None else rtt for rtt in rtts], np.int64)


def _place(entry: tuple[int, Connection, Understood]) -> int:
    return entry[0]


def _incomplete(summary: TlsSummary) -> bool:
    """Whether no end of the handshake was seen: it failed, or the capture lacks it."""
    if summary.version is None and summary.start_ns is not None:
        return True
    return summary.alert is not None and summary.end_ns is None


def _lost_boundaries(walked: Walked) -> list[Anomaly]:
    """One anomaly a stream and kind of loss, with its count."""
    anomalies: dict[tuple[int, bool], Anomaly] = {}
    for lost in sorted(walked.lost, key=lambda lost: (lost.row, lost.offset)):
        known = anomalies.get((lost.row, lost.gap))
        if known is not None:
            known.count += 1
            continue
        who = "server" if lost.row & 1 else "client"
        anomalies[lost.row, lost.gap] = (
            Anomaly(
                "tls-gap",
                "capture",
                f"bytes with a record header of the {who} are missing",
                lost.row >> 1,
                lost.packet_no,
            )
            if lost.gap
            else Anomaly(
                "tls-malformed",
                "peer",
                f"what the {who} sent is no TLS record",
                lost.row >> 1,
                lost.packet_no,
            )
        )
    return list(anomalies.values())


def _count_handshakes(
    connections: Sequence[Connection], walked: Walked, clear_types: NDArray[np.bool_]
) -> None:
    """Note handshakes behind the first: up to TLS 1.2 each has a ChangeCipherSpec a side."""
    rows = walked.row[walked.content_type == CHANGE_CIPHER_SPEC]
    counts = np.bincount(rows[clear_types[rows >> 1]], minlength=2 * len(connections))
    both = np.minimum(counts[0::2], counts[1::2])
    for number in np.flatnonzero(both > 1).tolist():
        tls = connections[number].tls
        if tls is not None:
            tls.renegotiations = int(both[number]) - 1


def _set_roles(
    records: TlsRecords,
    clear_types: NDArray[np.bool_],
    walked: Walked,
    first: NDArray[np.int64],
    totals: NDArray[np.int64],
    streams: Streams,
) -> None:
    records.role = _ROLE_OF_TYPE[records.content_type]
    hidden = (records.content_type == APPLICATION_DATA) & ~clear_types[records.connection_no]
    records.role_inferred = hidden
    # The last record of a closed direction, just as long as an alert: close_notify.
    last = (first + totals - 1)[totals > 0]
    row = walked.row[last]
    closed = (streams.fin_ns[row] != NO_TIME) | (streams.reset_ns[row >> 1] != NO_TIME)
    alert = last[closed & hidden[last] & (walked.length[last] == CLOSE_NOTIFY_BYTES)]
    records.role[alert] = ROLE_CODE["alert"]
