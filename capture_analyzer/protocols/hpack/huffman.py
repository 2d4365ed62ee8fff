"""The static Huffman code of RFC 7541, appendix B, which HPACK and QPACK share."""

from __future__ import annotations

from typing import Final

_LENGTHS: Final = bytes.fromhex(
    "0d171c1c1c1c1c1c1c181e1c1c1e1c1c1c1c1c1c1c1c1e1c1c1c1c1c1c1c1c1c"
    "060a0a0c0d06080b0a0a080b080606060505050606060606060607080f060c0a"
    "0d06070707070707070707070707070707070707070707070807080d130d0e06"
    "0f05060506050606060507070606060506070605050607070707070f0b0e0d1c"
    "141614141616161716171717171718171818161718171717171516171617171816"
    "151416161717151716161815161717151516151716171714161616171616171a1a"
    "1413161716191a1a1a1b1b1a181913151a1b1b1a1b1815151a1a1c1b1b1b141814"
    "15161515171616191918181a171a1b1a1a1b1b1b1b1b1c1b1b1b1b1b1a1e"
)
"""Code length in bits of each octet value and, last, of EOS (RFC 7541, appendix B).

The code is canonical: within a length, codes rise with the octet value, and each length goes
on where the one before ended. So the lengths are the whole table.
"""

_EOS: Final = 256


def _tree() -> list[list[int]]:
    """The code as a binary tree: node → [child for 0, child for 1].

    A child >= 0 is a node; a leaf for symbol s is -1 - s.
    """
    nodes: list[list[int]] = [[0, 0]]
    code = length = 0
    for symbol in sorted(range(len(_LENGTHS)), key=lambda s: (_LENGTHS[s], s)):
        code <<= _LENGTHS[symbol] - length
        length = _LENGTHS[symbol]
        node = 0
        for bit in range(length - 1, 0, -1):
            branch = code >> bit & 1
            if not nodes[node][branch]:
                nodes.append([0, 0])
                nodes[node][branch] = len(nodes) - 1
            node = nodes[node][branch]
        nodes[node][code & 1] = -1 - symbol
        code += 1
    return nodes


_NODES: Final = _tree()


def _padding_nodes() -> frozenset[int]:
    """Nodes where a string may end: at most seven 1-bits past the last symbol (section 5.2)."""
    nodes, node = [0], 0
    for _ in range(7):
        node = _NODES[node][1]
        nodes.append(node)
    return frozenset(nodes)


_MAY_END: Final = _padding_nodes()

_steps: dict[int, tuple[bytes, int]] = {}
"""(node << 8 | octet) → octets put out and the next node; filled as it is met. There are
256 inner nodes, so it holds at most 65,536 entries."""


def _step(node: int, octet: int) -> tuple[bytes, int]:
    key = node << 8 | octet
    out = bytearray()
    for bit in range(7, -1, -1):
        node = _NODES[node][octet >> bit & 1]
        if node < 0:
            symbol = -1 - node
            if symbol == _EOS:
                raise ValueError("EOS inside a Huffman-coded string")
            out.append(symbol)
            node = 0
    result = _steps[key] = (bytes(out), node)
    return result


def decode(coded: bytes) -> bytes:
    """Decode a Huffman-coded string (RFC 7541, section 5.2).

    Raises:
        ValueError: EOS in the string, or padding that is not the start of EOS.
    """
    steps = _steps
    node = 0
    parts = []
    for octet in coded:
        found = steps.get(node << 8 | octet)
        part, node = found if found is not None else _step(node, octet)
        parts.append(part)
    if node not in _MAY_END:
        raise ValueError("wrong padding behind a Huffman-coded string")
    return b"".join(parts)
