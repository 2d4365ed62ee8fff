from __future__ import annotations

import struct

import numpy as np

from capture_analyzer.protocols.tcp import header


def test_fields():
    rows = [
        struct.pack(">HHIIBBHHH", 443, 50_000, 2**32 - 1, 77, 0x50, 0x18, 65_535, 0, 0),
        struct.pack(">HHIIBBHHH", 1, 2, 3, 99, 0xF1, 0xC2, 0, 0, 0),  # no ACK: 99 is nothing
    ]
    got = header.decode(np.frombuffer(b"".join(rows), np.uint8).reshape(2, 20))
    assert got.source_port.tolist() == [443, 1]
    assert got.destination_port.tolist() == [50_000, 2]
    assert got.seq.tolist() == [2**32 - 1, 3]
    assert got.ack.tolist() == [77, 0]
    assert got.flags.tolist() == [0x18, 0xC2]
    assert got.window.tolist() == [65_535, 0]
    assert got.header_bytes.tolist() == [20, 60]
