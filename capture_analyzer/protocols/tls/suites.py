"""Which cipher suites can be decrypted, and why the others can't."""

from __future__ import annotations

from typing import Final

from capture_analyzer.protocols.tls.cbc import CBC_SUITES, lacking_cipher
from capture_analyzer.protocols.tls.key_schedule import TLS12_SUITES, TLS13_SUITES

_UNBUILT: Final[tuple[tuple[str, frozenset[int]], ...]] = (
    ("the cryptography library has no ARIA", frozenset(range(0xC03C, 0xC072))),
    (
        "the cryptography library has no Camellia in GCM mode",
        frozenset((*range(0xC07A, 0xC094),)),
    ),
    ("the cryptography library has no SM4 in GCM or CCM mode", frozenset((0x00C6, 0x00C7))),
    (
        "RC4, which RFC 7465 forbids, is not decrypted",
        frozenset(
            (
                *(0x0003, 0x0004, 0x0005, 0x0017, 0x0018, 0x0020, 0x0024, 0x0028, 0x008A, 0x008E),
                *(0x0092, 0xC002, 0xC007, 0xC00C, 0xC011, 0xC016, 0xC033),
            )
        ),
    ),
    (
        "it does not encrypt, only sign, and such records are not read",
        frozenset(
            (
                *(0x0000, 0x0001, 0x0002, *range(0x002C, 0x002F), 0x003B, 0x00B0, 0x00B1, 0x00B4),
                *(0x00B5, 0x00B8, 0x00B9, 0xC001, 0xC006, 0xC00B, 0xC010, 0xC015),
                *(*range(0xC039, 0xC03C), 0xC0B4, 0xC0B5),
            )
        ),
    ),
)
"""Why suites can't be decrypted (RFC 6209, 6367, 8998, 7465, 5246 appendix A.5, 9150)."""


def why_not(suite: int, *, tls13: bool) -> str | None:
    """Why records of this suite can't be opened, as a clause; None if they can be."""
    if suite in TLS13_SUITES if tls13 else suite in TLS12_SUITES:
        return None
    if not tls13 and suite in CBC_SUITES:
        cbc = CBC_SUITES[suite]
        return f"the cryptography library here has no {cbc.cipher}" if lacking_cipher(cbc) else None
    return next(
        (reason for reason, suites in _UNBUILT if suite in suites), "its cipher is not known here"
    )
