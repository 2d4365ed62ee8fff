"""Single sentences of the verdict, each about one thing, and the figures in them.

Each function gives no sentence where there is nothing to say.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

import numpy as np

from capture_analyzer import wording
from capture_analyzer.model.analysis import Tables
from capture_analyzer.model.causes import CAUSE_CODE, CAUSE_NAMES
from capture_analyzer.model.exchanges import Exchange
from capture_analyzer.report import causes, labels

NOTABLE_NS: Final = 50_000_000  # time on a fault that a reader would want to hear of,
NOTABLE_SHARE: Final = 0.1  # if it is so much of the time spent in requests

_FAULTS: Final = ("dns", "hello_retry", "ocsp_fetch")  # and everything on path and limits


def no_keys(tables: Tables) -> bool:
    """Whether there is TLS and none of it could be read."""
    states = [connection.tls for connection in tables.connections if connection.tls is not None]
    return bool(states) and all(state.decrypted == "no" for state in states)


def notable_time(tables: Tables) -> list[str]:
    """A clause on the largest sum of time that is not ordinary, though no finding claims it."""
    sums = _sums(tables)
    total = sum(sums.values())
    suspects = [
        (ns, -CAUSE_CODE[name], name)
        for name, ns in sums.items()
        if name in _FAULTS or causes.GROUPS[name] in ("path", "limit")
    ]
    ns, _, name = max(suspects, default=(0, 0, ""))
    if ns >= NOTABLE_NS and ns >= NOTABLE_SHARE * total:
        part, whole = amounts(ns, total)
        return [f"{part} of the {whole} spent in requests went {causes.SPENT[name]}"]
    unknown = sums["unknown"] + sums["capture_gap"]
    if 3 * unknown >= total > 0 and unknown >= NOTABLE_NS:
        part, whole = amounts(unknown, total)
        return [f"{part} of the {whole} spent in requests is not known"]
    return []


def failures(tables: Tables) -> list[str]:
    """Clauses on what did not work, whether or not a detector judges it."""
    refused = sum(connection.refused for connection in tables.connections)
    columns = tables.exchanges.columns
    reset = int(columns.reset.sum())
    errors = int((columns.status >= 500).sum())
    alerts = [c.tls.alert for c in tables.connections if c.tls is not None and c.tls.alert]
    unanswered = sum(
        c.syn_ns is not None and c.syn_ack_ns is None and not c.refused for c in tables.connections
    )
    told = []
    if refused:
        told.append(f"{wording.count(refused, 'connection')} {_were(refused)} refused")
    if unanswered:
        told.append(f"{wording.count(unanswered, 'connection request')} had no answer")
    if alerts:
        told.append(
            f"{wording.count(len(alerts), 'TLS connection')} failed with an alert ({alerts[0]})"
        )
    if reset:
        told.append(f"{wording.count(reset, 'exchange')} {_were(reset)} ended by a reset")
    if errors:
        told.append(f"{wording.count(errors, 'answer')} had a status of 500 or above")
    return told


def on_slowest(tables: Tables) -> list[str]:
    """Which exchange took longest, and on what."""
    if not len(tables.exchanges):
        return []
    columns = tables.exchanges.columns
    slowest = tables.exchanges[int((columns.until_ns - columns.start_ns).argmax())]
    name = labels.exchange(slowest, tables.connections[slowest.connection_no])
    length = _length(slowest)
    text = f"The slowest exchange, {slowest.exchange_no} ({name}), took {wording.duration(length)}"
    rows = tables.ledger.rows_of(slowest.exchange_no)
    durations = tables.ledger.to_ns[rows] - tables.ledger.from_ns[rows]
    sums: Counter[str] = Counter()
    for code, ns in zip(tables.ledger.cause[rows].tolist(), durations.tolist(), strict=True):
        sums[CAUSE_NAMES[code]] += ns
    if not sums:
        return [f"{text}."]
    cause, ns = max(sums.items(), key=lambda item: (item[1], -CAUSE_CODE[item[0]]))
    text += f", {wording.share(ns, length)} of it {causes.SPENT[cause]}"
    if slowest.ttft_ns is not None:
        text += f"; its first content came after {amounts(slowest.ttft_ns, length)[0]}"
    return [f"{text}."]


def on_unknown(tables: Tables) -> list[str]:
    """How much time is not known, where it is a tenth or more."""
    sums = _sums(tables)
    total = sum(sums.values())
    unknown = sums["unknown"] + sums["capture_gap"]
    if not unknown or 10 * unknown < total:
        return []
    share = wording.share(unknown, total)
    amount, _ = amounts(unknown, total)
    return [f"{amount} ({share} of the time in requests) has no known cause: evidence is missing."]


def on_keys(tables: Tables) -> list[str]:
    """What keys would add, where there were none."""
    if not no_keys(tables):
        return []
    hidden = sum(connection.tls is not None for connection in tables.connections)
    number = wording.count(hidden, "encrypted connection")
    return [f"Keys would add methods, paths and status codes on {number}."]


def elsewhere(tables: Tables) -> str:
    """Where to look if this capture does not hold the trouble."""
    if "at the client" in labels.vantage(tables):
        return (
            "If users saw slowness then, it was inside the client, before its requests were sent "
            "or after the answers had arrived, or in requests that this capture does not hold."
        )
    return (
        "If users saw slowness then, it was before the request reached this host, after the "
        "answer left it, or in requests that this capture does not hold."
    )


def amounts(part: int, whole: int) -> tuple[str, str]:
    """Two durations for one sentence, in the unit of the larger: 0.70 s of 12.6 s."""
    if whole < 999_500_000:
        return wording.duration(part), wording.duration(whole)
    return _seconds(part), _seconds(whole)


def sentence(text: str) -> str:
    """The text with a full stop where it has no end."""
    text = text.strip()
    return text if text.endswith((".", "!", "?")) else text + "."


def upper_first(text: str) -> str:
    """The text as the beginning of a sentence."""
    return text[:1].upper() + text[1:]


def listed(parts: list[str]) -> str:
    """Parts of a sentence: "a, b and c"."""
    if len(parts) < 2:
        return "".join(parts)
    return ", ".join(parts[:-1]) + " and " + parts[-1]


def _seconds(ns: int) -> str:
    """About three figures in seconds; below 10 ms the unit changes rather than the truth."""
    return wording.duration(ns) if ns < 9_950_000 else wording.seconds(ns)


def _sums(tables: Tables) -> Counter[str]:
    """Time in requests by cause."""
    ledger = tables.ledger
    sums = np.zeros(len(CAUSE_NAMES), np.int64)
    np.add.at(sums, ledger.cause, ledger.to_ns - ledger.from_ns)  # bincount would add as floats
    return Counter(dict(zip(CAUSE_NAMES, sums.tolist(), strict=True)))


def _length(row: Exchange) -> int:
    return (row.last_ns if row.end_ns is None else row.end_ns) - row.start_ns


def _were(number: int) -> str:
    return "was" if number == 1 else "were"
