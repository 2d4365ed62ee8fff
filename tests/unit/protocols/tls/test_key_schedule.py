"""Record keys against RFC 8448, section 3, and records made here with known keys."""

from __future__ import annotations

import os

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESCCM, AESGCM, ChaCha20Poly1305

from capture_analyzer.protocols.tls.key_schedule import (
    TLS12_SUITES,
    TLS13_SUITES,
    tls12_keys,
    traffic_key,
)
from capture_analyzer.protocols.tls.protection import CannotOpenError, Tls12Opener, Tls13Opener

SERVER_HANDSHAKE = bytes.fromhex("b67b7d690cc16c4e75e54213cb2d37b4e9c912bcded9105d42befd59d391ad38")
CLIENT_HANDSHAKE = bytes.fromhex("b3eddb126e067f35a780b3abf45e2d8f3b1a950738f52e9600746a0e27a55a21")


@pytest.mark.parametrize(
    ("secret", "key", "iv"),
    [
        (SERVER_HANDSHAKE, "3fce516009c21727d0f2e4e86ee403bc", "5d313eb2671276ee13000b30"),
        (CLIENT_HANDSHAKE, "dbfaa693d1762c5b666af5d950258d01", "5bd3c71b836e0b76bb73265f"),
    ],
)
def test_traffic_keys_of_rfc_8448(secret: bytes, key: str, iv: str) -> None:
    assert traffic_key(secret, TLS13_SUITES[0x1301]) == (bytes.fromhex(key), bytes.fromhex(iv))


def _open(opener: Tls13Opener | Tls12Opener, fragment: bytes) -> tuple[int, bytes]:
    return opener.open(b"\x17\x03\x03" + len(fragment).to_bytes(2, "big"), fragment)


def _seal13(opener_secret: bytes, suite: int, sequence: int, inner: bytes) -> bytes:
    protection = TLS13_SUITES[suite]
    key, iv = traffic_key(opener_secret, protection)
    cipher = {"aes-gcm": AESGCM, "chacha20-poly1305": ChaCha20Poly1305}.get(protection.aead)
    sealer = cipher(key) if cipher else AESCCM(key, tag_length=protection.tag_octets)
    nonce = (int.from_bytes(iv, "big") ^ sequence).to_bytes(12, "big")
    header = b"\x17\x03\x03" + (len(inner) + protection.tag_octets).to_bytes(2, "big")
    return sealer.encrypt(nonce, inner, header)


@pytest.mark.parametrize("suite", TLS13_SUITES)
def test_tls13_records_open_in_order_with_padding_and_key_update(suite: int) -> None:
    secret = os.urandom(TLS13_SUITES[suite].hash_octets)
    opener = Tls13Opener(secret, TLS13_SUITES[suite])
    assert _open(opener, _seal13(secret, suite, 0, b"one\x17")) == (23, b"one")
    padded = _seal13(secret, suite, 1, b"two\x16" + bytes(9))
    assert _open(opener, padded) == (22, b"two")
    with pytest.raises(CannotOpenError):
        _open(opener, padded)
    assert opener.sequence == 2
    opener.update()
    with pytest.raises(CannotOpenError):
        _open(opener, _seal13(secret, suite, 0, b"old\x17"))


def test_a_record_of_padding_only_is_refused() -> None:
    secret = os.urandom(32)
    opener = Tls13Opener(secret, TLS13_SUITES[0x1301])
    with pytest.raises(CannotOpenError):
        _open(opener, _seal13(secret, 0x1301, 0, bytes(5)))


@pytest.mark.parametrize("suite", [0xC02F, 0xC030, 0xCCA8, 0xC09C, 0xC0AE])
def test_tls12_records(suite: int) -> None:
    protection = TLS12_SUITES[suite]
    (key, iv), server = tls12_keys(os.urandom(48), os.urandom(32), os.urandom(32), protection)
    assert (key, iv) != server
    header = (0).to_bytes(8, "big") + b"\x17\x03\x03" + (4).to_bytes(2, "big")
    if protection.aead == "chacha20-poly1305":
        fragment = ChaCha20Poly1305(key).encrypt(iv, b"text", header)
    else:
        explicit = os.urandom(8)
        if protection.aead == "aes-gcm":
            sealed = AESGCM(key).encrypt(iv + explicit, b"text", header)
        else:
            sealer = AESCCM(key, tag_length=protection.tag_octets)
            sealed = sealer.encrypt(iv + explicit, b"text", header)
        fragment = explicit + sealed
    opener = Tls12Opener(key, iv, protection)
    assert _open(opener, fragment) == (23, b"text")
    with pytest.raises(CannotOpenError):
        _open(opener, fragment[:7])
    assert opener.sequence == 1


CLIENT_APPLICATION = bytes.fromhex(
    "9e40646ce79a7f9dc05af8889bce6552875afa0b06df0087f792ebb7c17504a5"
)
SERVER_APPLICATION = bytes.fromhex(
    "a11af9f05531f856ad47116b45a950328204b4f44bfb6b3a4b4f1f3fcb631643"
)


@pytest.mark.parametrize(
    ("secret", "key", "iv"),
    [
        (SERVER_APPLICATION, "9f02283b6c9c07efc26bb9f2ac92e356", "cf782b88dd83549aadf1e984"),
        (CLIENT_APPLICATION, "17422dda596ed5d9acd890e3c63f5051", "5b78923dee08579033e523d9"),
    ],
)
def test_application_keys_of_rfc_8448(secret: bytes, key: str, iv: str) -> None:
    assert traffic_key(secret, TLS13_SUITES[0x1301]) == (bytes.fromhex(key), bytes.fromhex(iv))


CLIENT_DATA = bytes.fromhex(
    "1703030043a23f7054b62c94d0affafe8228ba55cbefacea42f914aa66bcab3f2b9819a8a5b46b395bd54a9a20"
    "441e2b62974e1f5a6292a2977014bd1e3deae63aeebb21694915e4"
)
CLIENT_ALERT = bytes.fromhex("1703030013c9872760655666b74d7ff1153efd6db6d0b0e3")
SERVER_DATA = bytes.fromhex(
    "17030300432e937e11ef4ac740e538ad36005fc4a46932fc3225d05f82aa1b36e30efaf97d90e6dffc602dcb50"
    "1a59a8fcc49c4bf2e5f0a21c0047c2abf332540dd032e167c2955d"
)


def test_records_of_rfc_8448() -> None:
    """Section 3: fifty octets each way, then the client's close_notify."""
    client = Tls13Opener(CLIENT_APPLICATION, TLS13_SUITES[0x1301])
    fifty = bytes(range(50))
    assert client.open(CLIENT_DATA[:5], CLIENT_DATA[5:]) == (23, fifty)
    assert client.open(CLIENT_ALERT[:5], CLIENT_ALERT[5:]) == (21, b"\x01\x00")
    server = Tls13Opener(SERVER_APPLICATION, TLS13_SUITES[0x1301])
    server.sequence = 1  # behind the ticket
    assert server.open(SERVER_DATA[:5], SERVER_DATA[5:]) == (23, fifty)
