"""The answer in a few sentences: what happened, what to do, and where the time went.

The one place that composes them; the report and the terminal show the same verdict. It is
built from findings, ledger and connections only, and books nothing that they don't hold.
"""

from __future__ import annotations

from collections import Counter
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from capture_analyzer import wording
from capture_analyzer.model.analysis import Analysis, Tables
from capture_analyzer.model.causes import CAUSE_CODE, CAUSE_NAMES
from capture_analyzer.model.findings import Finding
from capture_analyzer.model.quick_dataclass import quick_dataclass
from capture_analyzer.report import causes, claims, labels, network, remarks

MAX_SENTENCES: Final = 4  # more is a page, not a verdict
MAX_ACTIONS: Final = 8  # the rest is in the list of findings
MAX_NOTES: Final = 4  # the rest is listed under what the capture cannot show

State = Literal["incident", "clean", "empty"]


@quick_dataclass
class Action:
    """One thing that somebody should do.

    Attributes:
        text: a short imperative.
        note: what it is about: which exchanges.
        saving_ns: what it can save in the requests of this capture; None = not known.
        finding_no: the finding it follows from.
        cause: the ledger cause it is about, for the colour of its bar; None = none.
    """

    text: str
    note: str
    saving_ns: int | None
    finding_no: int
    cause: str | None


@quick_dataclass
class TimeShare:
    """Time spent in requests on one cause, either its avoidable or its ordinary part."""

    cause: str
    title: str
    avoidable: bool
    ns: int


@quick_dataclass
class Verdict:
    """What a reader should know first.

    Attributes:
        state: "incident" (a finding above info), "clean" or "empty" (no request seen).
        no_keys: there is TLS and none of it could be read.
        capture_name: name of the file, or how many there are.
        facts: parts of the line of facts: when, how much, where, decryption, redaction.
        headline: the answer, with its number.
        sentences: at most MAX_SENTENCES.
        actions: what to do, by what can be won back.
        time_ns: time spent in requests: the sum of the ledger.
        avoidable_ns: what findings hold to be lost: the sum of their costs.
        time_spent: where it went, avoidable first, each by size.
        notes: what is wrong with the input, one sentence each.
        command: a command that would help, in an empty capture; else None.
    """

    state: State
    no_keys: bool
    capture_name: str
    facts: list[str]
    headline: str
    sentences: list[str]
    actions: list[Action]
    time_ns: int
    avoidable_ns: int
    time_spent: list[TimeShare]
    notes: list[str]
    command: str | None = None


def verdict(analysis: Analysis, claimed: NDArray[np.int32] | None = None) -> Verdict:
    """Compose the verdict of an analysis; `claimed` as `claims.claimed_by` gives it."""
    tables = analysis.tables
    if claimed is None:
        claimed = claims.claimed_by(analysis)
    spent = _time_spent(tables, claimed)
    result = Verdict(
        state=_state(analysis),
        no_keys=remarks.no_keys(tables),
        capture_name=_capture_name(tables),
        facts=_facts(tables),
        headline="",
        sentences=[],
        actions=_actions(analysis, claimed),
        time_ns=int((tables.ledger.to_ns - tables.ledger.from_ns).sum()),
        avoidable_ns=sum(f.cost_ns or 0 for f in analysis.findings if claims.counts(f)),
        time_spent=spent,
        notes=_notes(tables),
    )
    {"incident": _tell_incident, "clean": _tell_clean, "empty": _tell_empty}[result.state](
        result, analysis
    )
    return result


def _state(analysis: Analysis) -> State:
    if any(finding.severity != "info" for finding in analysis.findings):
        return "incident"
    return "clean" if analysis.tables.exchanges else "empty"


def _capture_name(tables: Tables) -> str:
    if len(tables.files) == 1:
        return tables.files[0].name
    return wording.count(len(tables.files), "file")


def _facts(tables: Tables) -> list[str]:
    packets = len(tables.packets)
    facts = []
    if packets:
        length = wording.duration(tables.duration_ns)
        facts.append(f"{length} from {labels.date(tables.epoch_ns)}")
    facts.append(
        f"{wording.count(packets, 'packet')}, "
        f"{wording.count(len(tables.connections), 'connection')}, "
        f"{wording.count(len(tables.exchanges), 'exchange')}"
    )
    if tables.connections:
        facts += [labels.vantage(tables), labels.decryption(tables)]
    facts.append(f"redaction: {tables.redaction.level}")
    return facts


