"""The whole result: every table, and what the detectors made of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from capture_analyzer.model.anomalies import Anomaly
from capture_analyzer.model.capture import CaptureFile, Interface
from capture_analyzer.model.certificates import Certificate, OcspFetch
from capture_analyzer.model.column import to_frame
from capture_analyzer.model.connections import Connection
from capture_analyzer.model.deferred import Deferred
from capture_analyzer.model.events import Events
from capture_analyzer.model.exchanges import Exchange, Exchanges
from capture_analyzer.model.findings import DetectorOutcome, Finding
from capture_analyzer.model.frames import Frames
from capture_analyzer.model.holes import Holes
from capture_analyzer.model.limits import Limits, Queues
from capture_analyzer.model.lookups import Lookup
from capture_analyzer.model.messages import Message
from capture_analyzer.model.packets import Packets
from capture_analyzer.model.quick_dataclass import quick_dataclass
from capture_analyzer.model.record_sizes import RecordSizes
from capture_analyzer.model.repeats import Repeats
from capture_analyzer.model.rtt_samples import RttSamples
from capture_analyzer.model.scheduler import InProcess, Scheduler
from capture_analyzer.model.sender_limits import SenderLimits
from capture_analyzer.model.stalls import Stalls
from capture_analyzer.model.tcp_segments import TcpSegments
from capture_analyzer.model.tls_records import HandshakeMessage, HandshakeMessages, TlsRecords
from capture_analyzer.model.tunnels import Tunnel
from capture_analyzer.model.waits import Ledger, Waits
from capture_analyzer.model.windows import Windows

if TYPE_CHECKING:
    import pandas as pd

T = TypeVar("T")


@quick_dataclass
class Redaction:
    """What was kept out of every output, and how often it was."""

    level: str = "default"  # "none", "default", or a list: "hosts,ips,paths"
    field_values: int = 0  # header field values replaced by … with their length
    query_values: int = 0
    path_segments: int = 0


@quick_dataclass
class Tables:
    """Everything that is known about a capture before anyone judges it.

    Detectors, the report and the exporters read this and nothing else.
    """

    epoch_ns: int
    duration_ns: int
    files: list[CaptureFile]
    interfaces: list[Interface]
    packets: Packets
    connections: list[Connection]
    holes: Holes
    tls_records: TlsRecords
    handshake_messages: HandshakeMessages
    frames: Frames
    messages: list[Message]
    lookups: list[Lookup]
    exchanges: Exchanges
    events: Events
    waits: Waits
    ledger: Ledger
    anomalies: list[Anomaly]
    redaction: Redaction
    tunnels: list[Tunnel] = dataclasses.field(default_factory=list)
    limits: Limits = dataclasses.field(default_factory=Limits)
    queues: Queues = dataclasses.field(default_factory=Queues)
    tcp_segments: TcpSegments = dataclasses.field(default_factory=TcpSegments)
    rtt_samples: RttSamples = dataclasses.field(default_factory=RttSamples)
    record_sizes: RecordSizes = dataclasses.field(default_factory=RecordSizes)
    windows: Windows = dataclasses.field(default_factory=Windows)
    sender_limits: SenderLimits = dataclasses.field(default_factory=SenderLimits)
    stalls: Stalls = dataclasses.field(default_factory=Stalls)
    repeats: Repeats = dataclasses.field(default_factory=Repeats)
    certificates: list[Certificate] = dataclasses.field(default_factory=list)
    ocsp_fetches: list[OcspFetch] = dataclasses.field(default_factory=list)
    # Made when they are first asked for.
    _exchange_nos: dict[int, list[int]] | None = dataclasses.field(
        default=None, init=False, repr=False, compare=False
    )
    _made: dict[Callable[[Tables], Any], Any] = dataclasses.field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def once(self, make: Callable[[Tables], T]) -> T:
        """What a function makes of these tables, made once for all that ask for it.

        To be asked of complete tables; the result is not to be changed.
        """
        if make not in self._made:
            self._made[make] = make(self)
        made: T = self._made[make]
        return made

    def exchange_nos_of(self, connection_nos: Iterable[int]) -> list[int]:
        """The exchanges of some connections, in order. To be asked of complete tables."""
        if self._exchange_nos is None:
            self._exchange_nos = {}
            for number, connection_no in enumerate(self.exchanges.columns.connection_no.tolist()):
                self._exchange_nos.setdefault(connection_no, []).append(number)
        known = self._exchange_nos
        return sorted(no for number in set(connection_nos) for no in known.get(number, ()))

    def handshakes_of(self, connection_nos: Iterable[int]) -> list[HandshakeMessage]:
        """The handshake messages of some connections, in order. To be asked of complete tables."""
        return list(self.handshake_messages.rows(connection_nos))


@quick_dataclass
class Analysis:
    """The result of `capture_analyzer.analyze`.

    Attributes:
        tables: the facts.
        findings: the judgements, most severe first, numbered.
        detectors: outcome of every detector in the catalogue, by id.
        version: the capture_analyzer version that made it.
        scheduler: who may do work that is left, such as writing it out.
    """

    tables: Tables
    findings: list[Finding]
    detectors: list[DetectorOutcome]
    version: str
    scheduler: Scheduler = dataclasses.field(default_factory=InProcess, repr=False, compare=False)

    def frame(self, table: str) -> pd.DataFrame:
        """A table as a pandas frame: "packets", "connections", "exchanges", "findings" ...

        Raises:
            KeyError: there is no such table.
        """
        if table not in TABLES:
            raise KeyError(f"no table {table!r}; tables: {', '.join(TABLES)}")
        owner = self if hasattr(self, table) else self.tables
        rows = getattr(owner, table)
        if isinstance(rows, (Packets, Deferred)):
            rows.complete()
        return to_frame(TABLES[table], rows)


TABLES: dict[str, type] = {
    "files": CaptureFile,
    "interfaces": Interface,
    "packets": Packets,
    "tunnels": Tunnel,
    "connections": Connection,
    "holes": Holes,
    "limits": Limits,
    "queues": Queues,
    "tcp_segments": TcpSegments,
    "rtt_samples": RttSamples,
    "windows": Windows,
    "sender_limits": SenderLimits,
    "stalls": Stalls,
    "tls_records": TlsRecords,
    "record_sizes": RecordSizes,
    "handshake_messages": HandshakeMessage,
    "certificates": Certificate,
    "ocsp_fetches": OcspFetch,
    "frames": Frames,
    "messages": Message,
    "lookups": Lookup,
    "exchanges": Exchange,
    "repeats": Repeats,
    "events": Events,
    "waits": Waits,
    "ledger": Ledger,
    "anomalies": Anomaly,
    "detectors": DetectorOutcome,
    "findings": Finding,
}
"""Every table's schema by its name."""
