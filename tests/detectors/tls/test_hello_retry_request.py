"""tls/hello-retry-request on tables made by hand: cost, estimate, grouping."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from capture_analyzer.detectors.runner import run
from capture_analyzer.model.findings import Finding
from capture_analyzer.model.tls_records import HandshakeMessage

MS = 1_000_000


def judge(tables: Any) -> list[Finding]:
    findings, outcomes = run(tables, select=["tls/hello-retry-request"])
    assert {row.outcome for row in outcomes if row.reason is None} == {"ran"}
    return findings


def hello(number: int, time_ms: float, packet_no: int, kind: str = "client_hello") -> Any:
    time = round(time_ms * MS)
    client = kind == "client_hello"
    return HandshakeMessage(number, client, kind, 500, packet_no, packet_no, time, time)


def retried(hand_made: ModuleType, **values: Any) -> Any:
    """Tables with a retry of 30 ms in an exchange of 150 ms."""
    parts: dict[str, Any] = {
        "connections": [
            hand_made.connection(tls=hand_made.tls(hello_retry=True, group="secp384r1"))
        ],
        "exchanges": [hand_made.exchange(0, 0, 150)],
        "handshake_messages": [
            hello(0, 30, 4),
            hello(0, 60, 5, "hello_retry_request"),
            hello(0, 60, 6),
        ],
        "ledger": hand_made.ledger(
            (0, 0, 30, "tcp_handshake"), (0, 30, 60, "hello_retry"), (0, 60, 150, "server_think")
        ),
    }
    return hand_made.tables(**{**parts, **values})


def test_what_it_says(hand_made: ModuleType) -> None:
    (row,) = judge(retried(hand_made))
    assert row.summary.replace("\u00a0", " ") == (
        "A TLS handshake with api.example took a round trip more, 30 ms: the server asked for a "
        "key share of secp384r1."
    )
    assert (row.cost_ns, row.estimated_saving_ns, row.severity) == (30 * MS, None, "warning")
    assert row.exchange_nos == [0]
    assert row.packet_nos == [4, 6]
    assert row.measures["group"] == "secp384r1"


def test_two_hellos_without_a_retry_are_none(hand_made: ModuleType) -> None:
    assert not judge(
        retried(hand_made, connections=[hand_made.connection(tls=hand_made.tls(group="x25519"))])
    )


def test_without_an_exchange_that_waited_it_is_an_estimate(hand_made: ModuleType) -> None:
    (row,) = judge(retried(hand_made, ledger=hand_made.ledger((0, 0, 150, "server_think"))))
    assert (row.cost_ns, row.estimated_saving_ns, row.severity) == (None, 30 * MS, "info")
    assert not row.exchange_nos


def test_a_group_that_is_not_known(hand_made: ModuleType) -> None:
    (row,) = judge(
        retried(
            hand_made,
            connections=[hand_made.connection(tls=hand_made.tls(hello_retry=True))],
            handshake_messages=[],
        )
    )
    assert "asked for another key share" in row.summary
    assert row.measures["delay_max_ns"] is None


def test_a_server_is_one_finding(hand_made: ModuleType) -> None:
    names = ["a.example", "a.example", "b.example"]
    (a, b) = sorted(
        judge(
            retried(
                hand_made,
                connections=[
                    hand_made.connection(
                        n, server_name=name, tls=hand_made.tls(hello_retry=True, group="x25519")
                    )
                    for n, name in enumerate(names)
                ],
                handshake_messages=[
                    hello(n, at, 10 * n + k)
                    for n in range(3)
                    for k, at in enumerate((10.0, 40.0 + n), 1)
                ],
            )
        ),
        key=lambda row: row.connection_nos,
    )
    assert (a.count, a.connection_nos, b.connection_nos) == (2, [0, 1], [2])
    assert a.summary.replace("\u00a0", " ").startswith(
        "Two TLS handshakes with a.example took a round trip more each, 30 to 31 ms:"
    )
