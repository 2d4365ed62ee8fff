"""dns/failed-lookup on tables made by hand."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest

from capture_analyzer.detectors.runner import run
from capture_analyzer.model.findings import Finding
from capture_analyzer.model.lookups import Lookup

MS = 1_000_000


def judge(tables: Any) -> list[Finding]:
    findings, outcomes = run(tables, select=["dns/failed-lookup"])
    assert {row.outcome for row in outcomes if row.reason is None} == {"ran"}
    return findings


def lookup(number: int, rcode: str | None, start_ms: float = 0, **values: Any) -> Lookup:
    defaults: dict[str, Any] = {
        "lookup_no": number,
        "client_ip": "192.0.2.1",
        "server_ip": "192.0.2.53",
        "name": "api.example",
        "type": "A",
        "start_ns": round(start_ms * MS),
        "end_ns": None if rcode is None else round((start_ms + 4) * MS),
        "rcode": rcode,
        "addresses": ["198.51.100.1"] if rcode == "NOERROR" else [],
        "packet_nos": [2 * number + 1, 2 * number + 2],
    }
    return Lookup(**{**defaults, **values})


def tables(hand_made: ModuleType, *lookups: Lookup, end_ms: float = 9000) -> Any:
    made = hand_made.tables(lookups=list(lookups))
    made.packets.time_ns[:] = np.linspace(0, end_ms * MS, len(made.packets)).astype(np.int64)
    return made


def test_no_such_name(hand_made: ModuleType) -> None:
    (row,) = judge(tables(hand_made, lookup(0, "NXDOMAIN")))
    assert (row.severity, row.count, row.packet_nos) == ("info", 1, [1, 2])
    assert row.summary == "The lookup of api.example at 192.0.2.53 failed with NXDOMAIN."


@pytest.mark.parametrize("rcode", ["SERVFAIL", "REFUSED"])
def test_resolver_that_does_not_say(hand_made: ModuleType, rcode: str) -> None:
    (row,) = judge(tables(hand_made, lookup(0, rcode)))
    assert row.severity == "warning"
    assert rcode in row.summary


def test_search_list(hand_made: ModuleType) -> None:
    wrong = lookup(0, "NXDOMAIN", name="api.example.corp.example")
    (row,) = judge(tables(hand_made, wrong, lookup(1, "NOERROR", 6)))
    assert (row.severity, row.estimated_saving_ns) == ("info", 6 * MS)
    assert "another question 6.0\u00a0ms later was answered" in row.summary


def test_no_answer_before_another_resolver_was_asked(hand_made: ModuleType) -> None:
    other = lookup(1, "NOERROR", 2000, server_ip="192.0.2.54")
    (row,) = judge(tables(hand_made, lookup(0, None), other))
    assert (row.severity, row.measures["outcome"]) == ("warning", "no answer")
    assert row.measures["held_max_ns"] == 2000 * MS


def test_no_answer_at_all(hand_made: ModuleType) -> None:
    (row,) = judge(tables(hand_made, lookup(0, None)))
    assert (row.severity, row.measures["unresolved"]) == ("warning", 1)


def test_near_miss_capture_ends_before_an_answer_could_come(hand_made: ModuleType) -> None:
    assert not judge(tables(hand_made, lookup(0, None), end_ms=1500))


@pytest.mark.parametrize("rcode", ["NXDOMAIN", "SERVFAIL", None])
def test_near_miss_other_type_was_found(hand_made: ModuleType, rcode: str | None) -> None:
    aaaa = lookup(1, rcode, 0, type="AAAA")
    assert not judge(tables(hand_made, lookup(0, "NOERROR"), aaaa))


def test_near_miss_answer_without_addresses(hand_made: ModuleType) -> None:
    assert not judge(tables(hand_made, lookup(0, "NOERROR", addresses=[])))


def test_outcomes_are_findings_apart(hand_made: ModuleType) -> None:
    rows = judge(
        tables(
            hand_made,
            lookup(0, "NXDOMAIN", name="a.example"),
            lookup(1, "NXDOMAIN", name="b.example"),
            lookup(2, "SERVFAIL", name="c.example"),
        )
    )
    assert {(row.measures["outcome"], row.count) for row in rows} == {
        ("NXDOMAIN", 2),
        ("SERVFAIL", 1),
    }


def test_near_miss_answers_were_not_captured(hand_made: ModuleType) -> None:
    """As a connection of which only the client's side is there shows."""
    for server, finds in ((1, False), (0, True)):
        made = tables(hand_made, lookup(0, None))
        made.connections = [hand_made.connection(0)]
        made.packets.from_client[:] = 1
        made.packets.from_client[::2] = server
        assert bool(judge(made)) == finds
