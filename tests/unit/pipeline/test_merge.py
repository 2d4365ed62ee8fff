"""Batches are put together: columns that lie end to end already are not copied."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from capture_analyzer.model.column import constant, is_constant
from capture_analyzer.model.room import IN_MEMORY, Line
from capture_analyzer.pipeline import batches, merge
from capture_analyzer.pipeline.build import build
from capture_analyzer.pipeline.reassemble import Streams
from capture_analyzer.readers import open_capture


def test_parts_of_a_line_are_joined_without_a_copy() -> None:
    line = Line(6, np.dtype(np.int32))
    parts = [line.add(np.arange(size, dtype=np.int32)) for size in (2, 0, 3)]
    joined = IN_MEMORY.joined(parts)
    assert joined.tolist() == [0, 1, 0, 1, 2]
    assert np.shares_memory(joined, parts[0])


def test_what_a_line_has_no_place_for_is_copied() -> None:
    line = Line(3, np.dtype(np.int32))
    parts = [line.add(np.arange(size, dtype=np.int32)) for size in (2, 4, 1)]
    assert IN_MEMORY.joined(parts).tolist() == [0, 1, 0, 1, 2, 3, 0]
    other = Line(3, np.dtype(np.int32)).add(np.array([7.5]))
    assert other.tolist() == [7.5]


def test_parts_in_another_order_are_not_taken_for_one() -> None:
    whole = np.arange(6)
    assert IN_MEMORY.joined([whole[3:], whole[:3]]).tolist() == [3, 4, 5, 0, 1, 2]
    assert IN_MEMORY.joined([whole[:2], whole[3:]]).tolist() == [0, 1, 3, 4, 5]
    assert IN_MEMORY.joined([whole[::2], whole[1:2]]).tolist() == [0, 2, 4, 1]
    assert IN_MEMORY.joined([whole[:0], whole[:0]]).tolist() == []


def test_columns_of_one_value_stay_so() -> None:
    joined = IN_MEMORY.joined([constant(3, 2, np.uint16), constant(3, 4, np.uint16)])
    assert is_constant(joined)
    assert joined.tolist() == [3] * 6
    mixed = IN_MEMORY.joined([constant(3, 2, np.uint16), constant(4, 1, np.uint16)])
    assert mixed.tolist() == [3, 3, 4]


@pytest.mark.parametrize("more", [0.01, 1.05, 100])
def test_the_result_does_not_depend_on_how_much_was_expected(
    captures: Path, monkeypatch: pytest.MonkeyPatch, more: float
) -> None:
    path = captures / "six-connections-tls.pcap"
    made: list[Streams] = []
    together = merge._streams

    def noted(*arguments: object) -> Streams:
        made.append(together(*arguments))  # type: ignore[arg-type]
        return made[-1]

    monkeypatch.setattr(merge, "_streams", noted)
    whole = build(open_capture(path))
    monkeypatch.setattr(batches, "BATCH_PACKETS", 20)
    monkeypatch.setattr(merge, "_MORE", more)
    parts = build(open_capture(path))
    for name in merge._columns_of(Streams):
        one, other = (getattr(streams, name) for streams in made)
        assert np.array_equal(one, other), name
    for name in ("connection_no", "offset", "complete_ns"):
        assert np.array_equal(getattr(whole.tls_records, name), getattr(parts.tls_records, name))
