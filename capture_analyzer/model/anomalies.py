"""Table `anomalies`: facts about the input that limit what can be said."""

from __future__ import annotations

from typing import Literal

from capture_analyzer.model.column import column
from capture_analyzer.model.quick_dataclass import quick_dataclass

Origin = Literal["capture", "peer", "analyzer"]


@quick_dataclass
class Anomaly:
    """Something missing, malformed, unreadable or undecryptable. Never fatal."""

    code: str = column('What it is, in kebab-case: "cut-in-packet", "http-malformed" ...')
    origin: Origin = column(
        "capture: not seen; peer: an endpoint broke the rules; analyzer: no keys, not supported."
    )
    detail: str = column("One clause for a person; holds no message content.")
    connection_no: int | None = column("The connection it is about.", default=None)
    packet_no: int | None = column("The packet where it was noticed.", default=None)
    count: int = column("How often, where equal anomalies are counted.", default=1)
