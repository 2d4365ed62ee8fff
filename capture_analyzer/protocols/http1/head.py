"""Header and trailer sections (RFC 9112, section 5; RFC 9110, section 5)."""

from __future__ import annotations

import dataclasses
import functools
import re
from typing import Final, Protocol

from capture_analyzer.model.messages import Field
from capture_analyzer.protocols.http1.source import Source
from capture_analyzer.wire.text import printable

MAX_HEAD_BYTES: Final = 1 << 18
"""Longest header section that is read. Servers refuse more than 8 to 64 KB."""

MAX_FIELDS: Final = 512
"""Fields kept of a section; servers refuse more than about 100."""

_NAME: Final = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_FOLD: Final = re.compile(rb"\r?\n[ \t]+")
_READ_SIZES: Final = (4096, 1 << 15, MAX_HEAD_BYTES)


class Reduce(Protocol):
    """What captured text must pass through before it enters a table."""

    def value(self, field_name: str, value: str) -> str:
        """A field's value as it may be shown."""

    def target(self, text: str) -> str:
        """A request target as it may be shown."""

    def authority(self, text: str) -> str:
        """A host and port as they may be shown."""


@dataclasses.dataclass(slots=True)
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
    data = b""
    for size in (source.rest_of_chunk(offset) - offset, *_READ_SIZES):
        if size <= len(data):
            continue
        searched = max(0, len(data) - 3)
        data = source.read(offset, offset + min(size, MAX_HEAD_BYTES))
        end = _empty_line(data, searched)
        if end:
            return data[:end], True
    return data, False


def _empty_line(data: bytes, start: int) -> int:
    """Offset behind the first empty line behind a line; 0 without one.

    Line ends may lack their CR (RFC 9112, section 2.2).
    """
    end = data.find(b"\n\r\n", start)
    bare = data.find(b"\n\n", start, end if end >= 0 else len(data))
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
        raw_name, colon, raw_value = line.removesuffix(b"\r").partition(b":")
        if not colon and not raw_name:
            continue
        name, valid = _field_name(raw_name)
        if not colon or not valid:
            problems["a line is no field"] = None
            if not colon:
                continue
        value = printable(raw_value.strip(b" \t"))
        _note(section, name, value)
        if len(fields) < MAX_FIELDS:
            fields.append(Field(name, reduce.value(name, value), trailer))
        else:
            problems[f"more than {MAX_FIELDS} fields"] = None
    section.problems = list(problems)
    return section


@functools.lru_cache(maxsize=4096)
def _field_name(raw: bytes) -> tuple[str, bool]:
    """A field name in lower case, and whether it is one (no whitespace before the colon)."""
    return printable(raw.strip(b" \t")).lower(), _NAME.fullmatch(raw) is not None


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
