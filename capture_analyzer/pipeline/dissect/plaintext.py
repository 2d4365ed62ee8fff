"""TLS records → the bytes inside: one plaintext ByteStream a direction.

The AEADs of TLS keep the length and order of what they protect, so byte i of a record's
plaintext lies at byte i of its ciphertext. That is how each plaintext byte knows the packet
it came in and when that was seen; it is usable when its whole record was there in order.
"""

from __future__ import annotations

import bisect
import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.byte_stream import ByteStream
from capture_analyzer.model.column import NO_TIME
from capture_analyzer.model.tls_records import TlsRecords
from capture_analyzer.pipeline.dissect.place import Place
from capture_analyzer.protocols.tls.decryption import (
    ALERT,
    APPLICATION_DATA,
    CHANGE_CIPHER_SPEC,
    HANDSHAKE,
    Decryptor,
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
    """The records of one direction in order: columns of `TlsRecords`."""

    offset: NDArray[np.int64]
    length: NDArray[np.int32]
    content_type: NDArray[np.uint8]
    complete_ns: NDArray[np.int64]
    complete: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.offset)

    @classmethod
    def of(cls, table: TlsRecords, part: slice = slice(None)) -> Records:
        """These rows of a table."""
        return cls(
            table.offset[part],
            table.length[part],
            table.content_type[part],
            table.complete_ns[part],
            table.complete[part],
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
        stream: its application data; gaps are records that could not be opened.
        handshake: protected handshake messages, record by record.
        alerts: (index of the record, level, description) of protected alerts.
        inner_types: by record: inner content type, 0 where it was not opened.
        plaintext_bytes: by record: plaintext length, -1 where it was not opened.
        opened: how many protected records opened.
        failed: how many did not, though they were complete.
        missing: how many can't be opened because the capture lacks bytes of them, or all.
        early_records: indices of records of early data.
    """

    stream: ByteStream
    handshake: list[HandshakePart]
    alerts: list[tuple[int, int, int]]
    inner_types: NDArray[np.uint8]
    plaintext_bytes: NDArray[np.int32]
    opened: int
    failed: int
    missing: int
    early_records: list[int]


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
    inner_types = np.zeros(len(records), np.uint8)
    plaintext_bytes = np.full(len(records), -1, np.int32)
    handshake: list[HandshakePart] = []
    handshake_bytes = 0
    alerts: list[tuple[int, int, int]] = []
    early: list[int] = []
    kept: list[int] = []  # records of application data
    starts: list[int] = []  # offset of their content in the plaintext
    leads: list[int] = []  # octets of their fragments in front of the ciphertext
    plaintext: list[bytes] = []  # their content, some with the octet of its type behind it
    place = Place(
        decryptor,
        records.end(first_protected - 1) if 0 < first_protected <= len(records) else None,
    )
    fragments = _Fragments(cipher, records)
    count = len(records)
    index = first_protected
    while index < count:
        offset, length = fragments.offset[index], fragments.length[index]
        if offset == place.end and not place.lost:
            contents = decryptor.open_data(fragments.run(index))
            if contents:
                stop = index + len(contents)
                sizes = [len(content) - 1 for content in contents]  # without their types
                inner_types[index:stop] = APPLICATION_DATA
                plaintext_bytes[index:stop] = sizes
                kept += range(index, stop)
                starts += itertools.accumulate(sizes[:-1], initial=place.at)
                leads += [0] * len(contents)
                plaintext += contents
                place.at += sum(sizes)
                place.end = records.end(stop - 1)
                index = stop
                continue
        elif offset != place.end:
            place.gap(offset)
        place.end = offset + HEADER_BYTES + length
        record, index = index, index + 1
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
        content = opened.plaintext
        size = len(content)
        inner_types[record] = opened.content_type
        plaintext_bytes[record] = size
        if opened.content_type == APPLICATION_DATA:
            if opened.early:
                early.append(record)
                if not early_accepted:
                    continue
            kept.append(record)
            starts.append(place.at)
            leads.append(opened.lead)
            plaintext.append(content)
            place.at += size
        elif opened.content_type == HANDSHAKE:
            handshake_bytes += size
            if handshake_bytes <= MAX_HANDSHAKE_BYTES:
                handshake.append(HandshakePart(record, content))
        elif opened.content_type == ALERT and size == 2:
            alerts.append((record, content[0], content[1]))
    place.finish(cipher.end, cut=count > 0 and not fragments.complete[-1])
    stream = _plain_stream(
        cipher,
        records,
        np.array(kept, np.int64),
        np.array(starts, np.int64),
        np.array(leads, np.int64),
        plaintext_bytes,
        plaintext,
        place.at,
    )
    return Plain(
        stream=stream,
        handshake=handshake,
        alerts=alerts,
        inner_types=inner_types,
        plaintext_bytes=plaintext_bytes,
        opened=decryptor.opened,
        failed=decryptor.failed,
        missing=place.missing,
        early_records=early,
    )


class _Fragments:
    """The records of a direction as lists, and their bytes without copying where possible."""

    def __init__(self, cipher: ByteStream, records: Records) -> None:
        offset, length = records.offset, records.length.astype(np.int64)
        end = offset + length + HEADER_BYTES
        first = np.searchsorted(cipher.starts, offset, "right") - 1
        last = np.searchsorted(cipher.starts, end - 1, "right") - 1
        self.offset: list[int] = offset.tolist()
        self.length: list[int] = length.tolist()
        self.content_type: list[int] = records.content_type.tolist()
        self.complete: list[bool] = records.complete.tolist()
        self._first: list[int] = first.tolist()
        self._last: list[int] = last.tolist()
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
        alone[1:-1] |= offset[1:] != end[:-1]
        self._alone: list[int] = np.flatnonzero(alone).tolist()

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


def _plain_stream(
    cipher: ByteStream,
    records: Records,
    kept: NDArray[np.int64],
    plain: NDArray[np.int64],
    leads: NDArray[np.int64],
    plaintext_bytes: NDArray[np.int32],
    plaintext: list[bytes],
    end: int,
) -> ByteStream:
    """The plaintext as a stream: a chunk for each part of a record that came in one packet."""
    lengths = plaintext_bytes[kept].astype(np.int64)
    if not lengths.all():  # records of nothing are no part of the stream
        some = np.flatnonzero(lengths)
        kept, plain, leads, lengths = kept[some], plain[some], leads[some], lengths[some]
        plaintext = [plaintext[place] for place in some.tolist()]
    complete_ns = records.complete_ns[kept]
    begin = records.offset[kept] + HEADER_BYTES + leads  # of the ciphertext
    # The chunks that hold each record's ciphertext; a record becomes one row for each.
    first = np.searchsorted(cipher.starts, begin, "right") - 1
    last = np.searchsorted(cipher.starts, begin + lengths - 1, "right") - 1
    counts = last - first + 1
    row = np.repeat(np.arange(len(kept)), counts)
    before = np.concatenate(([0], np.cumsum(counts)[:-1])) if len(counts) else counts
    chunk = first[row] + np.arange(len(row)) - before[row]
    chunk_start = cipher.starts[chunk]
    part_begin = np.maximum(begin[row], chunk_start)
    part_end = np.minimum(begin[row] + lengths[row], chunk_start + cipher.lengths[chunk])
    buffers, buffer_nos, in_buffer = _buffers(plaintext)
    shift = part_begin - begin[row]
    usable = np.where(complete_ns[row] == NO_TIME, cipher.in_order_ns[chunk], complete_ns[row])
    return ByteStream(
        connection_no=cipher.connection_no,
        from_client=cipher.from_client,
        starts=plain[row] + shift,
        lengths=part_end - part_begin,
        packet_nos=cipher.packet_nos[chunk],
        seen_ns=cipher.seen_ns[chunk],
        in_order_ns=cipher.in_order_ns[chunk],
        usable_ns=usable,
        buffer_nos=buffer_nos[row],
        buffer_offsets=in_buffer[row] + shift,
        buffers=buffers,
        end=end,
        begins_mid_stream=cipher.begins_mid_stream,
        fin_ns=cipher.fin_ns,
        reset_ns=cipher.reset_ns,
        origins=part_begin,
    )


def _buffers(
    plaintext: list[bytes],
) -> tuple[Sequence[bytes], NDArray[np.uint16], NDArray[np.int64]]:
    """(buffers, which one holds each record's content, where it begins there)."""
    count = len(plaintext)
    lengths = np.fromiter(map(len, plaintext), np.int64, count)
    if count <= _MAX_BUFFERS and lengths.sum() >= count * _WORTH_A_BUFFER:
        return plaintext, np.arange(count, dtype=np.uint16), np.zeros(count, np.int64)
    begins = np.concatenate(([0], np.cumsum(lengths)[:-1])) if count else lengths
    return (b"".join(plaintext),), np.zeros(count, np.uint16), begins
