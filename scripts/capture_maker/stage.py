"""Where a scenario plays: the simulation with a client, servers, a resolver and a ledger."""

from __future__ import annotations

import dataclasses
import ssl
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any, Literal

from h2.settings import SettingCodes

from capture_maker import http, http2, tcp
from capture_maker.dns import Answer, Resolver
from capture_maker.network import Host, Network, Packet, Vantage, number, work_ns
from capture_maker.network import Path as Way
from capture_maker.simulation import MS, US, Process, Signal, Simulation
from capture_maker.tls import TlsSocket
from capture_maker.truth import Ledger


class Stage:
    """Makes hosts and connections; the scenario starts processes on `simulation`."""

    def __init__(self, key_log: Path, *, ipv6: bool = False) -> None:
        self.simulation = Simulation()
        self.network = Network(self.simulation)
        self.network.receive_tcp = tcp.receive
        self.ledger = Ledger()
        self.key_log = key_log
        self.ipv6 = ipv6
        self.client = self.network.host("client", "2001:db8:c::23" if ipv6 else "198.51.100.23")
        self._ports = 40_000 + number("first port") % 8_000

    def server(
        self,
        name: str,
        address: str,
        rtt_ns: int = 20 * MS,
        bits_per_second: int = 200_000_000,
        middle: float = 0.5,
    ) -> tuple[Host, Way]:
        """Add a server with its path to the client."""
        host = self.network.host(name, address)
        half = rtt_ns // 2
        path = Way(half, rtt_ns - half, bits_per_second, middle=middle)
        return host, self.network.path(self.client, host, path)

    def resolver(self, answers: dict[tuple[str, str], Answer], rtt_ns: int = 4 * MS) -> Resolver:
        """Add a resolver."""
        host, _ = self.server("resolver", "2001:db8::53" if self.ipv6 else "192.0.2.53", rtt_ns)
        return Resolver(host, answers)

    def serve(self, host: Host, port: int, route: http.Route) -> None:
        """Serve plain HTTP/1.1."""
        host.listeners[port] = lambda endpoint: self.simulation.start(
            http.serve(self.simulation, endpoint, route)
        )

    def serve_tls(
        self,
        host: Host,
        port: int,
        route: http.Route,
        context: ssl.SSLContext,
        layer: Callable[..., TlsSocket] = TlsSocket,
    ) -> None:
        """Serve HTTP/1.1 over TLS."""

        def run(endpoint: tcp.Endpoint) -> Process:
            socket = layer(endpoint, context)
            if (yield from socket.handshake()):
                yield from http.serve(self.simulation, socket, route)
            else:
                endpoint.close()

        host.listeners[port] = lambda endpoint: self.simulation.start(run(endpoint))

    def serve_http2(
        self,
        host: Host,
        port: int,
        route: http2.Route,
        context: ssl.SSLContext | None = None,
        settings: dict[SettingCodes, int] | None = None,
    ) -> list[http2.Server]:
        """Serve HTTP/2, over TLS if there is a context; returns the servers as they start."""
        servers: list[http2.Server] = []

        def run(endpoint: tcp.Endpoint) -> Process:
            socket: http.Socket = endpoint
            if context is not None:
                socket = TlsSocket(endpoint, context)
                if not (yield from socket.handshake()):
                    endpoint.close()
                    return
            servers.append(http2.Server(self.simulation, socket, route, settings))
            yield from servers[-1].run()

        host.listeners[port] = lambda endpoint: self.simulation.start(run(endpoint))
        return servers

    def open(
        self,
        host: Host,
        port: int,
        *,
        context: ssl.SSLContext | None = None,
        server_name: str | None = None,
        session: ssl.SSLSession | None = None,
        local_port: int | None = None,
        isns: tuple[int, int] | None = None,
    ) -> Generator[int | Signal, None, http.Client | None]:
        """Open a connection (with TLS if there is a context); None if that failed."""
        socket = yield from self.open_socket(
            host,
            port,
            context=context,
            server_name=server_name,
            session=session,
            local_port=local_port,
            isns=isns,
        )
        return None if socket is None else http.Client(self.simulation, socket)

    def open_socket(
        self,
        host: Host,
        port: int,
        *,
        context: ssl.SSLContext | None = None,
        server_name: str | None = None,
        session: ssl.SSLSession | None = None,
        local_port: int | None = None,
        isns: tuple[int, int] | None = None,
        layer: Callable[..., TlsSocket] = TlsSocket,
    ) -> Generator[int | Signal, None, http.Socket | None]:
        """The same, without a client of HTTP over it."""
        if local_port is None:
            self._ports += 2
            local_port = self._ports
        local, remote = (self.client.addresses[0], local_port), (host.addresses[0], port)
        connection = self.ledger.connection(
            local,
            remote,
            server_name=server_name,
            tls=context is not None,
            isns=isns,
        )
        endpoint = yield from tcp.connect(self.client, local, remote, connection)
        if endpoint is None:
            return None
        yield work_ns("connected", local_port)
        if context is None:
            return endpoint
        socket = layer(endpoint, context, server_name=server_name, session=session)
        if not (yield from socket.handshake(300 * US)):
            endpoint.close()
            return None
        version = (socket.tls.version() or "?").replace("TLSv", "TLS ")
        connection.facts["tls"] = {
            "version": version,
            "resumed": socket.tls.session_reused,
            "cipher": (socket.tls.cipher() or ("?",))[0],
        }
        yield work_ns("secure", local_port)
        return socket


