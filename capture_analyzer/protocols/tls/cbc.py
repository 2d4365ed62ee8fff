"""CBC suites of TLS 1.2, with the MAC in front of the padding or behind the ciphertext.

GenericBlockCipher (RFC 5246, section 6.2.3.2) encrypts content, MAC and padding; where
encrypt_then_mac was agreed (RFC 7366), the MAC covers the ciphertext and stands behind it. Which
of the two it is need not be known: the MAC that fits tells.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, Final, Literal

from capture_analyzer.model.quick_dataclass import quick_dataclass
from capture_analyzer.protocols.tls.key_schedule import tls12_prf
from capture_analyzer.protocols.tls.protection import CannotOpenError, Octets, open_in_turn

_MAC_OCTETS: Final = {"sha1": 20, "sha256": 32, "sha384": 48}
_BLOCK_OCTETS: Final = {"AES": 16, "Camellia": 16, "SEED": 16, "IDEA": 8, "TripleDES": 8}


@quick_dataclass(frozen=True)
class CbcProtection:
    """How a CBC suite protects records: a block cipher with this key length, HMAC with this hash.

    DES is TripleDES with a key of 8 octets, which is used three times.
    """

    key_octets: int
    mac: Literal["sha1", "sha256", "sha384"]
    cipher: Literal["AES", "Camellia", "SEED", "IDEA", "TripleDES"] = "AES"

    @property
    def mac_octets(self) -> int:
        """Length of the MAC and of its key."""
        return _MAC_OCTETS[self.mac]

    @property
    def block_octets(self) -> int:
        """Length of the cipher's block, and of the explicit IV."""
        return _BLOCK_OCTETS[self.cipher]

    @property
    def prf_hash(self) -> str:
        """The hash of the pseudorandom function (RFC 5246, section 5; RFC 5289, section 3.1)."""
        return "sha384" if self.mac == "sha384" else "sha256"


CBC_SUITES: Final[dict[int, CbcProtection]] = {
    # AES: RFC 5246, appendix A.5; RFC 8422; RFC 4279; RFC 5487; RFC 5489; RFC 5054
    **dict.fromkeys(
        (*range(0x002F, 0x0035), 0x008C, 0x0090, 0x0094, 0xC004, 0xC009, 0xC00E, 0xC013),
        CbcProtection(16, "sha1"),
    ),
    **dict.fromkeys((0xC018, *range(0xC01D, 0xC020), 0xC035), CbcProtection(16, "sha1")),
    **dict.fromkeys(
        (*range(0x0035, 0x003B), 0x008D, 0x0091, 0x0095, 0xC005, 0xC00A, 0xC00F, 0xC014),
        CbcProtection(32, "sha1"),
    ),
    **dict.fromkeys((0xC019, *range(0xC020, 0xC023), 0xC036), CbcProtection(32, "sha1")),
    **dict.fromkeys(
        (0x003C, 0x003E, 0x003F, 0x0040, 0x0067, 0x006C, 0x00AE, 0x00B2, 0x00B6),
        CbcProtection(16, "sha256"),
    ),
    **dict.fromkeys((0xC023, 0xC025, 0xC027, 0xC029, 0xC037), CbcProtection(16, "sha256")),
    **dict.fromkeys((0x003D, *range(0x0068, 0x006C), 0x006D), CbcProtection(32, "sha256")),
    **dict.fromkeys(
        (0x00AF, 0x00B3, 0x00B7, 0xC024, 0xC026, 0xC028, 0xC02A, 0xC038),
        CbcProtection(32, "sha384"),
    ),
    # 3DES: the same RFCs
    **dict.fromkeys(
        (0x000A, 0x000D, 0x0010, 0x0013, 0x0016, 0x001B, 0x008B, 0x008F, 0x0093, 0xC003),
        CbcProtection(24, "sha1", "TripleDES"),
    ),
    **dict.fromkeys(
        (0xC008, 0xC00D, 0xC012, 0xC017, *range(0xC01A, 0xC01D), 0xC034),
        CbcProtection(24, "sha1", "TripleDES"),
    ),
    # DES and IDEA: RFC 5469
    **dict.fromkeys(
        (0x0009, 0x000C, 0x000F, 0x0012, 0x0015, 0x001A), CbcProtection(8, "sha1", "TripleDES")
    ),
    0x0007: CbcProtection(16, "sha1", "IDEA"),
    # SEED: RFC 4162
    **dict.fromkeys(range(0x0096, 0x009C), CbcProtection(16, "sha1", "SEED")),
    # Camellia: RFC 5932, RFC 6367
    **dict.fromkeys(range(0x0041, 0x0047), CbcProtection(16, "sha1", "Camellia")),
    **dict.fromkeys(range(0x0084, 0x008A), CbcProtection(32, "sha1", "Camellia")),
    **dict.fromkeys(range(0x00BA, 0x00C0), CbcProtection(16, "sha256", "Camellia")),
    **dict.fromkeys(range(0x00C0, 0x00C6), CbcProtection(32, "sha256", "Camellia")),
    **dict.fromkeys(
        (*range(0xC072, 0xC07A, 2), *range(0xC094, 0xC09C, 2)),
        CbcProtection(16, "sha256", "Camellia"),
    ),
    **dict.fromkeys(
        (*range(0xC073, 0xC07A, 2), *range(0xC095, 0xC09C, 2)),
        CbcProtection(32, "sha384", "Camellia"),
    ),
}
"""CBC suites of TLS 1.2 by number."""


