"""TLS records → the bytes inside: one plaintext ByteStream a direction.

The AEADs of TLS keep the length and order of what they protect, so byte i of a record's
plaintext lies at byte i of its ciphertext. That is how each plaintext byte knows the packet
it came in and when that was seen; it is usable when its whole record was there in order.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.byte_stream import ByteStream
from capture_analyzer.model.column import NO_TIME
from capture_analyzer.model.tls_records import TlsRecords
from capture_analyzer.protocols.tls.decryption import (
    ALERT,
    APPLICATION_DATA,
    CHANGE_CIPHER_SPEC,
    HANDSHAKE,
    Decryptor,
    Opened,
)
from capture_analyzer.protocols.tls.protection import Octets
from capture_analyzer.protocols.tls.records import MAX_FRAGMENT

_HEADER_BYTES: Final = 5
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
        return int(self.offset[index]) + _HEADER_BYTES + int(self.length[index])


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
    plaintext: list[bytes] = []
    place = _Place(
        decryptor,
        records.end(first_protected - 1) if 0 < first_protected <= len(records) else None,
    )
    opening = decryptor.open
    for index, offset, length, kind, header, fragment in _fragments(
        cipher, records, first_protected
    ):
        if offset != place.end:
            place.gap(offset)
        place.end = offset + _HEADER_BYTES + length
        if kind == CHANGE_CIPHER_SPEC:
            continue  # a dummy in TLS 1.3 (RFC 8446, appendix D.4)
        if header is None:
            place.incomplete(length)
            continue
        opened = opening(header, fragment)
        if opened is None:
            place.closed(length)
            continue
        if place.lost:
            place.found(opened)
        content = opened.plaintext
        size = len(content)
        inner_types[index] = opened.content_type
        plaintext_bytes[index] = size
        if opened.content_type == APPLICATION_DATA:
            if opened.early:
                early.append(index)
                if not early_accepted:
                    continue
            if size:
                kept.append(index)
                starts.append(place.at)
                leads.append(opened.lead)
                plaintext.append(content)
                place.at += size
        elif opened.content_type == HANDSHAKE:
            handshake_bytes += size
            if handshake_bytes <= MAX_HANDSHAKE_BYTES:
                handshake.append(HandshakePart(index, content))
        elif opened.content_type == ALERT and size == 2:
            alerts.append((index, content[0], content[1]))
    place.finish(cipher, records)
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


def _fragments(
    cipher: ByteStream, records: Records, begin: int
) -> Iterator[tuple[int, int, int, int, Octets | None, Octets]]:
    """(index, offset, length, type, header, fragment) of records from `begin` on.

    The header is None where the capture lacks some of the record. What lies in one chunk is
    not copied.
    """
    offset, length = records.offset[begin:], records.length[begin:].astype(np.int64)
    first = np.searchsorted(cipher.starts, offset, "right") - 1
    last = np.searchsorted(cipher.starts, offset + length + (_HEADER_BYTES - 1), "right") - 1
    at = cipher.buffer_offsets[first] + offset - cipher.starts[first]
    views = [memoryview(buffer) for buffer in cipher.buffers]
    pieces: _Chunks | None = None
    for index, start, size, kind, whole, chunk, final, position, buffer_no in zip(
        range(begin, len(records)),
        offset.tolist(),
        length.tolist(),
        records.content_type[begin:].tolist(),
        records.complete[begin:].tolist(),
        first.tolist(),
        last.tolist(),
        at.tolist(),
        cipher.buffer_nos[first].tolist(),
        strict=True,
    ):
        if not whole:
            yield index, start, size, kind, None, b""
            continue
        if chunk == final:
            view, begins = views[buffer_no], position
        else:
            if pieces is None:
                pieces = _Chunks(cipher, views)
            view, begins = pieces.joined(chunk, final, position, size + _HEADER_BYTES), 0
        content = begins + _HEADER_BYTES
        yield index, start, size, kind, view[begins:content], view[content : content + size]


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


class _Place:
    """Where in the plaintext the next record's content lies, also behind lost records.

    How long the content of a record is follows from the record's length, unless it was
    padded. Where the headers of records were lost, too, the sequence number of the first
    record behind them says how many they were. So the offsets behind a gap are right, but
    for padding and for records among the lost that held no application data.

    Attributes:
        at: offset in the plaintext.
        end: offset in the cipher stream behind the last record.
        lost: something was lost since the last record that opened.
        missing: records that the capture lacks, wholly or in part.
    """

    def __init__(self, decryptor: Decryptor, end: int | None) -> None:
        self._decryptor = decryptor
        self._overhead = decryptor.overhead
        self.at = 0
        self.end = end
        self.lost = False
        self.missing = 0
        self._known = 0  # lost records whose headers were captured
        self._known_content = 0  # what they hold
        self._unknown = 0  # bytes that hold whole records without a captured header

    def gap(self, offset: int) -> None:
        """Records with their headers were lost in front of the one at `offset`."""
        if self.end is None or offset < self.end:
            return
        size = offset - self.end
        self.lost = True
        self._unknown += size
        self._decryptor.lose(_fewest(size), size // (_HEADER_BYTES + self._overhead) + 1)

    def incomplete(self, length: int) -> None:
        """A record of which the capture lacks some bytes."""
        self._decryptor.lose(1, 1)
        self.missing += 1
        self.closed(length)

    def closed(self, length: int) -> None:
        """A record that was not opened."""
        self.lost = True
        self._known += 1
        self._known_content += max(0, length - self._overhead)

    def found(self, opened: Opened) -> None:
        """A record opened behind what was lost."""
        decryptor = self._decryptor
        if not decryptor.last_key or decryptor.opened == 1:
            self._forget(0)  # what was lost belonged to the handshake
        elif opened.new_key:
            # At most so many of the lost records held application data.
            self._forget(opened.lost if self._unknown else 0)
            if opened.lost:
                self.at += opened.lost
        else:
            self._move(opened.lost - self._known)

    def _move(self, unseen: int) -> None:
        content = 0
        if self._unknown:
            unseen = max(unseen, _fewest(self._unknown))
            content = max(0, self._unknown - unseen * (_HEADER_BYTES + self._overhead))
        self.at += self._known_content + content
        self._forget(unseen if self._unknown else 0)

    def _forget(self, unseen: int) -> None:
        self.missing += unseen
        self.lost = False
        self._known = self._known_content = self._unknown = 0

    def finish(self, cipher: ByteStream, records: Records) -> None:
        """What was lost behind the last record that opened."""
        if len(records) and not records.complete[-1] and self.missing == 1:
            self.missing = 0  # the capture ended in the middle of it
        if self.end is not None and cipher.end > self.end:
            self.gap(cipher.end)
        if self.lost and self._decryptor.opened and self._decryptor.last_key:
            self._move(0)


def _fewest(size: int) -> int:
    """At least so many records are in a stretch of whole records of this size."""
    return -(-size // (_HEADER_BYTES + MAX_FRAGMENT))


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
    complete_ns = records.complete_ns[kept]
    begin = records.offset[kept] + _HEADER_BYTES + leads  # of the ciphertext
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
    buffers, buffer_nos, in_buffer = _buffers(plaintext, lengths)
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
    plaintext: list[bytes], lengths: NDArray[np.int64]
) -> tuple[Sequence[bytes], NDArray[np.uint16], NDArray[np.int64]]:
    """(buffers, which one holds each record's content, where it begins there)."""
    count = len(plaintext)
    if count <= _MAX_BUFFERS and lengths.sum() >= count * _WORTH_A_BUFFER:
        return plaintext, np.arange(count, dtype=np.uint16), np.zeros(count, np.int64)
    begins = np.concatenate(([0], np.cumsum(lengths)[:-1])) if count else lengths
    return (b"".join(plaintext),), np.zeros(count, np.uint16), begins
