from __future__ import annotations

from types import ModuleType

import pytest

from capture_analyzer.model.analysis import Analysis
from capture_analyzer.model.anomalies import Anomaly
from capture_analyzer.report.verdict import MAX_ACTIONS, MAX_NOTES, MAX_SENTENCES, verdict

NBSP = "\u00a0"
MS = 1_000_000


def test_headline_hatched_total_and_costs_are_one_number(sample: ModuleType) -> None:
    analysis: Analysis = sample.incident()
    told = verdict(analysis)
    costs = sum(finding.cost_ns or 0 for finding in analysis.findings)
    hatched = sum(share.ns for share in told.time_spent if share.avoidable)
    assert told.avoidable_ns == costs == hatched == 2_343_027_000
    assert told.headline == (
        f"2.34{NBSP}s of the 10.4{NBSP}s spent in requests was avoidable. "
        "The largest part: servers that took long to answer."
    )


def test_time_spent_is_the_ledger(sample: ModuleType) -> None:
    analysis = sample.incident()
    told = verdict(analysis)
    ledger = analysis.tables.ledger
    assert told.time_ns == int((ledger.to_ns - ledger.from_ns).sum())
    assert told.time_ns == sum(share.ns for share in told.time_spent)
    order = [(not share.avoidable, -share.ns) for share in told.time_spent]
    assert order == sorted(order)


def test_time_that_is_counted_elsewhere_is_counted_once(sample: ModuleType) -> None:
    analysis = sample.incident()
    before = verdict(analysis).avoidable_ns
    analysis.findings[1].counted_in = 0
    told = verdict(analysis)
    assert told.avoidable_ns == before - analysis.findings[1].cost_ns
    assert [action.finding_no for action in told.actions] == [0]


def test_info_is_neither_lost_nor_to_do(sample: ModuleType) -> None:
    analysis = sample.incident()
    for finding in analysis.findings:
        finding.severity = "info"
    told = verdict(analysis)
    assert told.state == "clean"
    assert told.avoidable_ns == 0
    assert told.actions == []
    assert not any(share.avoidable for share in told.time_spent)


def test_actions_are_ordered_by_what_they_win(sample: ModuleType) -> None:
    analysis = sample.incident()
    told = verdict(analysis)
    assert [(action.finding_no, action.cause) for action in told.actions] == [
        (1, "server_think"),
        (0, "syn_retry"),
    ]
    analysis.findings[0].estimated_saving_ns = 9_000 * MS
    assert [action.saving_ns for action in verdict(analysis).actions] == [
        9_000 * MS,
        analysis.findings[1].cost_ns,
    ]
    analysis.findings[0].action = ""  # no action is honest
    assert [action.finding_no for action in verdict(analysis).actions] == [1]


def test_without_keys_what_is_known_leads(sample: ModuleType) -> None:
    analysis = sample.incident(keys=False)
    told = verdict(analysis)
    assert told.no_keys
    assert "without keys" not in told.headline  # the findings are about what could be read
    assert told.sentences[-1].startswith("Keys would add")
    analysis.findings[1].exchange_nos = [12]
    assert "and it can be shown without keys" in verdict(analysis).headline
    assert not verdict(sample.incident()).no_keys


def test_a_finding_without_cost_is_the_headline_itself(sample: ModuleType) -> None:
    analysis = sample.incident()
    for finding in analysis.findings:
        finding.cost_ns = None
        finding.ledger_rows = []
    told = verdict(analysis)
    assert told.headline == analysis.findings[0].summary
    assert told.sentences[0] == analysis.findings[1].summary


def test_never_more_than_four_sentences(sample: ModuleType) -> None:
    analysis = sample.incident(keys=False)
    for number in range(20):
        finding = sample.dataclasses.replace(analysis.findings[1], finding_no=2 + number)
        finding.cost_ns = 10 * MS
        finding.ledger_rows = []
        analysis.findings.append(finding)
    told = verdict(analysis)
    assert len(told.sentences) <= MAX_SENTENCES
    assert any("more findings cost 0.2" in text for text in told.sentences)
    assert len(told.actions) == MAX_ACTIONS


