"""TLS secrets by connection, kept out of every output.

Deliberately not a table: nothing that writes results can reach it, and its `repr` tells
counts only.
"""

from __future__ import annotations

from collections.abc import Iterator


class Secrets:
    """Secrets of a key log: what a ClientHello's random and a label lead to.

    Labels are those of the NSS key log format (RFC 9850), without the old
    ``QUIC_`` prefix.
    """

    __slots__ = ("_by_random", "bad_lines")

    def __init__(self) -> None:
        self._by_random: dict[bytes, dict[str, bytes]] = {}
        self.bad_lines = 0

    def __repr__(self) -> str:
        return f"<Secrets of {len(self._by_random)} sessions>"

    def __len__(self) -> int:
        return len(self._by_random)

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("secrets are never pickled as a whole; pass `of` one session on")

    def add(self, label: str, random: bytes, secret: bytes) -> None:
        """Keep a secret; of the same label and random the last one counts."""
        self._by_random.setdefault(random, {})[label] = secret

    def merge(self, other: Secrets) -> None:
        """Take over everything that `other` holds."""
        for random, labels in other._by_random.items():
            self._by_random.setdefault(random, {}).update(labels)
        self.bad_lines += other.bad_lines

    def of(self, random: bytes) -> dict[str, bytes]:
        """The secrets of a session by label; empty if there are none."""
        return self._by_random.get(random, {})

    def sessions(self) -> Iterator[tuple[bytes, dict[str, bytes]]]:
        """(client random, secrets) of every session, in the order of the key logs."""
        return iter(self._by_random.items())
