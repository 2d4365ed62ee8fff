"""tls/record-wait on tables made by hand: whose wait counts, and whose does not."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from capture_analyzer.detectors.runner import run
from capture_analyzer.model.findings import Finding
from capture_analyzer.model.messages import Field, StreamFacts

MS = 1_000_000


def judge(tables: Any, **options: object) -> list[Finding]:
    findings, outcomes = run(
        tables, select=["tls/record-wait"], settings={"tls/record-wait": options}
    )
    assert {row.outcome for row in outcomes if row.reason is None} == {"ran"}
    return findings


def waited(
    hand_made: ModuleType,
    *waits: float,
    length_ms: float = 500,
    event_bytes: int = 300,
    **values: Any,
) -> Any:
    """Tables with one answer that waited so often, each time for a record of 16,000 bytes."""
    entries, rows, at = [], [], 100.0
    for wait in waits:
        entries += [(0, at - 100 + 0.0, at, "generation"), (0, at, at + wait, "record_wait")]
        rows.append((0, at + wait, "content"))
        at += wait + 100
    entries.append((0, at - 100, max(length_ms, at), "generation"))
    values = {"kind": "sse", "stream": StreamFacts(), **values}
    tables = hand_made.tables(
        connections=[hand_made.connection()],
        exchanges=[hand_made.exchange(0, 0, max(length_ms, at), **values)],
        events=hand_made.events(*rows),
        ledger=hand_made.ledger(*entries),
        tls_records=hand_made.tls_records((0, 23, 1)),
    )
    tables.tls_records.length[:] = 16_000
    tables.tls_records.last_packet_no[:] = 2
    tables.events.size_bytes[:] = event_bytes
    return tables


@pytest.mark.parametrize(
    ("waits", "fires"), [((20,), True), ((19,), False), ((15, 15, 15), False), ((5, 25), True)]
)
def test_thresholds(hand_made: ModuleType, waits: tuple[float, ...], fires: bool) -> None:
    assert bool(judge(waited(hand_made, *waits))) == fires


def test_option(hand_made: ModuleType) -> None:
    assert judge(waited(hand_made, 6), least_ms=5)
    assert not judge(waited(hand_made, 30), least_ms=31)


def test_what_it_says(hand_made: ModuleType) -> None:
    (row,) = judge(waited(hand_made, 36, 30))
    assert row.summary.replace("\u00a0", " ") == (
        "An answer of api.example was readable up to 36 ms after it arrived, 66 ms in all: the "
        "TLS records were too large."
    )
    assert (row.cost_ns, row.severity, row.count) == (66 * MS, "warning", 2)
    assert row.measures["record_max_bytes"] == 16_000
    assert "small TLS records" in row.action


def test_an_event_as_large_as_its_record_needs_another_remedy(hand_made: ModuleType) -> None:
    (row,) = judge(waited(hand_made, 36, 30, event_bytes=12_000))
    assert row.action == "Let api.example send smaller events"


def html(text: str) -> dict[str, Any]:
    return {"kind": "http", "stream": None, "response_fields": [Field("content-type", text)]}


def test_nobody_waits_for_the_first_byte_of_a_download(hand_made: ModuleType) -> None:
    assert not judge(waited(hand_made, 200, **html("application/octet-stream")))
    assert not judge(waited(hand_made, 200, kind="http", stream=None))


def test_a_page_is_read_from_its_first_byte(hand_made: ModuleType) -> None:
    assert judge(waited(hand_made, 60, length_ms=500, **html("Text/HTML; charset=utf-8")))
    assert not judge(waited(hand_made, 40, length_ms=500, **html("text/html")))
