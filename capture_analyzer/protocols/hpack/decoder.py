"""The HPACK decoder (RFC 7541), watching from outside.

It may join in mid-connection, or lose header blocks to a gap. Then older entries of the
dynamic table are not known; references to them give fields without name or value, never a
guess. Entries added since are certain: indices count from the newest.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from capture_analyzer.protocols.hpack import huffman
from capture_analyzer.protocols.hpack.static_table import STATIC_TABLE

_STATIC_COUNT: Final = len(STATIC_TABLE)
_ENTRY_OVERHEAD: Final = 32  # RFC 7541, section 4.1
DEFAULT_TABLE_SIZE: Final = 4096  # RFC 9113, section 6.5.2
MAX_TABLE_SIZE: Final = 1 << 20
"""Most octets the dynamic table may hold here, whatever the peers agree on. Real ones use
4,096 to 65,536; the cap keeps a hostile size update from filling memory."""
MAX_FIELDS: Final = 10_000  # of one block: each costs the sender one octet, us a hundred
MAX_DECODED: Final = 1 << 20  # octets of names and values of one block
_CACHED_BLOCKS: Final = 256  # a connection repeats a handful of blocks, if any
_CACHED_BLOCK_OCTETS: Final = 512
_CACHED_STRINGS: Final = 4096  # over all connections; names and values repeat


class HpackError(ValueError):
    """A header block breaks RFC 7541. The decoder's dynamic table is no longer certain."""


class HeaderField(NamedTuple):
    """A field line; `name` or `value` is None where an unknown table entry was meant."""

    name: bytes | None
    value: bytes | None


_STATIC_FIELDS: Final = tuple(HeaderField(name, value) for name, value in STATIC_TABLE)
_UNKNOWN: Final = HeaderField(None, None)

_strings: dict[bytes, bytes] = {}


def _huffman(coded: bytes) -> bytes:
    """Huffman decoding with a bounded memory of short strings."""
    text = _strings.get(coded)
    if text is None:
        try:
            text = huffman.decode(coded)
        except ValueError as error:
            raise HpackError(str(error)) from None
        if len(coded) <= 128:
            if len(_strings) >= _CACHED_STRINGS:
                _strings.clear()
            _strings[coded] = text
    return text


