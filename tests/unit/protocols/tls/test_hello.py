"""Hellos: what they say, and what a broken one can't do."""

from __future__ import annotations

import random
import ssl
import struct

import pytest

from capture_analyzer.model.tls_records import HANDSHAKE_NAMES
from capture_analyzer.protocols.tls import hello as hello_module
from capture_analyzer.protocols.tls import names
from capture_analyzer.protocols.tls.handshake import MAX_MESSAGES, read_clear
from capture_analyzer.protocols.tls.hello import (
    HELLO_RETRY_RANDOM,
    MalformedHelloError,
    parse_client_hello,
    parse_server_hello,
)


def vector(data: bytes, size: int) -> bytes:
    return len(data).to_bytes(size, "big") + data


def extension(kind: int, data: bytes) -> bytes:
    return struct.pack(">H", kind) + vector(data, 2)


def client_hello(*extensions: bytes, session_id: bytes = b"", suites: bytes = b"\x13\x01") -> bytes:
    return (
        b"\x03\x03"
        + bytes(range(32))
        + vector(session_id, 1)
        + vector(suites, 2)
        + b"\x01\x00"
        + (vector(b"".join(extensions), 2) if extensions else b"")
    )


def server_hello(*extensions: bytes, random_: bytes = bytes(32), suite: int = 0x1301) -> bytes:
    body = b"\x03\x03" + random_ + vector(b"sid", 1) + struct.pack(">H", suite) + b"\x00"
    return body + (vector(b"".join(extensions), 2) if extensions else b"")


def sni(name: bytes) -> bytes:
    return extension(0, vector(b"\x00" + vector(name, 2), 2))


def test_everything_in_a_client_hello():
    hello = parse_client_hello(
        client_hello(
            extension(0x1A1A, b"\x00"),
            sni(b"api.example"),
            extension(43, b"\x06" + b"\x2a\x2a\x03\x04\x03\x03"),
            extension(16, vector(vector(b"\xaa\xaa", 1) + vector(b"h2", 1), 2)),
            extension(10, vector(b"\x3a\x3a\x11\xec\x00\x1d", 2)),
            extension(
                51, vector(b"\x3a\x3a" + vector(b"\x00", 2) + b"\x00\x1d" + vector(b"k" * 32, 2), 2)
            ),
            extension(5, b"\x01\x00\x00\x00\x00"),
            extension(35, b"ticket"),
            extension(42, b""),
            extension(0xFE0D, b"x" * 40),
            extension(41, b"psk"),
            session_id=b"s" * 32,
            suites=b"\x0a\x0a\x13\x01\xc0\x2f",
        )
    )
    assert hello.server_name == "api.example"
    assert hello.versions == [0x0304, 0x0303]
    assert hello.alpn == ["h2"]
    assert hello.cipher_suites == [0x1301, 0xC02F]
    assert hello.groups == [0x11EC, 0x1D]
    assert hello.key_share_groups == [0x1D]
    assert hello.session_id == b"s" * 32
    assert hello.random == bytes(range(32))
    assert hello.status_request
    assert hello.psk_offered
    assert hello.ticket_offered
    assert hello.early_data
    assert hello.ech


def test_a_hello_without_extensions_offers_nothing():
    hello = parse_client_hello(client_hello())
    assert hello.versions == [0x0303]
    assert hello.server_name is None
    assert True not in (hello.psk_offered, hello.ticket_offered, hello.early_data, hello.ech)
    assert hello.alpn == hello.groups == hello.key_share_groups == []


def test_an_empty_ticket_offers_no_resumption():
    assert not parse_client_hello(client_hello(extension(35, b""))).ticket_offered


def test_server_name_is_text_that_can_do_nothing():
    hello = parse_client_hello(client_hello(sni(b"<b>\x1b[31m\r\n.example")))
    assert hello.server_name == "<b>\\x1b[31m\\x0d\\x0a.example"


