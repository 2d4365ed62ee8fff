"""What TCP senders knew and what limited them; worked out when somebody asks for it.

==========  ==========================================================================
view        the packets of a batch as their senders saw them
windows     in flight, offered window, congestion window at each segment
time_line   what limited each sender, from its first segment to its last
stalls      silences of connections, and their causes
==========  ==========================================================================

These modules are imported when a table is asked for: most runs ask for none.
"""

from __future__ import annotations

import functools

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.packets import Packets
from capture_analyzer.model.sender_limits import SenderLimits
from capture_analyzer.model.stalls import Stalls
from capture_analyzer.model.windows import Windows
from capture_analyzer.pipeline.tcp.facts import TcpFacts


def sender_tables(packets: Packets, tcp: TcpFacts) -> tuple[Windows, SenderLimits, Stalls]:
    """The tables of senders, empty until they are completed.

    Args:
        packets: with labels and mechanisms.
        tcp: all other facts.
    """
    return (
        Windows(functools.partial(_windows, packets=packets, tcp=tcp)),
        SenderLimits(functools.partial(_limits, packets=packets, tcp=tcp)),
        Stalls(functools.partial(_stalls, packets=packets, tcp=tcp)),
    )


def _windows(
    table: Windows, numbers: NDArray[np.int64] | None, *, packets: Packets, tcp: TcpFacts
) -> None:
    from capture_analyzer.pipeline.tcp.senders.windows import add_windows

    add_windows(table, packets, tcp.path, numbers)


def _limits(
    table: SenderLimits, numbers: NDArray[np.int64] | None, *, packets: Packets, tcp: TcpFacts
) -> None:
    from capture_analyzer.pipeline.tcp.senders.time_line import add_sender_limits

    add_sender_limits(table, packets, tcp.path, tcp.holes, tcp.limits, numbers)


def _stalls(
    table: Stalls, numbers: NDArray[np.int64] | None, *, packets: Packets, tcp: TcpFacts
) -> None:
    from capture_analyzer.pipeline.tcp.senders.stalls import add_stalls

    add_stalls(table, packets, tcp.path, tcp.holes, tcp.limits, numbers)
