"""The sending half of an endpoint: windows, timers and loss recovery, as Linux has them."""

from __future__ import annotations

import dataclasses

from capture_maker.headers import ACK, FIN, PSH
from capture_maker.network import Packet
from capture_maker.simulation import MS, SECOND, Simulation, Timer

WINDOW_SCALE = 7
INITIAL_WINDOW = 10  # segments (RFC 6928)
MIN_RTO_NS = 200 * MS
FIRST_RTO_NS = 1 * SECOND


@dataclasses.dataclass(slots=True)
class Segment:
    """Data that was sent and is not acknowledged."""

    start: int
    end: int
    fin: bool
    sent_ns: int
    transmissions: int = 1
    sacked: bool = False
    lost: bool = False

    @property
    def in_flight(self) -> bool:
        """Whether a copy may still be on its way."""
        return not self.sacked and not self.lost


class Sender:
    """Sends a stream of bytes; what is common with receiving is given by Endpoint."""

    state: str
    quick_acks: int
    peer_fin: bool
    rcv_nxt: int

    def __init__(self, simulation: Simulation, mss: int, isn: int) -> None:
        self.simulation = simulation
        self.mss = mss
        self.isn = isn
        self.nodelay = True
        self.buffer = bytearray()
        self.write_ends: set[int] = set()
        self.closing = False
        self.segments: list[Segment] = []
        self.una = 0
        self.nxt = 0
        self.fin_sent = False
        self.fin_acked = False
        self.cwnd = float(INITIAL_WINDOW)
        self.ssthresh = 1 << 30
        self.peer_window = 0
        self.srtt = 0
        self.rttvar = 0
        self.min_rtt = 0
        self.backoff = 0
        self.mode = "open"  # open, recovery, loss
        self.recover = 0
        self.rack_sent_ns = -1
        self.rack_rtt = 0
        self.retransmit_timer: Timer | None = None
        self.timer_kind = ""
        self.reorder_timer: Timer | None = None
        self.probe_timer: Timer | None = None
        self.probes = 0
        self.last_sent_ns = 0

    def _transmit(self, data: bytes, offset: int, flags: int, again: str = "") -> Packet:
        raise NotImplementedError

    def _forget(self) -> None:
        raise NotImplementedError

    @property
    def over(self) -> bool:
        """Both FINs were received: TIME-WAIT."""
        return self.fin_acked and self.peer_fin

    # ---- sending -----------------------------------------------------------------------

    @property
    def rto(self) -> int:
        """Retransmission timeout with its backoff."""
        base = self.srtt + max(4 * self.rttvar, MIN_RTO_NS) if self.srtt else FIRST_RTO_NS
        return base << self.backoff

    def _sample(self, rtt: int) -> None:
        if not self.srtt:
            self.srtt, self.rttvar, self.min_rtt = rtt, rtt // 2, rtt
            return
        self.rttvar = (3 * self.rttvar + abs(self.srtt - rtt)) // 4
        self.srtt = (7 * self.srtt + rtt) // 8
        self.min_rtt = min(self.min_rtt, rtt)

    def _room(self) -> bool:
        return sum(s.in_flight for s in self.segments) < int(self.cwnd)

    def _output(self) -> None:
        if self.state != "established":
            return
        for segment in self.segments:
            if segment.lost and not segment.sacked and self._room():
                self._repeat(segment, "after_rto" if self.mode == "loss" else "fast")
        if not self.segments and self.simulation.now - self.last_sent_ns > self.rto:
            self.cwnd = min(self.cwnd, INITIAL_WINDOW)  # slow start after idle (RFC 5681, 4.1)
        while self._room() and (
            self.nxt < len(self.buffer) or (self.closing and not self.fin_sent)
        ):
            if self.nxt < len(self.buffer) and not self._may_send():
                break
            self._send_new()
        if self.segments or self.nxt >= len(self.buffer):
            if self.probe_timer:
                self.probe_timer.cancel()
            self.probes = 0
        elif self.peer_window < self.mss and not (self.probe_timer and self.probe_timer.pending):
            wait = self.rto << self.probes
            self.probe_timer = self.simulation.after(wait, self._probe)

    def _probe(self) -> None:
        """Ask whether the window has opened (RFC 9293, section 3.8.6.1), as Linux does."""
        if self.state == "established" and not self.segments and self.peer_window < self.mss:
            self.probes += 1
            self._transmit(b"", self.nxt - 1, ACK)

    def _may_send(self) -> bool:
        size = min(self.mss, len(self.buffer) - self.nxt)
        if self.nxt + size - self.una > self.peer_window:
            return False
        # Nagle (RFC 9293, 3.7.4): a small segment waits while data is unacknowledged.
        return self.nodelay or size == self.mss or not self.segments or self.closing

    def _send_new(self) -> None:
        end = min(self.nxt + self.mss, len(self.buffer))
        fin = self.closing and end == len(self.buffer)
        data = bytes(self.buffer[self.nxt : end])
        segment = Segment(self.nxt, end, fin, self.simulation.now)
        self.segments.append(segment)
        self.nxt = end
        self.fin_sent |= fin
        if self.rcv_nxt:
            self.quick_acks = 0  # a conversation: acknowledgements travel with data
        self.last_sent_ns = self.simulation.now
        self._transmit(data, segment.start, ACK | self._marks(segment))
        self._arm()

    def _marks(self, segment: Segment) -> int:
        """PSH where a write ends in the segment (RFC 9293, section 3.9.1), FIN at the end."""
        pushed = segment.end > segment.start and segment.end in self.write_ends
        return (PSH if pushed else 0) | (FIN if segment.fin else 0)

    def _repeat(self, segment: Segment, mechanism: str) -> None:
        segment.lost = False
        segment.transmissions += 1
        segment.sent_ns = self.simulation.now
        data = bytes(self.buffer[segment.start : segment.end])
        self._transmit(data, segment.start, ACK | self._marks(segment), mechanism)
        if self.timer_kind != "rto" or not self.retransmit_timer:
            self._arm(force_rto=True)

    def _arm(self, force_rto: bool = False) -> None:
        """Start the timer: a tail loss probe where that may be, else the retransmission timer."""
        if self.retransmit_timer:
            self.retransmit_timer.cancel()
        self.timer_kind = ""
        if not self.segments:
            return
        sacked = any(s.sacked for s in self.segments)
        if self.mode == "open" and not sacked and not force_rto:
            probe = 2 * self.srtt + (MIN_RTO_NS if len(self.segments) == 1 else 2 * MS)
            self.timer_kind = "tlp"
            delay = min(probe, self.rto) if self.srtt else self.rto
        else:
            self.timer_kind = "rto"
            delay = self.rto
        self.retransmit_timer = self.simulation.after(delay, self._timeout)

    def _timeout(self) -> None:
        if self.state != "established" or not self.segments:
            return
        if self.timer_kind == "tlp":
            self.timer_kind = ""
            if self.nxt < len(self.buffer) and self._may_send():
                self._send_new()
            else:
                self._repeat(self.segments[-1], "tlp")
            self._arm(force_rto=True)
            return
        self.ssthresh = max(int(self.cwnd * 0.7), 2)
        self.cwnd = 1.0
        self.mode = "loss"
        self.recover = self.nxt
        for segment in self.segments:
            segment.lost = not segment.sacked
        self.backoff += 1
        self._repeat(next(s for s in self.segments if s.lost), "rto")
        self._arm(force_rto=True)

    # ---- acknowledgements --------------------------------------------------------------

    def _handle_ack(self, packet: Packet) -> None:
        self.peer_window = packet.window << WINDOW_SCALE
        acked = self._offset_of(packet.ack)
        rtt = 0
        newly = 0
        for segment in self.segments:
            covered = segment.end + segment.fin <= acked
            if not covered and not segment.sacked:
                covered = any(
                    self._offset_of(a) <= segment.start and segment.end <= self._offset_of(b)
                    for a, b in packet.sack
                )
                if covered:
                    segment.sacked = True
            elif (covered and segment.sacked) or not covered:
                continue
            if covered:
                newly += 1
                segment.lost = False
                if segment.transmissions == 1:
                    rtt = self.simulation.now - segment.sent_ns
                if segment.sent_ns >= self.rack_sent_ns:
                    self.rack_sent_ns = segment.sent_ns
                    self.rack_rtt = self.simulation.now - segment.sent_ns
        advanced = acked > self.una
        limited = not self._room() or self.nxt < len(self.buffer)
        self.segments = [s for s in self.segments if s.end + s.fin > acked]
        if rtt:
            self._sample(rtt)
        if advanced:
            self.una = acked
            self.backoff = 0
            self.fin_acked = self.fin_sent and acked > len(self.buffer)
            if self.mode != "open" and acked >= self.recover:
                self.mode = "open"
                self.cwnd = max(self.cwnd, 2.0) if self.mode == "loss" else float(self.cwnd)
        if self.mode != "recovery" and limited:
            self.cwnd += newly if self.cwnd < self.ssthresh else newly / self.cwnd
        self._detect_loss()
        if advanced or newly:
            self._arm()
        if self.over:
            self._forget()

    def _offset_of(self, number_: int) -> int:
        """Stream offset of a raw sequence number near what was sent."""
        base = self.isn + 1 + self.una
        return self.una + ((number_ - base + (1 << 31)) & 0xFFFFFFFF) - (1 << 31)

    def _detect_loss(self) -> None:
        """RACK (RFC 8985, section 6.2): sent well before something that was delivered."""
        if self.reorder_timer:
            self.reorder_timer.cancel()
        sacked = sum(s.sacked for s in self.segments)
        if not sacked:
            return
        window = 0 if self.mode == "recovery" or sacked >= 3 else self.min_rtt // 4
        remaining = 0
        found = False
        for segment in self.segments:
            if not segment.in_flight or segment.sent_ns > self.rack_sent_ns:
                continue
            if segment.sent_ns == self.rack_sent_ns and not any(
                s.sacked and s.start > segment.start and s.sent_ns == segment.sent_ns
                for s in self.segments
            ):
                continue
            left = segment.sent_ns + self.rack_rtt + window - self.simulation.now
            if left <= 0:
                segment.lost = found = True
            else:
                remaining = max(remaining, left)
        if found and self.mode == "open":
            self.mode = "recovery"
            self.recover = self.nxt
            self.ssthresh = max(int(self.cwnd * 0.7), 2)
            self.cwnd = float(self.ssthresh)
            self._arm(force_rto=True)
            # The first one goes out at once, whatever the window says (RFC 5681, section 3.2).
            self._repeat(next(s for s in self.segments if s.lost), "fast")
        if remaining:
            self.reorder_timer = self.simulation.after(remaining, self._reorder_timeout)

    def _reorder_timeout(self) -> None:
        self._detect_loss()
        self._output()
