"""DNS messages, whole, cut and hostile."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capture_analyzer.protocols.dns import MalformedDnsError, parse


def name(text: str) -> bytes:
    return b"".join(bytes([len(p)]) + p.encode() for p in text.split(".")) + b"\0"


def header(flags: int, questions: int = 1, answers: int = 0) -> bytes:
    return struct.pack(">HHHHHH", 7, flags, questions, answers, 0, 0)


def record(owner: bytes, kind: int, data: bytes) -> bytes:
    return owner + struct.pack(">HHIH", kind, 1, 60, len(data)) + data


QUESTION = name("Api.LLM.example") + struct.pack(">HH", 1, 1)
POINTER = b"\xc0\x0c"


def test_question() -> None:
    message = parse(header(0x0100) + QUESTION)
    assert (message.id, message.response, message.name, message.type) == (
        7,
        False,
        "api.llm.example",
        "A",
    )
    assert message.addresses == ()


def test_answer_with_an_alias_and_both_kinds_of_address() -> None:
    data = (
        header(0x8180, answers=3)
        + QUESTION
        + record(POINTER, 5, name("edge.example"))
        + record(name("edge.example"), 1, bytes([192, 0, 2, 7]))
        + record(POINTER, 28, bytes.fromhex("20010db8" + "00" * 11 + "01"))
    )
    message = parse(data)
    assert (message.rcode, message.addresses) == ("NOERROR", ("192.0.2.7", "2001:db8::1"))


def test_negative_and_unknown_codes() -> None:
    assert parse(header(0x8183) + QUESTION).rcode == "NXDOMAIN"
    assert parse(header(0x818F) + QUESTION).rcode == "RCODE15"
    unknown_type = name("a") + struct.pack(">HH", 65280, 1)
    assert parse(header(0x8180) + unknown_type).type == "TYPE65280"


def test_an_answer_cut_by_the_snap_length_keeps_what_is_there() -> None:
    whole = (
        header(0x8180, answers=2)
        + QUESTION
        + record(POINTER, 1, bytes([192, 0, 2, 7]))
        + record(POINTER, 1, bytes([192, 0, 2, 8]))
    )
    assert parse(whole[:-2]).addresses == ("192.0.2.7",)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        header(0)[:11],
        header(0, questions=0),
        header(0x2800) + QUESTION,  # an UPDATE, not a query
        header(0) + b"\xc0\x0c",  # points at itself
        header(0) + b"\xc0\x40" + bytes(60),  # points forwards
        header(0) + (b"\x3f" + b"a" * 63) * 5,  # longer than a name may be
        header(0) + b"\x80a\0" + bytes(4),
        header(0) + name("a.b"),  # no type
    ],
)
def test_what_is_no_question(data: bytes) -> None:
    with pytest.raises(MalformedDnsError):
        parse(data)


@given(st.binary(max_size=300))
def test_any_octets_give_a_message_or_its_error(data: bytes) -> None:
    for message in (data, header(0x8180, answers=9) + QUESTION + data):
        try:
            parsed = parse(message)
        except MalformedDnsError:
            continue
        assert len(parsed.name) <= 255 * 10