def _time_spent(tables: Tables, claimed: NDArray[np.int32]) -> list[TimeShare]:
    ledger = tables.ledger
    lengths = ledger.to_ns - ledger.from_ns
    shares = []
    for avoidable in (True, False):
        which = (claimed != claims.NOBODY) == avoidable
        sums = np.zeros(len(CAUSE_NAMES), np.int64)
        np.add.at(sums, ledger.cause[which], lengths[which])  # bincount would add as floats
        order = sorted(np.flatnonzero(sums).tolist(), key=lambda code: (-int(sums[code]), code))
        for code in order:
            name = CAUSE_NAMES[code]
            shares.append(
                TimeShare(name, causes.title(name, lost=avoidable), avoidable, int(sums[code]))
            )
    return shares


def _actions(analysis: Analysis, claimed: NDArray[np.int32]) -> list[Action]:
    cause_of = _cause_of_findings(analysis, claimed)
    actions = []
    for finding in analysis.findings:
        if finding.severity == "info" or finding.counted_in is not None or not finding.action:
            continue
        saving = finding.estimated_saving_ns
        if saving is None:
            saving = finding.cost_ns
        actions.append(
            Action(
                text=finding.action,
                note=exchanges_of(finding),
                saving_ns=saving or None,
                finding_no=finding.finding_no,
                cause=cause_of.get(finding.finding_no),
            )
        )
    actions.sort(key=lambda action: (-(action.saving_ns or 0), action.finding_no))
    return actions[:MAX_ACTIONS]


def _cause_of_findings(analysis: Analysis, claimed: NDArray[np.int32]) -> dict[int, str]:
    """The cause on which a finding claims most time."""
    ledger = analysis.tables.ledger
    rows = np.flatnonzero(claimed != claims.NOBODY)
    pairs = claimed[rows].astype(np.int64) * len(CAUSE_NAMES) + ledger.cause[rows]
    keys, inverse = np.unique(pairs, return_inverse=True)
    sums = np.zeros(len(keys), np.int64)
    np.add.at(sums, inverse, (ledger.to_ns - ledger.from_ns)[rows])
    best: dict[int, tuple[int, str]] = {}
    for key, ns in zip(keys.tolist(), sums.tolist(), strict=True):
        finding_no, code = divmod(key, len(CAUSE_NAMES))
        if ns > best.get(finding_no, (-1, ""))[0]:
            best[finding_no] = (ns, CAUSE_NAMES[code])
    return {finding_no: cause for finding_no, (_, cause) in best.items()}


def exchanges_of(finding: Finding) -> str:
    """Which exchanges a finding is about, in a few words; "" where it names none."""
    nos = finding.exchange_nos
    if not nos:
        if finding.connection_no is not None:
            return f"connection {finding.connection_no}"
        return ""
    noun = "exchange" if len(nos) == 1 else "exchanges"
    return f"{noun} {labels.numbers(nos)}"


def _notes(tables: Tables) -> list[str]:
    notes = [
        f"{file.name} ends in the middle of a packet. All {file.packet_count:,} whole packets "
        "before the cut were kept."
        for file in tables.files
        if file.cut
    ]
    details: Counter[str] = Counter()
    for anomaly in tables.anomalies:
        asked_for = anomaly.code == "selection"
        if not asked_for and (anomaly.origin != "capture" or anomaly.connection_no is not None):
            continue  # listed at the end of the report
        if not (notes and anomaly.code == "cut-in-packet"):
            details[anomaly.detail] += anomaly.count
    for detail, count in details.items():  # in the order of the table
        times = f" ({count:,} times)" if count > 1 else ""
        notes.append(f"{remarks.upper_first(detail).rstrip('.')}{times}.")
    if len(notes) > MAX_NOTES:
        more = len(notes) - MAX_NOTES + 1
        notes[MAX_NOTES - 1 :] = [f"{more} more kinds of damage are listed at the end."]
    return notes


