"""Table `lookups`: DNS questions and their answers."""

from __future__ import annotations

from capture_analyzer.model.column import column
from capture_analyzer.model.quick_dataclass import quick_dataclass


@quick_dataclass
class Lookup:
    """One question (name and type) of one client to one resolver, with repeats and answer."""

    lookup_no: int = column("0-based in order of first question.")
    client_ip: str = column("Who asked.")
    server_ip: str = column("The resolver.")
    name: str = column("The name asked for, lower-case, without the final dot.")
    type: str = column('"A", "AAAA", "HTTPS" ... or "TYPE65280".')
    start_ns: int = column("First question.", unit="ns")
    end_ns: int | None = column("First answer; None = no answer captured.", unit="ns", default=None)
    rcode: str | None = column('"NOERROR", "NXDOMAIN" ...; None = no answer.', default=None)
    question_count: int = column("How often the question was sent.", default=1)
    addresses: list[str] = column("Addresses in the answer.", default_factory=list)
    packet_nos: list[int] = column("Questions and answers.", default_factory=list)
    connection_nos: list[int] = column("Connections that used the answer.", default_factory=list)
