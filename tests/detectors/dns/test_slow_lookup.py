"""dns/slow-lookup on tables made by hand."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from capture_analyzer.detectors.runner import run
from capture_analyzer.model.findings import Finding
from capture_analyzer.model.lookups import Lookup

MS = 1_000_000


def judge(tables: Any, **settings: Any) -> list[Finding]:
    findings, outcomes = run(
        tables, select=["dns/slow-lookup"], settings={"dns/slow-lookup": settings}
    )
    assert {row.outcome for row in outcomes if row.reason is None} == {"ran"}
    return findings


def lookup(number: int, start_ms: float, end_ms: float | None, **values: Any) -> Lookup:
    defaults: dict[str, Any] = {
        "lookup_no": number,
        "client_ip": "192.0.2.1",
        "server_ip": "192.0.2.53",
        "name": "api.example",
        "type": "A",
        "start_ns": round(start_ms * MS),
        "end_ns": None if end_ms is None else round(end_ms * MS),
        "rcode": None if end_ms is None else "NOERROR",
        "addresses": ["198.51.100.1"],
        "packet_nos": [2 * number + 1, 2 * number + 2],
    }
    return Lookup(**{**defaults, **values})


def waited(hand_made: ModuleType, *lookups: Lookup, wait_ms: float, used: int = 0) -> Any:
    """An exchange that waited so long for its name, and then took 100 ms."""
    return hand_made.tables(
        connections=[hand_made.connection(0, lookup_no=used)],
        exchanges=[hand_made.exchange(0, 0, wait_ms + 100, carries_setup=True, lookup_no=used)],
        lookups=list(lookups),
        ledger=hand_made.ledger(
            (0, 0, wait_ms, "dns"), (0, wait_ms, wait_ms + 100, "server_think")
        ),
    )


def test_slow_answer(hand_made: ModuleType) -> None:
    (row,) = judge(waited(hand_made, lookup(0, 0, 600), wait_ms=600))
    assert (row.severity, row.cost_ns, row.count) == ("critical", 600 * MS, 1)
    assert row.summary.replace("\u00a0", " ") == (
        "The lookup of api.example at 192.0.2.53 took 0.60 s."
    )
    assert (row.packet_nos, row.exchange_nos) == ([1, 2], [0])


def test_slower_type_is_blamed(hand_made: ModuleType) -> None:
    slow = lookup(1, 0, 400, type="AAAA", addresses=[], server_ip="192.0.2.54")
    (row,) = judge(waited(hand_made, lookup(0, 0, 5), slow, wait_ms=400))
    assert row.measures["resolver"] == "192.0.2.54"
    assert set(row.packet_nos) == {1, 2, 3, 4}


def test_question_that_was_sent_again(hand_made: ModuleType) -> None:
    """Quick in the end, but the question was lost."""
    (row,) = judge(waited(hand_made, lookup(0, 0, 60, question_count=2), wait_ms=60))
    assert row.severity == "warning"
    assert "one question was sent again" in row.summary


def test_question_that_was_sent_again_from_another_port(hand_made: ModuleType) -> None:
    lookups = (lookup(0, 0, None), lookup(1, 40, 60))
    (row,) = judge(waited(hand_made, *lookups, wait_ms=60, used=1))
    assert row.measures["questions_repeated"] == 1


def test_near_miss_prompt(hand_made: ModuleType) -> None:
    tables = waited(hand_made, lookup(0, 0, 60), wait_ms=60)
    assert not judge(tables)
    assert judge(tables, least_ms=50)


def test_near_miss_nobody_waited(hand_made: ModuleType) -> None:
    tables = waited(hand_made, lookup(0, 0, 900), wait_ms=600)
    tables.ledger = hand_made.ledger((0, 0, 700, "server_think"))
    assert not judge(tables)


def test_a_resolver_is_one_finding(hand_made: ModuleType) -> None:
    tables = hand_made.tables(
        connections=[hand_made.connection(n, lookup_no=n) for n in range(2)],
        exchanges=[
            hand_made.exchange(n, 1000 * n, 1000 * n + 300, connection_no=n, lookup_no=n)
            for n in range(2)
        ],
        lookups=[lookup(n, 1000 * n, 1000 * n + 200, name=f"{n}.example") for n in range(2)],
        ledger=hand_made.ledger(
            (0, 0, 200, "dns"), (0, 200, 300, "unknown"), (1, 1000, 1200, "dns")
        ),
    )
    (row,) = judge(tables)
    assert (row.count, row.cost_ns) == (2, 400 * MS)
    assert row.summary.startswith("Two requests waited")
