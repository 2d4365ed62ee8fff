from __future__ import annotations

import random
import struct

import numpy as np
import pytest

from capture_analyzer.model.packets import (
    HAS_MSS,
    HAS_SACK,
    HAS_TIMESTAMPS,
    HAS_WINDOW_SCALE,
    OPTIONS_BROKEN,
    SACK_PERMITTED,
)
from capture_analyzer.protocols.tcp import options

NOP, END = b"\x01", b"\x00"
MSS = b"\x02\x04\x05\xb4"
SCALE = b"\x03\x03\x07"
PERMIT = b"\x04\x02"


def timestamps(value: int, echo: int) -> bytes:
    return struct.pack(">BBII", 8, 10, value, echo)


def sack(*blocks: tuple[int, int]) -> bytes:
    return bytes([5, 2 + 8 * len(blocks)]) + b"".join(struct.pack(">II", *b) for b in blocks)


def decode(*lists: bytes, captured: list[int] | None = None) -> options.Options:
    areas = np.zeros((len(lists), 40), np.uint8)
    for row, data in enumerate(lists):
        areas[row, : len(data)] = np.frombuffer(data, np.uint8)
        areas[row, len(data) :] = 0xEE  # payload behind the options
    lengths = np.array([len(data) for data in lists], np.int64)
    return options.decode(areas, lengths, lengths if captured is None else np.array(captured))


def test_the_usual_list():
    got = decode(*[NOP + NOP + timestamps(7, 2**32 - 1)] * 3)
    assert got.options.tolist() == [HAS_TIMESTAMPS] * 3
    assert got.tsval.tolist() == [7] * 3
    assert got.tsecr.tolist() == [2**32 - 1] * 3


def test_a_syn_beside_others():
    syn = MSS + PERMIT + timestamps(1, 0) + NOP + SCALE
    got = decode(NOP + NOP + timestamps(5, 6), syn, b"")
    assert got.options.tolist() == [
        HAS_TIMESTAMPS,
        HAS_MSS | SACK_PERMITTED | HAS_TIMESTAMPS | HAS_WINDOW_SCALE,
        0,
    ]
    assert got.mss.tolist() == [0, 1460, 0]
    assert got.window_scale.tolist() == [0, 7, 0]
    assert got.tsval.tolist() == [5, 1, 0]


def test_payload_behind_a_header_without_options_is_not_read():
    data = NOP + NOP + timestamps(5, 6)
    areas = np.frombuffer(data + bytes(28), np.uint8).reshape(1, 40)
    got = options.decode(areas, np.array([0]), np.array([40]))
    assert got.options.tolist() == [0]


def test_sack_blocks_of_several_packets():
    one = NOP + NOP + sack((10, 20))
    three = NOP + NOP + timestamps(1, 2) + NOP + NOP + sack((30, 40), (50, 60), (70, 2**32 - 1))
    four = sack((1, 2), (3, 4), (5, 6), (7, 8)) + NOP + NOP
    got = decode(three, b"", one, NOP + NOP + timestamps(1, 2), four)
    assert got.sack_count.tolist() == [3, 0, 1, 0, 4]
    assert got.sack_left.tolist() == [30, 50, 70, 10, 1, 3, 5, 7]
    assert got.sack_right.tolist() == [40, 60, 2**32 - 1, 20, 2, 4, 6, 8]
    assert (got.options & HAS_SACK != 0).tolist() == [True, False, True, False, True]


@pytest.mark.parametrize(
    "data",
    [
        b"\x08",  # no room for a length
        b"\x08\x00" + bytes(10),  # a length that leads nowhere
        b"\x08\x01" + bytes(10),
        b"\x08\x0a" + bytes(7),  # longer than the list
        NOP * 39 + b"\x05",
        b"\x05\x26" + bytes(30),
    ],
)
def test_broken_lists(data):
    got = decode(data)
    assert got.options.tolist() == [OPTIONS_BROKEN]


