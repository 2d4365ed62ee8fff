"""Header and trailer sections (RFC 9112, section 5; RFC 9110, section 5)."""

from __future__ import annotations

import dataclasses
import functools
import re
from typing import Final, Protocol

from capture_analyzer.model.messages import Field
from capture_analyzer.model.quick_dataclass import quick_dataclass
from capture_analyzer.protocols.http1.source import Source
from capture_analyzer.wire.text import printable

MAX_HEAD_BYTES: Final = 1 << 18
"""Longest header section that is read. Servers refuse more than 8 to 64 KB."""

MAX_FIELDS: Final = 512
"""Fields kept of a section; servers refuse more than about 100."""

_NAME: Final = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_FOLD: Final = re.compile(rb"\r?\n[ \t]+")
_LONG_LINE: Final = 512  # octets; longer lines are not remembered
_FRAMING: Final = frozenset(
    (
        "content-length",
        "transfer-encoding",
        "content-encoding",
        "content-type",
        "host",
        "upgrade",
    )
)
"""Fields that `Section` has an attribute for."""
_READ_SIZES: Final = (4096, 1 << 15, MAX_HEAD_BYTES)


class Reduce(Protocol):
    """What captured text must pass through before it enters a table."""

    def value(self, field_name: str, value: str) -> str:
        """A field's value as it may be shown."""

    def target(self, text: str) -> str:
        """A request target as it may be shown."""

    def authority(self, text: str) -> str:
        """A host and port as they may be shown."""


@quick_dataclass
class Section:
    """A header or trailer section.

    Attributes:
        fields: reduced, in order.
        content_lengths, transfer_codings, content_codings: what frames the content, as sent,
            in lower case, lists taken apart.
        content_type: media type in lower case, without parameters; empty if there is none.
        host: value of Host as sent.
        upgrade: it has an Upgrade field.
        problems: clauses about what breaks the rules.
    """

    fields: list[Field] = dataclasses.field(default_factory=list)
    content_lengths: list[str] = dataclasses.field(default_factory=list)
    transfer_codings: list[str] = dataclasses.field(default_factory=list)
    content_codings: list[str] = dataclasses.field(default_factory=list)
    content_type: str = ""
    host: str | None = None
    upgrade: bool = False
    problems: list[str] = dataclasses.field(default_factory=list)


def find_end(source: Source, offset: int) -> tuple[bytes, bool]:
    """The section that begins at `offset`, with the empty line that ends it.

    Returns:
        The bytes, and whether the empty line was found: without it, what was captured up to
        a gap, the end of the capture or `MAX_HEAD_BYTES`.
    """
    if source.solid:
        begin = offset + source.shift
        stop = min(offset + MAX_HEAD_BYTES, source.captured_end) + source.shift
        end = _empty_line(source.solid, begin, stop)
        return source.solid[begin : end or stop], end > 0
    data = b""
    for size in (source.rest_of_chunk(offset) - offset, *_READ_SIZES):
        if size <= len(data):
            continue
        searched = max(0, len(data) - 3)
        data = source.read(offset, offset + min(size, MAX_HEAD_BYTES))
        end = _empty_line(data, searched, len(data))
        if end:
            return data[:end], True
    return data, False


def _empty_line(data: bytes, start: int, stop: int) -> int:
    """Place behind the first empty line behind a line; 0 without one.

    Line ends may lack their CR (RFC 9112, section 2.2).
    """
    end = data.find(b"\n\r\n", start, stop)
    bare = data.find(b"\n\n", start, end if end >= 0 else stop)
    if bare >= 0:
        return bare + 2
    return end + 3 if end >= 0 else 0


def parse_section(raw: bytes, reduce: Reduce, *, trailer: bool = False) -> Section:
    """Read the field lines of a section; `raw` has no start line."""
    section = Section()
    fields = section.fields
    problems: dict[str, None] = {}
    if raw.count(b"\n") != raw.count(b"\r\n"):
        problems["a line ends without CR"] = None
    if b"\n " in raw or b"\n\t" in raw or raw[:1] in (b" ", b"\t"):
        # obs-fold (RFC 9112, section 5.2)
        problems["a field value is folded"] = None
        raw = _FOLD.sub(b" ", raw).lstrip(b" \t")
    for line in raw.split(b"\n"):
        field = _field(line) if len(line) <= _LONG_LINE else _field.__wrapped__(line)
        if field is None:
            continue
        name, value, valid, frames = field
        if not valid:
            problems["a line is no field"] = None
        if value is None:
            continue
        if frames:
            _note(section, name, value)
        if len(fields) < MAX_FIELDS:
            fields.append(Field(name, reduce.value(name, value), trailer))
        else:
            problems[f"more than {MAX_FIELDS} fields"] = None
    section.problems = list(problems)
    return section


@functools.lru_cache(maxsize=4096)
def _field(line: bytes) -> tuple[str, str | None, bool, bool] | None:
    """What a line of a section says: field lines repeat from message to message.

    Returns:
        Name in lower case, value (None: there is no colon), whether it is a field (no whitespace
        before the colon) and whether it is one of `_FRAMING`. None of an empty line.
    """
    raw_name, colon, raw_value = line.removesuffix(b"\r").partition(b":")
    if not colon and not raw_name:
        return None
    name = printable(raw_name.strip(b" \t")).lower()
    value = printable(raw_value.strip(b" \t")) if colon else None
    valid = colon != b"" and _NAME.fullmatch(raw_name) is not None
    return name, value, valid, name in _FRAMING


def _note(section: Section, name: str, value: str) -> None:
    if name == "content-length":
        section.content_lengths += _list(value) or [""]
    elif name == "transfer-encoding":
        section.transfer_codings += [coding.partition(";")[0].strip() for coding in _list(value)]
    elif name == "content-encoding":
        section.content_codings += _list(value)
    elif name == "content-type":
        section.content_type = section.content_type or media_type(value)
    elif name == "host":
        if section.host is None:
            section.host = value
    elif name == "upgrade":
        section.upgrade = True


def media_type(value: str) -> str:
    """The media type of a Content-Type, in lower case, without parameters."""
    return value.partition(";")[0].strip(" \t").lower()


def _list(value: str) -> list[str]:
    """The members of a comma-separated list, in lower case (RFC 9110, section 5.6.1)."""
    members = (member.strip(" \t") for member in value.lower().split(","))
    return [member for member in members if member]
