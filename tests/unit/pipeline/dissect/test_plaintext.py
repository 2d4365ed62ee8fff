"""Which packet each byte of plaintext came in and when: against a model byte by byte."""

from __future__ import annotations

import dataclasses
import hashlib
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).resolve().parents[4] / "scripts"))

from capture_maker.records import Keys

from capture_analyzer.model.column import NO_TIME
from capture_analyzer.pipeline.dissect.layout import lay_out
from capture_analyzer.pipeline.dissect.plaintext import Plain, open_records
from capture_analyzer.pipeline.dissect.records import Records
from capture_analyzer.protocols.tls.decryption import (
    ALERT,
    APPLICATION_DATA,
    HANDSHAKE,
    Decryptor,
    tls13_openers,
)
from capture_analyzer.protocols.tls.protection import Tls13Opener
from capture_analyzer.protocols.tls.records import walk

HEADER, OVERHEAD = 5, 17
SECRET = hashlib.sha256(b"plaintext").digest()
FINISHED = b"\x14\x00\x00\x04done"
KEY_UPDATE = b"\x18\x00\x00\x01\x00"
MS = 1_000_000


def keys() -> Keys:
    return Keys(SECRET, "TLS_AES_128_GCM_SHA256")


def decryptor() -> Decryptor:
    return Decryptor(tls13_openers({"SECRET": SECRET}, 0x1301, "SECRET"))


def opened(stream: Any, first: int = 0, **more: Any) -> Plain:
    """Walk the records of a stream and open them."""
    table = walk(stream)
    rows = Records.of(stream, table)
    plain = open_records(stream, rows, decryptor(), first, **more)
    lay_out([plain])
    return plain


@dataclasses.dataclass
class Byte:
    """What is true of one byte of plaintext."""

    value: int
    packet_no: int
    seen_ns: int
    in_order_ns: int
    usable_ns: int
    origin: int


def bytes_of(plain: Plain) -> dict[int, Byte]:
    """Every byte of a plaintext stream by its offset."""
    stream = plain.stream
    assert stream.origins is not None
    found = {}
    for start, view, index in stream.segments():
        for place in range(len(view)):
            assert start + place not in found, "chunks overlap"
            found[start + place] = Byte(
                view[place],
                int(stream.packet_nos[index]),
                int(stream.seen_ns[index]),
                int(stream.in_order_ns[index]),
                int(stream.usable_ns[index]),
                int(stream.origins[index]) + place,
            )
    return found


@st.composite
def sent(draw: st.DrawFn) -> tuple[bytes, list[tuple[int, bytes, int]], list[int], list[int]]:
    """(cipher stream, (offset, content, octets) of application records, cuts, times seen)."""
    own = keys()
    cipher = bytearray()
    rows = []
    for _ in range(draw(st.integers(1, 6))):
        kind = draw(st.sampled_from([APPLICATION_DATA] * 5 + [HANDSHAKE]))
        content = draw(st.binary(max_size=40)) if kind == APPLICATION_DATA else b"\4\0\0\2ok"
        record = own.seal(kind, content, draw(st.integers(0, 9)))
        if kind == APPLICATION_DATA:
            rows.append((len(cipher), content, len(record)))
        cipher += record
    cuts = draw(st.lists(st.integers(1, len(cipher) - 1), max_size=12, unique=True))
    count = len({0, *cuts})
    # Any order of arrival: losses repaired late.
    times = draw(st.lists(st.integers(1, 30), min_size=count, max_size=count))
    return bytes(cipher), rows, sorted(cuts), [MS * time for time in times]


@given(sent())
def test_every_byte_knows_packet_and_times(
    stream_of: Any, case: tuple[bytes, list[tuple[int, bytes, int]], list[int], list[int]]
) -> None:
    cipher, rows, cuts, times = case
    stream = stream_of(cipher, cuts, seen_ns=times)
    begins = [0, *cuts]

    def segment(offset: int) -> int:
        return max(number for number, begin in enumerate(begins) if begin <= offset)

    expected = {}
    at = 0
    for offset, content, size in rows:
        whole_ns = max(times[: segment(offset + size - 1) + 1])
        for place, value in enumerate(content):
            origin = offset + HEADER + place
            number = segment(origin)
            expected[at] = Byte(
                value, number + 1, times[number], max(times[: number + 1]), whole_ns, origin
            )
            at += 1
    plain = opened(stream)
    assert bytes_of(plain) == expected
    assert plain.stream.end == at
    assert plain.failed == plain.missing == 0
    assert plain.stream.read(0, at) == b"".join(content for _, content, _ in rows)
    for offset in range(at):
        assert plain.stream.in_transport(offset) == expected[offset].origin


