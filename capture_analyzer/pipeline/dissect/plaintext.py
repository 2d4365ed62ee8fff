"""TLS records → the bytes inside: one plaintext ByteStream a direction.

`open_records` decrypts, `lay_out` makes the streams.

The AEADs of TLS keep the length and order of what they protect, so byte i of a record's
plaintext lies at byte i of its ciphertext. That is how each plaintext byte knows the packet
it came in and when that was seen; it is usable when its whole record was there in order.
"""

from __future__ import annotations

import bisect
import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.byte_stream import ByteStream
from capture_analyzer.model.column import NO_TIME
from capture_analyzer.model.tls_records import TlsRecords
from capture_analyzer.pipeline.dissect.place import Place
from capture_analyzer.pipeline.lists import Ints, places, starts_of
from capture_analyzer.protocols.tls.decryption import (
    ALERT,
    APPLICATION_DATA,
    CHANGE_CIPHER_SPEC,
    HANDSHAKE,
    Decryptor,
    Opened,
)
from capture_analyzer.protocols.tls.records import HEADER_BYTES

_MAX_BUFFERS: Final = 1 << 16  # that `ByteStream.buffer_nos` can tell apart
_WORTH_A_BUFFER: Final = 2048
"""Octets of content a record has on the average, where it is cheaper to leave each in a buffer of
its own than to copy all of them into one."""
MAX_HANDSHAKE_BYTES: Final = 1 << 20
"""Encrypted handshake messages kept of a direction; chains of certificates have some KB."""


@dataclasses.dataclass(slots=True)
class Records:
    """The records of one direction in order: columns of `TlsRecords`.

    And the chunks of its stream that hold the first and the last captured byte of each.
    """

    offset: NDArray[np.int64]
    length: NDArray[np.int32]
    content_type: NDArray[np.uint8]
    complete_ns: NDArray[np.int64]
    complete: NDArray[np.bool_]
    first_chunk: NDArray[np.integer]
    last_chunk: NDArray[np.integer]

    def __len__(self) -> int:
        return len(self.offset)

    @classmethod
    def of(cls, stream: ByteStream, table: TlsRecords) -> Records:
        """All rows of a table, which are those of one stream."""
        last = table.offset + table.length + (HEADER_BYTES - 1)
        return cls(
            table.offset,
            table.length,
            table.content_type,
            table.complete_ns,
            table.complete,
            np.searchsorted(stream.starts, table.offset, "right") - 1,
            np.searchsorted(stream.starts, last, "right") - 1,
        )

    def end(self, index: int) -> int:
        """Stream offset behind a record."""
        return int(self.offset[index]) + HEADER_BYTES + int(self.length[index])


@dataclasses.dataclass(slots=True)
class HandshakePart:
    """Plaintext of a protected handshake record: (index of the record, its bytes)."""

    record: int
    plaintext: bytes


