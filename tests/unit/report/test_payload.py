from __future__ import annotations

import itertools
import json
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from capture_analyzer.model.column import NO_TIME
from capture_analyzer.model.messages import Field
from capture_analyzer.report import packet_rows
from capture_analyzer.report.payload import INFERRED, LOST, payload
from capture_analyzer.report.strings import MAX_CHARACTERS, StringTable, visible


def size(value: Any) -> int:
    return len(json.dumps(value, separators=(",", ":")))


def test_ledger_reads_back_exactly(sample: ModuleType) -> None:
    analysis = sample.incident()
    analysis.tables.ledger.confidence[3] = 0.5
    data = payload(analysis)
    ledger = analysis.tables.ledger
    columns = data["ledger"]
    starts = list(itertools.accumulate(data["exchanges"]["start"]))
    entry = 0
    packet = 0
    for number, count in enumerate(columns["count"]):
        at = starts[number] * data["unit"]
        for _ in range(count):
            assert ledger.exchange_no[entry] == number
            assert ledger.from_ns[entry] == at
            at += columns["time"][entry] * data["unit"]
            assert ledger.to_ns[entry] == at
            code = columns["cause"][entry]
            assert code % LOST == ledger.cause[entry]
            assert bool(code & INFERRED) == (entry == 3)
            first = packet + columns["first"][entry]
            packet = first + columns["second"][entry]
            assert (first, packet) == (ledger.packet_a[entry], ledger.packet_b[entry])
            entry += 1
    assert entry == len(ledger)
    lost = sum(
        time for time, code in zip(columns["time"], columns["cause"], strict=True) if code & LOST
    )
    assert lost * data["unit"] == data["verdict"]["avoidable"]


def test_a_finer_clock_is_kept(sample: ModuleType) -> None:
    analysis = sample.incident()
    assert payload(analysis)["unit"] == 1000
    analysis.tables.exchanges.columns.request_start_ns[0] += 1
    assert payload(analysis)["unit"] == 1


def test_sets_of_exchanges_are_ranges(sample: ModuleType) -> None:
    data = payload(sample.incident(keys=False))
    assert [row["exchanges"] for row in data["findings"]] == [[9, 1], [10, 2], [12, 6]]


def test_about_300_bytes_an_exchange(sample: ModuleType) -> None:
    few, many = size(payload(sample.many(2500))), size(payload(sample.many(5000)))
    assert (many - few) / 2500 < 300


def test_equal_fields_are_held_once(sample: ModuleType) -> None:
    analysis = sample.clean()
    data = payload(analysis)
    assert len(set(data["exchanges"]["requestFields"])) == 1
    analysis.tables.exchanges[2].request_fields.append(Field("x-late", "…3", trailer=True))
    columns = payload(analysis)["exchanges"]
    assert columns["requestFields"][2] != columns["requestFields"][1]
    assert [columns["pairs"][pair][2] for pair in columns["fieldSets"][columns["requestFields"][2]]] == [0, 0, 0, 1]  # fmt: skip  # noqa: E501


def test_small_captures_list_every_packet(sample: ModuleType) -> None:
    analysis = sample.incident()
    analysis.tables.packets.time_ns[5] = NO_TIME
    columns = packet_rows.columns(analysis, 1000, StringTable())
    packets = analysis.tables.packets
    assert columns["all"]
    assert list(itertools.accumulate(columns["no"])) == list(range(1, len(packets) + 1))
    assert columns["time"][5] is None
    times = [step for step in columns["time"] if step is not None]
    assert [t * 1000 for t in itertools.accumulate(times)] == [
        t for t in packets.time_ns.tolist() if t != NO_TIME
    ]


def test_large_captures_list_what_proves_something(
    sample: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    analysis = sample.incident()
    monkeypatch.setattr(packet_rows, "MAX_PACKETS", 30)
    listed = set((packet_rows.chosen(analysis) + 1).tolist())
    assert len(listed) == 30
    for finding in analysis.findings:
        assert listed >= set(finding.packet_nos)
    ledger = analysis.tables.ledger
    named = np.concatenate((ledger.packet_a, ledger.packet_b)).tolist()
    assert listed <= set(named)


def test_invisible_characters_are_made_visible() -> None:
    assert visible("a\u202eb\x00c\ud800d\u2028e") == "a⟨U+202E⟩b⟨U+0000⟩c⟨U+D800⟩d⟨U+2028⟩e"
    assert visible("plain – text … 日本語 €") == "plain – text … 日本語 €"
    long = visible("x" * (MAX_CHARACTERS + 1234))
    assert long == "x" * MAX_CHARACTERS + "… (1,234 more characters)"


def test_strings_are_stored_once() -> None:
    table = StringTable()
    assert [table.number(text) for text in ("a", None, "b", "a")] == [1, 0, 2, 1]
    assert table.strings == [None, "a", "b"]
