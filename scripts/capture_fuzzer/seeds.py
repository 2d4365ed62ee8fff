"""Captures to begin with."""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Sequence
from pathlib import Path

from capture_analyzer.errors import CaptureAnalyzerError
from capture_analyzer.model.column import NO_TIME
from capture_analyzer.pipeline.scan import scan
from capture_analyzer.readers import open_capture
from capture_fuzzer.plain import decrypted

MAX_FILE_BYTES = 200_000
MAX_PACKETS = 150  # a longer capture is cut: the analysis of a case should take milliseconds


@dataclasses.dataclass
class Frame:
    """A packet of a seed.

    Attributes:
        time_ns: since the first one.
        data: its bytes.
        original: its length on the wire.
        payload: where its transport payload begins and ends in `data`; empty without one.
        transport: where its TCP header begins in `data`; 0 without one.
    """

    time_ns: int
    data: bytes
    original: int
    payload: range
    transport: int = 0


@dataclasses.dataclass
class Seed:
    """A capture.

    Attributes:
        name: of the file.
        raw: its bytes.
        link_type: of its first interface.
        frames: its first packets.
        keys: its key log; empty without one.
    """

    name: str
    raw: bytes
    link_type: int
    frames: list[Frame]
    keys: bytes


def load(folders: Sequence[Path]) -> list[Seed]:
    """The captures in some folders that are small enough, in order of their names."""
    found = []
    for folder in folders:
        paths = (
            [path for path in folder.rglob("*") if path.is_file()] if folder.is_dir() else [folder]
        )
        for path in sorted(paths):
            if path.suffix in {".json", ".md", ".keys", ".log", ".tsv", ".conf", ".jsonl", ".txt"}:
                continue
            if 0 < path.stat().st_size <= MAX_FILE_BYTES:
                seed = _seed(path)
                if seed is not None:
                    found.append(seed)
                    if seed.keys:
                        found += _in_clear(path, seed)
    return found


def _seed(path: Path) -> Seed | None:
    try:
        capture = open_capture(path)
    except CaptureAnalyzerError:
        return Seed(path.name, path.read_bytes(), 1, [], b"")
    packets, _ = scan(capture)
    frames = []
    for i in range(min(len(capture), MAX_PACKETS)):
        at, size = int(capture.data_offset[i]), int(capture.captured_bytes[i])
        begin = int(packets.payload_offset[i]) - at
        end = begin + int(packets.payload_captured[i])
        whole = 0 <= begin < end <= size and packets.buffer_no[i] == capture.file_no[i]
        tcp = int(packets.tcp_header_bytes[i])
        time_ns = int(capture.time_ns[i])
        frames.append(
            Frame(
                0 if time_ns == NO_TIME else time_ns,
                bytes(capture.buffers[int(capture.file_no[i])][at : at + size]),
                int(capture.original_bytes[i]),
                range(begin, end) if whole else range(0),
                begin - tcp if whole and tcp else 0,
            )
        )
    log = _log_of(path)
    keys = log.read_bytes() if log else b""
    link_type = capture.interfaces[0].link_type if capture.interfaces else 1
    return Seed(path.name, path.read_bytes(), link_type, frames, keys)


def _log_of(path: Path) -> Path | None:
    """The key log beside a capture."""
    beside = (path.with_suffix(".keys"), path.with_name("keys.log"))
    return next((one for one in beside if one.exists()), None)


def _in_clear(path: Path, seed: Seed) -> list[Seed]:
    """What a keyed capture holds, once more without TLS; nothing if the keys open nothing."""
    log = _log_of(path)
    rows = decrypted(path, log)[:MAX_PACKETS] if log else []
    if not rows:
        return []
    begin = rows[0][0]
    frames = [
        Frame(when - begin, data, len(data), range(len(data) - size, len(data)), 34)
        for when, data, size in rows
    ]
    head = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262_144, 1)
    raw = head + b"".join(
        struct.pack("<IIII", *divmod(frame.time_ns // 1000, 1_000_000), *2 * (len(frame.data),))
        + frame.data
        for frame in frames
    )
    return [Seed(seed.name + " in clear", raw, 1, frames, b"")]
