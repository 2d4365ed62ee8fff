"""Rows of fields that repeat are those that were made first, and are counted each time."""

from __future__ import annotations

import pytest

from capture_analyzer.pipeline.dissect import http2
from capture_analyzer.pipeline.dissect.http2 import FieldRows
from capture_analyzer.pipeline.redact import Redactor
from capture_analyzer.protocols.hpack import HeaderField
from capture_analyzer.protocols.http1 import head
from capture_analyzer.protocols.http1.head import FieldLines

LINES = b"Host: u@a.example\r\nAuthorization: secret\r\nAccept: x\r\nX-Empty:\r\n\r\n"
FIELDS = [
    HeaderField(b":path", b"/"),
    HeaderField(b"host", b"u@a.example"),
    HeaderField(b"authorization", b"secret"),
    HeaderField(b"accept", b"x"),
    HeaderField(b"x-empty", b""),
    HeaderField(b"cookie", None),
    HeaderField(None, None),
]


@pytest.mark.parametrize("most", [4096, 1])
@pytest.mark.parametrize(
    ("level", "host", "secret", "times"),
    [
        ("default", "…1@a.example", "…6", 2),
        ("none", "u@a.example", "secret", 0),
        ("hosts", "…1@host-1.example", "…6", 2),
    ],
)
def test_repeated_fields(
    monkeypatch: pytest.MonkeyPatch, level: str, host: str, secret: str, times: int, most: int
) -> None:
    monkeypatch.setattr(head, "_MOST_LINES", most)
    monkeypatch.setattr(http2, "_MOST_FIELDS", most)
    redactor = Redactor(level)
    lines = FieldLines(redactor)
    shown = [("host", host), ("authorization", secret), ("accept", "x"), ("x-empty", "")]
    for number in range(1, 4):
        section = lines.section(LINES)
        assert [(field.name, field.value) for field in section.fields] == shown
        assert section.host == "u@a.example"
        assert redactor.counts.field_values == number * times
    (trailer,) = lines.section(b"Accept: x\r\n", trailer=True).fields
    assert trailer.trailer
    assert not lines.section(LINES).fields[2].trailer

    redactor = Redactor(level)
    rows = FieldRows(redactor)
    for number in range(1, 4):
        found = rows.rows(FIELDS)
        assert [(field.name, field.value) for field in found] == [
            *shown,
            ("cookie", "…"),
            ("…", "…"),
        ]
        assert [field.certainty for field in found] == ["certain"] * 4 + ["unknown"] * 2
        assert redactor.counts.field_values == number * times
    assert all(field.trailer for field in rows.trailers(FIELDS))
    assert not any(field.trailer for field in rows.rows(FIELDS))
