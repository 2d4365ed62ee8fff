"""Wireshark's rules packet by packet: for connections in which anything upsets its bookkeeping.

Its state of a direction is small: the highest sequence number seen and when, how far an
acknowledgement may go without surprise, and the last packet's window and numbers. All numbers
are compared modulo 2^32 (RFC 9293, section 3.4); 0 stands for "nothing seen yet", as there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from capture_analyzer.model.packets import ACK, FIN, RST, SYN
from capture_analyzer.pipeline.tcp.wireshark import flags as flag

_MODULUS: Final = 1 << 32
_HALF: Final = 1 << 31
_TIMES: Final = (1 << 64) - 1  # differences of times are taken as unsigned: below 0 is late
_CONTROL: Final = SYN | FIN | RST
_UNKNOWN: Final = -1  # of the window scale: no SYN seen
_UNUSED: Final = -2  # one of the two SYNs came without
_ANY: Final = (1 << 32) - 1  # window before the first packet: equals no real one
_ANSWERED: Final = -1  # duplicates of a direction whose missing bytes were acknowledged

NO_SCALE: Final = -1
SCALE_CUT: Final = -2

Row = tuple[int, int, int, int, int, int, int, int]
"""A packet: side (0 or 1), time, seq, ack, payload length, window, flags, window scale option
(NO_SCALE: it has none; SCALE_CUT: can't be known, its options were cut)."""


class _Side:
    """What is remembered of one direction."""

    __slots__ = (
        "ack",
        "ack_time",
        "answer",
        "base",
        "duplicates",
        "last",
        "next",
        "next_time",
        "scale",
        "unscaled",
        "window",
    )

    def __init__(self) -> None:
        self.base = -1  # number it began with; -1 = not known
        self.next = 0  # behind the highest byte seen
        self.next_time = 0  # when that was reached
        self.answer = 0  # how far the peer may acknowledge without surprise
        self.ack = 0
        self.ack_time = 0
        self.window = _ANY
        self.scale = _UNKNOWN
        self.unscaled = False  # its last window stood on a SYN
        self.duplicates = 0
        self.last = 0  # flags of its last packet


class Walk:
    """The rules, over the packets of one connection; may be fed in parts.

    Args:
        epoch_ns: absolute time of instant 0 (a SYN at absolute time 0 counts as none).
        reused: an earlier connection used the same ports.
    """

    def __init__(self, epoch_ns: int, *, reused: bool) -> None:
        self._sides = (_Side(), _Side())
        self._epoch_ns = epoch_ns
        self._reused = reused
        self._syn_time: int | None = None
        self._waiting = False  # for the packet that ends the handshake
        self._round_trip = 0

    def flags(self, rows: Iterable[Row]) -> Iterator[int]:
        """The mask of flags of each packet, in capture order."""
        sides = self._sides
        for side, time, seq, ack, length, window, bits, scale in rows:
            mine, peer = sides[side], sides[1 - side]
            control = bits & _CONTROL
            mask = self._begin(mine, peer, seq, ack, bits)
            expected = mine.next
            probe = length == 1 and seq == expected and peer.window == 0
            if probe:
                mask |= flag.ZERO_WINDOW_PROBE
            else:
                if window == 0 and not control:
                    mask |= flag.ZERO_WINDOW
                if seq != expected:
                    if expected and (seq - expected) % _MODULUS <= _HALF and not bits & RST:
                        mask |= flag.LOST_SEGMENT
                    if length < 2 and not control and (seq + 1) % _MODULUS == expected:
                        mask |= flag.KEEP_ALIVE
                elif not length and ack == mine.ack and not control:
                    mask |= _repeated(mine, peer, window)
                if length and not control and peer.scale != _UNKNOWN:
                    shift = 0 if peer.unscaled or peer.scale == _UNUSED else peer.scale
                    if (seq + length - peer.ack - (peer.window << shift)) % _MODULUS == 0:
                        mask |= flag.WINDOW_FULL
            if ack != mine.ack:
                mine.duplicates = 0
            if bits & ACK and ack != peer.answer and peer.answer:
                mask |= _acknowledged(peer, ack)
            carried = length + 1 if bits & (SYN | FIN) else length
            if carried and not mask & flag.KEEP_ALIVE:
                mask |= self._sent_again(mine, peer, time, seq, length, carried)

            following = (seq + carried) % _MODULUS
            if not probe:
                beyond = (following - expected) % _MODULUS
                if 0 < beyond <= _HALF or not expected:
                    mine.next, mine.next_time = following, time
                if seq == mine.answer or not mine.answer:
                    mine.answer = mine.next
            mine.window, mine.ack, mine.ack_time, mine.last = window, ack, time, mask
            if control or mine.unscaled or scale >= 0 or self._waiting:
                self._handshake(mine, peer, time, bits, scale)
            yield mask

    def _begin(self, mine: _Side, peer: _Side, seq: int, ack: int, bits: int) -> int:
        """The numbers that both directions began with, and REUSED_PORTS."""
        mask = 0
        if self._reused:
            self._reused = False
            mask = flag.REUSED_PORTS
        elif mine.base >= 0 and bits & (SYN | ACK) == SYN | ACK and seq != mine.base:
            mine.base = seq
            mask = flag.REUSED_PORTS
        elif mine.base == seq and bits & (SYN | ACK) == SYN:
            mine.next = mine.answer  # begins anew
        if mine.base < 0:
            mine.base = seq if bits & SYN else (seq - 1) % _MODULUS
        if peer.base < 0 and bits & ACK:
            peer.base = (ack - 1) % _MODULUS
        return mask

    def _sent_again(
        self, mine: _Side, peer: _Side, time: int, seq: int, length: int, carried: int
    ) -> int:
        """Whether these bytes (or this SYN or FIN) were seen before, and how they come again."""
        if length and peer.ack and (peer.ack - seq - length) % _MODULUS <= _HALF:
            return flag.RETRANSMISSION | flag.SPURIOUS_RETRANSMISSION
        below = (mine.next - seq) % _MODULUS
        if not mine.next or not 0 < below <= _HALF:
            return 0
        if below == 1 and length > 1:
            return 0  # the byte of a window probe, sent again with what follows it
        asked = peer.duplicates >= 2 or peer.duplicates == _ANSWERED
        if asked and peer.ack == seq and (time - peer.ack_time) & _TIMES < flag.FAST_NS:
            return flag.RETRANSMISSION | flag.FAST_RETRANSMISSION
        late = (time - mine.next_time) & _TIMES
        limit = (self._round_trip or flag.OUT_OF_ORDER_NS) & _TIMES
        if late < limit and (seq + carried) % _MODULUS != mine.next:
            return flag.OUT_OF_ORDER
        return flag.RETRANSMISSION

    def _handshake(self, mine: _Side, peer: _Side, time: int, bits: int, scale: int) -> None:
        """What SYNs and the first packet behind them tell: round trip, window scale."""
        if bits & SYN:
            if not bits & ACK and self._epoch_ns + time != 0:
                self._syn_time = time
                self._waiting = self._round_trip == 0
            mine.unscaled = True
        elif bits & ACK:
            if self._waiting and self._syn_time is not None:
                self._round_trip = time - self._syn_time
                self._waiting = self._round_trip == 0
            mine.unscaled = False
        if scale >= 0:
            mine.scale = scale
        if bits & SYN and scale != SCALE_CUT:
            if mine.scale == _UNKNOWN:
                mine.scale = peer.scale = _UNUSED
            elif bits & ACK and peer.scale == _UNUSED:
                mine.scale = _UNUSED


def _repeated(mine: _Side, peer: _Side, window: int) -> int:
    """Of a packet without payload and with the numbers of the one before it."""
    if window != mine.window:
        return flag.WINDOW_UPDATE if window else 0
    if not window:
        return flag.ZERO_WINDOW_PROBE_ACK if peer.last & flag.ZERO_WINDOW_PROBE else 0
    if peer.last & flag.KEEP_ALIVE:
        return flag.KEEP_ALIVE_ACK
    mine.duplicates = 1 if mine.duplicates == _ANSWERED else mine.duplicates + 1
    return flag.DUPLICATE_ACK


def _acknowledged(peer: _Side, ack: int) -> int:
    """Of an acknowledgement: does it go beyond what was seen, and was that said already?"""
    if (ack - peer.answer) % _MODULUS > _HALF:
        return 0
    if 0 < (peer.next - peer.answer) % _MODULUS <= _HALF:
        peer.answer = peer.next
        return flag.ACK_LOST_SEGMENT
    mask = 0 if peer.duplicates else flag.ACK_LOST_SEGMENT
    peer.duplicates = _ANSWERED
    return mask
