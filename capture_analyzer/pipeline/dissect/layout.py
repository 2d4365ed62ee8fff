"""What is in opened records → one plaintext ByteStream a direction.

The AEADs of TLS keep the length and order of what they protect, so byte i of a record's
plaintext lies at byte i of its ciphertext. That is how each plaintext byte knows the packet
it came in and when that was seen; it is usable when its whole record was there in order.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.byte_stream import ByteStream
from capture_analyzer.model.column import NO_TIME
from capture_analyzer.pipeline.dissect.plaintext import WORTH_A_PART, Plain, Run
from capture_analyzer.pipeline.lists import Ints, places, starts_of
from capture_analyzer.protocols.tls.decryption import APPLICATION_DATA
from capture_analyzer.protocols.tls.records import HEADER_BYTES

_MAX_BUFFERS: Final = 1 << 16  # that `ByteStream.buffer_nos` can tell apart


def lay_out(plains: Sequence[Plain]) -> None:
    """Make streams of what is in the records: a chunk for each part that came in one packet.

    Of many directions at once, of which the records are in one `AllRecords`: for one this takes
    as long as to decrypt some dozens of records.
    """
    if not plains:
        return
    everything = plains[0].records.everything
    chunks = everything.chunks
    runs = _table(plains)
    counts = runs[:, 1]
    record = places(runs[:, 0], counts)
    runs_of = np.array([len(plain.runs) for plain in plains], np.int64)
    owner = np.repeat(np.repeat(np.arange(len(plains)), runs_of), counts)
    sizes = itertools.chain.from_iterable(plain.sizes for plain in plains)
    lengths = np.fromiter(sizes, np.int64, len(owner)) - np.repeat(runs[:, 4], counts)
    everything.inner_types[record] = APPLICATION_DATA
    everything.plaintext_bytes[record] = lengths
    # The contents of a run follow each other.
    start = starts_of(lengths)
    run_first = starts_of(counts)
    start += np.repeat(runs[:, 2] - np.append(start, 0)[run_first], counts)
    begin = everything.offset[record] + HEADER_BYTES + np.repeat(runs[:, 3], counts)
    complete_ns = everything.complete_ns[record]
    buffers, buffer_no, in_buffer, alone = _buffers(plains, runs, runs_of, lengths)

    # The chunks that hold each record's ciphertext; a record becomes one row for each.
    chunk_ends = everything.chunk_ends
    first = everything.first_chunk[record].astype(np.int64)
    last = first.copy()
    over = np.flatnonzero(chunk_ends[first] < begin + lengths)
    if len(over):
        keys, rows, span = everything.chunk_keys
        base = rows[first[over]] * span + begin[over]
        first[over] = np.searchsorted(keys, base, "right") - 1
        last[over] = np.searchsorted(keys, base + np.maximum(lengths[over], 1) - 1, "right") - 1
    parts = np.where(lengths > 0, last - first + 1, 0)  # a record of nothing is none
    row = np.repeat(np.arange(len(owner)), parts)
    chunk = places(first, parts)
    part_begin = np.maximum(begin[row], chunks.starts[chunk])
    part_end = np.minimum(begin[row] + lengths[row], chunk_ends[chunk])
    shift = part_begin - begin[row]
    starts, in_order_ns = start[row] + shift, chunks.in_order_ns[chunk]
    packet_nos, seen_ns = chunks.packet_nos[chunk], chunks.seen_ns[chunk]
    usable_ns = np.where(complete_ns[row] == NO_TIME, in_order_ns, complete_ns[row])
    buffer_nos, offsets = buffer_no[row], in_buffer[row] + shift
    part_lengths = part_end - part_begin
    bounds = np.searchsorted(owner[row], np.arange(len(plains) + 1))
    solid = _solid(bounds, starts, part_lengths) & ~alone
    for number, (plain, low, high, is_solid) in enumerate(
        zip(plains, bounds[:-1].tolist(), bounds[1:].tolist(), solid.tolist(), strict=True)
    ):
        mine, cipher = slice(low, high), plain.cipher
        plain.stream = ByteStream(
            cipher.connection_no,
            cipher.from_client,
            starts[mine],
            part_lengths[mine],
            packet_nos[mine],
            seen_ns[mine],
            in_order_ns[mine],
            usable_ns[mine],
            buffer_nos[mine],
            offsets[mine],
            buffers[number],
            plain.end,
            cipher.begins_mid_stream,
            cipher.fin_ns,
            cipher.reset_ns,
            part_begin[mine],
            is_solid,
        )


def _solid(bounds: Ints, starts: Ints, lengths: Ints) -> NDArray[np.bool_]:
    """Which streams lack nothing between their chunks bounds[i] .. bounds[i + 1] - 1."""
    some = bounds[1:] > bounds[:-1]
    first, last = bounds[:-1][some], bounds[1:][some] - 1
    total = np.append(0, np.cumsum(lengths))
    result = np.zeros(len(some), np.bool_)
    result[some] = starts[last] + lengths[last] - starts[first] == total[last + 1] - total[first]
    return result


def _table(plains: Sequence[Plain]) -> Ints:
    """The runs of all directions, one a row."""
    values = itertools.chain.from_iterable(run for plain in plains for run in plain.runs)
    return np.fromiter(values, np.int64).reshape(-1, len(Run._fields))


def _buffers(
    plains: Sequence[Plain], runs: Ints, runs_of: Ints, lengths: Ints
) -> tuple[list[Sequence[bytes]], NDArray[np.uint16], Ints, NDArray[np.bool_]]:
    """Buffers for the contents.

    Args:
        plains: the directions.
        runs: their runs.
        runs_of: how many each has.
        lengths: of the contents.

    Returns:
        The buffers of each direction, which one holds each content, where it begins there;
        and which directions have a buffer for each part.
    """
    counts, together = runs[:, 1], runs[:, 5] != 0
    ends = np.append(0, np.cumsum(lengths))  # of the contents, if all lay in one buffer
    first = starts_of(counts)  # content of each run
    begins = ends[first]  # and where it lies
    run = starts_of(runs_of)  # the first of each direction
    total = np.diff(np.append(begins, ends[-1])[np.append(run, len(runs))])
    records = np.diff(np.append(first, len(lengths))[np.append(run, len(runs))])
    parts = np.array([len(plain.parts) for plain in plains], np.int64)
    alone = (parts <= _MAX_BUFFERS) & (total >= records * WORTH_A_PART) & (records > 0)
    buffers: list[Sequence[bytes]] = [
        plain.parts if is_alone else (b"".join(_contents(plain)),)
        for plain, is_alone in zip(plains, alone.tolist(), strict=True)
    ]
    apart = np.repeat(alone, runs_of)
    part = starts_of(np.where(together, 1, counts)) - np.repeat(starts_of(parts), runs_of)
    base = np.where(apart, begins, np.repeat(np.append(begins, 0)[run], runs_of))
    numbers = np.repeat(np.where(apart, part, 0), counts)
    in_buffer = ends[:-1] - np.repeat(base, counts)
    single = np.repeat(apart & ~together, counts)
    numbers[single] += places(np.zeros_like(counts), counts)[single]
    in_buffer[single] = 0
    return buffers, numbers.astype(np.uint16), in_buffer, alone


def _contents(plain: Plain) -> Iterator[bytes]:
    """What the parts of a direction hold, without the octets of types."""
    parts = iter(plain.parts)
    for run in plain.runs:
        if run.together:
            yield next(parts)
        else:
            for content in itertools.islice(parts, run.records):
                yield content[:-1] if run.typed else content
