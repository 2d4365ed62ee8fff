"""Header and trailer sections (RFC 9112, section 5; RFC 9110, section 5)."""

from __future__ import annotations

import dataclasses
import re
from typing import Final, NamedTuple, Protocol

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
_MOST_LINES: Final = 4096  # remembered
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

    def field(self, name: str, value: str) -> tuple[str, int]:
        """A field's value as it may be shown, and how often something was kept out of it.

        The caller counts that (see `keep_back`) each time it shows the value.
        """

    def keep_back(self, times: int) -> None:
        """Count what was kept out of field values."""

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
        if offset < source.starts[0]:
            return b"", False
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


class _Line(NamedTuple):
    """What a line of a section says.

    Attributes:
        field: reduced; None if there is no colon.
        valid: it is a field (no whitespace before the colon), or empty.
        kept_back: how often something was kept out of the value.
        framing: its name if `Section` has an attribute for it, else empty.
        members: of such a field what the attribute takes.
    """

    field: Field | None
    valid: bool
    kept_back: int
    framing: str
    members: list[str]


_EMPTY: Final = _Line(None, True, 0, "", [])


class FieldLines:
    """Reads header and trailer sections. Their lines repeat from message to message.

    Args:
        reduce: what captured text passes through.
    """

    def __init__(self, reduce: Reduce) -> None:
        self.reduce = reduce
        self._known: dict[bytes, _Line] = {b"": _EMPTY, b"\r": _EMPTY}

    def section(self, raw: bytes, *, trailer: bool = False) -> Section:
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
        known = self._known
        all_kept_back = 0
        for line in raw.split(b"\n"):
            field, valid, kept_back, framing, members = known.get(line) or self._read(line)
            if not valid:
                problems["a line is no field"] = None
            if field is None:
                continue
            if framing:
                _note(section, framing, members)
            if len(fields) < MAX_FIELDS:
                fields.append(field)
                all_kept_back += kept_back
            else:
                problems[f"more than {MAX_FIELDS} fields"] = None
        if all_kept_back:
            self.reduce.keep_back(all_kept_back)
        if trailer:
            section.fields = [Field(field.name, field.value, trailer) for field in fields]
        section.problems += problems
        return section

    def _read(self, line: bytes) -> _Line:
        """What a line says that isn't known."""
        raw_name, colon, raw_value = line.removesuffix(b"\r").partition(b":")
        if not colon:
            return _EMPTY._replace(valid=False)
        name = printable(raw_name.strip(b" \t")).lower()
        value = printable(raw_value.strip(b" \t"))
        shown, kept_back = self.reduce.field(name, value)
        framing = name if name in _FRAMING else ""
        read = _Line(
            Field(name, shown),
            _NAME.fullmatch(raw_name) is not None,
            kept_back,
            framing,
            _members(framing, value),
        )
        if len(line) <= _LONG_LINE:
            if len(self._known) >= _MOST_LINES:
                self._known = {b"": _EMPTY, b"\r": _EMPTY}
            self._known[line] = read
        return read


def _members(name: str, value: str) -> list[str]:
    """What `Section` has of a field of this name."""
    if name == "content-length":
        return _list(value) or [""]
    if name == "transfer-encoding":
        return [coding.partition(";")[0].strip() for coding in _list(value)]
    if name == "content-encoding":
        return _list(value)
    return [media_type(value) if name == "content-type" else value] if name else []


def _note(section: Section, name: str, members: list[str]) -> None:
    if name == "content-length":
        section.content_lengths += members
    elif name == "transfer-encoding":
        section.transfer_codings += members
    elif name == "content-encoding":
        section.content_codings += members
    elif name == "content-type":
        section.content_type = section.content_type or members[0]
    elif name == "host":
        if section.host is None:
            section.host = members[0]
    elif name == "upgrade":
        section.upgrade = True


def media_type(value: str) -> str:
    """The media type of a Content-Type, in lower case, without parameters."""
    return value.partition(";")[0].strip(" \t").lower()


def _list(value: str) -> list[str]:
    """The members of a comma-separated list, in lower case (RFC 9110, section 5.6.1)."""
    members = (member.strip(" \t") for member in value.lower().split(","))
    return [member for member in members if member]
