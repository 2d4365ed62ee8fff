"""A small capture many times over, at overlapping times: what a detector costs that fires often."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from capture_analyzer.readers import open_capture
from capture_shapes.columns import EPOCH_US

AT_ONCE = 30
"""Copies that go on at the same time."""

_ETHERNET_BYTES = 14
_SYN_ACK_FIN = 0x13
_SYN = 2
_DNS = b"\x00\x35"


class Copies:
    """Copies of a capture over Ethernet and IPv4, each of other hosts.

    Attributes:
        size: the usual number of copies.
        what: what is in it.
    """

    size = 100

    def __init__(self, path: Path, *, servers: bool) -> None:
        """Of a file; with `servers` each copy has servers of its own, too."""
        self.what = f"Copies of {path.name}, each of another client" + " and server" * servers
        capture = open_capture(path)
        self._frames: list[tuple[int, bytes]] = []
        for i in range(len(capture)):
            at, size = int(capture.data_offset[i]), int(capture.captured_bytes[i])
            frame = bytes(capture.buffers[int(capture.file_no[i])][at : at + size])
            if len(frame) >= 54 and frame[12:14] == b"\x08\x00":
                self._frames.append((int(capture.time_ns[i]) // 1000, frame))
        self._clients = {host for _, frame in self._frames for host in _client(frame)}
        self._servers = servers

    def write(self, target: Path, count: int) -> int:
        """Write so many copies; returns the number of packets."""
        if not self._frames:
            return 0
        begin = min(when for when, _ in self._frames)
        span = max(when for when, _ in self._frames) - begin
        whens = np.array([when - begin for when, _ in self._frames])
        starts = np.arange(count) * max(span // AT_ONCE, 1)
        when = (starts[:, None] + whens).ravel()
        turn = np.repeat(np.arange(count), len(whens))
        with target.open("wb") as file:
            file.write(
                b"\xd4\xc3\xb2\xa1\x02\x00\x04\x00" + bytes(8) + b"\x00\x00\x04\x00\x01\x00\x00\x00"
            )
            for at in np.argsort(when, kind="stable").tolist():
                frame = self._frames[at % len(whens)][1]
                second, fraction = divmod(EPOCH_US + int(when[at]), 1_000_000)
                size = len(frame).to_bytes(4, "little")
                file.write(second.to_bytes(4, "little") + fraction.to_bytes(4, "little"))
                file.write(size + size + self._moved(frame, int(turn[at])))
        return len(when)

    def _moved(self, frame: bytes, turn: int) -> bytes:
        """A frame between the hosts of a copy."""
        at = _ETHERNET_BYTES + 12
        hosts = [frame[at : at + 4], frame[at + 4 : at + 8]]
        for side, host in enumerate(hosts):
            if self._servers or host in self._clients:
                number = int.from_bytes(host, "big") + (turn << 8)
                hosts[side] = (number % (1 << 32)).to_bytes(4, "big")
        return frame[:at] + hosts[0] + hosts[1] + frame[at + 8 :]


def _client(frame: bytes) -> list[bytes]:
    """The host that asks in this frame, if it shows."""
    at = _ETHERNET_BYTES
    body = at + 4 * (frame[at] & 15)
    source, protocol = frame[at + 12 : at + 16], frame[at + 9]
    asks = (
        protocol == 6 and frame[body + 13 : body + 14] and frame[body + 13] & _SYN_ACK_FIN == _SYN
    )
    asks = asks or (protocol == 17 and frame[body + 2 : body + 4] == _DNS)
    return [source] if asks else []