def _tell_incident(told: Verdict, analysis: Analysis) -> None:
    counted = [f for f in analysis.findings if f.severity != "info" and f.counted_in is None]
    counted.sort(key=lambda finding: (-(finding.cost_ns or 0), finding.finding_no))
    if told.avoidable_ns:
        avoidable, total = remarks.amounts(told.avoidable_ns, told.time_ns)
        told.headline = f"{avoidable} of the {total} spent in requests was avoidable"
        if told.no_keys and _rests_on_inference(counted, analysis):
            told.headline += ", and it can be shown without keys"
        lost = [share for share in told.time_spent if share.avoidable]
        if lost:
            several = len(lost) > 1
            culprit = _culprit(lost[0], analysis)
            told.headline += f". The largest part: {culprit}." if several else f": {culprit}."
        else:
            told.headline += "."
    else:
        first = min(counted, key=lambda finding: finding.finding_no, default=None)
        told.headline = remarks.sentence((first or analysis.findings[0]).summary)
        counted = [finding for finding in counted if finding is not first]
    closing = [
        *remarks.on_unknown(analysis.tables),
        *network.sentences(analysis.tables),
        *remarks.on_keys(analysis.tables),
    ]
    closing = closing[: MAX_SENTENCES - 1] if counted else closing[:MAX_SENTENCES]
    room = MAX_SENTENCES - len(closing)
    told.sentences = [remarks.sentence(finding.summary) for finding in counted[:room]]
    rest = counted[room:]
    if rest:
        cost = sum(finding.cost_ns or 0 for finding in rest)
        number = remarks.upper_first(wording.count_word(len(rest)))
        amount = remarks.amounts(cost, told.time_ns)[0] if cost else "no measurable time"
        told.sentences[-1] += f" {number} more finding{'s' if len(rest) > 1 else ''} cost {amount}."
    told.sentences += closing


def _culprit(share: TimeShare, analysis: Analysis) -> str:
    """Who or what took an avoidable share, in the words of its main claimant or its cause."""
    ledger = analysis.tables.ledger
    most, detector = 0, ""
    for finding in filter(claims.counts, analysis.findings):
        rows = np.array(finding.ledger_rows, np.int64)
        rows = rows[ledger.cause[rows] == CAUSE_CODE[share.cause]]
        ns = int((ledger.to_ns[rows] - ledger.from_ns[rows]).sum())
        if ns > most:
            most, detector = ns, finding.detector
    by_cause = causes.CULPRITS.get(share.cause, share.title)
    return causes.CULPRITS_OF_DETECTORS.get(detector, by_cause)


def _rests_on_inference(findings: list[Finding], analysis: Analysis) -> bool:
    """Whether one of them is about an exchange that could not be read."""
    inferred = analysis.tables.exchanges.columns.inferred
    return any(inferred[number] for f in findings for number in f.exchange_nos)


def _tell_clean(told: Verdict, analysis: Analysis) -> None:
    tables = analysis.tables
    notable = [*remarks.notable_time(tables), *remarks.failures(tables)]
    if notable:
        told.headline = f"No detector found a fault, but {notable[0]}."
        notable = [remarks.sentence(remarks.upper_first(text)) for text in notable[1:]]
    elif told.no_keys:
        told.headline = "Nothing that can be seen without keys explains a slow request."
    else:
        told.headline = "Nothing in this capture explains a slow request."
    told.sentences = [
        *notable,
        *remarks.on_slowest(tables),
        *([] if "is not known" in told.headline else remarks.on_unknown(tables)),
        *network.sentences(tables),
        *remarks.on_keys(tables),
    ]
    if told.headline.startswith("Nothing"):
        told.sentences = [*told.sentences[: MAX_SENTENCES - 1], remarks.elsewhere(tables)]
    told.sentences = told.sentences[:MAX_SENTENCES]


def _tell_empty(told: Verdict, analysis: Analysis) -> None:
    tables = analysis.tables
    packets = len(tables.packets)
    told.command = "tcpdump -i any -s 0 -w trouble.pcap 'tcp or udp port 53'"
    if not packets:
        told.headline = "The capture holds no packets."
        told.sentences = ["There is nothing in it that could be judged."]
        return
    told.headline = "The capture holds no request."
    protocols = Counter(tables.packets.protocol.tolist()).most_common()
    names = {0: "not IP, TCP or UDP", 1: "ICMP", 6: "TCP", 17: "UDP", 58: "ICMPv6"}
    parts = [f"{count:,} {names.get(code, f'IP protocol {code}')}" for code, count in protocols]
    told.sentences = [f"It holds {wording.count(packets, 'packet')}: {remarks.listed(parts[:4])}."]
    failures = remarks.failures(tables)
    if failures:
        told.headline = f"The capture holds no request: {failures[0]}."
        told.sentences += [remarks.sentence(remarks.upper_first(text)) for text in failures[1:2]]
    elif tables.connections:
        number = wording.count(len(tables.connections), "TCP connection")
        told.sentences.append(f"{number} carried no request that could be told from its answer.")
    if tables.lookups and not tables.connections:
        number = wording.count(len(tables.lookups), "name lookup")
        told.sentences.append(f"It holds {number}, but no connection that used one.")
    told.sentences.append(
        "Was the capture made on the host with the trouble, on the right interface, while a slow "
        "request ran?"
    )
