"""Containers of packets: from files to a Capture.

===========  =======================================================================
source       a name to one buffer: mapped, or decompressed and spooled
compression  taking gzip, zstd or lz4 off a stream
spool        bytes that can't be mapped, put where they can be
walk         the beginnings of all records of a container
pcap         an index over the packets of a pcap buffer
pcapng       likewise for pcapng
===========  =======================================================================
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from capture_analyzer.errors import UnsupportedFormatError
from capture_analyzer.model.capture import Capture
from capture_analyzer.model.progress import Progress, silent
from capture_analyzer.readers.pcap import is_pcap, read_pcap
from capture_analyzer.readers.pcapng import is_pcapng, read_pcapng
from capture_analyzer.readers.source import open_source

__all__ = ["open_capture"]

_OTHERS: Final = (
    (b"\x02\x21\x4c\x18", "it is compressed with lz4 in its old format: unpack it first"),
    (b"BZh", "it is compressed with bzip2, which can't be read: unpack it first"),
    (b"\xfd7zXZ\x00", "it is compressed with xz, which can't be read: unpack it first"),
    (b"PK\x03\x04", "it is a zip archive: unpack it first"),
    (b"\x1f\x8b", "it is compressed twice: unpack it first"),
    (b"\x28\xb5\x2f\xfd", "it is compressed twice: unpack it first"),
    (b"\x04\x22\x4d\x18", "it is compressed twice: unpack it first"),
    (b"snoop\x00", "it is a snoop capture, which can't be read: convert it with editcap"),
    (b"GMBU", "it is a Network Monitor capture, which can't be read: convert it with editcap"),
    (b"TRSNIFF", "it is a Sniffer capture, which can't be read: convert it with editcap"),
    (b"\xa1\xb2\xcd\x34", "it is a pcap file of a patched kind: convert it with editcap"),
    (b"\x34\xcd\xb2\xa1", "it is a pcap file of a patched kind: convert it with editcap"),
)
"""First bytes of what people hand in instead, and what to say."""


def open_capture(path: Path, *, progress: Progress = silent) -> Capture:
    """Open a capture file and index its packets.

    The file stays mapped as long as the result (or anything made from its buffers) lives.

    Args:
        path: a pcap or pcapng file, plain or compressed with gzip, zstd or lz4.
        progress: told how much has been decompressed and read.

    Raises:
        UnsupportedFormatError: the file is empty or no capture of a supported format.
        CaptureReadError: it can't be opened or read.
    """
    source = open_source(Path(path), progress=progress)
    start = bytes(source.buffer[:12])
    if is_pcap(start):
        return read_pcap(source, progress=progress)
    if is_pcapng(start):
        return read_pcapng(source, progress=progress)
    for magic, reason in _OTHERS:
        if start.startswith(magic):
            raise UnsupportedFormatError(path, reason)
    raise UnsupportedFormatError(path, "this is not a capture file (pcap or pcapng)")
