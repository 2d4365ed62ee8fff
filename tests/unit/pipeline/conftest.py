"""Hand-made packets: a small wire on which tests say what was sent."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from capture_analyzer.model.capture import Capture
from capture_analyzer.model.packets import HAS_TIMESTAMPS, TCP, Packets
from capture_analyzer.pipeline.flows import Flows, group
from capture_analyzer.pipeline.reassemble import Streams, reassemble
from capture_analyzer.pipeline.tcp import TcpFacts, analyse

FLAGS = {"F": 1, "S": 2, "R": 4, "P": 8, "A": 16}


@dataclasses.dataclass
class Analysed:
    """What became of the packets of a wire."""

    capture: Capture
    packets: Packets
    flows: Flows
    facts: TcpFacts
    streams: Streams


class Wire:
    """Collects packets; those without a port given go between 10.0.0.1:40000 and 10.0.0.2:80.

    Sequence numbers are raw and wrap by themselves. Times are in milliseconds.
    """

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []

    def client(
        self, at: float, flags: str, seq: int, ack: int = 0, payload: bytes = b"", **more: Any
    ) -> None:
        """A packet from the client."""
        self._add(at, 0, flags, seq, ack, payload, more)

    def server(
        self, at: float, flags: str, seq: int, ack: int = 0, payload: bytes = b"", **more: Any
    ) -> None:
        """A packet from the server."""
        self._add(at, 1, flags, seq, ack, payload, more)

    def _add(
        self,
        at: float,
        side: int,
        flags: str,
        seq: int,
        ack: int,
        payload: bytes,
        more: dict[str, Any],
    ) -> None:
        ports = (more.pop("client_port", 40000), more.pop("server_port", 80))
        if side:
            ports = ports[::-1]
        row = {
            "time_ns": round(at * 1e6),
            "source": side,
            "destination": 1 - side,
            "source_port": ports[0],
            "destination_port": ports[1],
            "flags": sum(FLAGS[letter] for letter in flags),
            "seq": seq % 2**32,
            "ack": ack % 2**32,
            "window": 1000,
            "ttl": 64,
            "payload": payload,
            **more,
        }
        if "tsval" in row:
            row["options"] = row.get("options", 0) | HAS_TIMESTAMPS
        self.rows.append(row)

    def handshake(
        self, at: float = 0, isn: int = 1000, peer_isn: int = 5000, rtt: float = 20, **more: Any
    ) -> None:
        """A handshake as the client's side sees it."""
        self.client(at, "S", isn, **more)
        self.server(at + rtt, "SA", peer_isn, isn + 1, **more)
        self.client(at + rtt + 0.05, "A", isn + 1, peer_isn + 1, **more)

    def build(self) -> tuple[Capture, Packets]:
        """The packets table and a capture that holds the payloads."""
        count = len(self.rows)
        packets = Packets.blank(count)
        buffer = bytearray()
        sacks: list[tuple[int, int]] = []
        for i, made in enumerate(self.rows):
            row = dict(made)
            payload = row.pop("payload")
            cut = row.pop("captured", len(payload))
            packets.payload_offset[i] = len(buffer)
            packets.payload_bytes[i] = len(payload)
            packets.payload_captured[i] = min(cut, len(payload))
            buffer += payload[:cut]
            blocks = row.pop("sack", [])
            packets.sack_first[i], packets.sack_count[i] = len(sacks), len(blocks)
            sacks += blocks
            for name, value in row.items():
                getattr(packets, name)[i] = value
        packets.protocol[:] = TCP
        packets.ip_version[:] = 4
        packets.tcp_header_bytes[:] = 20
        packets.addresses = ["10.0.0.1", "10.0.0.2"]
        packets.frame_no[:] = np.arange(1, count + 1)
        packets.sack_left = np.array([left % 2**32 for left, _ in sacks], np.uint32)
        packets.sack_right = np.array([right % 2**32 for _, right in sacks], np.uint32)
        lengths = packets.payload_bytes + 54
        capture = Capture(
            files=[],
            interfaces=[],
            buffers=[bytes(buffer)],
            epoch_ns=0,
            time_ns=packets.time_ns,
            file_no=packets.file_no,
            frame_no=packets.frame_no,
            interface_no=np.zeros(count, np.uint16),
            data_offset=np.zeros(count, np.int64),
            captured_bytes=lengths,
            original_bytes=lengths,
        )
        return capture, packets

    def analyse(self) -> Analysed:
        """Everything that pipeline/flows, tcp and reassemble make of it."""
        capture, packets = self.build()
        flows = group(packets)
        facts = analyse(packets, flows)
        streams = reassemble(capture, packets, flows, facts.connections)
        return Analysed(capture, packets, flows, facts, streams)


@pytest.fixture(scope="session")
def new_wire() -> type[Wire]:
    """Makes an empty wire."""
    return Wire
