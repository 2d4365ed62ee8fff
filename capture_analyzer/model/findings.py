"""Table `findings` (judgements) and the outcome of every detector."""

from __future__ import annotations

from typing import Final, Literal

from capture_analyzer.model.column import column
from capture_analyzer.model.quick_dataclass import quick_dataclass

Severity = Literal["critical", "warning", "info"]
SEVERITIES: Final[tuple[Severity, ...]] = ("critical", "warning", "info")

MAX_EXAMPLES: Final = 5  # a reader checks a few, not all
MAX_FINDINGS: Final = 1000  # of a detector; a port scan would give one for every host it tried
MAX_PACKET_NOS: Final = 100  # more would bloat the report; packet_total says how many there are


@quick_dataclass
class Example:
    """One of the worst occurrences of a finding."""

    packet_nos: list[int] = column("Packets that prove it.")
    cost_ns: int | None = column("What it cost.", unit="ns", default=None)
    exchange_no: int | None = column("The exchange it hurt.", default=None)


@quick_dataclass
class Finding:
    """What is wrong, what it cost, how sure we are, and which packets prove it."""

    detector: str = column('Id of the detector: "tcp/syn-retransmission".')
    severity: Severity = column("critical, warning or info (rules: the detector's documentation).")
    confidence: float = column("0 to 1; below 1 it rests on an inference.")
    summary: str = column("One sentence with the number in it, in the past tense.")
    advice: str = column("Who must do what; empty where no action is honest.", default="")
    action: str = column(
        "The advice as one short imperative for a list; empty likewise.", default=""
    )
    finding_no: int = column(
        "0-based: by severity, then cost, then time; the report and the terminal count from 1.",
        default=-1,
    )
    connection_no: int | None = column("The connection, where it is one.", default=None)
    connection_nos: list[int] = column(
        "All connections it is about, where they are several.", default_factory=list
    )
    exchange_nos: list[int] = column("Exchanges it hurt.", default_factory=list)
    from_ns: int | None = column("Begin of the first occurrence.", unit="ns", default=None)
    to_ns: int | None = column("End of the last.", unit="ns", default=None)
    count: int = column("Occurrences.", default=1)
    cost_ns: int | None = column(
        "Ledger time lost to it; None where it owns no cause.", unit="ns", default=None
    )
    counted_in: int | None = column("The finding that already holds this time.", default=None)
    estimated_saving_ns: int | None = column(
        "Estimate where no ledger time is owned.", unit="ns", default=None
    )
    measures: dict[str, int | float | str | bool | None] = column(
        "Numbers behind it.", default_factory=dict
    )
    examples: list[Example] = column("Worst first, at most MAX_EXAMPLES.", default_factory=list)
    packet_nos: list[int] = column("Evidence, at most MAX_PACKET_NOS.", default_factory=list)
    packet_total: int = column("How many packets the evidence has.", default=0)
    display_filter: str = column("Wireshark filter that shows the evidence.", default="")
    ledger_rows: list[int] = column(
        "Ledger entries (by index) that hold its cost.", default_factory=list
    )


@quick_dataclass
class DetectorOutcome:
    """What became of one detector in this analysis."""

    id: str = column("Its id.")
    outcome: Literal["ran", "not_applicable", "failed"] = column("ran, not_applicable or failed.")
    reason: str | None = column(
        "Why it did not run, how it failed, how many findings were left out; no captured text.",
        default=None,
    )
    causes: list[str] = column("Causes of the ledger that it owns.", default_factory=list)
    doc: dict[str, str] = column(
        'Its documentation by section: "title", "detects", "matters", "advice", "wrong".',
        default_factory=dict,
    )
