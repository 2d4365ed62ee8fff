"""Events of streamed answers, out of their exchanges: table `events`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from capture_analyzer.model.events import EVENT_KIND_CODE, Events
from capture_analyzer.model.exchanges import Exchange


def collect_events(exchanges: Sequence[Exchange]) -> Events:
    """The events of all exchanges, by exchange, then stream offset.

    Args:
        exchanges: ordered by exchange_no, which is the index.
    """
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
    )
