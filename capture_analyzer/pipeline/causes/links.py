"""What each connection's path and its ends allow: round trips, stops, sizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.column import NO_TIME
from capture_analyzer.model.connections import Connection
from capture_analyzer.model.quick_dataclass import quick_dataclass
from capture_analyzer.pipeline.causes.columns import instants
from capture_analyzer.pipeline.intervals import Times
from capture_analyzer.pipeline.tcp.facts import TcpFacts

PAUSE_NS: Final = 50_000_000
"""A sender that is only held by its window goes on within a round trip and a delayed
acknowledgement (40 ms on Linux); a longer pause, with a margin of 10 ms, is its own."""

UNKNOWN_RTT_NS: Final = 200_000_000
"""Stands for the round trip in that rule where none was measured: longer than most."""

MEASURED: Final = 0.9
"""Confidence in a round trip that the handshake gave."""

SAMPLED: Final = 0.5
"""In one that only data gave: their acknowledgements may have been delayed."""

DELAYED_NS: Final = (40_000_000, 200_000_000)
"""How long they may have been: 40 ms at least on Linux, up to 200 ms elsewhere."""

OPTIONS_BYTES: Final = 40
"""A full segment is shorter than the MSS by its TCP options (RFC 6691), at most this."""

FULL_BYTES: Final = 1000
"""From this length on a segment is taken for full where no MSS was seen."""


@quick_dataclass
class Links:
    """One element a connection in each array, by number.

    Attributes:
        beyond: smallest round trip between the capture point and the server; NO_TIME unknown.
        round_trip: that of the whole path; UNKNOWN_RTT_NS where it is not known.
        longest_stop: how long a sender can stop for its window alone.
        full: segments of the server from this length on may be full.
    """

    beyond: Times
    round_trip: Times
    longest_stop: Times
    full: Times

    @classmethod
    def of(cls, tcp: TcpFacts) -> Links:
        """Those of all connections."""
        number = np.arange(len(tcp.connections))
        never = np.full(len(number), np.iinfo(np.int64).max)
        round_trip = _round_trips(tcp)
        return cls(
            beyond=round_trip_beyond(tcp, number, never),
            round_trip=round_trip,
            longest_stop=PAUSE_NS + round_trip,
            full=full_segments(tcp.connections),
        )


def round_trip_beyond(
    tcp: TcpFacts, connection_no: NDArray[np.signedinteger], until: Times
) -> Times:
    """The smallest round trip to the server's side up to an instant; NO_TIME = none.

    At the server itself there is none to take out: what its own stack takes is its time.
    """
    measured = tcp.min_rtt_before(connection_no.astype(np.int64), until)
    handshake = instants([c.server_side_rtt_ns for c in tcp.connections])[connection_no]
    at_server = np.array([c.vantage_side == "server" for c in tcp.connections], np.bool_)
    both = (measured != NO_TIME) & (handshake != NO_TIME)
    # NO_TIME is the least of all numbers, so the greater of two is the one that is known.
    known = np.where(both, np.minimum(measured, handshake), np.maximum(measured, handshake))
    return np.where(at_server[connection_no], 0, known)


def trust_in_round_trip(connections: Sequence[Connection]) -> NDArray[np.float32]:
    """For each connection the confidence in its round trip to the server."""
    measured = [c.server_side_rtt_ns is not None or c.vantage_side == "server" for c in connections]
    return np.where(np.array(measured, np.bool_), MEASURED, SAMPLED).astype(np.float32)


def surely_on_the_way(round_trip: Times, trust: NDArray[np.float32]) -> Times:
    """The part of round trips that no delayed acknowledgement can be."""
    shortest, longest = DELAYED_NS
    delay = np.where(round_trip >= longest, longest, np.where(round_trip >= shortest, shortest, 0))
    return np.where(trust > SAMPLED, round_trip, round_trip - delay)


def full_segments(connections: Sequence[Connection]) -> Times:
    """For each connection the length from which on a segment of the server may be full."""
    return np.array(
        [FULL_BYTES if c.mss_client is None else c.mss_client - OPTIONS_BYTES for c in connections],
        np.int64,
    )


def _round_trips(tcp: TcpFacts) -> Times:
    """For each connection the smallest round trip of the whole path."""
    number = np.arange(len(tcp.connections))
    never = np.full(len(number), np.iinfo(np.int64).max)
    # NO_TIME is negative: a side that was not measured counts nothing.
    client = np.maximum(tcp.min_rtt_before(number, never, "client"), 0)
    server = np.maximum(tcp.min_rtt_before(number, never, "server"), 0)
    handshake = instants([c.rtt_ns for c in tcp.connections])
    both = np.maximum(client + server, handshake)
    return np.where(both > 0, both, UNKNOWN_RTT_NS)
