"""Hosts, paths between them, scripted faults, and what a capture sees."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

from capture_maker.simulation import US, Simulation

if TYPE_CHECKING:
    from capture_maker.tcp import Endpoint

STACK_NS = 11 * US  # from the capture point to the transport protocol
Vantage = Literal["client", "middle", "server"]
Address = tuple[str, int]


def number(*names: object) -> int:
    """A 32-bit number that looks random and is the same in every run."""
    return int.from_bytes(hashlib.sha256(repr(names).encode()).digest()[:4], "big")


@dataclasses.dataclass(slots=True)
class Packet:
    """A packet on its way; `tapped` says when each vantage saw it."""

    source: Address
    destination: Address
    protocol: int
    ip_id: int
    body: bytes  # for TCP: filled by `tcp.encode` from the fields below
    payload: bytes = b""
    seq: int = 0
    ack: int = 0
    flags: int = 0
    window: int = 0
    options: bytes = b""
    sack: list[tuple[int, int]] = dataclasses.field(default_factory=list)  # raw numbers
    timestamps: tuple[int, int] | None = None
    offset: int = 0  # stream offset of the payload
    again: str = ""  # mechanism, if the sender sent some of this before
    connection: object = None  # truth.Connection
    from_client: bool = True
    sent_ns: int = 0
    arrived_ns: int | None = None
    copy: bool = False  # a duplicate that the network or the capture made
    seen_at: Vantage | None = None  # where it was captured, if not at the file's vantage
    hops: int = 7
    tapped: dict[Vantage, int] = dataclasses.field(default_factory=dict)

    @property
    def end(self) -> int:
        """Stream offset behind the payload."""
        return self.offset + len(self.payload)

    @property
    def wire_bytes(self) -> int:
        """Length on the wire, with Ethernet's header."""
        ip_header = 40 if ":" in self.source[0] else 20
        own = 20 + len(self.options) if self.protocol == 6 else 8
        return 14 + ip_header + own + len(self.payload)


@dataclasses.dataclass(slots=True)
class Fault:
    """What the network does to some packets of one direction.

    Attributes:
        towards: which way they go.
        matches: picks packets; counted in the order in which they are sent.
        action: what happens to them.
        only: which of the matching packets, 1-based; empty = all.
        extra_ns: how much later a delayed packet, or the second copy, arrives.
        before_middle: whether a drop happens before the middle vantage.
    """

    towards: Literal["client", "server"]
    matches: Callable[[Packet], bool]
    action: Literal["drop", "delay", "duplicate"]
    only: tuple[int, ...] = ()
    extra_ns: int = 0
    before_middle: bool = False
    seen: int = 0

    def hits(self, packet: Packet) -> bool:
        """Whether this packet is hit; counts."""
        if not self.matches(packet):
            return False
        self.seen += 1
        return not self.only or self.seen in self.only


@dataclasses.dataclass(slots=True)
class Path:
    """The way between the client and one server: a FIFO queue with rate and delay each way."""

    to_server_ns: int
    to_client_ns: int
    bits_per_second: int = 1_000_000_000
    faults: list[Fault] = dataclasses.field(default_factory=list)
    hops: int = 7
    middle: float = 0.5  # where the middle vantage lies, as a part of the delay
    busy_until: dict[bool, int] = dataclasses.field(default_factory=lambda: {True: 0, False: 0})
    latest: dict[bool, int] = dataclasses.field(default_factory=lambda: {True: 0, False: 0})


class Host:
    """A machine: its addresses' listeners and TCP endpoints."""

    def __init__(self, network: Network, name: str, addresses: tuple[str, ...]) -> None:
        self.network = network
        self.name = name
        self.addresses = addresses
        self.listeners: dict[int, Callable[[Endpoint], None]] = {}
        self.datagrams: dict[int, Callable[[Packet], None]] = {}
        self.endpoints: dict[tuple[Address, Address], Endpoint] = {}
        self.dark = False  # drops everything, like a firewall
        # Of the TCP endpoints that are made from now on:
        self.mtu = 1500  # what the link carries; the MSS follows from it
        self.nodelay = True  # Nagle's algorithm is off
        self.receive_buffer: int | None = None  # a fixed one; None grows as Linux lets it


class Network:
    """Everything that is simulated, and every packet that was sent."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.hosts: dict[str, Host] = {}
        self.paths: dict[frozenset[str], Path] = {}
        self.packets: list[Packet] = []
        self.receive_tcp: Callable[[Host, Packet], None] | None = None
        self.client_host: Host | None = None

    def host(self, name: str, *addresses: str) -> Host:
        """Add a host; the first one is the client."""
        host = Host(self, name, addresses)
        self.client_host = self.client_host or host
        for address in addresses:
            self.hosts[address] = host
        return host

    def path(self, a: Host, b: Host, path: Path) -> Path:
        """Join two hosts."""
        self.paths[frozenset((a.name, b.name))] = path
        return path

    def send(self, packet: Packet) -> None:
        """Send a packet now: through queue and delay, past the taps, into the other host."""
        now = self.simulation.now
        source, target = self.hosts[packet.source[0]], self.hosts[packet.destination[0]]
        path = self.paths[frozenset((source.name, target.name))]
        upward = source is self.client_host
        packet.sent_ns = now
        packet.hops = path.hops
        self.packets.append(packet)
        near: Vantage = "client" if upward else "server"
        far: Vantage = "server" if upward else "client"
        packet.tapped[near] = now
        departs = max(now, path.busy_until[upward])
        departs += packet.wire_bytes * 8 * 1_000_000_000 // path.bits_per_second
        path.busy_until[upward] = departs
        delay = path.to_server_ns if upward else path.to_client_ns
        # A little jitter, which never lets one packet overtake another.
        jitter = number("jitter", len(self.packets)) % (3 * US)
        jitter = max(jitter, path.latest[upward] + 1 - departs - delay)
        arrives = path.latest[upward] = departs + delay + jitter
        part = path.middle if upward else 1 - path.middle
        middle_ns = departs + int(delay * part) + jitter
        towards = "server" if upward else "client"
        faults = [f for f in path.faults if f.towards == towards and f.hits(packet)]
        if any(f.action == "drop" and f.before_middle for f in faults):
            return
        packet.tapped["middle"] = middle_ns
        if any(f.action == "drop" for f in faults) or target.dark:
            return
        for fault in faults:
            if fault.action == "delay":
                arrives += fault.extra_ns
            elif fault.action == "duplicate":
                twin = dataclasses.replace(packet, copy=True, tapped={})
                twin.tapped["middle"] = middle_ns + fault.extra_ns
                self.packets.append(twin)
                self._arrive(target, twin, far, arrives + fault.extra_ns)
        self._arrive(target, packet, far, arrives)

    def _arrive(self, target: Host, packet: Packet, far: Vantage, time_ns: int) -> None:
        def arrive() -> None:
            packet.arrived_ns = self.simulation.now
            packet.tapped[far] = self.simulation.now
            self.simulation.after(STACK_NS, handle)

        def handle() -> None:
            if packet.protocol == 6:
                assert self.receive_tcp is not None
                self.receive_tcp(target, packet)
            elif packet.destination[1] in target.datagrams:
                target.datagrams[packet.destination[1]](packet)

        self.simulation.after(time_ns - self.simulation.now, arrive)


def work_ns(*names: object) -> int:
    """How long a program takes to do a small thing: 20 to 90 microseconds."""
    return 20 * US + number("work", *names) % (70 * US)
