"""Outcomes, order, caps and the rule that time is counted once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any

import pytest

from capture_analyzer.detectors.catalogue import Catalogue
from capture_analyzer.detectors.contract import Detector, Documentation, Meta
from capture_analyzer.detectors.runner import run
from capture_analyzer.errors import OptionError
from capture_analyzer.model.findings import Example, Finding

MS = 1_000_000


def detector(
    detector_id: str, detect: Callable[..., Iterable[Finding]], *causes: str, needs: str = ""
) -> Detector:
    meta = Meta(tables=(needs,) if needs else (), causes=causes)
    return Detector(detector_id, meta, Documentation("Title.", "a", "b", "c", "d"), detect)


def finding(**values: Any) -> Finding:
    defaults: dict[str, Any] = {
        "detector": "",
        "severity": "info",
        "confidence": 1.0,
        "summary": "It was.",
    }
    return Finding(**{**defaults, **values})


def catalogue(*detectors: Detector, **broken: str) -> Catalogue:
    return Catalogue({entry.id: entry for entry in detectors}, broken)


def giving(*findings: Finding) -> Callable[..., Iterable[Finding]]:
    return lambda tables, options: list(findings)


def test_findings_are_ordered_and_numbered(hand_made: ModuleType) -> None:
    first = detector(
        "b/one",
        giving(
            finding(summary="late", severity="warning", from_ns=9),
            finding(summary="early", severity="warning", from_ns=1),
            finding(summary="saving", severity="warning", estimated_saving_ns=3, from_ns=7),
            finding(summary="costly", severity="warning", cost_ns=5),
            finding(summary="second connection", from_ns=1, connection_no=2),
            finding(summary="first connection", from_ns=1, connection_no=1),
        ),
    )
    second = detector(
        "a/two",
        giving(finding(summary="worst", severity="critical"), finding(summary="a/two", from_ns=1)),
    )
    findings, outcomes = run(hand_made.tables(), detectors=catalogue(first, second))
    assert [row.summary for row in findings] == [
        "worst",
        "costly",
        "saving",
        "early",
        "late",
        "a/two",
        "first connection",
        "second connection",
    ]
    assert [row.finding_no for row in findings] == list(range(8))
    assert findings[0].detector == "a/two"
    assert [outcome.id for outcome in outcomes] == ["a/two", "b/one"]
    assert {outcome.outcome for outcome in outcomes} == {"ran"}
    assert outcomes[0].doc["title"] == "Title."


def test_detector_without_rows_is_not_applicable(hand_made: ModuleType) -> None:
    made = catalogue(
        detector("a/rows", giving(finding()), needs="exchanges"),
        detector("a/columns", giving(finding()), needs="tls_records"),
    )
    findings, outcomes = run(hand_made.tables(), detectors=made)
    assert not findings
    assert [(row.outcome, row.reason) for row in outcomes] == [
        ("not_applicable", "the capture has no tls records"),
        ("not_applicable", "the capture has no exchanges"),
    ]


def test_detector_that_throws_loses_only_itself(hand_made: ModuleType) -> None:
    def throw(tables: object, options: object) -> Iterable[Finding]:
        yield finding()
        raise ValueError("GET /captured-text")

    made = catalogue(
        detector("a/throws", throw),
        detector("a/works", giving(finding())),
        detector("a/lies", giving(finding(severity="dreadful"))),
    )
    findings, outcomes = run(hand_made.tables(), detectors=made)
    assert [row.detector for row in findings] == ["a/works"]
    lies, throws, works = outcomes
    assert (lies.outcome, throws.outcome, works.outcome) == ("failed", "failed", "ran")
    assert throws.reason is not None
    assert throws.reason.startswith("ValueError in test_runner.py, line ")
    assert "captured" not in throws.reason


def test_broken_detector_of_others_is_a_failed_outcome(hand_made: ModuleType) -> None:
    made = Catalogue({}, {"acme/x": "can't be loaded: ImportError"})
    _, outcomes = run(hand_made.tables(), detectors=made)
    assert [(row.outcome, row.reason) for row in outcomes] == [
        ("failed", "can't be loaded: ImportError")
    ]


def test_select_and_ignore(hand_made: ModuleType) -> None:
    made = catalogue(*(detector(name, giving(finding())) for name in ("a/x", "a/y", "b/z")))
    findings, outcomes = run(hand_made.tables(), ["a/*"], ["a/y"], detectors=made)
    assert [row.detector for row in findings] == ["a/x"]
    assert [row.reason for row in outcomes] == [None, "ignored", "not selected"]


@pytest.mark.parametrize(
    "arguments",
    [
        {"select": ["a/z"]},
        {"ignore": ["c/*"]},
        {"settings": {"a/z": {}}},
        {"settings": {"a/x": {"limit": 1}}},
    ],
)
def test_unknown_names_are_refused(arguments: dict[str, Any], hand_made: ModuleType) -> None:
    with pytest.raises(OptionError):
        run(hand_made.tables(), detectors=catalogue(detector("a/x", giving())), **arguments)


def test_evidence_is_brought_into_order_and_under_its_caps(hand_made: ModuleType) -> None:
    # By importance: packet 90 is the most important; 0 and 101 don't exist.
    numbers = [90, 0, 101, 90, *range(1, 90)]
    made = finding(packet_nos=numbers, examples=[Example([5, 3, 5])] * 7, exchange_nos=[4, 2, 4])
    (row,), _ = run(hand_made.tables(), detectors=catalogue(detector("a/x", giving(made))))
    assert row.packet_total == 90
    assert row.packet_nos == list(range(1, 91))
    assert row.exchange_nos == [2, 4]
    assert len(row.examples) == 5
    assert row.examples[0].packet_nos == [3, 5]
    assert row.display_filter == "frame.number in {1..90}"


def test_most_important_packets_stay_when_there_are_too_many(hand_made: ModuleType) -> None:
    made = finding(packet_nos=[500, *range(1, 400)])
    tables = hand_made.tables(packets=hand_made.packets(500))
    (row,), _ = run(tables, detectors=catalogue(detector("a/x", giving(made))))
    assert row.packet_total == 400
    assert row.packet_nos == [*range(1, 100), 500]


def test_cost_is_the_ledgers(hand_made: ModuleType) -> None:
    ledger = hand_made.ledger(
        (0, 0, 30, "dns"), (0, 30, 100, "server_think"), (1, 0, 50, "dns"), (2, 0, 7, "dns")
    )
    made = finding(exchange_nos=[0, 1])
    (row,), _ = run(
        hand_made.tables(ledger=ledger), detectors=catalogue(detector("a/x", giving(made), "dns"))
    )
    assert row.cost_ns == 80 * MS
    assert row.ledger_rows == [0, 2]


def owner_and_guest(
    ledger: Any, owner_rows: list[int], guest_rows: list[int], guest: str
) -> Catalogue:
    durations = ledger.to_ns - ledger.from_ns
    return catalogue(
        detector(
            "a/owner",
            giving(finding(cost_ns=int(durations[owner_rows].sum()), ledger_rows=owner_rows)),
            "loss_recovery",
        ),
        detector(
            guest,
            giving(
                finding(
                    cost_ns=int(durations[guest_rows].sum()),
                    ledger_rows=guest_rows,
                    severity="critical",
                )
            ),
        ),
    )


def test_time_that_two_findings_claim_is_counted_with_its_owner(hand_made: ModuleType) -> None:
    ledger = hand_made.ledger((0, 0, 100, "loss_recovery"), (0, 100, 140, "generation"))
    made = owner_and_guest(ledger, [0], [0, 1], "b/guest")
    (guest, owner), _ = run(hand_made.tables(ledger=ledger), detectors=made)
    assert guest.detector == "b/guest"  # comes first, being critical; still the owner counts it
    assert guest.counted_in == owner.finding_no == 1
    assert guest.cost_ns == 140 * MS
    assert owner.counted_in is None


def test_a_small_overlap_is_given_up(hand_made: ModuleType) -> None:
    ledger = hand_made.ledger((0, 0, 30, "loss_recovery"), (0, 30, 140, "generation"))
    made = owner_and_guest(ledger, [0], [0, 1], "b/guest")
    (guest, owner), _ = run(hand_made.tables(ledger=ledger), detectors=made)
    assert guest.counted_in is None
    assert guest.cost_ns == 110 * MS
    assert guest.measures["counted_elsewhere_ns"] == 30 * MS
    assert guest.ledger_rows == [1]
    assert owner.cost_ns == 30 * MS


def test_findings_apart_are_both_counted(hand_made: ModuleType) -> None:
    ledger = hand_made.ledger((0, 0, 30, "loss_recovery"), (1, 0, 110, "loss_recovery"))
    made = owner_and_guest(ledger, [0], [1], "b/guest")
    findings, _ = run(hand_made.tables(ledger=ledger), detectors=made)
    assert [row.counted_in for row in findings] == [None, None]
    assert not findings[0].measures


def test_a_thousand_findings_of_a_detector_are_kept(hand_made: ModuleType) -> None:
    many = [finding(summary=f"{n}", cost_ns=n) for n in range(1234)]
    often = detector("b/often", giving(*many))
    once = detector("a/once", giving(finding(summary="mild")))
    findings, (first, second) = run(hand_made.tables(), detectors=catalogue(often, once))
    assert [row.summary for row in findings] == [*(f"{n}" for n in range(1233, 233, -1)), "mild"]
    assert (first.outcome, first.reason) == ("ran", None)
    assert (second.outcome, second.reason) == (
        "ran",
        "the gravest 1,000 of 1,234 findings are kept",
    )


def test_entries_of_several_exchanges_are_claimed(hand_made: ModuleType) -> None:
    tables = hand_made.tables(
        exchanges=[hand_made.exchange(number, 0, 100) for number in range(4)],
        ledger=hand_made.ledger(
            (0, 0, 100, "dns"),
            (1, 0, 40, "dns"),
            (1, 40, 100, "transfer"),
            (2, 0, 100, "dns"),
            (3, 0, 30, "transfer"),
            (3, 30, 60, "dns"),
            (3, 60, 100, "dns"),
        ),
    )
    entry = detector(
        "a/b", giving(finding(exchange_nos=[3, 1], from_ns=10 * MS, to_ns=60 * MS)), "dns"
    )
    (found,), _ = run(tables, detectors=catalogue(entry))
    assert found.ledger_rows == [1, 5]
    assert found.cost_ns == 70 * MS