def test_what_precedes_the_break_holds():
    got = decode(MSS + b"\x08\x00" + SCALE)
    assert got.options.tolist() == [HAS_MSS | OPTIONS_BROKEN]
    assert got.window_scale.tolist() == [0]


@pytest.mark.parametrize(
    "data",
    [
        b"\x08\x0b" + bytes(9),  # timestamps of the wrong length
        b"\x02\x03\x05",
        b"\x03\x04\x07\x00",
        b"\x04\x03\x00",
        b"\x05\x02",  # no blocks
        b"\x05\x0b" + bytes(9),
        b"\xfe\x04ab",  # unknown
    ],
)
def test_options_of_the_wrong_length_are_passed_over(data):
    got = decode(data + MSS)
    assert got.options.tolist() == [HAS_MSS]
    assert got.sack_count.tolist() == [0]


def test_the_end_of_the_list_ends_it():
    assert decode(MSS + END + SCALE).options.tolist() == [HAS_MSS]


def test_options_cut_by_the_snap_length():
    usual = NOP + NOP + timestamps(5, 6)
    got = decode(usual, usual, MSS + usual, captured=[12, 11, 4])
    assert got.options.tolist() == [
        HAS_TIMESTAMPS,
        OPTIONS_BROKEN,
        HAS_MSS | OPTIONS_BROKEN,
    ]
    assert got.tsval.tolist() == [5, 0, 0]


def test_no_packets():
    assert len(decode().options) == 0


def plain(data: bytes) -> tuple[int, int, int, int, int, list[tuple[int, int]]]:
    """One list at a time, as the RFC says it."""
    bits = mss = scale = value = echo = at = 0
    blocks: list[tuple[int, int]] = []
    while at < len(data):
        kind = data[at]
        if kind == 0:
            break
        if kind == 1:
            at += 1
            continue
        length = data[at + 1] if at + 1 < len(data) else 0
        if length < 2 or at + length > len(data):
            bits |= OPTIONS_BROKEN
            break
        body = data[at + 2 : at + length]
        if (kind, length) == (8, 10):
            bits |= HAS_TIMESTAMPS
            value, echo = struct.unpack(">II", body)
        elif (kind, length) == (2, 4):
            bits |= HAS_MSS
            (mss,) = struct.unpack(">H", body)
        elif (kind, length) == (3, 3):
            bits |= HAS_WINDOW_SCALE
            scale = body[0]
        elif (kind, length) == (4, 2):
            bits |= SACK_PERMITTED
        elif kind == 5 and length >= 10 and length % 8 == 2 and not blocks:
            bits |= HAS_SACK
            blocks = list(struct.iter_unpack(">II", body))
        at += length
    return bits, mss, scale, value, echo, blocks


def test_random_lists_against_a_plain_decoder():
    rng = random.Random(4)
    parts = [NOP, END, MSS, SCALE, PERMIT, timestamps(1, 2), sack((1, 2)), sack((3, 4), (5, 6))]
    lists = []
    for _ in range(3000):
        data = b"".join(rng.choices(parts, k=rng.randrange(8)))
        if rng.random() < 0.3:
            data = bytes(rng.choice((0, 1, 2, 3, 4, 5, 8, 10, 18, 255)) for _ in range(40))
        lists.append(data[: rng.randrange(0, 11) * 4])
    got = decode(*lists)
    at = 0
    for row, data in enumerate(lists):
        count = int(got.sack_count[row])
        left, right = got.sack_left[at : at + count], got.sack_right[at : at + count]
        at += count
        assert (
            int(got.options[row]),
            int(got.mss[row]),
            int(got.window_scale[row]),
            int(got.tsval[row]),
            int(got.tsecr[row]),
            list(zip(left.tolist(), right.tolist(), strict=True)),
        ) == plain(data), data
    assert at == len(got.sack_left)
