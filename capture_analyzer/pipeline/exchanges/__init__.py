"""Messages and encrypted flights → exchanges.

`http1` and `http2` pair requests with responses; `flights` and `opaque` infer exchanges where
nothing can be read: TLS without keys, other protocols, what follows an Upgrade or CONNECT.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from capture_analyzer.model.column import NO_TIME
from capture_analyzer.model.connections import Connection
from capture_analyzer.model.exchanges import Exchanges
from capture_analyzer.model.messages import Message
from capture_analyzer.model.packets import Packets
from capture_analyzer.model.tls_records import TlsRecords
from capture_analyzer.pipeline.exchanges.cadence import add_streams
from capture_analyzer.pipeline.exchanges.flights import find_flights
from capture_analyzer.pipeline.exchanges.http1 import find_http1
from capture_analyzer.pipeline.exchanges.http2 import find_http2
from capture_analyzer.pipeline.exchanges.opaque import (
    opaque_exchanges,
    record_units,
    segment_units,
)
from capture_analyzer.pipeline.exchanges.units import Speech
from capture_analyzer.pipeline.reassemble import Streams

__all__ = ["find_exchanges"]


def find_exchanges(
    streams: Streams,
    packets: Packets,
    connections: Sequence[Connection],
    messages: Sequence[Message],
    tls_records: TlsRecords,
) -> Exchanges:
    """The exchanges of all connections.

    Args:
        streams: the bytes of all connections.
        packets: all packets.
        connections: by number; what they speak is known.
        messages: HTTP messages that could be read.
        tls_records: records whose content could not be read.

    Returns:
        Exchanges without numbers, set-up and phases, which `join` and `timeline` add.
    """

    def server_fin_ns(connection_no: int) -> int | None:
        fin_ns = int(streams.fin_ns[2 * connection_no + 1])
        return None if fin_ns == NO_TIME else fin_ns

    rows, tunnels = find_http1(messages, connections, server_fin_ns)
    rows += find_http2(messages, connections)
    http = Exchanges.of(rows, connections)
    speech = Speech.of(connections)
    read = np.zeros(len(connections), np.bool_)
    read[http.columns.connection_no] = True
    decrypted = {message.connection_no for message in messages if message.tunnelled}
    for tunnel in tunnels:
        tls = connections[tunnel.connection_no].tls
        if (tls is None or tls.tunnelled) and tunnel.connection_no not in decrypted:
            read[tunnel.connection_no] = False
    units = record_units(tls_records, speech, read)
    flights = find_flights(units)
    encrypted = opaque_exchanges(flights, packets.time_ns, connections, server_fin_ns, records=True)
    add_streams(encrypted, flights)
    has_records = np.zeros(len(connections), np.bool_)
    has_records[tls_records.connection_no] = True
    units = segment_units(streams, connections, tunnels, has_records, speech, read)
    others = opaque_exchanges(
        find_flights(units), packets.time_ns, connections, server_fin_ns, records=False
    )
    return Exchanges.joined([http, encrypted, others], connections)
