"""Scan: from a Capture to the packets table, by whole-array operations.

==========  ======================================================================
scanner     link headers, IP headers, tunnels: the way down
transport   TCP and UDP headers
area        parts of some packets, as they go that way together
addresses   numbers for the distinct addresses
tunnels     which packet was inside of which tunnel
fragments   IP fragments → whole datagrams
tally       counting what could not be decoded, by reason
==========  ======================================================================

Packets are taken in batches that fit in the processor's cache. Each layer is one gather of
a window of bytes a packet, then column arithmetic; packets that a layer can't decode drop
out of the batch there and are counted by reason. What is inside of a tunnel takes the same
way once more. IP fragments are put together behind all batches, and decoded then.
"""

from __future__ import annotations

from capture_analyzer.pipeline.scan.scanner import scan

__all__ = ["scan"]
