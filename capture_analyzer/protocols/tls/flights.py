"""What the server's first encrypted records carry, of many usual TLS 1.3 connections at once.

The rules are those of `roles.infer_roles`, for connections without early data whose client
answered the server's flight with a Finished in a record of its own.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.quick_dataclass import quick_dataclass
from capture_analyzer.model.tls_records import ROLE_CODE, TlsRecords
from capture_analyzer.protocols.tls.roles import (
    BURST_NS,
    DELAYED_ACK_NS,
    MAX_TICKETS,
    MIN_EXTENSIONS_BYTES,
    has_openssl_form,
    may_be_ticket,
)


@quick_dataclass
class Flights:
    """What was told, one element a connection.

    Attributes:
        in_order: the server's records seen before the client's Finished come first; of the
            other connections nothing here is true.
        handshake: how many records of the flight carry handshake messages.
        records: the server's records, a row a connection.
        roles: what each of these carries, if it is not application data; else 0.
    """

    in_order: NDArray[np.bool_]
    handshake: NDArray[np.int64]
    records: NDArray[np.int64]
    roles: NDArray[np.uint8]

    def special(self, which: NDArray[np.intp]) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
        """Records of some connections that carry something else than application data, and what."""
        records, roles = self.records[which], self.roles[which]
        return records[roles > 0], roles[roles > 0]


def infer_flights(
    records: TlsRecords,
    first: NDArray[np.int64],
    counts: NDArray[np.int64],
    *,
    finished: NDArray[np.int64],
    request_no: NDArray[np.int64],
    finished_bytes: NDArray[np.int64],
    resumed: NDArray[np.bool_],
    rtt_ns: NDArray[np.int64],
) -> Flights:
    """Tell handshake, tickets and application data of servers apart.

    Args:
        records: of all connections.
        first: each server's first encrypted record.
        counts: how many of them, all of application data, are looked at; at least one.
        finished: the record with the client's Finished.
        request_no: the packet with the client's next record; above all numbers without one.
        finished_bytes: length of a record with a Finished.
        resumed: the server accepted a PSK.
        rtt_ns: round trip between the capture point and the server.
    """
    width = int(counts.max(initial=1))
    column = np.arange(width)
    # A row a connection, a column a record of its server.
    flight = first[:, None] + column
    there = column < counts[:, None]
    flight[~there] = 0
    lengths, packet_nos = records.length[flight], records.first_packet_no[flight]

    # Packets tell the order even where a coarse clock does not.
    before = there & (packet_nos < records.first_packet_no[finished][:, None])
    count = before.sum(axis=1)
    in_order = (before == (column < count[:, None])).all(axis=1)

    # Up to the Finished; the first record holds EncryptedExtensions, so it is none alone.
    ends = before & (lengths == finished_bytes[:, None])
    ends[:, 0] = False
    in_one = resumed & (count > 0) & (lengths[:, 0] >= finished_bytes + MIN_EXTENSIONS_BYTES)
    handshake = np.where(ends.any(axis=1), ends.argmax(axis=1) + 1, np.where(in_one, 1, count))
    tickets = before & (column >= handshake[:, None]) & may_be_ticket(lengths)
    tickets |= _behind(records, flight, count, counts, lengths, finished, request_no, rtt_ns)

    roles = tickets * np.uint8(ROLE_CODE["ticket"])
    roles[column < handshake[:, None]] = ROLE_CODE["handshake"]
    return Flights(in_order, handshake, flight, roles)


def _behind(
    records: TlsRecords,
    flight: NDArray[np.int64],
    count: NDArray[np.int64],
    counts: NDArray[np.int64],
    lengths: NDArray[np.int32],
    finished: NDArray[np.int64],
    request_no: NDArray[np.int64],
    rtt_ns: NDArray[np.int64],
) -> NDArray[np.bool_]:
    """Which records behind the client's Finished, the first `count` ones, carry tickets."""
    tickets = np.zeros(flight.shape, np.bool_)
    which = np.flatnonzero(count < counts)
    which = which[may_be_ticket(lengths[which, count[which]])]
    if not len(which):
        return tickets
    begin, stop = count[which], counts[which]
    first = flight[which, begin]
    length, seen_ns = records.length[first], records.seen_ns[first]
    finished_ns, rtt_ns = records.seen_ns[finished[which]], rtt_ns[which]
    openssl = has_openssl_form(length)
    # Nagle's algorithm may hold the second ticket until the first is acknowledged.
    apart_ns = np.where(openssl, rtt_ns + DELAYED_ACK_NS, BURST_NS)
    run = np.ones(len(which), np.int64)
    going = np.ones(len(which), np.bool_)
    for step in range(1, MAX_TICKETS):
        going &= begin + step < stop
        record = np.where(going, first + step, 0)
        going &= records.length[record] == length
        going &= records.seen_ns[record] - seen_ns <= apart_ns
        if not going.any():
            break
        run += going
    unasked = records.first_packet_no[first] < request_no[which]
    several = run >= 2
    soon = np.where(several, 2 * rtt_ns + 50_000_000, rtt_ns + np.maximum(rtt_ns // 4, BURST_NS))
    at_once = seen_ns <= finished_ns + soon
    # One alone may be a whole small answer: only with the form of a ticket, in time, and with an
    # answer behind it.
    taken = unasked | np.where(several, openssl | at_once, openssl & at_once & (stop - begin > 1))
    column = np.arange(flight.shape[1])
    behind = (column >= begin[:, None]) & (column < (begin + run)[:, None])
    tickets[which] = behind & taken[:, None]
    return tickets
