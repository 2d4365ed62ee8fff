"""What each packet is for its connection: one of LABELS."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.packets import ACK, FIN, LABELS, RST, SYN
from capture_analyzer.pipeline.tcp.duplicates import made_by_capture
from capture_analyzer.pipeline.tcp.segments import SPAN, Segments

CODE: Final = {name: code for code, name in enumerate(LABELS)}


def find_probes(segments: Segments) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Keep-alives and zero-window probes (RFC 9293, sections 3.8.4 and 3.8.6.1).

    Both send again the last byte (or none, at its place) to provoke an acknowledgement; a
    window probe does so while the peer's window is 0, and may send one new byte.

    Returns:
        Elements that are keep-alives; elements that are zero-window probes.
    """
    short = np.flatnonzero(
        (segments.length <= 1) & ((segments.flags & (SYN | FIN | RST | ACK)) == ACK)
    )
    begin, before = segments.begin[short], segments.before[short]
    repeats = begin == before - 1
    new_byte = (segments.length[short] == 1) & (begin == before)
    short, repeats = short[repeats | new_byte], repeats[repeats | new_byte]
    if not len(short):
        return short, short
    peer = segments.peer[short]
    closed = (peer >= 0) & (segments.window[peer] == 0)
    closed &= (segments.flags[peer] & (SYN | RST)) == 0
    # A keep-alive goes out when all is acknowledged; else it is an old packet, overtaken.
    idle = segments.peer_acked(short) >= segments.before[short]
    return short[repeats & idle & ~closed], short[closed]


def label_bare(
    segments: Segments, keep_alive: NDArray[np.intp], probe: NDArray[np.intp]
) -> NDArray[np.uint8]:
    """Labels of packets without payload, and `original` for all with.

    Args:
        segments: a batch.
        keep_alive: its keep-alives.
        probe: its zero-window probes.
    """
    flags, stream = segments.flags, segments.stream
    label = np.full(len(segments), CODE["ack"], np.uint8)
    pure = (segments.length == 0) & ((flags & (SYN | FIN | RST | ACK)) == ACK)
    # The same acknowledgement as before, from a sender with nothing new of its own.
    same = np.zeros(len(segments), np.bool_)
    same[1:] = (segments.ack_top[1:] == segments.ack_top[:-1]) & (stream[1:] == stream[:-1])
    same &= segments.acked + stream * SPAN == segments.ack_top
    again = np.flatnonzero(pure & same)
    moved = segments.window[again] != segments.window[again - 1]
    # Windows of SYNs are never scaled (RFC 7323, section 2.2): not comparable.
    moved &= (flags[again - 1] & SYN) == 0
    current = segments.begin[again] == segments.before[again]
    label[again[moved & current]] = CODE["window_update"]
    peer = segments.peer[again]
    outstanding = (peer >= 0) & (segments.top[peer] - stream[peer] * SPAN > segments.acked[again])
    label[again[~moved & outstanding]] = CODE["dup_ack"]
    if len(keep_alive) or len(probe):
        probed = np.zeros(len(segments), np.bool_)
        probed[keep_alive] = True
        probed[probe] = True
        answers = again[(peer >= 0) & probed[peer] & ~moved]
        label[answers] = CODE["keep_alive_ack"]
    label[pure & (segments.window == 0)] = CODE["zero_window"]
    label[(segments.length > 0)] = CODE["original"]
    return label


def label_control(
    label: NDArray[np.uint8],
    segments: Segments,
    keep_alive: NDArray[np.intp],
    probe: NDArray[np.intp],
) -> None:
    """Write over `label` what takes precedence over data: probes, FIN, SYN, RST, copies."""
    flags = segments.flags
    label[keep_alive] = CODE["keep_alive"]
    label[probe] = CODE["zero_window_probe"]
    bare = segments.length == 0
    label[bare & ((flags & FIN) != 0)] = CODE["fin"]
    label[bare & ((flags & SYN) != 0)] = CODE["syn"]
    label[(flags & RST) != 0] = CODE["rst"]
    if len(segments.copies):
        capture = made_by_capture(segments.copies, segments.stream, segments.counts)
        label[segments.copies] = np.where(
            capture, CODE["capture_duplicate"], CODE["network_duplicate"]
        )
