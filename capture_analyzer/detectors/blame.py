"""Who took a stretch of an exchange's time, by its ledger."""

from __future__ import annotations

from collections import defaultdict
from typing import Final

from capture_analyzer.model.analysis import Tables
from capture_analyzer.model.causes import CAUSE_NAMES
from capture_analyzer.model.quick_dataclass import quick_dataclass

PARTIES: Final[dict[str, tuple[str, ...]]] = {
    "server": ("server_think", "generation"),
    "loss": ("loss_recovery", "reordering"),
    "other_stream": ("head_of_line",),
    "record": ("record_wait",),
    "window": ("receiver_window", "http2_window", "quic_window", "congestion_window"),
    "nagle": ("nagle_delayed_ack",),
    "proxy": ("proxy_buffering",),
    "network": ("network_rtt", "request_send", "transfer"),
    "unknown": ("capture_gap", "unknown"),
}
"""Causes by who or what answers for them. Of equal parts the first party is named."""

_PARTY_OF: Final = {cause: party for party, causes in PARTIES.items() for cause in causes}


@quick_dataclass
class Split:
    """A stretch of an exchange's time, divided among the parties.

    Attributes:
        ns: what each party took of it, by name, in the order of PARTIES.
        causes: the same by cause; only those that took some.
        rows: ledger entries of each party that lie in the stretch as a whole.
        booked: the sum of those.
        confidence: mean over the entries, weighted by their time, for each party.
        packet_nos: packets of the entries of each party.
    """

    ns: dict[str, int]
    causes: dict[str, int]
    rows: dict[str, list[int]]
    booked: dict[str, int]
    confidence: dict[str, float]
    packet_nos: dict[str, list[int]]

    @property
    def worst(self) -> str:
        """The party that took most."""
        return max(self.ns, key=self.ns.__getitem__)


def split(tables: Tables, exchange_no: int, from_ns: int, to_ns: int) -> Split:
    """Divide a stretch of an exchange's time."""
    ledger = tables.ledger
    mine = ledger.rows_of(exchange_no)
    # The entries of an exchange touch, in order of time.
    first = mine.start + int(ledger.to_ns[mine].searchsorted(from_ns, "right"))
    last = mine.start + int(ledger.from_ns[mine].searchsorted(to_ns, "left"))
    mine = slice(first, max(first, last))
    ns = dict.fromkeys(PARTIES, 0)
    causes: dict[str, int] = {}
    rows: dict[str, list[int]] = defaultdict(list)
    booked: dict[str, int] = defaultdict(int)
    weighted: dict[str, float] = defaultdict(float)
    packet_nos: dict[str, list[int]] = defaultdict(list)
    columns = zip(
        range(mine.start, mine.stop),
        ledger.from_ns[mine].tolist(),
        ledger.to_ns[mine].tolist(),
        ledger.cause[mine].tolist(),
        ledger.confidence[mine].tolist(),
        ledger.packet_a[mine].tolist(),
        ledger.packet_b[mine].tolist(),
        ledger.packet_c[mine].tolist(),
        strict=True,
    )
    for row, begin, end, code, confidence, *packets in columns:
        part = min(end, to_ns) - max(begin, from_ns)
        if part <= 0:
            continue
        cause = CAUSE_NAMES[code]
        party = _PARTY_OF.get(cause, "unknown")
        ns[party] += part
        causes[cause] = causes.get(cause, 0) + part
        weighted[party] += confidence * part
        packet_nos[party] += [number for number in packets if number]
        if begin >= from_ns and end <= to_ns:
            rows[party].append(row)
            booked[party] += end - begin
    return Split(
        ns=ns,
        causes=causes,
        rows=rows,
        booked=booked,
        confidence=defaultdict(
            float, {party: part / ns[party] for party, part in weighted.items()}
        ),
        packet_nos=packet_nos,
    )
