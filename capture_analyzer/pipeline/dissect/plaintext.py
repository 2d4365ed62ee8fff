"""Opening the records of one direction of a TLS connection; `layout` makes a stream of them."""

from __future__ import annotations

import dataclasses
from typing import Final, NamedTuple

from capture_analyzer.model.byte_stream import ByteStream
from capture_analyzer.model.quick_dataclass import quick_dataclass
from capture_analyzer.pipeline.dissect.place import Place
from capture_analyzer.pipeline.dissect.records import Fragments, Records
from capture_analyzer.protocols.tls.decryption import (
    ALERT,
    APPLICATION_DATA,
    CHANGE_CIPHER_SPEC,
    HANDSHAKE,
    Decryptor,
    Opened,
)
from capture_analyzer.protocols.tls.records import HEADER_BYTES

MAX_HANDSHAKE_BYTES: Final = 1 << 20
"""Encrypted handshake messages kept of a direction; chains of certificates have some KB."""

WORTH_A_PART: Final = 2048
"""Octets of content a record has on the average, where it is cheaper to leave each by itself than
to copy all of them into one."""


class HandshakePart(NamedTuple):
    """Plaintext of a protected handshake record: (index of the record, its bytes)."""

    record: int
    plaintext: bytes


class Run(NamedTuple):
    """Records of application data in a row that opened.

    Attributes:
        first: index of the first of them, among all records.
        records: how many they are.
        at: plaintext offset of their content.
        lead: octets of their fragments in front of the ciphertext.
        typed: when they were opened, their contents had the octet of their type behind them.
        together: what they hold is one part, without these octets; else each is one as it is.
    """

    first: int
    records: int
    at: int
    lead: int
    typed: bool
    together: bool


@quick_dataclass
class Plain:
    """What one direction of a TLS connection holds when its records are opened.

    Attributes:
        cipher: the TLS stream.
        records: its records.
        stream: its application data, once it is laid out (see `lay_out`); gaps are records
            that could not be opened.
        end: offset behind the last byte of it that is known to have been sent.
        runs: records of application data.
        sizes: length of the content of each of them, as it was opened.
        parts: what they hold.
        handshake: protected handshake messages, record by record.
        alerts: (index of the record, level, description) of protected alerts.
        opened: how many protected records opened.
        failed: how many did not, though they were complete.
        missing: how many can't be opened because the capture lacks bytes of them, or all.
        early_records: indices of records of early data.
    """

    cipher: ByteStream
    records: Records
    stream: ByteStream | None = None
    end: int = 0
    runs: list[Run] = dataclasses.field(default_factory=list)
    sizes: list[int] = dataclasses.field(default_factory=list)
    parts: list[bytes] = dataclasses.field(default_factory=list)
    handshake: list[HandshakePart] = dataclasses.field(default_factory=list)
    alerts: list[tuple[int, int, int]] = dataclasses.field(default_factory=list)
    early_records: list[int] = dataclasses.field(default_factory=list)
    opened: int = 0
    failed: int = 0
    missing: int = 0
    _handshake_bytes: int = 0

    def add(self, record: int, opened: Opened, at: int, *, early_accepted: bool) -> bool:
        """Add a record; whether its content is at plaintext offset `at` of the stream."""
        content = opened.plaintext
        if opened.content_type != APPLICATION_DATA:
            self._add_other(record, opened.content_type, content)
            return False
        if opened.early:
            self.early_records.append(record)
            if not early_accepted:
                self.records.everything.note(
                    self.records.first + record, opened.content_type, len(content)
                )
                return False
        # Its length will be noted with those of all others.
        self._add_data(record, [content], at, opened.lead, typed=False)
        return True

    def add_run(
        self,
        record: int,
        contents: list[bytes],
        others: list[int],
        at: int,
        lead: int,
        *,
        typed: bool,
    ) -> int:
        """Add records in a row; the plaintext offset behind them.

        Args:
            record: the first of them.
            contents: what they hold.
            others: places of those that hold something else than application data.
            at: plaintext offset of the first content.
            lead: octets of their fragments in front of the ciphertext.
            typed: each has the octet of its type behind it.
        """
        if not others:
            return self._add_data(record, contents, at, lead, typed=typed)
        begin = 0
        for place in others:
            if begin < place:
                at = self._add_data(record + begin, contents[begin:place], at, lead, typed=typed)
            content = contents[place]
            self._add_other(record + place, content[-1], content[:-1])
            begin = place + 1
        if begin < len(contents):
            at = self._add_data(record + begin, contents[begin:], at, lead, typed=typed)
        return at

    def _add_data(
        self, record: int, contents: list[bytes], at: int, lead: int, *, typed: bool
    ) -> int:
        count = len(contents)
        sizes = list(map(len, contents))
        total = sum(sizes) - count * typed
        together = total < count * WORTH_A_PART
        if together:
            self.parts.append(
                b"".join([content[:-1] for content in contents] if typed else contents)
            )
        else:
            self.parts += contents
        self.sizes += sizes
        self.runs.append(Run(self.records.first + record, count, at, lead, typed, together))
        return at + total

    def _add_other(self, record: int, content_type: int, content: bytes) -> None:
        """Add a record that holds no application data."""
        size, records = len(content), self.records
        records.everything.note(records.first + record, content_type, size)
        if content_type == HANDSHAKE:
            self._handshake_bytes += size
            if self._handshake_bytes <= MAX_HANDSHAKE_BYTES:
                self.handshake.append(HandshakePart(record, content))
        elif content_type == ALERT and size == 2:
            self.alerts.append((record, content[0], content[1]))


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
    count, first, everything = len(records), records.first, records.everything
    plain = Plain(cipher, records)
    place = Place(
        decryptor, records.end(first_protected - 1) if 0 < first_protected <= count else None
    )
    fragments = Fragments(records)
    offsets, lengths, run_ends, content_types, complete = everything.cells
    index = first_protected
    while index < count:
        record = first + index
        offset, length = offsets[record], lengths[record]
        if offset != place.end:
            place.gap(offset)
        elif not place.lost and decryptor.opens_runs and run_ends[record] > record:
            lead, typed = decryptor.lead, decryptor.typed
            contents, others = decryptor.open_run(*fragments.run(index))
            if contents:
                place.at = plain.add_run(index, contents, others, place.at, lead, typed=typed)
                index += len(contents)
                place.end = records.end(index - 1)
                continue
        place.end = offset + HEADER_BYTES + length
        index += 1
        if content_types[record] == CHANGE_CIPHER_SPEC:
            continue  # a dummy in TLS 1.3 (RFC 8446, appendix D.4)
        if not complete[record]:
            place.incomplete(length)
            continue
        opened = decryptor.open(*fragments.one(index - 1))
        if opened is None:
            place.closed(length)
            continue
        if place.lost:
            place.found(opened)
        if plain.add(index - 1, opened, place.at, early_accepted=early_accepted):
            place.at += len(opened.plaintext)
    place.finish(cipher.end, cut=count > 0 and not complete[records.stop - 1])
    plain.end = place.at
    plain.opened, plain.failed, plain.missing = decryptor.opened, decryptor.failed, place.missing
    return plain
