"""Encrypted ClientHello: opened with a key log's lines, confirmed; hostile ones harm nothing."""

from __future__ import annotations

import hashlib
import random
import struct
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF, HKDFExpand

from capture_analyzer.protocols.tls import ech
from capture_analyzer.protocols.tls.hello import parse_client_hello

CAPTURES = Path(__file__).resolve().parents[4] / "captures"


def sample() -> tuple[bytes, bytes, bytes, bytes]:
    """(outer ClientHello, ECH_SECRET, ECH_CONFIG, random of the inner one) of a capture."""
    rows = [line.split() for line in (CAPTURES / "tls13-ech.keys").read_text().splitlines()]
    values = {label: (bytes.fromhex(of), bytes.fromhex(value)) for label, of, value in rows}
    data = (CAPTURES / "tls13-ech.pcap").read_bytes()
    outer_random, secret = values["ECH_SECRET"]
    at = data.index(outer_random) - 2
    length = int.from_bytes(data[at - 3 : at], "big")
    inner_random = values["CLIENT_TRAFFIC_SECRET_0"][0]
    return data[at : at + length], secret, values["ECH_CONFIG"][1], inner_random


def test_the_inner_hello_opens() -> None:
    outer, secret, config, inner_random = sample()
    assert parse_client_hello(outer).server_name == "cover.example"
    (inner,) = ech.open_inner([outer], secret, config)
    hello = parse_client_hello(inner)
    assert (hello.random, hello.server_name) == (inner_random, "api.example")
    # What it takes from the outer one is all there.
    assert hello.session_id == parse_client_hello(outer).session_id
    assert hello.key_share_groups == parse_client_hello(outer).key_share_groups
    listed = len(config).to_bytes(2, "big") + config
    assert ech.open_inner([outer], secret, listed) == [inner]


def test_it_does_not_open_with_other_secrets() -> None:
    outer, secret, config, _ = sample()
    with pytest.raises(ech.NoInnerHelloError, match="does not open"):
        ech.open_inner([outer], secret[::-1], config)
    with pytest.raises(ech.NoInnerHelloError, match="does not open"):
        ech.open_inner([outer], secret, config[:-1] + b"\1")
    with pytest.raises(ech.NoInnerHelloError):
        ech.open_inner([outer], secret, b"")
    with pytest.raises(ech.NoInnerHelloError, match="no encrypted"):
        ech.open_inner([ech.open_inner([outer], secret, config)[0]], secret, config)


def test_hellos_that_break_the_rules() -> None:
    outer, secret, config, _ = sample()
    draw = random.Random(6)
    for cut in range(0, len(outer), 7):
        with pytest.raises(ech.NoInnerHelloError):
            ech.open_inner([outer[:cut]], secret, config)
    opened = 0
    for _ in range(500):
        bad = bytearray(outer)
        bad[draw.randrange(len(bad))] ^= 1 << draw.randrange(8)
        try:
            ech.open_inner([bytes(bad)], secret, config)
        except ech.NoInnerHelloError:
            continue
        opened += 1
    assert opened == 0, "every octet of the outer hello is covered"


# RFC 9180, appendix A.1: DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, AES-128-GCM, base mode.


def test_key_schedule_of_the_rfc() -> None:
    suite = b"HPKE" + struct.pack(">HHH", 0x20, 1, 1)
    secret = bytes.fromhex("fe0e18c9f024ce43799ae393c7e8fe8fce9d218875e8227b0187c04e7d2ea1fc")
    info = bytes.fromhex("4f6465206f6e2061204772656369616e2055726e")
    key, nonce = ech.key_schedule(secret, info, suite, "sha256", 16)
    assert key.hex() == "4531685d41d65f03dc48f6b8302c05b0"
    assert nonce.hex() == "56d890e5accaaf011cff4b7d"


def test_key_schedule_against_a_library() -> None:
    hpke = pytest.importorskip("cryptography.hazmat.primitives.hpke")
    private = X25519PrivateKey.generate()
    suite = hpke.Suite(hpke.KEM.X25519, hpke.KDF.HKDF_SHA256, hpke.AEAD.AES_256_GCM)
    sealed = suite.encrypt(b"a message", private.public_key(), info=b"some info")
    enc, ciphertext = sealed[:32], sealed[32:]
    agreed = private.exchange(X25519PublicKey.from_public_bytes(enc))
    shared = HKDF(
        hashes.SHA256(),
        32,
        b"",
        b"\0\x20HPKE-v1KEM\0\x20shared_secret" + enc + private.public_key().public_bytes_raw(),
    ).derive(b"HPKE-v1KEM\0\x20eae_prk" + agreed)
    key, nonce = ech.key_schedule(
        shared, b"some info", b"HPKE" + struct.pack(">HHH", 0x20, 1, 2), "sha256", 32
    )
    assert AESGCM(key).decrypt(nonce, ciphertext, b"") == b"a message"


def framed(kind: int, body: bytes) -> bytes:
    return bytes((kind,)) + len(body).to_bytes(3, "big") + body


@pytest.mark.parametrize("retried", [False, True])
def test_the_server_confirms_the_inner_hello(retried: bool) -> None:
    inners = [b"\3\3" + b"r" * 32 + bytes((number,)) * 50 for number in range(1 + retried)]
    retry = b"a HelloRetryRequest" if retried else None
    server = b"\3\3" + b"s" * 24 + bytes(8) + b"the rest"
    transcript = framed(1, inners[0])
    if retry is not None:
        transcript = framed(254, hashlib.sha256(transcript).digest())
        transcript += framed(2, retry) + framed(1, inners[1])
    digest = hashlib.sha256(transcript + framed(2, server)).digest()
    label = b"tls13 ech accept confirmation"
    info = b"\0\x08" + bytes((len(label),)) + label + b"\x20" + digest
    prk = HKDF(hashes.SHA256(), 32, bytes(32), b"")._extract(b"r" * 32)
    confirmation = HKDFExpand(hashes.SHA256(), 8, info).derive(prk)
    hello = server[:26] + confirmation + server[34:]
    assert ech.confirmed(inners, retry, hello, "sha256")
    assert not ech.confirmed(inners, retry, server, "sha256")
    other = [b"\3\3" + b"R" * 32 + inners[0][34:], *inners[1:]]
    assert not ech.confirmed(other, retry, hello, "sha256")