@functools.cache
def lacking_cipher(protection: CbcProtection) -> bool:
    """Whether the cryptography library here does not have a suite's cipher (any more)."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.ciphers import Cipher
    from cryptography.hazmat.primitives.ciphers.modes import CBC

    try:
        cipher = _key(protection, bytes(range(protection.key_octets)))
        Cipher(cipher, CBC(bytes(protection.block_octets))).decryptor()
    except (AttributeError, UnsupportedAlgorithm):
        return True
    return False


def _key(protection: CbcProtection, key: bytes) -> Any:
    """The block cipher with a key. The library moves old ciphers aside."""
    from cryptography.hazmat.decrepit.ciphers import algorithms as aside
    from cryptography.hazmat.primitives.ciphers import algorithms

    name = protection.cipher
    if name == "TripleDES":
        key = (key * 3)[:24]
    algorithm = getattr(aside, name, None) or getattr(algorithms, name)
    return algorithm(key)


def cbc_keys(
    master_secret: bytes, client_random: bytes, server_random: bytes, protection: CbcProtection
) -> tuple[tuple[bytes, bytes], tuple[bytes, bytes]]:
    """((client key, client MAC key), (server key, server MAC key)); RFC 5246, section 6.3."""
    mac, key = protection.mac_octets, protection.key_octets
    block = tls12_prf(
        master_secret,
        b"key expansion",
        server_random + client_random,
        2 * (mac + key),
        protection.prf_hash,
    )
    macs, keys = block[: 2 * mac], block[2 * mac :]
    return (keys[:key], macs[:mac]), (keys[key:], macs[mac:])


class CbcOpener:
    """Opens the records of one direction; an `Opener`."""

    __slots__ = (
        "_block",
        "_cipher",
        "_mac_first",
        "_mac_key",
        "_protection",
        "overhead",
        "overhead_before",
        "sequence",
    )
    typed = False

    def __init__(self, key: bytes, mac_key: bytes, protection: CbcProtection) -> None:
        self._cipher: Any = _key(protection, key)
        self._block = protection.block_octets
        self._mac_key = mac_key
        self._protection = protection
        self._mac_first: bool | None = None  # in the ciphertext; None = not known yet
        self.overhead_before = self._block  # the explicit IV
        self.overhead = self._block + protection.mac_octets + 1  # the least: padding differs
        self.sequence = 0

    def open(self, header: Octets, fragment: Octets) -> tuple[int, bytes]:
        """See `protection.Opener.open`."""
        data = bytes(fragment)
        for mac_first in (False, True) if self._mac_first is None else (self._mac_first,):
            check = self._mac_inside if mac_first else self._mac_behind
            content = check(header, data)
            if content is not None:
                self._mac_first = mac_first
                self.sequence += 1
                return header[0], content
        raise CannotOpenError("the record does not open")

    def open_run(
        self, headers: Sequence[bytes], fragments: Sequence[Octets], *, one_key: bool
    ) -> tuple[list[bytes], list[int]]:
        """See `protection.Opener.open_run`."""
        return open_in_turn(self, headers, fragments)

    def _mac_behind(self, header: Octets, data: bytes) -> bytes | None:
        """encrypt_then_mac; None if the MAC does not fit (RFC 7366, section 3)."""
        sealed, mac = data[: -self._protection.mac_octets], data[-self._protection.mac_octets :]
        if len(sealed) < 2 * self._block or len(sealed) % self._block:
            return None
        if self._mac(header, sealed) != mac:
            return None
        return _unpadded(self._decrypt(sealed))

    def _mac_inside(self, header: Octets, data: bytes) -> bytes | None:
        """MAC, then encrypt; None if it does not fit (RFC 5246, section 6.2.3.2)."""
        if len(data) < 2 * self._block or len(data) % self._block:
            return None
        plain = _unpadded(self._decrypt(data))
        size = self._protection.mac_octets
        if plain is None or len(plain) < size:
            return None
        content, mac = plain[:-size], plain[-size:]
        return content if self._mac(header, content) == mac else None

    def _decrypt(self, data: bytes) -> bytes:
        from cryptography.hazmat.primitives.ciphers import Cipher
        from cryptography.hazmat.primitives.ciphers.modes import CBC

        decryptor = Cipher(self._cipher, CBC(data[: self._block])).decryptor()
        plain: bytes = decryptor.update(data[self._block :])
        return plain

    def _mac(self, header: Octets, data: bytes) -> bytes:
        import hmac  # loads all of OpenSSL: only where there is something to decrypt

        covered = self.sequence.to_bytes(8, "big") + bytes(header[:3])
        covered += len(data).to_bytes(2, "big") + data
        return hmac.digest(self._mac_key, covered, self._protection.mac)


def _unpadded(plain: bytes) -> bytes | None:
    """Without its padding: n octets of value n, and n itself; None if that is not so."""
    count = plain[-1] + 1
    if len(plain) < count or plain[-count:] != bytes((plain[-1],)) * count:
        return None
    return plain[:-count]
