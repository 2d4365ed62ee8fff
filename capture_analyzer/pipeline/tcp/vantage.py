"""Where the capture was made, seen from each connection.

Two kinds of evidence, each of its own worth:

* the halves of the handshake's round trip: the near side answers within microseconds;
* the IP time to live: a packet that still has an initial value (64, 128 or 255) has passed
  no router, so it was sent here or on the same network.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.column import NO_TIME
from capture_analyzer.pipeline.tcp.segments import Ints

SIDES: Final = ("unknown", "client", "server", "middle")

_INITIAL_TTL: Final = np.array([64, 128, 255], np.uint8)
_HOST_ANSWER_NS: Final = 2_000_000  # a host answers a SYN within this, or it is busy
_TOO_CLOSE_NS: Final = 200_000  # below this a round trip is scheduling noise, not distance


def find_vantage(
    client_rtt: Ints,
    server_rtt: Ints,
    client_ttl: NDArray[np.uint8],
    server_ttl: NDArray[np.uint8],
) -> tuple[NDArray[np.uint8], NDArray[np.float64]]:
    """Side (index into SIDES) and confidence (0 to 1) of each connection.

    Args:
        client_rtt: smallest round trip between capture point and client; NO_TIME unknown.
        server_rtt: likewise to the server.
        client_ttl: TTL or hop limit of the client's packets; 0 unknown.
        server_ttl: likewise.
    """
    count = len(client_rtt)
    side = np.zeros(count, np.uint8)
    confidence = np.zeros(count, np.float64)
    known = (client_rtt != NO_TIME) & (server_rtt != NO_TIME)
    c = np.where(known, client_rtt, 0)
    s = np.where(known, server_rtt, 0)
    near, far = np.minimum(c, s), np.maximum(c, s)
    told = known & (far > _TOO_CLOSE_NS)
    share = near / np.maximum(far, 1)
    by_time = np.where(c < s, 1, 2).astype(np.uint8)
    by_time[~(told & (share < 0.25))] = 0
    by_time[told & (near > _HOST_ANSWER_NS) & (share >= 0.1)] = 3
    trust = np.where(share < 0.05, 0.9, 0.7)
    trust[by_time == 3] = 0.7

    client_near = np.isin(client_ttl, _INITIAL_TTL)
    server_near = np.isin(server_ttl, _INITIAL_TTL)
    both = (client_ttl > 0) & (server_ttl > 0)
    by_ttl = np.zeros(count, np.uint8)
    by_ttl[both & client_near & ~server_near] = 1
    by_ttl[both & ~client_near & server_near] = 2
    by_ttl[both & ~client_near & ~server_near] = 3

    side[:] = np.where(by_time > 0, by_time, by_ttl)
    agree = (by_time > 0) & (by_time == by_ttl)
    clash = (by_time > 0) & (by_ttl > 0) & ~agree
    confidence[(by_time > 0)] = trust[by_time > 0]
    confidence[(by_time == 0) & (by_ttl > 0)] = 0.7
    confidence[agree] = 0.97
    confidence[clash] = 0.5
    return side, confidence
