"""Containers of packets: from files to a Capture.

=========  =======================================================================
source     a path to one buffer: mapped, or decompressed and mapped
pcap       an index over the packets of a pcap buffer
pcapng     likewise for pcapng
=========  =======================================================================
"""

from __future__ import annotations

from pathlib import Path

from capture_analyzer.errors import UnsupportedFormatError
from capture_analyzer.model.capture import Capture
from capture_analyzer.model.progress import Progress, silent
from capture_analyzer.readers.pcap import is_pcap, read_pcap
from capture_analyzer.readers.source import open_source

__all__ = ["open_capture"]


def open_capture(path: Path, *, progress: Progress = silent) -> Capture:
    """Open a capture file and index its packets.

    The file stays mapped as long as the result (or anything made from its buffers) lives.

    Args:
        path: a pcap file.
        progress: told how much has been read.

    Raises:
        UnsupportedFormatError: the file is empty or no capture of a supported format.
        CaptureReadError: it can't be opened or read.
    """
    source = open_source(Path(path), progress=progress)
    start = bytes(source.buffer[:4])
    if is_pcap(start):
        return read_pcap(source)
    raise UnsupportedFormatError(path, "not a capture file (pcap or pcapng)")
