"""Events of streamed answers, out of their exchanges: table `events`."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Final

import numpy as np

from capture_analyzer.model.events import EVENT_KIND_CODE, Events
from capture_analyzer.model.exchanges import Exchange
from capture_analyzer.model.messages import MessageEvent

MIN_GAPS: Final = 4
"""With fewer gaps their median says little of what is usual."""

AT_ONCE_NS: Final = 1_000_000
"""Events that become usable closer than this came in one write, or waited for the same thing."""


def collect_events(exchanges: Sequence[Exchange]) -> Events:
    """The events of all exchanges, by exchange, then stream offset.

    Writes the usual pace of each stream into its facts.

    Args:
        exchanges: ordered by exchange_no, which is the index.
    """
    for exchange in exchanges:
        if exchange.stream is not None:
            exchange.stream.cadence_ns = _cadence(exchange.stream.events)
    rows = [
        (
            exchange.exchange_no,
            event.seen_ns,
            event.in_order_ns,
            event.usable_ns,
            EVENT_KIND_CODE[event.kind],
            event.size_bytes,
            event.generated_chars,
            event.output_tokens,
            event.packet_no,
            event.offset,
            event.end_offset,
        )
        for exchange in exchanges
        if exchange.stream is not None
        for event in exchange.stream.events
    ]
    if not rows:
        return Events()
    columns = np.array(rows, np.int64).T
    return Events(
        exchange_no=columns[0].astype(np.int32),
        seen_ns=columns[1],
        in_order_ns=columns[2],
        time_ns=columns[3],
        kind=columns[4].astype(np.uint8),
        size_bytes=columns[5].astype(np.int32),
        generated_chars=columns[6].astype(np.int32),
        output_tokens=columns[7].astype(np.int32),
        packet_no=columns[8].astype(np.int32),
        offset=columns[9],
        end_offset=columns[10],
    )


def _cadence(events: Sequence[MessageEvent]) -> int | None:
    """Median gap between the instants at which generated content became usable.

    Content that comes at once counts as one: a stream that is let go four times a second has
    a pace of 250 ms, however many events each time has.
    """
    times = [event.usable_ns for event in events if event.kind == "content"]
    gaps = sorted(
        later - earlier
        for earlier, later in itertools.pairwise(times)
        if later - earlier >= AT_ONCE_NS
    )
    return gaps[(len(gaps) - 1) // 2] if len(gaps) >= MIN_GAPS else None