@dataclasses.dataclass(slots=True)
class Plain:
    """What one direction of a TLS connection holds when its records are opened.

    Attributes:
        cipher: the TLS stream.
        records: its records.
        stream: its application data, once it is laid out (see `lay_out`); gaps are records
            that could not be opened.
        end: offset behind the last byte of it that is known to have been sent.
        kept: records of application data.
        starts: offset of the content of each.
        leads: octets of their fragments in front of the ciphertext.
        contents: what they hold, in some with the octet of its type behind it.
        handshake: protected handshake messages, record by record.
        alerts: (index of the record, level, description) of protected alerts.
        inner_types: by record: inner content type, 0 where it was not opened.
        plaintext_bytes: by record: plaintext length, -1 where it was not opened.
        opened: how many protected records opened.
        failed: how many did not, though they were complete.
        missing: how many can't be opened because the capture lacks bytes of them, or all.
        early_records: indices of records of early data.
    """

    cipher: ByteStream
    records: Records
    inner_types: NDArray[np.uint8]
    plaintext_bytes: NDArray[np.int32]
    stream: ByteStream | None = None
    end: int = 0
    kept: list[int] = dataclasses.field(default_factory=list)
    starts: list[int] = dataclasses.field(default_factory=list)
    leads: list[int] = dataclasses.field(default_factory=list)
    contents: list[bytes] = dataclasses.field(default_factory=list)
    handshake: list[HandshakePart] = dataclasses.field(default_factory=list)
    alerts: list[tuple[int, int, int]] = dataclasses.field(default_factory=list)
    early_records: list[int] = dataclasses.field(default_factory=list)
    opened: int = 0
    failed: int = 0
    missing: int = 0
    _handshake_bytes: int = 0

    def add_run(self, first: int, contents: list[bytes], at: int) -> None:
        """Add records of application data, from record `first` and plaintext offset `at` on.

        Args:
            first: the first of the records.
            contents: what they hold, each with the octet of its type behind it.
            at: the offset.
        """
        stop = first + len(contents)
        sizes = [len(content) - 1 for content in contents]
        self.inner_types[first:stop] = APPLICATION_DATA
        self.plaintext_bytes[first:stop] = sizes
        self.kept += range(first, stop)
        self.starts += itertools.accumulate(sizes[:-1], initial=at)
        self.leads += [0] * len(contents)
        self.contents += contents

    def add(self, record: int, opened: Opened, at: int, *, early_accepted: bool) -> bool:
        """Add a record; whether its content is at plaintext offset `at` of the stream."""
        content = opened.plaintext
        size = len(content)
        self.inner_types[record] = opened.content_type
        self.plaintext_bytes[record] = size
        if opened.content_type == APPLICATION_DATA:
            if opened.early:
                self.early_records.append(record)
                if not early_accepted:
                    return False
            self.kept.append(record)
            self.starts.append(at)
            self.leads.append(opened.lead)
            self.contents.append(content)
            return True
        if opened.content_type == HANDSHAKE:
            self._handshake_bytes += size
            if self._handshake_bytes <= MAX_HANDSHAKE_BYTES:
                self.handshake.append(HandshakePart(record, content))
        elif opened.content_type == ALERT and size == 2:
            self.alerts.append((record, content[0], content[1]))
        return False


def open_records(
    cipher: ByteStream,
    records: Records,
    decryptor: Decryptor,
    first_protected: int,
    *,
    early_accepted: bool = True,
) -> Plain:
    """Open the records of one direction.

    Args:
        cipher: the TLS stream.
        records: its records in order.
        decryptor: for this direction.
        first_protected: index of the first record that may be protected; those before it
            (hellos and, in TLS 1.2, all up to ChangeCipherSpec) are in clear text.
        early_accepted: the server took the client's early data; else it skipped the records
            (RFC 8446, section 4.2.10), and their content is no part of the stream.
    """
    count = len(records)
    inner_types = np.zeros(count, np.uint8)
    plaintext_bytes = np.full(count, -1, np.int32)
    plain = Plain(cipher, records, inner_types, plaintext_bytes)
    place = Place(
        decryptor, records.end(first_protected - 1) if 0 < first_protected <= count else None
    )
    fragments = _Fragments(cipher, records)
    index = first_protected
    while index < count:
        offset, length = fragments.offset[index], fragments.length[index]
        opened: Opened | None = None
        if offset == place.end and not place.lost:
            contents, opened = decryptor.open_data(fragments.run(index))
            if contents:
                stop = index + len(contents)
                plain.add_run(index, contents, place.at)
                place.at += sum(map(len, contents)) - len(contents)
                place.end = fragments.end(stop - 1)
                index = stop
                if opened is None:
                    continue
                offset, length = fragments.offset[index], fragments.length[index]
        elif offset != place.end:
            place.gap(offset)
        place.end = offset + HEADER_BYTES + length
        record, index = index, index + 1
        if opened is None:
            if fragments.content_type[record] == CHANGE_CIPHER_SPEC:
                continue  # a dummy in TLS 1.3 (RFC 8446, appendix D.4)
            if not fragments.complete[record]:
                place.incomplete(length)
                continue
            opened = decryptor.open(*fragments.of(record))
            if opened is None:
                place.closed(length)
                continue
            if place.lost:
                place.found(opened)
        if plain.add(record, opened, place.at, early_accepted=early_accepted):
            place.at += len(opened.plaintext)
    place.finish(cipher.end, cut=count > 0 and not fragments.complete[-1])
    plain.end = place.at
    plain.opened, plain.failed, plain.missing = decryptor.opened, decryptor.failed, place.missing
    return plain


