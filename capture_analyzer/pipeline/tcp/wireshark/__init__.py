"""What Wireshark 4.0 says of each TCP packet, by its own rules: ``tcp.analysis.*``.

Wireshark judges a packet by what its connection's packets before it said, and by fixed times.
Where that goes wrong our own labels differ on purpose; this shows what it says, so that the two
can be compared. Not told apart: MPTCP, packets inside ICMP errors, and acknowledgement
numbers of packets without the ACK flag (taken as 0).

==============  ======================================================================
flags           the flags as bits, and the times in the rules
layout          running states of whole batches, and which connections upset them
undisturbed     the rules as whole-array operations, where nothing does
walk            the rules packet by packet, where something does
labelling       all packets; what is called
==============  ======================================================================
"""

from __future__ import annotations

from capture_analyzer.model.packets import Packets

__all__ = ["add_labels"]


def add_labels(packets: Packets, epoch_ns: int = 0) -> None:
    """Fill in ``wireshark_label`` and ``wireshark_labels``.

    Args:
        packets: with `connection_no` and `from_client`.
        epoch_ns: absolute time of the first packet.
    """
    from capture_analyzer.pipeline.tcp.wireshark import labelling  # few results show them

    labelling.add_labels(packets, epoch_ns)
