from __future__ import annotations

import numpy as np
import pytest

from capture_analyzer.wire.windows import Windows, column


def windows_of(data: bytes, offsets: list[int], width: int) -> list[bytes]:
    rows = Windows(data).at(np.array(offsets, np.int64), width)
    assert rows.shape == (len(offsets), width)
    return [row.tobytes() for row in rows]


def test_windows_begin_where_asked():
    assert windows_of(b"abcdefgh", [0, 3, 3, 5], 3) == [b"abc", b"def", b"def", b"fgh"]


@pytest.mark.parametrize("size", [1, 2, 7, 8, 9])
def test_bytes_past_the_end_are_zero(size):
    data = bytes(range(1, size + 1))
    offsets = [0, size - 1, size, size + 1, size + 100, 0]
    padded = data + bytes(200)
    assert windows_of(data, offsets, 8) == [padded[at : at + 8] for at in offsets]


def test_an_empty_buffer_and_no_offsets():
    assert windows_of(b"", [0, 5], 4) == [bytes(4)] * 2
    assert windows_of(b"abc", [], 4) == []


def test_a_window_is_a_copy():
    data = bytearray(b"abcd")
    rows = Windows(memoryview(data)).at(np.array([0]), 4)
    data[0] = 0
    assert rows.tobytes() == b"abcd"


def test_columns_have_the_byte_order_asked_for():
    rows = Windows(b"\x01\x02\x03\x04\x05").at(np.array([0, 1]), 4)
    assert column(rows, 1, ">u2").tolist() == [0x0203, 0x0304]
    assert column(rows, 2, "<u2").tolist() == [0x0403, 0x0504]
    assert column(rows, 0, "u1").tolist() == [1, 2]
    assert column(rows[:0], 0, ">u4").tolist() == []