class _Fragments:
    """The records of a direction as lists, and their bytes without copying where possible."""

    def __init__(self, cipher: ByteStream, records: Records) -> None:
        offset, length, first = records.offset, records.length, records.first_chunk
        self.offset: list[int] = offset.tolist()
        self.length: list[int] = length.tolist()
        self.content_type: list[int] = records.content_type.tolist()
        self.complete: list[bool] = records.complete.tolist()
        self._first: list[int] = first.tolist()
        self._last: list[int] = records.last_chunk.tolist()
        self._at: list[int] = (
            cipher.buffer_offsets[first] + offset - cipher.starts[first]
        ).tolist()
        self._buffer_no: list[int] = cipher.buffer_nos[first].tolist()
        self._views = [memoryview(buffer) for buffer in cipher.buffers]
        self._cipher = cipher
        self._pieces: _Chunks | None = None
        # Where a whole record of application data does not follow right behind another record.
        alone = np.ones(len(offset) + 1, np.bool_)
        alone[:-1] = ~records.complete | (records.content_type != APPLICATION_DATA)
        alone[1:-1] |= offset[1:] != offset[:-1] + length[:-1] + HEADER_BYTES
        self._alone: list[int] = np.flatnonzero(alone).tolist()

    def end(self, index: int) -> int:
        """Stream offset behind a record."""
        return self.offset[index] + HEADER_BYTES + self.length[index]

    def of(self, index: int) -> tuple[memoryview, memoryview]:
        """Header and fragment of a record that was captured whole."""
        first, last, at = self._first[index], self._last[index], self._at[index]
        size = self.length[index] + HEADER_BYTES
        if first == last:
            view = self._views[self._buffer_no[index]]
        else:
            if self._pieces is None:
                self._pieces = _Chunks(self._cipher, self._views)
            view, at = self._pieces.joined(first, last, at, size), 0
        content = at + HEADER_BYTES
        return view[at:content], view[content : at + size]

    def run(self, index: int) -> Iterator[tuple[memoryview, memoryview]]:
        """Likewise, of this and the records that follow it, if they hold application data.

        The run ends where one does not, or where something is missing.
        """
        place = bisect.bisect_right(self._alone, index)
        if place and self._alone[place - 1] == index:
            return iter(())
        return map(self.of, range(index, self._alone[place]))


class _Chunks:
    """The chunks of a stream as lists, to join those of a record."""

    def __init__(self, cipher: ByteStream, views: list[memoryview]) -> None:
        self._views = views
        self._numbers: list[int] = cipher.buffer_nos.tolist()
        self._begins: list[int] = cipher.buffer_offsets.tolist()
        self._ends: list[int] = (cipher.buffer_offsets + cipher.lengths).tolist()

    def joined(self, first: int, last: int, position: int, size: int) -> memoryview:
        """`size` bytes from a position in the buffer of chunk `first` on, up to chunk `last`."""
        views, numbers, ends = self._views, self._numbers, self._ends
        parts = [views[numbers[first]][position : ends[first]]]
        parts += [
            views[numbers[chunk]][self._begins[chunk] : ends[chunk]]
            for chunk in range(first + 1, last + 1)
        ]
        return memoryview(b"".join(parts))[:size]


