"""The pcapng container (draft-ietf-opsawg-pcapng): an index over its packets.

=========  =======================================================================
blocks     how blocks follow each other, and their options
clock      time stamps
section    what the blocks of a section say: interfaces, statistics, secrets, packets
reader     all sections of a file -> Capture
=========  =======================================================================
"""

from __future__ import annotations

from capture_analyzer.readers.pcapng.reader import is_pcapng, read_pcapng

__all__ = ["is_pcapng", "read_pcapng"]
