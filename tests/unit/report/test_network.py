from __future__ import annotations

from types import ModuleType

from capture_analyzer.report.network import health, sentences

NBSP = "\u00a0"


def test_sound(sample: ModuleType) -> None:
    assert sentences(sample.clean().tables) == [
        (
            f"The network was sound: round trips of 30{NBSP}ms, no data was sent again, "
            "nothing is missing from the capture."
        )
    ]


def test_not_called_sound_when_time_is_not_explained(sample: ModuleType) -> None:
    for cause in ("unknown", "loss_recovery"):
        b = sample.Builder()
        b.exchange(b.connection("a.example"), 0, [("network_rtt", 30), (cause, 4)])
        assert sentences(b.build().tables)[0].startswith("The network: ")


def test_loss_and_gaps_are_counted(sample: ModuleType) -> None:
    tables = sample.incident().tables
    tables.connections[0].rtt_ns = 4_200_000
    tables.connections[1].rtt_ns = None
    tables.connections[2].missing_bytes = 5800
    assert sentences(tables) == [
        (
            f"The network: round trips of 4.2 to 30{NBSP}ms, 3 of 101 data segments were sent "
            f"again, 1 SYN repeated, 5.8{NBSP}KB missing from the capture."
        )
    ]
    facts = health(tables)
    assert (facts.sent_again, facts.requests_repeated) == (3, 1)


def test_no_connection_no_sentence(sample: ModuleType) -> None:
    assert sentences(sample.empty().tables) == []
