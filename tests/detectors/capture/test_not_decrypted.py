"""capture/not-decrypted on tables made by hand."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from capture_analyzer.detectors.runner import run
from capture_analyzer.model.findings import Finding

APPLICATION_DATA, HANDSHAKE, ALERT = 23, 22, 21


def judge(tables: Any) -> list[Finding]:
    findings, outcomes = run(tables, select=["capture/not-decrypted"])
    assert {row.outcome for row in outcomes if row.reason is None} == {"ran"}
    return findings


def test_one_finding_for_each_reason(hand_made: ModuleType) -> None:
    made = hand_made
    tables = made.tables(
        connections=[
            made.connection(0, tls=made.tls(), server_name="a.example"),
            made.connection(1),
            made.connection(2, tls=made.tls(), server_name="b.example"),
            made.connection(3, tls=made.tls(why_not="the handshake is not in the capture")),
            made.connection(4, tls=made.tls(decrypted="yes", why_not=None)),
        ],
        exchanges=[
            made.exchange(0, 0, 10, connection_no=2),
            made.exchange(1, 5, 9, connection_no=1),
        ],
        tls_records=made.tls_records(
            (0, HANDSHAKE, 4),
            (0, APPLICATION_DATA, 9),
            (0, APPLICATION_DATA, 8),
            (2, APPLICATION_DATA, 30),
            (3, APPLICATION_DATA, 40),
            (4, APPLICATION_DATA, 50),
        ),
    )
    no_keys, late = judge(tables)
    assert no_keys.severity == "info"
    assert no_keys.summary == "Two of four TLS connections were not decrypted: no key log."
    assert no_keys.connection_nos == [0, 2]
    assert no_keys.connection_no is None
    assert no_keys.exchange_nos == [0]
    assert no_keys.packet_nos == [8, 30]
    assert no_keys.display_filter == "tcp.stream in {0, 2}"
    assert "a.example and b.example" in no_keys.advice
    assert no_keys.cost_ns is None
    assert late.summary == (
        "One of four TLS connections was not decrypted: the handshake is not in the capture."
    )
    assert late.connection_no == 3


def test_all_of_them(hand_made: ModuleType) -> None:
    made = hand_made
    connections = [made.connection(number, tls=made.tls()) for number in range(6)]
    records = made.tls_records(*((number, APPLICATION_DATA, number + 1) for number in range(6)))
    (row,) = judge(made.tables(connections=connections, tls_records=records))
    assert row.summary == "None of the six TLS connections was decrypted: no key log."
    (row,) = judge(
        made.tables(connections=connections[:1], tls_records=made.tls_records((0, 23, 1)))
    )
    assert row.summary == "The only TLS connection was not decrypted: no key log."


def test_partly_decrypted(hand_made: ModuleType) -> None:
    tls = hand_made.tls(decrypted="partial", why_not="keys of the second epoch are missing")
    tables = hand_made.tables(
        connections=[hand_made.connection(0, tls=tls)],
        tls_records=hand_made.tls_records((0, APPLICATION_DATA, 5)),
    )
    (row,) = judge(tables)
    assert row.summary.startswith("The only TLS connection was decrypted only in part: keys of")


def test_near_misses(hand_made: ModuleType) -> None:
    made = hand_made
    tables = made.tables(
        connections=[
            made.connection(0),  # in clear
            made.connection(1, tls=made.tls(decrypted="yes", why_not=None)),
            made.connection(2, tls=made.tls()),  # failed before it carried anything
        ],
        tls_records=made.tls_records((1, APPLICATION_DATA, 5), (2, HANDSHAKE, 6), (2, ALERT, 7)),
    )
    assert not judge(tables)
