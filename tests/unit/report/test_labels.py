from __future__ import annotations

from types import ModuleType

import pytest

from capture_analyzer.report import labels


@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        ([7], "7"),
        ([1, 2, 3, 4], "1, 2, 3, 4"),
        ([27, 28, 30, 32, 34, 36, 37], "27, 28, 30 + 4"),
        (list(range(5000)), "0, 1, 2 + 4,997"),
    ],
)
def test_numbers(numbers: list[int], text: str) -> None:
    assert labels.numbers(numbers) == text


def test_endpoints() -> None:
    assert labels.endpoint("192.0.2.1", 80) == "192.0.2.1:80"
    assert labels.endpoint("2001:db8::1", 443) == "[2001:db8::1]:443"


@pytest.mark.parametrize(
    ("epoch_ns", "text"),
    [
        (0, "1 Jan 1970 00:00:00 UTC"),
        (1_796_093_752_999_999_999, "1 Dec 2026 02:55:52 UTC"),
        (2**63 - 1, "11 Apr 2262 23:47:16 UTC"),
        (2**80, "at a time that no calendar holds"),
    ],
)
def test_dates(epoch_ns: int, text: str) -> None:
    assert labels.date(epoch_ns) == text


def test_names_of_exchanges(sample: ModuleType) -> None:
    tables = sample.incident(keys=False).tables
    names = [
        labels.exchange(row, tables.connections[row.connection_no]) for row in tables.exchanges
    ]
    assert names[9] == "GET flags.svc.example/evaluate?user=…36"
    assert names[12] == "api.llm.example, encrypted"
    row = tables.exchanges[9]
    row.path = "http://other.example/x"
    assert labels.exchange(row, tables.connections[1]) == "GET http://other.example/x"
    row.path = f"http://{row.authority}/x"  # as a proxy is asked: the host stands in it
    assert labels.target(row) == "/x"
    assert labels.exchange(row, tables.connections[1]) == f"GET {row.authority}/x"
    row.path = f"http://{row.authority}.evil.example"  # only begins like it
    assert labels.exchange(row, tables.connections[1]) == f"GET {row.path}"
    row.path = "/go?to=http://other.example/x"  # only looks absolute
    assert labels.exchange(row, tables.connections[1]).startswith("GET flags.svc.example/go?to=")


def test_vantage(sample: ModuleType) -> None:
    tables = sample.incident().tables
    assert labels.vantage(tables) == "captured at the client"
    for connection in tables.connections[:4]:
        connection.vantage_side = "server"
    assert labels.vantage(tables) == "captured on a host that is client and server"
    for connection in tables.connections:
        connection.vantage_side = "unknown"
    assert labels.vantage(tables) == "capture point not known"


def test_decryption(sample: ModuleType) -> None:
    tables = sample.incident(keys=False).tables
    assert labels.decryption(tables) == (
        "not decrypted: 6 of 6 TLS connections, no key log was given"
    )
    states = [connection.tls for connection in tables.connections if connection.tls]
    states[-1].decrypted = "partial"
    assert labels.decryption(tables) == (
        "decrypted 1 of 6 TLS connections (1 in part), 5 not, no key log was given"
    )
    states[0].why_not = states[1].why_not = "a"
    states[2].why_not = states[3].why_not = "b"
    states[4].decrypted = "yes"
    assert labels.decryption(tables) == ("decrypted 2 of 6 TLS connections (1 in part), 4 not, a")
    for state in states:
        state.decrypted = "yes"
    assert labels.decryption(tables) == "decrypted 6 of 6 TLS connections"
    assert labels.decryption(sample.clean().tables) == "no TLS"


def test_connect_names_its_host_once(sample: ModuleType) -> None:
    tables = sample.incident(keys=False).tables
    row = tables.exchanges[9]
    row.method, row.authority, row.path = "CONNECT", "api.example:443", "api.example:443"
    assert labels.exchange(row, tables.connections[1]) == "CONNECT api.example:443"
