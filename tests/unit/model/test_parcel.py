"""Parcels: what was put into a file comes out the same, its arrays mapped."""

from __future__ import annotations

import dataclasses
import os
import tempfile
from collections.abc import Iterator

import numpy as np
import pytest

from capture_analyzer.model.connections import Connection, TlsSummary
from capture_analyzer.model.events import Events
from capture_analyzer.model.exchanges import Exchange
from capture_analyzer.model.messages import EventRows, StreamFacts
from capture_analyzer.model.parcel import put, take
from capture_analyzer.model.tls_records import TlsRecords


@pytest.fixture
def file() -> Iterator[int]:
    with tempfile.TemporaryFile() as opened:
        yield opened.fileno()


def connection(number: int) -> Connection:
    row = Connection(
        number, "tcp", None, "10.0.0.1", 1 << 15, "10.0.0.2", 443, True, -5, 1 << 62, 1, 9, 9
    )
    row.tls = TlsSummary(version="TLS 1.3", alpn_offered=["h2"])
    row.retransmissions_by_mechanism = {"rto": 2}
    return row


def test_rows_come_out_equal(file: int) -> None:
    rows = [connection(number) for number in range(5)]
    found = take(file, *put((rows, "text", None, -(1 << 70)), file))
    assert found == (rows, "text", None, -(1 << 70))
    assert found[0][0] is not rows[0]


def test_what_was_one_object_is_one_object(file: int) -> None:
    facts = StreamFacts(EventRows(Events(exchange_no=np.arange(3, dtype=np.int32)), 0, 3))
    exchange = Exchange(0, 0, None, "h2", "sse", False, 0, 0, 0, None, None)
    exchange.stream = facts
    one, other, again = take(file, *put([exchange, facts, exchange], file))
    assert one is again
    assert one.stream is other
    assert other.events.table.exchange_no.tolist() == [0, 1, 2]


def test_columns_lie_in_the_file_and_can_be_written(file: int) -> None:
    table = TlsRecords(offset=np.arange(1000, dtype=np.int64), complete=np.ones(1000, np.bool_))
    place = put(table, file)
    found = take(file, *place)
    for field in dataclasses.fields(TlsRecords):
        mine, expected = getattr(found, field.name), getattr(table, field.name)
        assert mine.dtype == expected.dtype
        assert mine.tolist() == expected.tolist()
    found.offset[:] = 7
    assert take(file, *place).offset.tolist() == [7] * 1000


def test_parcels_follow_each_other(file: int) -> None:
    places = [put(np.full(size, size), file) for size in (0, 1, 5000, 3)]
    assert [take(file, *place).tolist() for place in places] == [[], [1], [5000] * 5000, [3] * 3]
    assert os.fstat(file).st_size >= sum(places[-1])