def test_server_hello():
    hello = parse_server_hello(
        server_hello(
            extension(43, b"\x03\x04"),
            extension(51, b"\x00\x1d" + vector(b"k" * 32, 2)),
            extension(41, b"\x00\x00"),
        )
    )
    assert (hello.version, hello.group, hello.psk_accepted) == (0x0304, 0x1D, True)
    assert not hello.hello_retry
    old = parse_server_hello(server_hello(extension(16, vector(vector(b"h2", 1), 2)), suite=0xC02F))
    assert (old.version, old.alpn, old.psk_accepted) == (0x0303, "h2", False)
    retry = parse_server_hello(server_hello(extension(51, b"\x00\x18"), random_=HELLO_RETRY_RANDOM))
    assert (retry.hello_retry, retry.group) == (True, 0x18)


@pytest.mark.parametrize(
    "body", [b"", b"\x03\x03", client_hello()[:-1], client_hello(sni(b"a"))[:-1]]
)
def test_cut_client_hello_is_malformed(body):
    with pytest.raises(MalformedHelloError):
        parse_client_hello(body)


def test_extension_over_the_end_is_malformed():
    body = client_hello(extension(10, b"\x00\x02\x00\x1d"))
    broken = body[:-5] + b"\x09" + body[-4:]
    with pytest.raises(MalformedHelloError, match="runs over"):
        parse_client_hello(broken)


@pytest.mark.parametrize("seed", range(3))
def test_damage_never_raises_anything_else(seed):
    rng = random.Random(seed)
    bio_in, bio_out = ssl.MemoryBIO(), ssl.MemoryBIO()
    end = ssl.create_default_context().wrap_bio(bio_in, bio_out, server_hostname="a.example")
    with pytest.raises(ssl.SSLWantReadError):
        end.do_handshake()
    body = bio_out.read()[9:]
    good = parse_client_hello(body)
    assert good.server_name == "a.example"
    for _ in range(2000):
        damaged = bytearray(body)
        for _ in range(rng.randrange(1, 6)):
            damaged[rng.randrange(34, len(damaged))] = rng.randrange(256)
        del damaged[rng.randrange(len(damaged)) :]
        for parse in (parse_client_hello, parse_server_hello):
            try:
                hello = parse(bytes(damaged))
            except MalformedHelloError:
                continue
            if parse is parse_client_hello:
                assert hello.cipher_suites is not None
                assert hello.groups is not None
                assert hello.key_share_groups is not None


def test_names():
    assert names.suite_name(0x1301) == "TLS_AES_128_GCM_SHA256"
    assert names.suite_name(0xC02F) == "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"
    assert names.suite_name(0x1234) == "0x1234"
    assert names.group_name(0x11EC) == "X25519MLKEM768"
    assert names.group_name(0x7777) == "0x7777"
    assert names.alert_name(40) == "handshake_failure"
    assert names.alert_name(200) == "alert_200"
    assert names.version_name(0x0304) == "TLS 1.3"
    assert names.version_name(0x7F1C) == "TLS 1.3 draft 28"
    assert HANDSHAKE_NAMES[22] == "certificate_status"
    assert names.is_grease(0xDADA)
    assert not names.is_grease(0x0A1A)
    assert not names.is_grease(0x1301)


@pytest.mark.parametrize(
    ("library_name", "number"),
    [("TLS_AES_256_GCM_SHA384", 0x1302), ("ECDHE-RSA-AES128-GCM-SHA256", 0xC02F)],
)
def test_suite_numbers_are_openssls(library_name, number):
    ciphers = ssl.create_default_context().get_ciphers()
    assert {c["name"]: c["id"] & 0xFFFF for c in ciphers}[library_name] == number


def message(kind: int, body: bytes) -> bytes:
    return bytes([kind]) + vector(body, 3)


def clear(*records: tuple[int, bytes | None], hello_again: bool = False):
    return read_clear(
        [kind for kind, _ in records], lambda index: records[index][1], hello_again=hello_again
    )


