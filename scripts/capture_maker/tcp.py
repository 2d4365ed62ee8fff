"""One endpoint of a TCP connection, with the timers and the loss recovery of Linux.

What is modelled: three-way handshake with retries after 1, 2, 4 s; 10 segments of initial
congestion window and slow start (RFC 5681, RFC 6928); quick and delayed acknowledgements
(40 ms); SACK (RFC 2018) and D-SACK (RFC 2883); timestamps (RFC 7323); RACK and tail loss
probes (RFC 8985); retransmission timeouts (RFC 6298 with Linux' 200 ms above the round trip)
and the go-back behind them; IP IDs that count up. Offsets are 0-based stream offsets of data;
sequence numbers exist only in packets.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING

from capture_maker.headers import ACK, FIN, RST, SYN, TCP, tcp_options
from capture_maker.network import Address, Host, Network, Packet, number
from capture_maker.sender import FIRST_RTO_NS, WINDOW_SCALE, Sender
from capture_maker.simulation import MS, Signal, Timer

if TYPE_CHECKING:
    from capture_maker.truth import Connection

DELAYED_ACK_NS = 40 * MS
QUICK_ACKS = 16  # segments acknowledged at once at the start
MAX_RECEIVE_WINDOW = 3 << 20


class ConnectionResetError_(Exception):  # noqa: N801, N818 - the built-in says something else
    """The peer reset the connection."""


class Endpoint(Sender):
    """One side of a connection; `send`, `receive` and `close` are what programs use."""

    def __init__(
        self, host: Host, local: Address, remote: Address, connection: Connection, active: bool
    ) -> None:
        mss = host.mtu - (40 if ":" not in local[0] else 60) - 12
        super().__init__(host.network.simulation, mss, connection.isn(active))
        self.host = host
        self.network: Network = host.network
        self.local, self.remote = local, remote
        self.connection = connection
        self.active = active
        self.peer_isn = 0
        self.state = "new"
        self.ip_id = number("ip id", local, remote, connection.number)
        self.timestamp_base = number("timestamps", local[0], remote[0])
        self.established = Signal(self.simulation)
        self.readable = Signal(self.simulation)
        self.nodelay = host.nodelay
        # Receiving.
        self.receive_buffer = host.receive_buffer
        self.last_window = 0  # offered last
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

    def locate(self, start: int, index: int) -> int:
        """The stream offset of the byte with this index in a write that began at `start`."""
        return start + index

    def receive(self) -> Generator[Signal, None, bytes]:
        """Wait for data and take all there is; b"" at the end of the stream."""
        while not self.received and not self.peer_fin and not self.reset:
            yield self.readable
        if self.reset and not self.received:
            raise ConnectionResetError_
        data = bytes(self.received)
        self.received.clear()
        if self.receive_buffer and self.last_window < self.mss <= self._window():
            self._transmit(b"", self.nxt, ACK)  # a window update
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
        first_window = min(self.receive_buffer or 65_535, 64_240 if self.active else 65_160)
        self.last_window = self._window()
        limit = self.last_window >> WINDOW_SCALE
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

    def _window(self) -> int:
        """Bytes that there is room for; with a fixed buffer no less than a segment, or none."""
        if self.receive_buffer is None:
            first = 64_240 if self.active else 65_160
            return min(MAX_RECEIVE_WINDOW, first + 2 * self.rcv_nxt)
        free = self.receive_buffer - len(self.received) - sum(len(w[2]) for w in self.waiting)
        # Silly windows are avoided (RFC 9293, section 3.8.6.2.2).
        return free if free >= min(self.mss, self.receive_buffer // 2) else 0

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
        elif self.receive_buffer and packet.offset == self.rcv_nxt - 1:
            self._transmit(b"", self.nxt, ACK)  # the answer to a window probe
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

    def _forget(self) -> None:
        self.state = "closed"
        for timer in (
            self.retransmit_timer,
            self.ack_timer,
            self.reorder_timer,
            self.syn_timer,
            self.probe_timer,
        ):
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