@dataclasses.dataclass(slots=True)
class Expect:
    """What an analysis must find (with the range of its cost) and what it must not."""

    fire: dict[str, tuple[float, float] | None] = dataclasses.field(default_factory=dict)
    silent: tuple[str, ...] = ()


@dataclasses.dataclass(slots=True)
class Form:
    """How the capture is written."""

    vantage: Vantage = "client"
    link: str = "ethernet"
    format: Literal["pcap", "pcapng"] = "pcap"
    order: Literal["<", ">"] = "<"
    nanoseconds: bool = False
    snap_length: int = 262_144
    gzip: bool = False
    keys: bool = False  # NAME.keys beside
    keys_inside: bool = False  # a Decryption Secrets Block, first
    keys_last: bool = False  # the same behind all packets
    keys_kept: Callable[[list[str]], list[str]] | None = None  # lines of the key log that are given
    two_sections: bool = False  # the second in the other byte order
    cut_bytes: int = 0  # so much is missing at the end of the file
    keeps: Callable[[int, Packet], bool] | None = None  # by 0-based position; others are not saved
    twice_ns: int = 0  # every packet is saved again, so much later (a mirror port)
    merged: bool = False  # what the server's capture saw is in the file, too
    clock: Callable[[int], int] | None = None  # what the capture's clock shows at each instant
    queues: int = 0  # every so many packets, two are saved in the wrong order


@dataclasses.dataclass(slots=True)
class Scenario:
    """A capture: its name, what is true in it in a sentence, how it is played and written."""

    name: str
    describe: str
    play: Callable[[Stage], None]
    form: Form
    expect: Expect
    facts: dict[str, Any]
    ipv6: bool = False
    openssl: str = ""  # a line for OpenSSL's configuration


SCENARIOS: dict[str, Scenario] = {}


def scenario(
    name: str,
    describe: str,
    *,
    form: Form | None = None,
    fire: dict[str, tuple[float, float] | None] | None = None,
    silent: tuple[str, ...] = (),
    ipv6: bool = False,
    openssl: str = "",
    **facts: Any,
) -> Callable[[Callable[[Stage], None]], Callable[[Stage], None]]:
    """Register a scenario; `fire` gives the range of each finding's cost in ms.

    `facts` go into the truth as they are (`exchanges_certain=False`, `anomalies=[...]`).
    """

    def register(play: Callable[[Stage], None]) -> Callable[[Stage], None]:
        if name in SCENARIOS:
            raise ValueError(f"two scenarios are named {name}")
        expect = Expect(fire or {}, silent)
        SCENARIOS[name] = Scenario(
            name, " ".join(describe.split()), play, form or Form(), expect, facts, ipv6, openssl
        )
        return play

    return register