class Decoder:
    """Decodes the header blocks of one direction of an HTTP/2 connection, in order.

    Args:
        mid_stream: the first blocks of the connection were not seen.
    """

    def __init__(self, *, mid_stream: bool = False) -> None:
        self._entries: list[HeaderField] = []  # oldest first: index 62 is the last one
        self._size = 0
        self._limit = DEFAULT_TABLE_SIZE  # what SETTINGS allows
        self._max_size = DEFAULT_TABLE_SIZE  # what the encoder chose below it
        self._complete = not mid_stream
        self._blocks: dict[bytes, list[HeaderField]] = {}

    @property
    def complete(self) -> bool:
        """Every entry of the dynamic table is known."""
        return self._complete

    def allow_table_size(self, size: int) -> None:
        """Apply SETTINGS_HEADER_TABLE_SIZE (RFC 9113, section 6.5.2) of the decoding peer."""
        self._limit = min(size, MAX_TABLE_SIZE)
        if self._max_size > self._limit:
            self._resize(self._limit)

    def lose_blocks(self) -> None:
        """Header blocks were lost: what the dynamic table holds is no longer known."""
        self._complete = False
        self._entries.clear()
        self._size = 0
        self._blocks.clear()

    def decode(self, block: bytes) -> list[HeaderField]:
        """The fields of a complete header block (HEADERS and its CONTINUATIONs).

        The list may be shared with later calls: don't change it.

        Raises:
            HpackError: the block is malformed; older entries are unknown then, as after
                `lose_blocks`.
        """
        known = self._blocks.get(block)
        if known is not None:
            return known
        try:
            return self._decode(block)
        except IndexError:
            self.lose_blocks()
            raise HpackError("the header block ends inside a field") from None
        except HpackError:
            self.lose_blocks()
            raise

    def _decode(self, block: bytes) -> list[HeaderField]:
        fields: list[HeaderField] = []
        at, end = 0, len(block)
        inserted = False
        decoded = 0
        while at < end:
            octet = block[at]
            if octet & 0x80:  # indexed field, section 6.1
                index = octet & 0x7F
                at += 1
                if index == 0x7F:
                    index, at = _integer(block, at, 0x7F)
                static = 0 < index <= _STATIC_COUNT
                field = _STATIC_FIELDS[index - 1] if static else self._at(index)
            elif octet & 0xE0 == 0x20:  # size update, section 6.3
                if fields:
                    raise HpackError("a table size update inside a header block")
                size = octet & 0x1F
                at += 1
                if size == 0x1F:
                    size, at = _integer(block, at, 0x1F)
                if self._complete and size > self._limit:
                    raise HpackError("a table size above what the peer allowed")
                self._resize(min(size, MAX_TABLE_SIZE))
                inserted = True
                continue
            else:  # literal, section 6.2
                prefix = 0x3F if octet & 0x40 else 0x0F
                index = octet & prefix
                at += 1
                if index == prefix:
                    index, at = _integer(block, at, prefix)
                name: bytes | None
                if index == 0:
                    name, at = _string(block, at)
                elif index <= _STATIC_COUNT:
                    name = _STATIC_FIELDS[index - 1].name
                else:
                    name = self._at(index).name
                value, at = _string(block, at)
                field = HeaderField(name, value)
                if octet & 0x40:
                    self._insert(field)
                    inserted = True
            fields.append(field)
            decoded += len(field.name or b"") + len(field.value or b"")
            if len(fields) > MAX_FIELDS or decoded > MAX_DECODED:
                raise HpackError("the header block is larger than any real one")
        if inserted:
            self._blocks.clear()
        elif end <= _CACHED_BLOCK_OCTETS:
            if len(self._blocks) >= _CACHED_BLOCKS:
                self._blocks.clear()
            self._blocks[block] = fields
        return fields

    def _at(self, index: int) -> HeaderField:
        """The dynamic table's entry for an index from 62 on (section 2.3.3)."""
        position = index - _STATIC_COUNT
        if 0 < position <= len(self._entries):
            return self._entries[-position]
        if self._complete or index == 0:
            raise HpackError("an index that the tables don't hold")
        return _UNKNOWN

    def _insert(self, field: HeaderField) -> None:
        """Add an entry, evicting the oldest (section 4.4)."""
        size = len(field.name or b"") + len(field.value or b"") + _ENTRY_OVERHEAD
        self._entries.append(field)
        self._size += size
        if self._size > self._max_size:
            self._evict()

    def _resize(self, size: int) -> None:
        self._max_size = size
        self._evict()
        self._blocks.clear()

    def _evict(self) -> None:
        count = 0
        while self._size > self._max_size and count < len(self._entries):
            name, value = self._entries[count]
            self._size -= len(name or b"") + len(value or b"") + _ENTRY_OVERHEAD
            count += 1
        del self._entries[:count]


def _integer(block: bytes, at: int, value: int) -> tuple[int, int]:
    """The rest of an integer whose prefix was all ones (section 5.1)."""
    shift = 0
    while True:
        octet = block[at]
        at += 1
        value += (octet & 0x7F) << shift
        shift += 7
        if not octet & 0x80:
            return value, at
        if shift > 28:
            raise HpackError("an integer too large for any use")


def _string(block: bytes, at: int) -> tuple[bytes, int]:
    """A string literal (section 5.2)."""
    octet = block[at]
    length = octet & 0x7F
    at += 1
    if length == 0x7F:
        length, at = _integer(block, at, 0x7F)
    stop = at + length
    if stop > len(block):
        raise HpackError("a string that is longer than its header block")
    text = block[at:stop]
    return (_huffman(text) if octet & 0x80 else text), stop
