"""TLS records → the bytes inside: one plaintext ByteStream a direction.

The AEADs of TLS keep the length and order of what they protect, so byte i of a record's
plaintext lies at byte i of its ciphertext. That is how each plaintext byte knows the packet
it came in and when that was seen; it is usable when its whole record was there in order.
"""

from __future__ import annotations

import dataclasses
from typing import Final

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.byte_stream import ByteStream
from capture_analyzer.model.column import NO_TIME
from capture_analyzer.protocols.tls.decryption import (
    ALERT,
    APPLICATION_DATA,
    CHANGE_CIPHER_SPEC,
    HANDSHAKE,
    Decryptor,
    Opened,
)
from capture_analyzer.protocols.tls.records import MAX_FRAGMENT

_HEADER_BYTES: Final = 5
MAX_HANDSHAKE_BYTES: Final = 1 << 20
"""Encrypted handshake messages kept of a direction; chains of certificates have some KB."""


@dataclasses.dataclass(slots=True)
class Record:
    """A record of one direction, as rows of `TlsRecords` have it."""

    offset: int
    length: int
    content_type: int
    complete_ns: int
    complete: bool


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
    records: list[Record],
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
    kept: list[tuple[int, int, int]] = []  # (record index, plaintext length, lead)
    plaintext: list[bytes] = []
    clear_end = None
    if 0 < first_protected <= len(records):
        last = records[first_protected - 1]
        clear_end = last.offset + _HEADER_BYTES + last.length
    place = _Place(decryptor, clear_end)
    plain_starts: list[int] = []
    read = cipher.read
    for index in range(first_protected, len(records)):
        record = records[index]
        if record.offset != place.end:
            place.gap(record.offset)
        place.end = record.offset + _HEADER_BYTES + record.length
        content_type = record.content_type
        if content_type == CHANGE_CIPHER_SPEC:
            continue  # a dummy in TLS 1.3 (RFC 8446, appendix D.4)
        if not record.complete:
            place.incomplete(record)
            continue
        raw = read(record.offset, place.end)
        opened = decryptor.open(content_type, raw[1:3], raw[_HEADER_BYTES:])
        if opened is None:
            place.closed(record)
            continue
        if place.lost:
            place.found(opened)
        inner_types[index] = opened.content_type
        plaintext_bytes[index] = length = len(opened.plaintext)
        if opened.content_type == APPLICATION_DATA:
            if opened.early:
                early.append(index)
            if length and (early_accepted or not opened.early):
                kept.append((index, length, opened.lead))
                plain_starts.append(place.at)
                plaintext.append(opened.plaintext)
                place.at += length
        elif opened.content_type == HANDSHAKE:
            handshake_bytes += length
            if handshake_bytes <= MAX_HANDSHAKE_BYTES:
                handshake.append(HandshakePart(index, opened.plaintext))
        elif opened.content_type == ALERT and length == 2:
            alerts.append((index, opened.plaintext[0], opened.plaintext[1]))
    place.finish(cipher, records)
    stream = _plain_stream(cipher, records, kept, plain_starts, b"".join(plaintext), place.at)
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

    def incomplete(self, record: Record) -> None:
        """A record of which the capture lacks some bytes."""
        self._decryptor.lose(1, 1)
        self.missing += 1
        self.closed(record)

    def closed(self, record: Record) -> None:
        """A record that was not opened."""
        self.lost = True
        self._known += 1
        self._known_content += max(0, record.length - self._overhead)

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

    def finish(self, cipher: ByteStream, records: list[Record]) -> None:
        """What was lost behind the last record that opened."""
        if records and not records[-1].complete and self.missing == 1:
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
    records: list[Record],
    kept: list[tuple[int, int, int]],
    plain_starts: list[int],
    plaintext: bytes,
    end: int,
) -> ByteStream:
    """The plaintext as a stream: a chunk for each part of a record that came in one packet."""
    index = np.array([record for record, _, _ in kept], np.int64)
    lengths = np.array([length for _, length, _ in kept], np.int64)
    plain = np.array(plain_starts, np.int64)
    lead = np.array([lead for _, _, lead in kept], np.int64)
    offsets = np.array([records[record].offset for record, _, _ in kept], np.int64)
    complete_ns = np.array([records[record].complete_ns for record, _, _ in kept], np.int64)
    begin = offsets + _HEADER_BYTES + lead  # of the ciphertext
    # The chunks that hold each record's ciphertext; a record becomes one row for each.
    first = np.searchsorted(cipher.starts, begin, "right") - 1
    last = np.searchsorted(cipher.starts, begin + lengths - 1, "right") - 1
    counts = last - first + 1
    row = np.repeat(np.arange(len(index)), counts)
    before = np.concatenate(([0], np.cumsum(counts)[:-1])) if len(counts) else counts
    chunk = first[row] + np.arange(len(row)) - before[row]
    chunk_start = cipher.starts[chunk]
    part_begin = np.maximum(begin[row], chunk_start)
    part_end = np.minimum(begin[row] + lengths[row], chunk_start + cipher.lengths[chunk])
    in_plaintext = np.concatenate(([0], np.cumsum(lengths)[:-1])) if len(lengths) else lengths
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
        buffer_nos=np.zeros(len(row), np.uint16),
        buffer_offsets=in_plaintext[row] + shift,
        buffers=(plaintext,),
        end=end,
        begins_mid_stream=cipher.begins_mid_stream,
        fin_ns=cipher.fin_ns,
        reset_ns=cipher.reset_ns,
        origins=part_begin,
    )
