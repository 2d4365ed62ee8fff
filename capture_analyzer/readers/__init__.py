"""Containers of packets: from files to a Capture.

===========  =======================================================================
source       a name to one buffer: mapped, or decompressed and spooled
compression  taking gzip, zstd or lz4 off a stream
spool        bytes that can't be mapped, put where they can be
inputs       files, patterns and folders to files to open
merge        captures of several files to one
repeats      packets that several files hold
walk         the beginnings of all records of a container
pcap         an index over the packets of a pcap buffer
pcapng       likewise for pcapng
===========  =======================================================================
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from capture_analyzer.errors import UnsupportedFormatError
from capture_analyzer.model.anomalies import Anomaly
from capture_analyzer.model.capture import Capture
from capture_analyzer.model.progress import Progress, silent
from capture_analyzer.model.room import IN_MEMORY, Room
from capture_analyzer.readers.inputs import allow_open_files, find_inputs
from capture_analyzer.readers.pcap import is_pcap, read_pcap
from capture_analyzer.readers.source import open_source
from capture_analyzer.readers.spool import DEFAULT_LIMIT_BYTES, Spool

__all__ = ["open_capture", "open_captures"]

_NAMED: Final = 5  # files that a message names

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
)
"""First bytes of what people hand in instead, and what to say."""


def open_captures(
    names: Sequence[str | Path],
    *,
    max_spool: int = DEFAULT_LIMIT_BYTES,
    room: Room = IN_MEMORY,
    progress: Progress = silent,
) -> Capture:
    """Open captures and merge them in time order.

    Args:
        names: files, folders of files, patterns, or "-" for standard input.
        max_spool: most bytes that may be put on disk of what can't be mapped.
        room: where columns lie; it is told how many packets there are.
        progress: told how much has been received, decompressed and read.

    Raises:
        UnsupportedFormatError: a named file is no capture of a supported format, or nothing
            that was found is one.
        CaptureReadError: something can't be opened or read.
        OptionError: standard input is named twice, or there are too many files or interfaces.
    """
    inputs, repeated = find_inputs(names)
    if len(inputs) > 1:
        allow_open_files(len(inputs))
    spool = Spool(max_spool)
    captures: list[Capture] = []
    skipped: list[str] = []
    last: UnsupportedFormatError | None = None
    count = moved = 0
    for entry in inputs:
        try:
            captures.append(open_capture(entry.path, spool=spool, progress=progress))
            count += len(captures[-1])
            if room.expect(count):
                for capture in captures[moved:]:
                    capture.move(room)
                moved = len(captures)
        except UnsupportedFormatError as error:
            if len(inputs) == 1 or (entry.named and not error.empty):
                raise
            last = error
            skipped.append(f"{entry.path.name} ({error.reason})")
    if not captures:
        assert last is not None
        if len(inputs) == 1 or inputs[0].named:
            raise last
        raise UnsupportedFormatError(names[0], "there is no capture among these files")
    if len(captures) == 1:
        merged = captures[0]
    else:
        from capture_analyzer.readers.merge import merge

        merged = merge(captures, room)
    if skipped:
        detail = "files that are no captures are left out: " + _some(skipped)
        merged.anomalies.append(Anomaly("file-skipped", "capture", detail))
    if repeated:
        detail = "files that were named more than once are read once: "
        detail += _some([path.name for path in repeated])
        merged.anomalies.append(Anomaly("file-repeated", "capture", detail))
    return merged


def _some(names: list[str]) -> str:
    """The first of some names, and how many more there are."""
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more:,} more" if more > 0 else "")


def open_capture(path: Path, *, spool: Spool | None = None, progress: Progress = silent) -> Capture:
    """Open a capture file and index its packets.

    The file stays mapped as long as the result (or anything made from its buffers) lives.

    Args:
        path: a pcap or pcapng file, plain or compressed with gzip, zstd or lz4; a pipe; or "-".
        spool: where its bytes go if they can't be mapped.
        progress: told how much has been decompressed and read.

    Raises:
        UnsupportedFormatError: the file is empty or no capture of a supported format.
        CaptureReadError: it can't be opened or read.
    """
    source = open_source(Path(path), spool=spool, progress=progress)
    start = bytes(source.buffer[:12])
    if is_pcap(start):
        return read_pcap(source, progress=progress)
    from capture_analyzer.readers.pcapng import is_pcapng, read_pcapng  # mostly it is the other

    if is_pcapng(start):
        return read_pcapng(source, progress=progress)
    for magic, reason in _OTHERS:
        if start.startswith(magic):
            raise UnsupportedFormatError(path, reason)
    raise UnsupportedFormatError(path, "this is not a capture file (pcap or pcapng)")
