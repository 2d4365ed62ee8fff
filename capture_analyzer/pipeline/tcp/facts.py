"""What TCP analysis hands on."""

from __future__ import annotations

import dataclasses
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.anomalies import Anomaly
from capture_analyzer.model.connections import Connection
from capture_analyzer.model.holes import Holes
from capture_analyzer.model.limits import Limits, Queues
from capture_analyzer.model.quick_dataclass import quick_dataclass
from capture_analyzer.pipeline.tcp.limits import Path
from capture_analyzer.pipeline.tcp.round_trips import RoundTrips


@quick_dataclass
class TcpFacts:
    """The facts of all connections.

    Attributes:
        connections: one a connection, by number.
        holes: what receivers had to wait for.
        round_trips: new minima of round-trip samples of either side.
        anomalies: what the analysis had to set aside.
        limits: what held senders back.
        queues: where round trips grew under load.
        path: what is known of all streams: stream 2c is the client's, 2c + 1 the server's.
    """

    connections: list[Connection]
    holes: Holes
    round_trips: RoundTrips
    anomalies: list[Anomaly]
    path: Path
    limits: Limits = dataclasses.field(default_factory=Limits)
    queues: Queues = dataclasses.field(default_factory=Queues)

    def min_rtt_before(
        self,
        connection_nos: NDArray[np.int64],
        times: NDArray[np.int64],
        side: Literal["client", "server"] = "server",
    ) -> NDArray[np.int64]:
        """Smallest round trip known at each instant between the capture point and a side.

        Args:
            connection_nos: connections.
            times: instants, one for each connection number, in ns.
            side: "server": the part of the round trip beyond the capture point as seen
                from the client; "client": the other part.

        Returns:
            Durations in ns; NO_TIME where there was no sample yet.
        """
        connections = np.asarray(connection_nos, np.int64)
        return self.round_trips.side(side).before(connections, np.asarray(times, np.int64))
