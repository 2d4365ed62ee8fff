"""Which secrets of the key logs a batch of connections needs.

A ClientHello names its session by its random. A batch gets the sessions that its ClientHellos
name, and those that none in the capture names: they may belong to connections whose beginning
was not captured, and are tried on these.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.capture import Capture
from capture_analyzer.model.packets import Packets
from capture_analyzer.model.secrets import Secrets
from capture_analyzer.pipeline.flows import Flows
from capture_analyzer.wire.windows import Windows

_PACKETS_AT_ONCE: Final = 1 << 16
_RANDOM_AT: Final = 11  # behind the headers of record and message, and the version
_RANDOM_BYTES: Final = 32
_HANDSHAKE: Final = 22  # content type of the record (RFC 8446, section 5.1)
_CLIENT_HELLO: Final = 1  # type of the message in it (RFC 8446, section 4)


class Sessions:
    """The secrets of all connections, to be asked for those of some.

    Args:
        secrets: of the key logs.
        capture: holds the bytes.
        packets: all packets.
        flows: the connections.
    """

    def __init__(self, secrets: Secrets, capture: Capture, packets: Packets, flows: Flows) -> None:
        self._secrets = secrets
        self._connections, self._randoms = _hellos(capture, packets, flows)
        named = set(self._randoms)
        self._unnamed = [random for random, _ in secrets.sessions() if random not in named]

    def of(self, first: int, count: int) -> Secrets:
        """Those that connections ``first .. first + count - 1`` may need."""
        begin, stop = np.searchsorted(self._connections, (first, first + count)).tolist()
        chosen = Secrets()
        for random in dict.fromkeys(self._randoms[begin:stop] + self._unnamed):
            for label, secret in self._secrets.of(random).items():
                chosen.add(label, random, secret)
        return chosen


def _hellos(
    capture: Capture, packets: Packets, flows: Flows
) -> tuple[NDArray[np.int64], list[bytes]]:
    """(connection, random) of payloads that begin with a ClientHello, by connection."""
    found: list[NDArray[np.int64]] = []
    randoms: list[bytes] = []
    windows = [Windows(buffer) for buffer in capture.buffers]
    for start in range(0, len(flows.order), _PACKETS_AT_ONCE):
        packet = flows.order[start : start + _PACKETS_AT_ONCE]
        place = np.flatnonzero(packets.payload_captured[packet] >= _RANDOM_AT + _RANDOM_BYTES)
        buffer_no = packets.buffer_no[packet[place]]
        for number in np.unique(buffer_no).tolist():
            mine = place[buffer_no == number]
            at = packets.payload_offset[packet[mine]]
            hello = windows[number].at(at, 1)[:, 0] == _HANDSHAKE
            mine, at = mine[hello], at[hello]
            head = windows[number].at(at, _RANDOM_AT + _RANDOM_BYTES)
            hello = head[:, 5] == _CLIENT_HELLO
            found.append(start + mine[hello])
            randoms += [row.tobytes() for row in head[hello, _RANDOM_AT:]]
    position = np.concatenate(found) if found else np.empty(0, np.int64)
    order = np.argsort(position, kind="stable")
    connection = np.searchsorted(flows.bounds, position[order], "right") - 1
    return connection, [randoms[index] for index in order.tolist()]
