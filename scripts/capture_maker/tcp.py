"""One endpoint of a TCP connection, with the timers and the loss recovery of Linux.

What is modelled: three-way handshake with retries after 1, 2, 4 s; 10 segments of initial
congestion window and slow start (RFC 5681, RFC 6928); quick and delayed acknowledgements
(40 ms); SACK (RFC 2018) and D-SACK (RFC 2883); timestamps (RFC 7323); RACK and tail loss
probes (RFC 8985); retransmission timeouts (RFC 6298 with Linux' 200 ms above the round trip)
and the go-back behind them; IP IDs that count up. Offsets are 0-based stream offsets of data;
sequence numbers exist only in packets.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Generator
from typing import TYPE_CHECKING

from capture_maker.headers import ACK, FIN, PSH, RST, SYN, TCP, tcp_options
from capture_maker.network import Address, Host, Network, Packet, number
from capture_maker.simulation import MS, SECOND, Signal, Timer

if TYPE_CHECKING:
    from capture_maker.truth import Connection

WINDOW_SCALE = 7
INITIAL_WINDOW = 10  # segments (RFC 6928)
DELAYED_ACK_NS = 40 * MS
QUICK_ACKS = 16  # segments acknowledged at once at the start
MIN_RTO_NS = 200 * MS
FIRST_RTO_NS = 1 * SECOND
MAX_RECEIVE_WINDOW = 3 << 20


class ConnectionResetError_(Exception):  # noqa: N801, N818 - the built-in says something else
    """The peer reset the connection."""


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


class Endpoint:
    """One side of a connection; `send`, `receive` and `close` are what programs use."""

    def __init__(
        self, host: Host, local: Address, remote: Address, connection: Connection, active: bool
    ) -> None:
        self.host = host
        self.network: Network = host.network
        self.simulation = host.network.simulation
        self.local, self.remote = local, remote
        self.connection = connection
        self.active = active
        self.mss = 1460 - 12 if ":" not in local[0] else 1440 - 12
        self.isn = connection.isn(active)
        self.peer_isn = 0
        self.state = "new"
        self.ip_id = number("ip id", local, remote, connection.number)
        self.timestamp_base = number("timestamps", local[0], remote[0])
        self.established = Signal(self.simulation)
        self.readable = Signal(self.simulation)
        self.nodelay = True
        # Sending.
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
        self.last_sent_ns = 0
        # Receiving.
        self.rcv_nxt = 0
        self.received = bytearray()
        self.waiting: list[tuple[int, int, bytes, bool]] = []  # out of order: start, end, data, FIN
        self.peer_fin = False
        self.reset = False
        self.ts_recent = 0
        self.quick_acks = QUICK_ACKS
        self.unacked_bytes = 0
        self.peer_mss = 536  # as Linux estimates it: the largest segment so far
        self.ack_timer: Timer | None = None
        self.last_ack_sent = -1
        self.dsack: tuple[int, int] | None = None
        self.syn_timer: Timer | None = None
        self.on_established: object = None

    # ---- what programs use -------------------------------------------------------------

    def send(self, data: bytes) -> tuple[int, int]:
        """Write to the stream; returns the stream offsets of the data."""
        start = len(self.buffer)
        self.buffer += data
        self.write_ends.add(len(self.buffer))
        self._output()
        return start, len(self.buffer)

    def receive(self) -> Generator[Signal, None, bytes]:
        """Wait for data and take all there is; b"" at the end of the stream."""
        while not self.received and not self.peer_fin and not self.reset:
            yield self.readable
        if self.reset and not self.received:
            raise ConnectionResetError_
        data = bytes(self.received)
        self.received.clear()
        return data

    def close(self) -> None:
        """No more data: FIN behind what was written."""
        self.closing = True
        self._output()

    def abort(self) -> None:
        """RST, and forget the connection."""
        self._transmit(b"", self.nxt, RST | ACK)
        self._forget()

    # ---- packets -----------------------------------------------------------------------

    def _now_ms(self) -> int:
        return (self.simulation.now // MS + self.timestamp_base) & 0xFFFFFFFF

    def _transmit(self, data: bytes, offset: int, flags: int, again: str = "") -> Packet:
        syn = bool(flags & SYN)
        sack = self._sack_blocks() if flags & ACK and not syn else []
        stamps = (self._now_ms(), self.ts_recent)
        seq = (self.isn + (0 if syn else 1 + offset)) & 0xFFFFFFFF
        if not data and not flags & (SYN | FIN) and self.fin_sent:
            seq = (seq + 1) & 0xFFFFFFFF
        # Past the peer's FIN the acknowledgement counts one more.
        acked = self.rcv_nxt + (1 if self.peer_fin else 0)
        ack = (self.peer_isn + 1 + acked) & 0xFFFFFFFF if flags & ACK else 0
        first_window = 64_240 if self.active else 65_160
        limit = min(MAX_RECEIVE_WINDOW, first_window + 2 * self.rcv_nxt) >> WINDOW_SCALE
        if syn:
            options = tcp_options(
                mss=self.mss + 12,
                sack_permitted=True,
                timestamps=stamps,
                window_scale=WINDOW_SCALE,
            )
            limit = first_window
        else:
            options = tcp_options(timestamps=stamps, sack=sack)
        self.ip_id = (self.ip_id + 1) & 0xFFFF
        packet = Packet(
            self.local,
            self.remote,
            TCP,
            # Linux answers a SYN before the socket exists, with IP ID 0.
            0 if syn and not self.active else self.ip_id,
            b"",
            payload=data,
            seq=seq,
            ack=ack,
            flags=flags,
            window=limit,
            options=options,
            sack=sack,
            timestamps=stamps,
            offset=offset,
            again=again,
            connection=self.connection,
            from_client=self.active,
        )
        if flags & ACK:
            self._ack_was_sent(acked)
        self.network.send(packet)
        return packet

    def _ack_was_sent(self, acked: int) -> None:
        self.unacked_bytes = 0
        self.last_ack_sent = acked
        self.dsack = None
        if self.ack_timer:
            self.ack_timer.cancel()

    def _sack_blocks(self) -> list[tuple[int, int]]:
        base = self.peer_isn + 1
        blocks = [self.dsack] if self.dsack else []
        blocks += self.sack_order[: 3 - len(blocks)]
        return [((base + a) & 0xFFFFFFFF, (base + b) & 0xFFFFFFFF) for a, b in blocks]

    @property
    def sack_order(self) -> list[tuple[int, int]]:
        """Ranges that wait out of order, the one with the newest data first."""
        ranges: list[list[int]] = []
        for start, end, _, _ in sorted(self.waiting):
            if ranges and start <= ranges[-1][1]:
                ranges[-1][1] = max(ranges[-1][1], end)
            else:
                ranges.append([start, end])
        newest = self.waiting[-1][0] if self.waiting else 0
        ranges.sort(key=lambda r: (not r[0] <= newest < r[1], -r[0]))
        return [(a, b) for a, b in ranges]

    @property
    def over(self) -> bool:
        """Both FINs were received: TIME-WAIT."""
        return self.fin_acked and self.peer_fin

    # ---- opening -----------------------------------------------------------------------

    def open(self) -> None:
        """Send the SYN (client)."""
        self.state = "syn-sent"
        self._send_syn(0)

    def _send_syn(self, tries: int) -> None:
        if self.state not in ("syn-sent", "syn-received") or tries > 6:
            return
        flags = SYN if self.active else SYN | ACK
        self.syn_sent_ns = self.simulation.now
        self._transmit(b"", 0, flags, "syn" if tries else "")
        # The server's timer is checked on a coarser tick: a repeated SYN comes first.
        wait = (FIRST_RTO_NS << tries) + (0 if self.active else 8 * MS)
        self.syn_timer = self.simulation.after(wait, lambda: self._send_syn(tries + 1))

    def _syn_again(self) -> None:
        """The client repeated its SYN: answer it at once and start the timer anew."""
        if self.syn_timer:
            self.syn_timer.cancel()
        self._send_syn(1)

    def _establish(self, rtt_ns: int) -> None:
        if self.syn_timer:
            self.syn_timer.cancel()
        self.state = "established"
        if rtt_ns > 0:
            self._sample(rtt_ns)
        self.established.fire()
        if callable(self.on_established):
            self.on_established(self)

    # ---- receiving ---------------------------------------------------------------------

    def handle(self, packet: Packet) -> None:
        """A packet arrived."""
        if packet.flags & RST:
            self.reset = True
            self._forget()
            self.readable.fire()
            self.established.fire()
            return
        assert packet.timestamps
        if packet.flags & SYN:
            self._handle_syn(packet)
            return
        if self.state == "syn-received":
            self.peer_window = packet.window << WINDOW_SCALE
            self._establish(self.simulation.now - self.syn_sent_ns)
        if packet.flags & ACK:
            self._handle_ack(packet)
        if packet.payload or packet.flags & FIN:
            self._handle_data(packet)
        self._output()

    def _handle_syn(self, packet: Packet) -> None:
        assert packet.timestamps
        if self.active:
            if self.state == "syn-sent":
                self.peer_isn = packet.seq
                self.ts_recent = packet.timestamps[0]
                self.peer_window = packet.window
                rtt = self.simulation.now - self.syn_sent_ns
                self.state = "established"
                self._transmit(b"", 0, ACK)
                self._establish(rtt)
            else:  # our ACK was lost, or the network made a copy
                self._transmit(b"", self.nxt, ACK)
        elif self.state == "new":
            self.peer_isn = packet.seq
            self.ts_recent = packet.timestamps[0]
            self.state = "syn-received"
            self._send_syn(0)
        elif self.state == "syn-received":
            self._syn_again()
        else:
            self._transmit(b"", self.nxt, ACK)

    def _handle_data(self, packet: Packet) -> None:
        start, end, fin = packet.offset, packet.end, bool(packet.flags & FIN)
        assert packet.timestamps
        if start <= max(self.last_ack_sent, 0):
            self.ts_recent = packet.timestamps[0]
        if end + fin <= self.rcv_nxt + self.peer_fin:
            self.dsack = (start, end + fin)
            self._transmit(b"", self.nxt, ACK)
            return
        had_hole = bool(self.waiting)
        if start > self.rcv_nxt:
            self.waiting.append((start, end, packet.payload, fin))
            self._transmit(b"", self.nxt, ACK)
            return
        self._accept(start, end, packet.payload, fin)
        for piece in sorted(self.waiting):
            if piece[0] <= self.rcv_nxt:
                self._accept(*piece)
        self.waiting = [w for w in self.waiting if w[1] > self.rcv_nxt]
        self.unacked_bytes += end - start
        self.peer_mss = max(self.peer_mss, end - start)
        self.readable.fire()
        if (
            had_hole
            or (fin and self.fin_sent)
            or self.quick_acks > 0
            or self.unacked_bytes > self.peer_mss
        ):
            self.quick_acks -= self.quick_acks > 0
            # Programs that answer at once may put data on this ACK: they run after it.
            self._transmit(b"", self.nxt, ACK)
        elif not self.ack_timer or not self.ack_timer.pending:
            self.ack_timer = self.simulation.after(DELAYED_ACK_NS, self._delayed_ack)

    def _accept(self, start: int, end: int, data: bytes, fin: bool) -> None:
        if end > self.rcv_nxt:
            self.received += data[self.rcv_nxt - start :]
            self.rcv_nxt = end
        if fin:
            self.peer_fin = True

    def _delayed_ack(self) -> None:
        if self.state == "established":
            self._transmit(b"", self.nxt, ACK)

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

    def _forget(self) -> None:
        self.state = "closed"
        for timer in (self.retransmit_timer, self.ack_timer, self.reorder_timer, self.syn_timer):
            if timer:
                timer.cancel()
        self.host.endpoints.pop((self.local, self.remote), None)


def receive(host: Host, packet: Packet) -> None:
    """A TCP packet reached a host: to its endpoint, its listener, or a RST."""
    key = (packet.destination, packet.source)
    endpoint = host.endpoints.get(key)
    if endpoint and packet.flags & SYN and endpoint.over and not endpoint.active:
        endpoint = None  # TIME-WAIT gives way to a new connection (RFC 9293, section 3.6.1)
    if endpoint is None and packet.flags & SYN and not packet.flags & ACK:
        listener = host.listeners.get(packet.destination[1])
        if listener:
            endpoint = Endpoint(host, *key, packet.connection, active=False)  # type: ignore[arg-type]
            endpoint.on_established = listener
            host.endpoints[key] = endpoint
    if endpoint:
        endpoint.handle(packet)
    elif not packet.flags & RST:
        refuse(host, packet)


def refuse(host: Host, packet: Packet) -> None:
    """Answer a packet that belongs to no connection with RST (RFC 9293, section 3.5.2)."""
    has_ack = bool(packet.flags & ACK)
    behind = packet.seq + len(packet.payload) + bool(packet.flags & (SYN | FIN))
    host.network.send(
        Packet(
            packet.destination,
            packet.source,
            TCP,
            0,
            b"",
            seq=packet.ack if has_ack else 0,
            ack=0 if has_ack else behind & 0xFFFFFFFF,
            flags=RST if has_ack else RST | ACK,
            connection=packet.connection,
            from_client=not packet.from_client,
        )
    )


def connect(
    host: Host, local: Address, remote: Address, connection: Connection
) -> Generator[Signal, None, Endpoint | None]:
    """Open a connection; None if it was refused."""
    endpoint = Endpoint(host, local, remote, connection, active=True)
    host.endpoints[(local, remote)] = endpoint
    endpoint.open()
    while endpoint.state == "syn-sent":
        yield endpoint.established
    return None if endpoint.reset else endpoint
