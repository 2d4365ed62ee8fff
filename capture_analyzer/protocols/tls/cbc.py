"""CBC suites of TLS 1.2, with the MAC in front of the padding or behind the ciphertext.

GenericBlockCipher (RFC 5246, section 6.2.3.2) encrypts content, MAC and padding; where
encrypt_then_mac was agreed (RFC 7366), the MAC covers the ciphertext and stands behind it. Which
of the two it is need not be known: the MAC that fits tells.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Final, Literal

from capture_analyzer.protocols.tls.key_schedule import tls12_prf
from capture_analyzer.protocols.tls.protection import CannotOpenError, Octets

_BLOCK: Final = 16
_MAC_OCTETS: Final = {"sha1": 20, "sha256": 32, "sha384": 48}


@dataclasses.dataclass(frozen=True, slots=True)
class CbcProtection:
    """How a CBC suite protects records: AES with this key length, HMAC with this hash."""

    key_octets: int
    mac: Literal["sha1", "sha256", "sha384"]

    @property
    def mac_octets(self) -> int:
        """Length of the MAC and of its key."""
        return _MAC_OCTETS[self.mac]

    @property
    def prf_hash(self) -> str:
        """The hash of the pseudorandom function (RFC 5246, section 5; RFC 5289, section 3.1)."""
        return "sha384" if self.mac == "sha384" else "sha256"


CBC_SUITES: Final[dict[int, CbcProtection]] = {
    # RFC 5246, appendix A.5; RFC 8422; RFC 4279; RFC 5489
    **dict.fromkeys(
        (0x002F, 0x0032, 0x0033, 0x008C, 0xC004, 0xC009, 0xC00E, 0xC013, 0xC035),
        CbcProtection(16, "sha1"),
    ),
    **dict.fromkeys(
        (0x0035, 0x0038, 0x0039, 0x008D, 0xC005, 0xC00A, 0xC00F, 0xC014, 0xC036),
        CbcProtection(32, "sha1"),
    ),
    **dict.fromkeys(
        (0x003C, 0x0040, 0x0067, 0xC023, 0xC025, 0xC027, 0xC029, 0xC037),
        CbcProtection(16, "sha256"),
    ),
    **dict.fromkeys((0x003D, 0x006A, 0x006B), CbcProtection(32, "sha256")),
    **dict.fromkeys((0xC024, 0xC026, 0xC028, 0xC02A, 0xC038), CbcProtection(32, "sha384")),
}
"""AES-CBC suites of TLS 1.2 by number."""


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
        "_cipher",
        "_mac_first",
        "_mac_key",
        "_protection",
        "overhead",
        "overhead_before",
        "sequence",
    )

    def __init__(self, key: bytes, mac_key: bytes, protection: CbcProtection) -> None:
        from cryptography.hazmat.primitives.ciphers.algorithms import AES

        self._cipher: Any = AES(key)
        self._mac_key = mac_key
        self._protection = protection
        self._mac_first: bool | None = None  # in the ciphertext; None = not known yet
        self.overhead_before = _BLOCK  # the explicit IV
        self.overhead = _BLOCK + protection.mac_octets + 1  # the least: padding differs
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

    def _mac_behind(self, header: Octets, data: bytes) -> bytes | None:
        """encrypt_then_mac; None if the MAC does not fit (RFC 7366, section 3)."""
        sealed, mac = data[: -self._protection.mac_octets], data[-self._protection.mac_octets :]
        if len(sealed) < 2 * _BLOCK or len(sealed) % _BLOCK:
            return None
        if self._mac(header, sealed) != mac:
            return None
        return _unpadded(self._decrypt(sealed))

    def _mac_inside(self, header: Octets, data: bytes) -> bytes | None:
        """MAC, then encrypt; None if it does not fit (RFC 5246, section 6.2.3.2)."""
        if len(data) < 2 * _BLOCK or len(data) % _BLOCK:
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

        decryptor = Cipher(self._cipher, CBC(data[:_BLOCK])).decryptor()
        plain: bytes = decryptor.update(data[_BLOCK:])
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