@given(sent(), st.data())
def test_lost_segments_leave_gaps_and_right_offsets(
    stream_of: Any,
    case: tuple[bytes, list[tuple[int, bytes, int]], list[int], list[int]],
    data: st.DataObject,
) -> None:
    """What can be read lies where it was sent, if nothing was padded or of another kind."""
    own = keys()
    contents = [content or b"." for _, content, _ in case[1]] or [b"one"]
    contents = [b"at the start", *contents]
    cipher, rows = bytearray(), []
    for content in contents:
        rows.append((len(cipher), content))
        cipher += own.seal(APPLICATION_DATA, content)
    cuts = sorted({len(cipher) * cut // 1000 for cut in data.draw(st.lists(st.integers(1, 999)))})
    cuts = [cut for cut in cuts if 0 < cut < len(cipher)]
    begins = [0, *cuts]
    # The first record is there, so that there is a place to count from.
    may_go = [n for n, begin in enumerate(begins) if begin >= HEADER + OVERHEAD + 12]
    gone = data.draw(st.sets(st.sampled_from(may_go))) if may_go else set()
    stream = stream_of(bytes(cipher), cuts, gone=sorted(gone))
    text = b"".join(contents)
    plain = opened(stream)
    got = bytes_of(plain)
    for offset, byte in got.items():
        assert text[offset] == byte.value
    if len(text) - 1 in got:  # else the length of the tail is not known
        assert plain.stream.end == len(text)
    # Records that were captured whole, with the header of the next one, are all there.
    lost = {
        offset
        for number in gone
        for offset in range(begins[number], [*begins[1:], len(cipher)][number])
    }
    at = 0
    for number, (offset, content) in enumerate(rows):
        stop = offset + HEADER + OVERHEAD + len(content)
        follows = min(stop + HEADER, len(cipher))
        if not lost & set(range(offset, follows)) and (
            number == 0 or not lost & set(range(rows[number - 1][0], offset))
        ):
            assert all(at + place in got for place in range(len(content)))
        at += len(content)
    if not gone:
        assert len(got) == len(text)


def test_several_records_in_a_segment_and_one_over_several(stream_of: Any) -> None:
    own = keys()
    small = [own.seal(APPLICATION_DATA, text) for text in (b"one", b"two", b"three")]
    large = own.seal(APPLICATION_DATA, b"L" * 4_000)
    cipher = b"".join(small) + large
    first = sum(map(len, small))
    plain = opened(stream_of(cipher, [first, first + 1448, first + 2896]))
    got = bytes_of(plain)
    assert [got[offset].packet_no for offset in (0, 3, 6, 10)] == [1, 1, 1, 1]
    assert [got[offset].usable_ns for offset in (0, 10)] == [MS, MS]
    # The large one: each byte in its packet, all usable with the last.
    assert got[11].packet_no == 2
    assert got[11].seen_ns == got[11].in_order_ns == 2 * MS
    assert got[11].usable_ns == 4 * MS
    assert got[11 + 3_999].packet_no == 4


def test_padding_and_empty_records_take_no_room(stream_of: Any) -> None:
    own = keys()
    cipher = (
        own.seal(APPLICATION_DATA, b"one", 500)
        + own.seal(APPLICATION_DATA, b"", 100)
        + own.seal(APPLICATION_DATA, b"two")
    )
    plain = opened(stream_of(cipher))
    assert plain.stream.read(0, 9) == b"onetwo"
    assert plain.records.plaintext_bytes.tolist() == [3, 0, 3]


def test_handshake_messages_alerts_and_change_cipher_spec_are_no_content(stream_of: Any) -> None:
    own = keys()
    cipher = (
        own.seal(HANDSHAKE, FINISHED)
        + b"\x14\x03\x03\x00\x01\x01"
        + own.seal(APPLICATION_DATA, b"text")
        + own.seal(ALERT, b"\x01\x00")
    )
    plain = opened(stream_of(cipher))
    assert plain.stream.read(0, 9) == b"text"
    assert [(part.record, part.plaintext) for part in plain.handshake] == [(0, FINISHED)]
    assert plain.alerts == [(3, 1, 0)]
    assert plain.records.inner_types.tolist() == [HANDSHAKE, 0, APPLICATION_DATA, ALERT]
    assert plain.records.plaintext_bytes.tolist() == [8, -1, 4, 2]


def test_records_with_their_headers_lost_are_counted_by_sequence_numbers(stream_of: Any) -> None:
    own = keys()
    pieces = [own.seal(APPLICATION_DATA, b"%03d" % n * 20) for n in range(60)]
    size = len(pieces[0])
    cipher = b"".join(pieces)
    # Segments do not begin where records do.
    cuts = [7 * size + 11, 31 * size + 40]
    plain = opened(stream_of(cipher, cuts, gone=[1]))
    assert plain.stream.read(0, 7 * 60) == b"".join(b"%03d" % n * 20 for n in range(7))
    assert plain.stream.read(32 * 60, 33 * 60) == b"032" * 20
    assert plain.stream.gaps() == [(7 * 60, 25 * 60)]
    assert plain.stream.end == 60 * 60
    assert plain.missing == 25


def test_what_is_lost_at_the_end(stream_of: Any) -> None:
    own = keys()
    cipher = own.seal(APPLICATION_DATA, b"one") + own.seal(APPLICATION_DATA, b"two" * 9)
    cut = HEADER + OVERHEAD + 3
    plain = opened(stream_of(cipher, [cut], gone=[1]))
    assert plain.stream.gaps() == [(3, 27)]
    assert plain.missing == 1
    # The capture ends within a record: nothing is wrong with what it holds.
    whole = opened(stream_of(cipher[:-4]))
    assert whole.stream.gaps() == [(3, 27)]
    assert whole.missing == whole.failed == 0
    # The same, but it is known that more was sent.
    more = opened(stream_of(cipher[:-4], end=len(cipher) + 50))
    assert more.stream.end >= 3 + 27 + 50 - HEADER - OVERHEAD
    assert more.missing


def test_rejected_early_data_is_no_part_of_the_stream(stream_of: Any) -> None:
    early = Keys(hashlib.sha256(b"early").digest(), "TLS_AES_128_GCM_SHA256")
    own = keys()
    cipher = early.seal(APPLICATION_DATA, b"GET / early") + own.seal(APPLICATION_DATA, b"GET /")
    table = walk(stream_of(cipher))
    rows = Records.of(stream_of(cipher), table)
    secrets = {"EARLY": early.secret, "SECRET": SECRET}

    def both(accepted: bool) -> Plain:
        openers = tls13_openers(secrets, 0x1301, "EARLY", "SECRET")
        one = Decryptor(openers, early=True)
        plain = open_records(stream_of(cipher), rows, one, 0, early_accepted=accepted)
        lay_out([plain])
        return plain

    assert both(True).stream.read(0, 99) == b"GET / earlyGET /"
    assert both(False).stream.read(0, 99) == b"GET /"
    assert both(True).early_records == both(False).early_records == [0]


def test_long_runs_are_opened_in_parts(stream_of: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("capture_analyzer.pipeline.dissect.records.MOST_AT_ONCE", 4)
    own = keys()
    texts = [b"%d," % number for number in range(20)]
    sealed = [own.seal(APPLICATION_DATA, text) for text in texts[:9]]
    sealed.append(own.seal(HANDSHAKE, b"\4\0\0\2ok"))
    sealed += [own.seal(APPLICATION_DATA, text) for text in texts[9:]]
    plain = opened(stream_of(b"".join(sealed)))
    assert plain.stream.read(0, 99) == b"".join(texts)
    assert (plain.opened, plain.failed, plain.missing) == (21, 0, 0)
    assert [part.record for part in plain.handshake] == [9]


KINDS = ["data"] * 5 + ["padded", "ticket", "alert", "update", "no update", "nothing", "damaged"]


def scripted(kinds: list[str]) -> bytes:
    """A cipher stream with records of these kinds."""
    own, cipher = keys(), bytearray()
    for number, kind in enumerate(kinds):
        if kind in ("update", "no update"):  # a sender that goes on with its old key breaks rules
            record = own.seal(HANDSHAKE, KEY_UPDATE)
            if kind == "update":
                own.update()
        elif kind == "nothing":
            record = own.seal(0, bytes(number), 3)
        elif kind == "ticket":
            record = own.seal(HANDSHAKE, b"\4\0\0\2ok", number)
        elif kind == "alert":
            record = own.seal(ALERT, b"\1\0")
        else:
            padding = number if kind == "padded" else 0
            record = own.seal(APPLICATION_DATA, b"%d," % number, padding)
        if kind == "damaged":
            record = record[:-1] + bytes((record[-1] ^ 1,))
        cipher += record
    return bytes(cipher)


@given(st.lists(st.sampled_from(KINDS), min_size=1, max_size=30), st.integers(2, 40))
def test_a_run_holds_what_its_records_hold(stream_of: Any, kinds: list[str], most: int) -> None:
    """How many are opened at once does not matter, whatever is among them."""
    cipher = scripted(kinds)
    found = []
    for at_once in (1, most):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("capture_analyzer.pipeline.dissect.records.MOST_AT_ONCE", at_once)
            plain = opened(stream_of(cipher, range(50, len(cipher), 50)))
        records = plain.records
        found.append(
            (
                [(start, bytes(view)) for start, view, _ in plain.stream.segments()],
                plain.end,
                plain.handshake,
                plain.alerts,
                (plain.opened, plain.failed, plain.missing),
                records.inner_types.tolist(),
                records.plaintext_bytes.tolist(),
            )
        )
    assert found[0] == found[1]


def test_records_are_seldom_opened_in_vain(stream_of: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sender can't make each record cost what many do."""
    tried = 0
    real = Tls13Opener._open_at_once

    def counting(self: Tls13Opener, headers: Any, fragments: Any) -> Any:
        nonlocal tried
        tried += len(fragments)
        return real(self, headers, fragments)

    monkeypatch.setattr(Tls13Opener, "_open_at_once", counting)
    for kind in ("nothing", "no update"):
        tried = 0
        plain = opened(stream_of(scripted([kind, "data"] * 200)))
        assert plain.opened + plain.failed == 400
        assert tried <= 400


def test_a_damaged_record_is_a_gap(stream_of: Any) -> None:
    own = keys()
    pieces = [bytearray(own.seal(APPLICATION_DATA, text)) for text in (b"one", b"TWO", b"three")]
    pieces[1][9] ^= 1
    plain = opened(stream_of(b"".join(pieces)))
    assert plain.stream.gaps() == [(3, 3)]
    assert plain.stream.read(6, 99) == b"three"
    assert (plain.opened, plain.failed) == (2, 1)


def test_nothing_opens(stream_of: Any) -> None:
    other = Keys(hashlib.sha256(b"other").digest(), "TLS_AES_128_GCM_SHA256")
    cipher = b"".join(other.seal(APPLICATION_DATA, b"text") for _ in range(5))
    plain = opened(stream_of(cipher))
    assert (plain.opened, plain.failed) == (0, 5)
    assert len(plain.stream) == plain.stream.end == 0


@pytest.mark.parametrize("cipher", [b"", b"\x17\x03\x03\x00\x00", b"\x17\x03\x03\x00\x05abcde" * 3])
def test_senseless_records(stream_of: Any, cipher: bytes) -> None:
    plain = opened(stream_of(cipher))
    assert plain.opened == 0
    assert len(plain.stream) == 0


def test_times_where_the_last_byte_is_known_to_have_arrived_only_later(stream_of: Any) -> None:
    """A record whose last byte has no time of its own is usable when its bytes were in order."""
    cipher = keys().seal(APPLICATION_DATA, b"text")
    stream = stream_of(cipher)
    rows = Records.of(stream, walk(stream))
    rows.everything.complete_ns[:] = NO_TIME
    plain = open_records(stream, rows, decryptor(), 0)
    lay_out([plain])
    assert plain.stream.usable_ns.tolist() == [MS]


def test_large_records_are_not_copied_together(stream_of: Any) -> None:
    """Each stays in a buffer of its own; whoever reads the stream does not notice."""
    own = keys()
    contents = [bytes([number]) * 5_000 for number in range(4)]
    cipher = b"".join(own.seal(APPLICATION_DATA, content) for content in contents)
    plain = opened(stream_of(cipher, range(1448, len(cipher), 1448)))
    assert len(plain.stream.buffers) == 4
    assert plain.stream.read(0, 20_000) == b"".join(contents)
    assert plain.stream.read(4_990, 10_010) == b"\0" * 10 + b"\1" * 5_000 + b"\2" * 10
    got = bytes_of(plain)
    assert [got[offset].value for offset in range(20_000)] == list(b"".join(contents))
    small = b"".join(keys().seal(APPLICATION_DATA, bytes([n]) * 50) for n in range(4))
    assert len(opened(stream_of(small)).stream.buffers) == 1
