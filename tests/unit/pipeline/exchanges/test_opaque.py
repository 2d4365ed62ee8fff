"""Rows of inferred exchanges, and the units they are made of."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest

from capture_analyzer.model.column import NO_TIME
from capture_analyzer.model.connections import Connection, TlsSummary
from capture_analyzer.model.exchanges import Exchange
from capture_analyzer.model.tls_records import ROLE_CODE, TlsRecords
from capture_analyzer.pipeline.exchanges import find_exchanges
from capture_analyzer.pipeline.exchanges.flights import find_flights
from capture_analyzer.pipeline.exchanges.opaque import opaque_exchanges, record_units
from capture_analyzer.pipeline.exchanges.units import Speech
from capture_analyzer.pipeline.reassemble import Streams

MS = 1_000_000

Row = tuple[str, float, float | None, int]
"""Direction ("c" or "s"), first byte seen, complete (None = never), bytes of content."""


class Wire:
    """Records of one TLS 1.3 connection, each in a packet of its own."""

    def __init__(self, rows: list[Row], **columns: Any) -> None:
        packets = {id(row): number for number, row in enumerate(rows, 1)}
        self.time_ns = np.array([int((row[2] or row[1]) * MS) for row in rows], np.int64)
        rows = sorted(rows, key=lambda row: row[0] != "c")  # client first, then by offset
        count = len(rows)
        number = np.array([packets[id(row)] for row in rows], np.int32)
        length = np.array([row[3] + 17 for row in rows], np.int32)
        values: dict[str, Any] = {
            "connection_no": np.zeros(count, np.int32),
            "from_client": np.array([row[0] == "c" for row in rows], np.bool_),
            "offset": np.cumsum(length + 5),
            "length": length,
            "content_type": np.full(count, 23, np.uint8),
            "role": np.full(count, ROLE_CODE["application"], np.uint8),
            "first_packet_no": number,
            "last_packet_no": number,
            "seen_ns": np.array([int(row[1] * MS) for row in rows], np.int64),
            "in_order_ns": np.array([int(row[1] * MS) for row in rows], np.int64),
            "complete_ns": np.array(
                [NO_TIME if row[2] is None else int(row[2] * MS) for row in rows], np.int64
            ),
        }
        self.records = TlsRecords(**(values | columns))


def rows(wire: Wire, host: Connection, fin_ms: float | None = None) -> list[Exchange]:
    units = record_units(wire.records, Speech.of([host]), np.zeros(1, np.bool_))
    fin_ns = None if fin_ms is None else int(fin_ms * MS)
    found = opaque_exchanges(
        find_flights(units), wire.time_ns, [host], lambda _: fin_ns, records=True
    )
    return list(found)


@pytest.fixture
def host(hand_made: ModuleType) -> Any:
    def make(alpn: str | None = "http/1.1", **columns: Any) -> Connection:
        tls = TlsSummary(version="TLS 1.3", start_ns=0)
        base = {"protocol": "tls", "alpn": alpn, "tls": tls, "server_side_rtt_ns": 30 * MS}
        made: Connection = hand_made.connection(0, **(base | columns))
        return made

    return make


def test_instants_of_an_exchange(host: Any) -> None:
    wire = Wire([("c", 0, 2, 300), ("c", 3, 4, 50), ("s", 40, 45, 500), ("s", 46, 60, 9000)])
    (row,) = rows(wire, host())
    assert (row.request_start_ns, row.request_end_ns) == (0, 4 * MS)
    assert (row.response_seen_ns, row.response_start_ns) == (40 * MS, 45 * MS)
    assert (row.ttfb_ns, row.end_ns, row.last_ns) == (45 * MS, 60 * MS, 60 * MS)
    assert (row.request_records, row.response_records) == (2, 2)
    assert (row.request_bytes, row.response_bytes) == (394, 9544)
    assert row.request_first_packet_no == 1
    assert row.request_last_packet_no == 2
    assert row.response_first_packet_no == 3
    assert row.response_last_packet_no == 4
    assert row.inferred
    assert row.authority == "api.example"


def test_a_record_that_is_cut_leaves_no_end(host: Any) -> None:
    (row,) = rows(Wire([("c", 0, 0, 300), ("s", 40, 45, 500), ("s", 70, None, 900)]), host())
    assert row.end_ns is None
    assert row.last_ns == 70 * MS
    assert not row.reset


def test_a_reset_inside_a_record_ends_it(host: Any) -> None:
    wire = Wire([("c", 0, 0, 300), ("s", 40, 45, 500), ("s", 70, None, 900)])
    (row,) = rows(wire, host(reset_ns=90 * MS))
    assert row.end_ns == 90 * MS
    assert row.reset


def test_a_reset_behind_whole_records_is_not_laid_to_it(host: Any) -> None:
    wire = Wire([("c", 0, 0, 300), ("s", 40, 45, 500)])
    (row,) = rows(wire, host(reset_ns=90 * MS))
    assert row.end_ns == 45 * MS
    assert not row.reset


def test_without_an_answer_reset_or_fin_end_it(host: Any) -> None:
    wire = Wire([("c", 0, 0, 300)])
    assert rows(wire, host())[0].end_ns is None
    assert rows(wire, host(reset_ns=90 * MS))[0].end_ns == 90 * MS
    assert rows(wire, host(), fin_ms=70)[0].end_ns == 70 * MS


def test_the_goodbye_of_either_side_is_no_data(host: Any) -> None:
    wire = Wire([("c", 0, 0, 300), ("s", 40, 45, 500), ("c", 900, 900, 2), ("s", 930, 930, 2)])
    (row,) = rows(wire, host())
    assert row.end_ns == 45 * MS


def test_two_bytes_in_mid_connection_are_data(host: Any) -> None:
    wire = Wire([("c", 0, 0, 2), ("s", 40, 40, 2), ("c", 90, 90, 300), ("s", 130, 130, 500)])
    assert [row.request_bytes for row in rows(wire, host())] == [24, 322]


def test_tickets_and_handshake_records_are_no_data(host: Any) -> None:
    role = [ROLE_CODE[name] for name in ("handshake", "application", "ticket", "application")]
    wire = Wire(
        [("c", 0, 0, 52), ("c", 1, 1, 300), ("s", 30, 30, 233), ("s", 50, 55, 500)],
        role=np.array(role, np.uint8),
    )
    (row,) = rows(wire, host())
    assert row.request_start_ns == MS
    assert row.ttfb_ns == 54 * MS


def test_an_answer_without_its_request_starts_with_itself(host: Any) -> None:
    wire = Wire([("s", 40, 45, 500), ("s", 50, 55, 500)])
    (row,) = rows(wire, host(roles_certain=False))
    assert row.request_start_ns == 40 * MS
    assert row.request_first_packet_no is None
    assert row.request_records == 0
    assert row.ttfb_ns is None
    assert row.end_ns == 55 * MS


@pytest.mark.parametrize(
    ("alpn", "sizes", "shared"),
    [
        ("h2", [300, 60, 60], True),
        ("h2", [300, 60], False),
        ("h2", [300, 16384, 16384], False),
        ("http/1.1", [300, 60, 60], False),
    ],
)
def test_many_small_records_in_http2_are_several_requests(
    host: Any, alpn: str, sizes: list[int], shared: bool
) -> None:
    wire = Wire([*(("c", 0, 0, size) for size in sizes), ("s", 40, 45, 500)])
    (row,) = rows(wire, host(alpn))
    assert row.shared_connection == shared


def test_what_a_connection_may_speak(host: Any) -> None:
    offers = TlsSummary(version="TLS 1.3", start_ns=0, alpn_offered=["h2", "http/1.1"])
    mid_connection = TlsSummary()
    hosts = [
        host("h2"),
        host("http/1.1"),
        host(None),
        host(None, tls=offers),
        host(None, tls=mid_connection),
        host(None, tls=None, protocol="opaque"),
        host(None, tls=None, protocol="h2"),
    ]
    speech = Speech.of(hosts)
    assert speech.may_be_h2.tolist() == [True, False, False, True, True, False, True]
    assert speech.may_be_h1.tolist() == [False, True, True, True, True, False, False]


def test_overhead_of_records(host: Any) -> None:
    hosts = [
        host(tls=TlsSummary(version="TLS 1.3", cipher_suite="TLS_AES_128_GCM_SHA256")),
        host(
            tls=TlsSummary(version="TLS 1.2", cipher_suite="TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256")
        ),
        host(
            tls=TlsSummary(
                version="TLS 1.2", cipher_suite="TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256"
            )
        ),
        host(tls=TlsSummary()),
    ]
    assert Speech.of(hosts).overhead.tolist() == [17, 24, 16, 17]


def test_no_connection_no_exchange(hand_made: ModuleType) -> None:
    none = np.empty(0, np.int64)
    streams = Streams(
        np.zeros(1, np.int64),
        *(none for _ in range(7)),
        buffers=[],
        end=none,
        mid_stream=none.astype(np.bool_),
        fin_ns=none,
        reset_ns=none,
    )
    assert not len(find_exchanges(streams, hand_made.packets(1), [], [], TlsRecords()))
