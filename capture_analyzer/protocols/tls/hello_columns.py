"""Hellos of many connections read at once: where in each of them lies what is asked of it.

All go one extension further with each step of whole-array operations. What is found is what
`hello` finds in one. A hello that breaks a rule is not read here, but left to it: it says what is
wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.quick_dataclass import quick_dataclass
from capture_analyzer.protocols.tls.hello import (
    ALPN,
    EARLY_DATA,
    ENCRYPTED_CLIENT_HELLO,
    HELLO_RETRY_RANDOM,
    KEY_SHARE,
    PRE_SHARED_KEY,
    SERVER_NAME,
    SESSION_TICKET,
    STATUS_REQUEST,
    SUPPORTED_VERSIONS,
)

MAX_STEPS: Final = 32
"""Extensions of a hello that are gone along here: every real one has fewer."""

MAX_VERSIONS: Final = 16
"""Versions of a ClientHello that are looked at here: there are seven, drafts and GREASE aside."""

_OF_CLIENT: Final = (
    SERVER_NAME,
    STATUS_REQUEST,
    ALPN,
    SESSION_TICKET,
    PRE_SHARED_KEY,
    EARLY_DATA,
    SUPPORTED_VERSIONS,
    ENCRYPTED_CLIENT_HELLO,
)
_OF_SERVER: Final = (PRE_SHARED_KEY, SUPPORTED_VERSIONS, KEY_SHARE)

_RETRY: Final = int.from_bytes(HELLO_RETRY_RANDOM[:2], "big")


@quick_dataclass
class Hellos:
    """Hellos of one side, one element each in every array.

    Attributes:
        data: the bytes they lie in.
        start, stop: where their bodies do.
        sound: they are read; of the others nothing here is true.
        suite: cipher suite that a ServerHello selects; 0 in ClientHellos.
        begins, ends: where the content of their last extension of each type lies in `data`;
            -1 to 0 where there is none.
        rows: the row of `begins` and `ends` of each type.
    """

    data: bytes
    start: NDArray[np.int64]
    stop: NDArray[np.int64]
    sound: NDArray[np.bool_]
    suite: NDArray[np.int64]
    begins: NDArray[np.int64]
    ends: NDArray[np.int64]
    rows: dict[int, int]

    def body(self, index: int) -> bytes:
        """The body of one."""
        return self.data[self.start[index] : self.stop[index]]

    def has(self, kind: int) -> NDArray[np.bool_]:
        """Whether they have this extension."""
        return self.begin(kind) >= 0

    def begin(self, kind: int) -> NDArray[np.int64]:
        """Where its content begins; -1 where there is none."""
        begin: NDArray[np.int64] = self.begins[self.rows[kind]]
        return begin

    def end(self, kind: int) -> NDArray[np.int64]:
        """Where its content ends."""
        end: NDArray[np.int64] = self.ends[self.rows[kind]]
        return end

    def number(self, kind: int) -> NDArray[np.int64]:
        """The 16-bit number that its content begins with; -1 where it has none."""
        begin = self.begin(kind)
        return np.where(self.end(kind) - begin >= 2, _u16(self.data, begin), -1)

    def offers(self, version: int) -> NDArray[np.bool_]:
        """Whether the version is among the first of supported_versions."""
        begin = self.begin(SUPPORTED_VERSIONS) + 1  # behind the length of the list
        stop = np.where(begin > 0, self.end(SUPPORTED_VERSIONS), 0)
        found = np.zeros(len(begin), np.bool_)
        for _ in range(MAX_VERSIONS):
            there = begin + 2 <= stop
            if not there.any():
                break
            found |= there & (_u16(self.data, begin) == version)
            begin = begin + 2
        return found


def read_client_hellos(data: bytes, start: NDArray[np.int64], stop: NDArray[np.int64]) -> Hellos:
    """Read ClientHellos.

    Args:
        data: the bytes they lie in.
        start: where the body of each begins.
        stop: where it ends.
    """
    sound = stop - start >= 35
    suites_at = start + 35 + _u8(data, start + 34)
    sound &= suites_at + 2 <= stop
    suites = _u16(data, suites_at)
    methods_at = suites_at + 2 + suites
    sound &= (suites % 2 == 0) & (methods_at < stop)
    hellos = _hellos(data, start, stop, _OF_CLIENT)
    _add_extensions(hellos, methods_at + 1 + _u8(data, methods_at), sound)
    return hellos


def read_server_hellos(data: bytes, start: NDArray[np.int64], stop: NDArray[np.int64]) -> Hellos:
    """Read ServerHellos that are no HelloRetryRequest; arguments as for ClientHellos."""
    suite_at = start + 35 + _u8(data, start + 34)
    sound = (stop - start >= 38) & (suite_at + 3 <= stop)
    # Whether all of the random is that of a retry is not looked at: such ones are rare.
    sound &= _u16(data, start + 2) != _RETRY
    hellos = _hellos(data, start, stop, _OF_SERVER)
    hellos.suite = _u16(data, suite_at)
    _add_extensions(hellos, suite_at + 3, sound)
    return hellos


def _hellos(
    data: bytes, start: NDArray[np.int64], stop: NDArray[np.int64], kinds: Sequence[int]
) -> Hellos:
    """Of none of them anything is known yet."""
    count = len(start)
    return Hellos(
        data,
        start,
        stop,
        np.zeros(count, np.bool_),
        np.zeros(count, np.int64),
        np.full((len(kinds) + 1, count), -1, np.int64),  # the last row: what nobody asks for
        np.zeros((len(kinds) + 1, count), np.int64),
        {kind: row for row, kind in enumerate(kinds)},
    )


def _add_extensions(hellos: Hellos, at: NDArray[np.int64], sound: NDArray[np.bool_]) -> None:
    """Go along the extensions of hellos that are sound so far; there must be some.

    Args:
        hellos: get them.
        at: where the extensions begin, with their length.
        sound: the hellos are, up to there.
    """
    data = hellos.data
    begin = at + 2
    stop = begin + _u16(data, at)
    hellos.sound = sound & (begin <= hellos.stop) & (stop <= hellos.stop)
    row_of = np.full(1 << 16, len(hellos.rows), np.uint8)
    row_of[list(hellos.rows)] = list(hellos.rows.values())
    which = np.flatnonzero(hellos.sound)
    begin, stop = begin[which], stop[which]
    for _ in range(MAX_STEPS):
        more = begin + 4 <= stop
        if not more.all():
            which, begin, stop = which[more], begin[more], stop[more]
        if not len(which):
            return
        row = row_of[_u16(data, begin)]
        content = begin + 4
        begin = content + _u16(data, begin + 2)
        hellos.begins[row, which] = content
        hellos.ends[row, which] = begin
        hellos.sound[which[begin > stop]] = False
    hellos.sound[which] = False  # perhaps there are more


def _u8(data: bytes, at: NDArray[np.int64]) -> NDArray[np.int64]:
    """The bytes at some positions; anything where these are outside."""
    if not data:
        return np.zeros(len(at), np.int64)
    return np.frombuffer(data, np.uint8).take(at, mode="clip").astype(np.int64)


def _u16(data: bytes, at: NDArray[np.int64]) -> NDArray[np.int64]:
    """The 16-bit numbers at some positions; anything where these are outside."""
    return _u8(data, at) << 8 | _u8(data, at + 1)