def test_nothing_wrong_says_where_else_to_look(sample: ModuleType) -> None:
    analysis = sample.clean()
    told = verdict(analysis)
    assert told.state == "clean"
    assert told.headline == "Nothing in this capture explains a slow request."
    assert f"took 38{NBSP}ms, 79{NBSP}% of it on the round trip" in told.sentences[0]
    assert "inside the client" in told.sentences[-1]
    for connection in analysis.tables.connections:
        connection.vantage_side = "server"
    assert "before the request reached this host" in verdict(analysis).sentences[-1]


def test_the_first_content_of_the_slowest_stream_is_told(sample: ModuleType) -> None:
    analysis = sample.streams()
    analysis.findings.clear()
    assert verdict(analysis).sentences[0] == (
        f"The slowest exchange, 1 (POST api.llm.example/v1/chat/completions), took 2.05{NBSP}s, "
        f"98{NBSP}% of it in the server, within the answer; its first content came after "
        f"0.38{NBSP}s."
    )


@pytest.mark.parametrize(
    ("cause", "headline"),
    [
        ("dns", f"604{NBSP}ms of the 642{NBSP}ms spent in requests went on name lookup"),
        ("unknown", f"604{NBSP}ms of the 642{NBSP}ms spent in requests is not known"),
    ],
)
def test_no_finding_is_no_claim_that_all_is_well(
    sample: ModuleType, cause: str, headline: str
) -> None:
    b = sample.Builder()
    b.exchange(b.connection("a.example"), 0, [("network_rtt", 30), (cause, 604), ("transfer", 8)])
    assert verdict(b.build()).headline == f"No detector found a fault, but {headline}."
    b = sample.Builder()
    b.exchange(b.connection("a.example"), 0, [("network_rtt", 600), (cause, 40)])
    assert verdict(b.build()).headline == "Nothing in this capture explains a slow request."


def test_what_failed_is_said_without_a_finding(sample: ModuleType) -> None:
    analysis = sample.clean()
    analysis.tables.connections[0].refused = True
    analysis.tables.exchanges.columns.status[1] = 503
    told = verdict(analysis)
    assert told.headline == "No detector found a fault, but 1 connection was refused."
    assert told.sentences[0] == "1 answer had a status of 500 or above."


def test_empty_says_what_the_file_holds(sample: ModuleType) -> None:
    told = verdict(sample.empty())
    assert told.state == "empty"
    assert told.headline == "The capture holds no request."
    assert told.sentences[0] == "It holds 7 packets: 7 UDP."
    assert told.command is not None
    nothing = verdict(sample.empty(packets=0))
    assert nothing.headline == "The capture holds no packets."
    assert not any("1970" in fact for fact in nothing.facts)


def test_damage_is_noted_but_not_at_length(sample: ModuleType) -> None:
    analysis = sample.incident(cut=True)
    told = verdict(analysis)
    assert told.notes == [
        (
            "checkout-agent-0255.pcap ends in the middle of a packet. All 127 whole packets before "
            "the cut were kept."
        )
    ]  # and neither the anomaly that says the same nor what merely is not decoded
    for number in range(9):
        analysis.tables.anomalies.append(
            Anomaly("broken", "capture", f"block {number} is broken", count=2)
        )
    told = verdict(analysis)
    assert told.notes[1] == "Block 0 is broken (2 times)."
    assert len(told.notes) == MAX_NOTES
    assert told.notes[-1] == "7 more kinds of damage are listed at the end."


def test_facts(sample: ModuleType) -> None:
    assert verdict(sample.incident()).facts == [
        f"6.26{NBSP}s from 1 Dec 2026 02:55:52 UTC",
        "127 packets, 9 connections, 18 exchanges",
        "captured at the client",
        "decrypted 6 of 6 TLS connections",
        "redaction: default",
    ]
