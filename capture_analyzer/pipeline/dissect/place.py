"""Where in a plaintext the content of a record lies, also behind records that were lost."""

from __future__ import annotations

from capture_analyzer.protocols.tls.decryption import Decryptor, Opened
from capture_analyzer.protocols.tls.records import HEADER_BYTES, MAX_FRAGMENT


class Place:
    """Where in the plaintext the next record's content lies, also behind lost records.

    How long the content of a record is follows from the record's length, unless it was
    padded. Where the headers of records were lost, too, the sequence number of the first
    record behind them says how many they were. So the offsets behind a gap are right, but
    for padding and for records among the lost that held no application data.

    Attributes:
        at: offset in the plaintext.
        end: offset in the cipher stream behind the last record.
        lost: something was lost since the last record that opened.
        missing: records that the capture lacks, wholly or in part.
    """

    def __init__(self, decryptor: Decryptor, end: int | None) -> None:
        self._decryptor = decryptor
        self._overhead = decryptor.overhead
        self.at = 0
        self.end = end
        self.lost = False
        self.missing = 0
        self._known = 0  # lost records whose headers were captured
        self._known_content = 0  # what they hold
        self._unknown = 0  # bytes that hold whole records without a captured header

    def gap(self, offset: int) -> None:
        """Records with their headers were lost in front of the one at `offset`."""
        if self.end is None or offset < self.end:
            return
        size = offset - self.end
        self.lost = True
        self._unknown += size
        self._decryptor.lose(_fewest(size), size // (HEADER_BYTES + self._overhead) + 1)

    def incomplete(self, length: int) -> None:
        """A record of which the capture lacks some bytes."""
        self._decryptor.lose(1, 1)
        self.missing += 1
        self.closed(length)

    def closed(self, length: int) -> None:
        """A record that was not opened."""
        self.lost = True
        self._known += 1
        self._known_content += max(0, length - self._overhead)

    def found(self, opened: Opened) -> None:
        """A record opened behind what was lost."""
        decryptor = self._decryptor
        if not decryptor.data_key or decryptor.opened == 1:
            self._forget(0)  # what was lost belonged to the handshake
        elif opened.new_key:
            # At most so many of the lost records held application data.
            self._forget(opened.lost if self._unknown else 0)
            if opened.lost:
                self.at += opened.lost
        else:
            self._move(opened.lost - self._known)

    def _move(self, unseen: int) -> None:
        content = 0
        if self._unknown:
            unseen = max(unseen, _fewest(self._unknown))
            content = max(0, self._unknown - unseen * (HEADER_BYTES + self._overhead))
        self.at += self._known_content + content
        self._forget(unseen if self._unknown else 0)

    def _forget(self, unseen: int) -> None:
        self.missing += unseen
        self.lost = False
        self._known = self._known_content = self._unknown = 0

    def finish(self, end: int, *, cut: bool) -> None:
        """What was lost behind the last record that opened.

        Args:
            end: where the cipher stream ends.
            cut: the capture lacks some of the last record.
        """
        if cut and self.missing == 1:
            self.missing = 0  # the capture ended in the middle of it
        if self.end is not None and end > self.end:
            self.gap(end)
        if self.lost and self._decryptor.opened and self._decryptor.data_key:
            self._move(0)


def _fewest(size: int) -> int:
    """At least so many records are in a stretch of whole records of this size."""
    return -(-size // (HEADER_BYTES + MAX_FRAGMENT))
