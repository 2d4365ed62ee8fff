from __future__ import annotations

import random

import numpy as np
import pytest

from capture_analyzer.pipeline.scan import addresses
from capture_analyzer.pipeline.scan.addresses import Addresses
from capture_analyzer.protocols.ip import ipv4_text, ipv6_text


def encoded(batches: list[list[tuple[int, int, int]]]) -> tuple[list[str], list[str], list[str]]:
    """(addresses, sources, destinations) of batches of (packet, source, destination)."""
    book = Addresses()
    count = 1 + max(row[0] for batch in batches for row in batch)
    source, destination = np.full(count, -1, np.int32), np.full(count, -1, np.int32)
    for batch in batches:
        rows = np.array([row[0] for row in batch])
        if batch[0][1] < 2**32:
            left, right = (
                (np.array([row[field] for row in batch], np.uint32),) for field in (1, 2)
            )
        else:
            left, right = (
                (
                    np.array([row[field] >> 64 for row in batch], np.uint64),
                    np.array([row[field] & (2**64 - 1) for row in batch], np.uint64),
                )
                for field in (1, 2)
            )
        source[rows], destination[rows] = book.encode(left, right, rows)
    texts = book.finish(source, destination)

    def named(column: np.ndarray) -> list[str]:
        return [texts[number] if number >= 0 else "" for number in column.tolist()]

    return texts, named(source), named(destination)


def text(address: int) -> str:
    if address < 2**32:
        return ipv4_text(address)
    return ipv6_text(address >> 64, address & (2**64 - 1))


def check(batches: list[list[tuple[int, int, int]]]) -> None:
    texts, sources, destinations = encoded(batches)
    rows = sorted(row for batch in batches for row in batch)
    order: dict[str, None] = {}
    for packet, source, destination in rows:
        assert sources[packet] == text(source)
        assert destinations[packet] == text(destination)
        order |= {text(source): None, text(destination): None}
    assert texts == list(order)


def test_order_of_first_appearance():
    check([[(0, 9, 3), (1, 3, 9), (2, 1, 9)], [(4, 7, 1), (5, 2, 7)]])


def test_an_address_first_seen_as_destination():
    check([[(0, 5, 6), (1, 7, 8), (2, 8, 7), (3, 6, 5)]])


def test_both_versions_are_numbered_together():
    v6 = 0x20010DB8 << 96
    check([[(0, 1, 2), (3, 3, 1)], [(1, v6 | 1, v6 | 2), (2, v6 | 2, v6 << 1 | 1)]])
    check([[(5, 1, 2)], [(1, v6 | 1, v6 | 2), (2, v6 | 2, v6 | 3)], [(8, 2, 4)]])


def test_packets_without_an_address_stay_so():
    _, sources, _ = encoded([[(3, 1, 2)]])
    assert sources == ["", "", "", "0.0.0.1"]


@pytest.mark.parametrize("version", [4, 6])
@pytest.mark.parametrize("distinct", [3, 500, 20_000])
def test_many_addresses(version, distinct):
    rng = random.Random(distinct)
    bits = 32 if version == 4 else 128
    pool = [rng.getrandbits(bits) | (version == 6) << 127 for _ in range(distinct)]
    rows = [(i, rng.choice(pool), rng.choice(pool)) for i in range(12_000)]
    check([rows[i : i + 4000] for i in range(0, 12_000, 4000)])


def test_halves_of_an_ipv6_address_both_count():
    high = 1 << 127
    check([[(0, high | 1, high | 2), (1, high | 1 << 64 | 1, high | 2), (2, high | 2, high | 1)]])


def test_addresses_chosen_to_collide(monkeypatch):
    """All in one slot: the table must not grow without end, and stay right."""
    monkeypatch.setattr(
        addresses._Table, "_slots", lambda self, words: np.zeros(len(words[0]), np.int64)
    )
    rng = random.Random(1)
    rows = [(i, rng.randrange(400), rng.randrange(400)) for i in range(3000)]
    check([rows[:1000], rows[1000:]])
    book = Addresses()
    every = np.arange(5000, dtype=np.uint32)
    book.encode((every,), (every,), np.arange(5000))
    assert len(book._tables[1]._codes) < 5000 << 8