def test_messages_over_records_and_in_one_record():
    data = message(2, b"a" * 50) + message(11, b"b" * 300) + message(14, b"")
    part = clear(
        (22, data[:10]), (22, data[10:100]), (22, data[100:]), (20, b"\x01"), (22, b"x" * 40)
    )
    assert [(m.type, len(m.body), m.first_record, m.last_record) for m in part.messages] == [
        (2, 50, 0, 1),
        (11, 300, 1, 2),
        (14, 0, 2, 2),
    ]
    assert part.change_cipher_spec == 3
    assert part.encrypted_from == 4
    assert not part.broken


def test_what_follows_change_cipher_spec_is_not_read():
    part = clear((22, message(16, b"k")), (20, b"\x01"), (22, message(20, b"f" * 12)))
    assert [m.type for m in part.messages] == [16]


def test_second_hello_behind_change_cipher_spec():
    part = clear((22, message(1, b"x")), (20, b"\x01"), (22, message(1, b"y")), hello_again=True)
    assert [m.body for m in part.messages] == [b"x", b"y"]


def test_missing_record_ends_the_reading():
    part = clear((22, message(2, b"a" * 50)), (22, None), (22, message(14, b"")))
    assert [m.type for m in part.messages] == [2]
    assert part.broken


def test_flood_of_messages_is_cut():
    part = clear((22, message(0, b"") * (MAX_MESSAGES + 10)), (22, message(0, b"")))
    assert part.malformed


def test_announced_length_is_not_believed():
    part = clear((22, b"\x0b\xff\xff\xff" + b"c" * 100), (23, b""))
    assert part.messages == []
    assert part.encrypted_from == 1


def outcome(parse, body):
    """What parsing comes to: the hello with all it offers, or the complaint."""
    try:
        hello = parse(body)
    except MalformedHelloError as error:
        return str(error)
    lists = "cipher_suites", "groups", "key_share_groups"
    return hello, [getattr(hello, name, None) for name in lists]


def test_hello_read_like_an_earlier_one_says_the_same(monkeypatch):
    # Every byte changed in turn: whether the hello before it is remembered makes no difference.
    client = client_hello(
        sni(b"api.example"),
        extension(43, b"\x02\x03\x04"),
        extension(16, vector(vector(b"h2", 1), 2)),
        extension(51, vector(b"\x00\x1d" + vector(b"k" * 32, 2), 2)),
        extension(35, b"ticket"),
        extension(41, b"psk"),
        session_id=b"s" * 4,
    )
    server = server_hello(
        extension(43, b"\x03\x04"), extension(51, b"\x00\x1d" + vector(b"k" * 32, 2))
    )
    retry = server_hello(
        extension(43, b"\x03\x04"),
        extension(51, b"\x00\x1d" + vector(b"k" * 32, 2)),
        random_=HELLO_RETRY_RANDOM,
    )
    for parse, body in ((parse_client_hello, client), (parse_server_hello, server)):
        bodies = [
            body[:at] + bytes([body[at] ^ flip]) + body[at + 1 :]
            for at in range(len(body))
            for flip in (1, 0x80)
        ]
        bodies += [retry] if body is server else []
        parse(body)
        warm = [outcome(parse, other) for other in bodies]
        for other, found in zip(bodies, warm, strict=True):
            for known in (hello_module._known_client_hellos, hello_module._known_server_hellos):
                monkeypatch.setattr(known, "_by_length", {})
            assert outcome(parse, other) == found


def test_many_lengths_of_hellos_are_not_all_remembered():
    known = hello_module._known_client_hellos
    for size in range(known.LENGTHS + 10):
        parse_client_hello(client_hello(extension(21, bytes(size))))
        assert len(known._by_length) <= known.LENGTHS
    for _ in range(10):
        parse_client_hello(client_hello(extension(21, random.randbytes(8))))
    assert len(known._by_length[len(client_hello(extension(21, bytes(8))))]) <= known.OF_A_LENGTH
