"""CBC records of TLS 1.2: sealed here, opened by ours, with the MAC in either place."""

from __future__ import annotations

import hmac

import pytest
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.modes import CBC

from capture_analyzer.protocols.tls import cbc
from capture_analyzer.protocols.tls.cbc import CBC_SUITES, CbcOpener, CbcProtection, cbc_keys
from capture_analyzer.protocols.tls.decryption import tls12_openers
from capture_analyzer.protocols.tls.protection import CannotOpenError
from capture_analyzer.protocols.tls.suites import why_not

PROTECTION = CbcProtection(16, "sha1")
KEY, MAC_KEY, IV = b"k" * 16, b"m" * 20, bytes(range(16))
HEADER = b"\x17\x03\x03"


def seal(
    content: bytes,
    sequence: int,
    *,
    mac_first: bool,
    padding: int = 0,
    kind: bytes = HEADER,
    protection: CbcProtection = PROTECTION,
    mac_key: bytes = MAC_KEY,
) -> bytes:
    """A record's fragment, as RFC 5246 or RFC 7366 says; `padding`: more blocks than needed."""

    def mac(data: bytes) -> bytes:
        covered = sequence.to_bytes(8, "big") + kind + len(data).to_bytes(2, "big") + data
        return hmac.digest(mac_key, covered, protection.mac)

    block = protection.block_octets
    plain = content + (mac(content) if mac_first else b"")
    count = block - 1 - len(plain) % block + block * padding
    plain += bytes((count,)) * (count + 1)
    key = cbc._key(protection, (KEY * 2)[: protection.key_octets])
    encryptor = Cipher(key, CBC(IV[:block])).encryptor()
    sealed = IV[:block] + encryptor.update(plain) + encryptor.finalize()
    return sealed if mac_first else sealed + mac(sealed)


def header(fragment: bytes) -> bytes:
    return HEADER + len(fragment).to_bytes(2, "big")


@pytest.mark.parametrize("mac_first", [False, True])
@pytest.mark.parametrize("size", [0, 1, 15, 16, 27, 28, 1000])
def test_records_open_in_order(mac_first: bool, size: int) -> None:
    opener = CbcOpener(KEY, MAC_KEY, PROTECTION)
    for sequence in range(3):
        content = bytes((sequence,)) * size
        fragment = seal(content, sequence, mac_first=mac_first, padding=sequence)
        assert opener.open(header(fragment), fragment) == (23, content)
    assert opener.sequence == 3


@pytest.mark.parametrize("mac_first", [False, True])
def test_every_damage_is_noticed(mac_first: bool) -> None:
    fragment = seal(b"hello", 0, mac_first=mac_first)
    for at in range(len(fragment)):
        bad = fragment[:at] + bytes((fragment[at] ^ 1,)) + fragment[at + 1 :]
        opener = CbcOpener(KEY, MAC_KEY, PROTECTION)
        with pytest.raises(CannotOpenError):
            opener.open(header(bad), bad)
        assert opener.sequence == 0
    for size in range(len(fragment)):
        with pytest.raises(CannotOpenError):
            CbcOpener(KEY, MAC_KEY, PROTECTION).open(header(fragment[:size]), fragment[:size])


@pytest.mark.parametrize("mac_first", [False, True])
def test_the_sequence_number_counts(mac_first: bool) -> None:
    opener = CbcOpener(KEY, MAC_KEY, PROTECTION)
    fragment = seal(b"hello", 5, mac_first=mac_first)
    with pytest.raises(CannotOpenError):
        opener.open(header(fragment), fragment)
    opener.sequence = 5
    assert opener.open(header(fragment), fragment) == (23, b"hello")


def test_keys_are_in_the_order_of_the_key_block() -> None:
    (client, client_mac), (server, server_mac) = cbc_keys(
        b"m" * 48, b"c" * 32, b"s" * 32, PROTECTION
    )
    assert [len(part) for part in (client, client_mac, server, server_mac)] == [16, 20, 16, 20]
    assert len({client, server, client_mac, server_mac}) == 4


def test_suites() -> None:
    assert CBC_SUITES[0xC013] == PROTECTION
    assert CBC_SUITES[0xC024].prf_hash == "sha384"
    assert CBC_SUITES[0x003D].prf_hash == "sha256"
    assert CBC_SUITES[0xC012] == CbcProtection(24, "sha1", "TripleDES")
    assert CBC_SUITES[0xC077] == CbcProtection(32, "sha384", "Camellia")
    assert CBC_SUITES[0xC076] == CbcProtection(16, "sha256", "Camellia")
    assert not any(why_not(suite, tls13=False) for suite in CBC_SUITES)
    assert all(why_not(suite, tls13=True) for suite in CBC_SUITES)
    secrets = {"CLIENT_RANDOM": b"m" * 48}
    assert tls12_openers(secrets, 0xC013, b"c" * 32, b"s" * 32) is not None
    assert tls12_openers(secrets, 0x000A, b"c" * 32, b"s" * 32) is not None, "3DES"
    assert tls12_openers(secrets, 0x0005, b"c" * 32, b"s" * 32) is None, "RC4"
    assert tls12_openers({"CLIENT_RANDOM": b"m"}, 0xC013, b"c" * 32, b"s" * 32) is None


OTHERS = sorted(
    {protection for protection in CBC_SUITES.values() if protection.cipher != "AES"},
    key=lambda protection: (protection.cipher, protection.key_octets, protection.mac),
)


@pytest.mark.parametrize("mac_first", [False, True])
@pytest.mark.parametrize("protection", OTHERS, ids=str)
def test_other_ciphers(protection: CbcProtection, mac_first: bool) -> None:
    mac_key = MAC_KEY if protection.mac == "sha1" else (MAC_KEY * 3)[: protection.mac_octets]
    opener = CbcOpener((KEY * 2)[: protection.key_octets], mac_key, protection)
    for sequence, size in enumerate((0, 7, 8, 1000)):
        content = bytes((sequence,)) * size
        fragment = seal(
            content, sequence, mac_first=mac_first, protection=protection, mac_key=mac_key
        )
        assert opener.overhead <= len(fragment) - size
        assert opener.open(header(fragment), fragment) == (23, content)


def test_a_cipher_that_the_library_lacks_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(protection: CbcProtection, key: bytes) -> object:
        raise AttributeError(protection.cipher)

    monkeypatch.setattr(cbc, "_key", none)
    cbc.lacking_cipher.cache_clear()
    assert why_not(0xC076, tls13=False) == "the cryptography library here has no Camellia"
    cbc.lacking_cipher.cache_clear()
