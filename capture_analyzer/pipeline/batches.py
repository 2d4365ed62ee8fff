"""Step B: all that the packets of a connection tell by themselves, in batches of whole connections.

A batch is worked on as if it were a capture of its own: its connections are numbered from 0,
while packets keep their numbers and stay where they are, in the packets table. So its
temporaries are those of some hundred thousand packets, whatever the size of the capture, and any
process that sees the packets can work on it. `merge` gives the results their final numbers.

How a capture is cut does not depend on who works on it; so neither does the result.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from capture_analyzer.model.analysis import Redaction
from capture_analyzer.model.capture import Capture
from capture_analyzer.model.exchanges import Exchanges
from capture_analyzer.model.packets import Packets
from capture_analyzer.model.quick_dataclass import quick_dataclass
from capture_analyzer.pipeline.dissect import Dissected, dissect
from capture_analyzer.pipeline.exchanges import find_exchanges
from capture_analyzer.pipeline.flows import Flows
from capture_analyzer.pipeline.reassemble import Streams, reassemble
from capture_analyzer.pipeline.redact import Redactor
from capture_analyzer.pipeline.sessions import Sessions
from capture_analyzer.pipeline.tcp import TcpFacts, analyse

BATCH_PACKETS: Final = 262_144
"""Packets of a batch: so many that what is done once for all of its connections, such as a step
along the records of all streams, costs little for each; so few that temporaries stay small. A
connection with more is a batch of its own, since none is split."""


@quick_dataclass
class Batch:
    """Whole connections, one after the other.

    Attributes:
        first: number of the first of them.
        flows: their packets; they are numbered from 0.
    """

    first: int
    flows: Flows


@quick_dataclass
class Analysed:
    """What was found out about a batch. Connections go by their numbers in it.

    Attributes:
        tcp: facts of TCP.
        streams: the bytes, without the buffers they lie in.
        dissected: what they hold.
        exchanges: without numbers.
        redaction: what was kept back in it.
    """

    tcp: TcpFacts
    streams: Streams
    dissected: Dissected
    exchanges: Exchanges
    redaction: Redaction


def cut(flows: Flows) -> Iterator[Batch]:
    """Batches of at most BATCH_PACKETS packets and of equal size, as far as connections allow.

    Of a capture without connections there is one, which is empty.
    """
    first, count, bounds = 0, len(flows), flows.bounds
    stream_nos = np.arange(count) if flows.stream_nos is None else flows.stream_nos
    if not count:
        yield Batch(0, flows)
    while first < count:
        begin = int(bounds[first])
        left = len(flows.order) - begin
        size = -(-left // -(-left // BATCH_PACKETS))
        stop = max(int(np.searchsorted(bounds, begin + size, "right")) - 1, first + 1)
        packets = slice(begin, int(bounds[stop]))
        yield Batch(
            first,
            Flows(
                order=flows.order[packets],
                bounds=bounds[first : stop + 1] - begin,
                from_low=flows.from_low[packets],
                stream_nos=stream_nos[first:stop],
            ),
        )
        first = stop


def analyse_batch(
    batch: Batch,
    capture: Capture,
    packets: Packets,
    redactor: Redactor,
    sessions: Sessions | None,
) -> Analysed:
    """Find out all that the packets of a batch tell.

    Writes the columns of ``packets`` that belong to TCP, of the batch's packets.

    Args:
        batch: the batch.
        capture: holds the bytes.
        packets: all packets.
        redactor: what captured text passes through.
        sessions: of the key logs; None if none was given.
    """
    redactor = redactor.apart()
    tcp = analyse(packets, batch.flows)
    streams = reassemble(capture, packets, batch.flows, tcp.connections)
    secrets = None if sessions is None else sessions.of(batch.first, len(batch.flows))
    dissected = dissect(streams, tcp.connections, redactor, secrets=secrets)
    exchanges = find_exchanges(
        streams, packets, tcp.connections, dissected.messages, dissected.tls_records
    )
    streams.buffers = ()
    batch.flows.pieces = None  # they are in the streams now
    return Analysed(tcp, streams, dissected, exchanges, redactor.counts)
