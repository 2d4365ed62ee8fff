"""A resolver with scripted answers, and the question of a client."""

from __future__ import annotations

import dataclasses
import ipaddress
import struct
from collections.abc import Generator

from capture_maker.headers import UDP
from capture_maker.network import Host, Packet, number, work_ns
from capture_maker.simulation import Signal
from capture_maker.truth import Ledger, Lookup

TYPES = {"A": 1, "AAAA": 28}
RCODES = {"NOERROR": 0, "SERVFAIL": 2, "NXDOMAIN": 3}


@dataclasses.dataclass(slots=True)
class Answer:
    """How the resolver answers a question: `lost` questions stay without an answer."""

    addresses: tuple[str, ...] = ()
    think_ns: int = 0
    rcode: str = "NOERROR"
    lost: int = 0


def _name(name: str) -> bytes:
    labels = [label.encode("latin-1") for label in name.split(".")]
    return b"".join(bytes([len(label)]) + label for label in labels) + b"\0"


def question(ident: int, name: str, kind: str) -> bytes:
    """A DNS query (RFC 1035, section 4.1)."""
    head = struct.pack("!6H", ident, 0x0100, 1, 0, 0, 0)
    return head + _name(name) + struct.pack("!HH", TYPES[kind], 1)


def answer(query: bytes, kind: str, given: Answer) -> bytes:
    """The response to a query."""
    flags = 0x8180 | RCODES[given.rcode]
    addresses = [ipaddress.ip_address(a).packed for a in given.addresses]
    head = query[:2] + struct.pack("!5H", flags, 1, len(addresses), 0, 0)
    body = b"".join(
        struct.pack("!HHHIH", 0xC00C, TYPES[kind], 1, 60, len(a)) + a for a in addresses
    )
    return head + query[12:] + body


class Resolver:
    """Answers on port 53 of a host."""

    def __init__(self, host: Host, answers: dict[tuple[str, str], Answer]) -> None:
        self.host = host
        self.answers = answers
        self.lookups: dict[int, Lookup] = {}  # by the client's port
        self.signals: dict[int, Signal] = {}
        self.sent: list[Packet] = []
        host.datagrams[53] = self._receive

    def _receive(self, packet: Packet) -> None:
        lookup = self.lookups[packet.source[1]]
        given = self.answers[(lookup.name, lookup.type)]
        if given.lost:
            given.lost -= 1
            return

        def send() -> None:
            payload = answer(packet.payload, lookup.type, given)
            ident = number("dns", len(self.host.network.packets)) & 0xFFFF
            back = Packet(packet.destination, packet.source, UDP, ident, b"", payload=payload)
            lookup.rcode, lookup.addresses = given.rcode, list(given.addresses)
            lookup.answered = lookup.answered or back
            self.host.network.send(back)

        think = given.think_ns + work_ns("dns", lookup.name, lookup.type)
        self.host.network.simulation.after(think, send)

    def ask(
        self,
        client: Host,
        ledger: Ledger,
        name: str,
        kinds: tuple[str, ...] = ("A",),
        retry_ns: int = 0,
    ) -> Generator[int | Signal, None, Lookup]:
        """Ask for a name from a client, all types at once, and wait for all answers."""
        simulation = client.network.simulation
        address = client.addresses[0]
        server = next(a for a in self.host.addresses if (":" in a) == (":" in address))
        waits: list[tuple[Lookup, Signal]] = []
        for kind in kinds:
            port = 32_768 + number("port", name, kind, len(ledger.lookups)) % 28_000
            ident = number("ident", name, kind, len(ledger.lookups)) & 0xFFFF
            query = question(ident, name, kind)

            def make(port: int = port, query: bytes = query, kind: str = kind) -> Packet:
                ip_id = number("udp", port, simulation.now) & 0xFFFF
                return Packet((address, port), (server, 53), UDP, ip_id, b"", payload=query)

            packet = make()
            lookup = Lookup(name, kind, packet)
            ledger.lookups.append(lookup)
            self.lookups[port] = lookup
            signal = self.signals[port] = Signal(simulation)
            client.datagrams[port] = lambda _, signal=signal: signal.fire()  # type: ignore[misc]
            client.network.send(packet)
            if retry_ns:

                def again(make=make, lookup=lookup) -> None:  # type: ignore[no-untyped-def]
                    if lookup.answered is None:
                        client.network.send(make())
                        lookup.question_count += 1

                simulation.after(retry_ns, again)
            waits.append((lookup, signal))
            yield work_ns("ask", name, kind)
        for lookup, signal in waits:
            while lookup.answered is None or lookup.answered.arrived_ns is None:
                yield signal
        return waits[0][0]
