"""The bar of an exchange: to scale, lost time visible, unknown time never hidden."""

from __future__ import annotations

from types import ModuleType

import numpy as np

from capture_analyzer.cli.phase_bar import bar
from capture_analyzer.report.claims import NOBODY

MS = 1_000_000


def draw(
    made: ModuleType, *entries: tuple[float, str], columns: int = 10, claimed: int = -1
) -> str:
    """The bar of one exchange with entries of (ms, cause); finding 3 claims entry `claimed`."""
    at = 0.0
    rows = []
    for ms, cause in entries:
        rows.append((0, at, at + ms, cause))
        at += ms
    tables = made.tables(ledger=made.ledger(*rows))
    holders = np.full(len(rows), NOBODY, np.int32)
    if claimed >= 0:
        holders[claimed] = 3
    characters, numbers = bar(tables, holders, 0, columns, 100 * MS)
    assert len(characters) == len(numbers)
    assert all(
        (number == 3) <= (char == "#") for char, number in zip(characters, numbers, strict=True)
    )
    return characters


def test_groups(hand_made: ModuleType) -> None:
    entries = [
        (10.0, "dns"),
        (10.0, "tls_handshake"),
        (10.0, "client_idle"),
        (10.0, "request_send"),
        (10.0, "network_rtt"),
        (20.0, "server_think"),
        (10.0, "loss_recovery"),
        (10.0, "transfer"),
        (10.0, "unknown"),
    ]
    assert draw(hand_made, *entries) == ":: ..==#.?"


def test_length_is_to_scale(hand_made: ModuleType) -> None:
    assert draw(hand_made, (100.0, "transfer")) == ".........."
    assert draw(hand_made, (50.0, "transfer")) == "....."
    assert draw(hand_made, (0.1, "transfer")) == "."


def test_claimed_time_is_lost_time(hand_made: ModuleType) -> None:
    entries = [(50.0, "dns"), (50.0, "server_think")]
    assert draw(hand_made, *entries) == ":::::====="
    assert draw(hand_made, *entries, claimed=0) == "#####====="
    assert draw(hand_made, *entries, claimed=1) == ":::::#####"


def test_small_parts_of_one_kind_are_added_up(hand_made: ModuleType) -> None:
    # Three kinds of set-up of 2 ms each outweigh 4 ms of server in one place of 10 ms.
    entries = [
        (2.0, "dns"),
        (2.0, "tcp_handshake"),
        (2.0, "tls_handshake"),
        (4.0, "server_think"),
        (90.0, "transfer"),
    ]
    assert draw(hand_made, *entries) == ":........."


def test_exchange_without_ledger(hand_made: ModuleType) -> None:
    tables = hand_made.tables(ledger=hand_made.ledger())
    assert bar(tables, np.empty(0, np.int32), 0, 10, MS) == ("", [])