def lay_out(plains: Sequence[Plain]) -> None:
    """Make streams of what is in the records: a chunk for each part that came in one packet.

    Of many directions at once: for one this takes as long as to decrypt some dozens of records.
    """
    if not plains:
        return
    ciphers = [plain.cipher for plain in plains]
    counts = np.array([len(plain.kept) for plain in plains], np.int64)
    owner = np.repeat(np.arange(len(plains)), counts)
    record = np.fromiter(_chained([plain.kept for plain in plains]), np.int64, len(owner))
    record += starts_of(np.array([len(plain.records) for plain in plains], np.int64))[owner]

    def of_records(columns: list[NDArray[Any]]) -> NDArray[np.int64]:
        return np.concatenate(columns)[record].astype(np.int64)

    lengths = of_records([plain.plaintext_bytes for plain in plains])
    complete_ns = of_records([plain.records.complete_ns for plain in plains])
    begin = of_records([plain.records.offset for plain in plains]) + HEADER_BYTES
    begin += np.fromiter(_chained([plain.leads for plain in plains]), np.int64, len(owner))
    start = np.fromiter(_chained([plain.starts for plain in plains]), np.int64, len(owner))
    buffers, buffer_no, in_buffer = _buffers(plains, owner)

    # The chunks that hold each record's ciphertext; a record becomes one row for each.
    sizes = np.array([len(cipher) for cipher in ciphers], np.int64)
    chunk_starts = np.concatenate([cipher.starts for cipher in ciphers])
    chunk_ends = chunk_starts + np.concatenate([cipher.lengths for cipher in ciphers])
    span = int(chunk_ends.max(initial=0)) + 1
    keys = chunk_starts + np.repeat(np.arange(len(plains)) * span, sizes)
    first = np.searchsorted(keys, owner * span + begin, "right") - 1
    last = np.searchsorted(keys, owner * span + begin + np.maximum(lengths, 1) - 1, "right") - 1
    parts = np.where(lengths > 0, last - first + 1, 0)  # a record of nothing is none
    row = np.repeat(np.arange(len(owner)), parts)
    chunk = places(first, parts)
    part_begin = np.maximum(begin[row], chunk_starts[chunk])
    part_end = np.minimum(begin[row] + lengths[row], chunk_ends[chunk])
    shift = part_begin - begin[row]
    in_order_ns = np.concatenate([cipher.in_order_ns for cipher in ciphers])
    starts, in_order_ns = start[row] + shift, in_order_ns[chunk]
    packet_nos = np.concatenate([cipher.packet_nos for cipher in ciphers])[chunk]
    seen_ns = np.concatenate([cipher.seen_ns for cipher in ciphers])[chunk]
    usable_ns = np.where(complete_ns[row] == NO_TIME, in_order_ns, complete_ns[row])
    buffer_nos, offsets, part_lengths = (
        buffer_no[row],
        in_buffer[row] + shift,
        part_end - part_begin,
    )
    bounds = np.searchsorted(owner[row], np.arange(len(plains) + 1)).tolist()
    for number, (plain, cipher) in enumerate(zip(plains, ciphers, strict=True)):
        mine = slice(bounds[number], bounds[number + 1])
        plain.stream = ByteStream(
            cipher.connection_no,
            cipher.from_client,
            starts[mine],
            part_lengths[mine],
            packet_nos[mine],
            seen_ns[mine],
            in_order_ns[mine],
            usable_ns[mine],
            buffer_nos[mine],
            offsets[mine],
            buffers[number],
            plain.end,
            cipher.begins_mid_stream,
            cipher.fin_ns,
            cipher.reset_ns,
            origins=part_begin[mine],
        )


def _chained(lists: Sequence[list[int]]) -> Iterator[int]:
    return itertools.chain.from_iterable(lists)


def _buffers(
    plains: Sequence[Plain], owner: Ints
) -> tuple[list[Sequence[bytes]], NDArray[np.uint16], Ints]:
    """(the buffers of each direction, which one holds each content, where it begins there)."""
    counts = np.array([len(plain.contents) for plain in plains], np.int64)
    lengths = np.fromiter(
        itertools.chain.from_iterable(map(len, plain.contents) for plain in plains),
        np.int64,
        len(owner),
    )
    total = np.bincount(owner, lengths, len(plains))
    apart = (counts <= _MAX_BUFFERS) & (total >= counts * _WORTH_A_BUFFER)
    joined = b"".join(
        itertools.chain.from_iterable(
            plain.contents for plain, alone in zip(plains, apart.tolist(), strict=True) if not alone
        )
    )
    alone = apart[owner]
    begins = starts_of(np.where(alone, 0, lengths))
    begins[alone] = 0
    number = np.where(alone, places(np.zeros_like(counts), counts), 0).astype(np.uint16)
    buffers: list[Sequence[bytes]] = [
        plain.contents if one else (joined,)
        for plain, one in zip(plains, apart.tolist(), strict=True)
    ]
    return buffers, number, begins
