"""Damage, drawn from a random number generator: the same numbers give the same bytes."""

from __future__ import annotations

import copy
import dataclasses
import gzip
import itertools
import random
import struct
from collections.abc import Callable, Sequence
from typing import Any

import lz4.frame
import zstandard

from capture_fuzzer import wrap
from capture_fuzzer.seeds import Frame, Seed

LEVELS = ("container", "packet", "stream")

MOST_BYTES = 400_000

NUMBERS = (0, 1, 2, 3, 4, 7, 8, 15, 16, 19, 20, 31, 32, 39, 40, 63, 64, 127, 128, 255, 256, 1023)
NUMBERS += (1460, 4095, 16383, 16384, 16640, 32767, 32768, 65534, 65535, 65536, 262144, 262145)
NUMBERS += (0xFFFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFF0, 0xFFFFFFFF)

TOKENS = (
    b"GET / HTTP/1.1\r\n", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 100 Continue\r\n\r\n", b"\r\n\r\n",
    b"HTTP/1.0 304 x\r\n", b"Content-Length: 0\r\n", b"Content-Length: 99999999999999999999\r\n",
    b"Content-Length: -1\r\n", b"Transfer-Encoding: chunked\r\n\r\n", b"ffffffffffffffff\r\n",
    b"0\r\n\r\n", b"5;x=y\r\nhello\r\n", b"Connection: Upgrade\r\nUpgrade: h2c\r\n",
    b"CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n", b"HTTP/1.1 101 x\r\n\r\n",
    b"HEAD /x HTTP/1.1\r\n\r\n", b"Content-Encoding: gzip\r\n", b"Content-Encoding: br, zstd\r\n",
    b"Content-Type: text/event-stream\r\n", b'data: {"choices":[{"delta":{"content":"x"}}]}\n\n',
    b"data: [DONE]\n\n", b"event: ping\n\n", b"data: " + b"[" * 60 + b"\n\n",
    b"\xef\xbb\xbfdata:x\r\r", b"id: 1\nretry: 5\n\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"\x00\x00\x00\x04\x00\x00\x00\x00\x00",
    b"\x00\x00\x04\x08\x00\x00\x00\x00\x00\x7f\xff\xff\xff",
    b"\xff\xff\xff\x00\x01\x00\x00\x00\x01",
    b"\x00\x00\x05\x01%\x00\x00\x00\x01\x82\x86\x84A\x8a",
    b"\x00\x00\x01\t\x04\x00\x00\x00\x01\xff",
    b"\x00\x00\x04\x03\x00\x00\x00\x00\x01\x00\x00\x00\x08",
    b"\x00\x00\x08\x07\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00",
    b"\x16\x03\x01\x00\x05\x01\x00\x00\xff\xff", b"\x16\x03\x03@\x00", b"\x17\x03\x03\x00\x13",
    b"\x17\x03\x03A\x00", b"\x15\x03\x03\x00\x02\x02(", b"\x14\x03\x03\x00\x01\x01",
    b"\x16\x03\x03\x00\x04\x0b\xff\xff\xff", b"\x18\x03\x03\x00\x03\x01@\x00",
    b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03", b"(\xb5/\xfd\x00X", b"\x00\x00\x00\x00\x05hello",
    b"\x01\x00\xff\xff\xff\xff", b"\x00\x1d\x124\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x03api",
    b"\xc0\x0c\xc0\x0c\xc0\x0c", b"\x81~\xff\xff", b"\xf0\x9f\x98", b"\x00" * 40, b"\xff" * 40,
)  # fmt: skip
"""What parsers look for, and what they may stumble over."""


@dataclasses.dataclass
class Case:
    """Something to analyse.

    Attributes:
        files: the bytes of the damaged capture, mostly one file.
        keys: a key log; empty for none.
        names: what was begun with.
        options: of analyze().
    """

    files: list[bytes]
    keys: bytes
    names: str
    options: dict[str, Any]


def mutated(rng: random.Random, seeds: Sequence[Seed], level: str) -> Case:
    """Damage a capture chosen at random."""
    seed = rng.choice(seeds)
    names = seed.name
    keys = seed.keys
    files: list[bytes] = []
    if level == "container":
        data = seed.raw
        if rng.random() < 0.3 and seed.frames:
            data = as_pcapng(rng, seed.link_type, seed.frames)
    else:
        frames = [copy.copy(frame) for frame in seed.frames]
        if rng.random() < 0.1:
            other = rng.choice(seeds)
            frames += [copy.copy(frame) for frame in other.frames]
            keys += other.keys
            names += " " + other.name
            frames.sort(key=lambda frame: frame.time_ns)
        link_type = seed.link_type
        if rng.random() < 0.2:
            link_type = wrap.wrapped(rng, link_type, frames)
        change = of_packets if level == "packet" else of_streams
        for _ in range(rng.choice((1, 1, 1, 2, 3, 6, 12, 40))):
            if frames:
                change(rng, frames)
        if link_type == wrap.ETHERNET and rng.random() < 0.08:
            wrap.fragmented(rng, frames)
        form = as_pcap if rng.random() < 0.85 else as_pcapng
        if rng.random() < 0.04:
            parts = rng.choice((_rotated, _interleaved))(rng, frames)
            frames, *others = parts
            files = [form(rng, link_type, part) for part in others]
        data = form(rng, link_type, frames)
    if level == "container" or rng.random() < 0.02:
        data = of_bytes(rng, data, seeds)
    if rng.random() < 0.05:
        pack: Callable[[bytes], bytes] = rng.choice(
            (lambda x: gzip.compress(x, 1, mtime=0), zstandard.compress, lz4.frame.compress)
        )
        data = pack(data)
        if rng.random() < 0.7:
            data = of_bytes(rng, data, seeds)
    if keys and rng.random() < 0.1:
        keys = of_bytes(rng, keys, seeds)
    return Case([data[:MOST_BYTES], *files], keys, names, _options(rng))


def _options(rng: random.Random) -> dict[str, Any]:
    """What else is asked for, once in a while."""
    options: dict[str, Any] = {
        "redact": rng.choice(("default", "default", "none", "hosts,ips,paths"))
    }
    if rng.random() < 0.9:
        return options
    hosts = (
        "192.0.2.0/24",
        "198.51.100.2",
        "api.example",
        "llm.example",
        "127.0.0.1",
        "10.0.0.0/8",
    )
    choices = {
        "hosts": [rng.choice(hosts)],
        "ports": [rng.choice((443, 80, 53, 8080, 40_000))],
        "start": f"+{rng.choice((0, 0.02, 0.5, 3, 100))}",
        "end": f"+{rng.choice((0, 0.03, 0.6, 4, 1e6)):g}",
    }
    return options | {name: value for name, value in choices.items() if rng.random() < 0.4}


def _rotated(rng: random.Random, frames: list[Frame]) -> list[list[Frame]]:
    """The packets in several files, one behind the other, some of them in two."""
    cuts = sorted(rng.randrange(len(frames) + 1) for _ in range(rng.choice((1, 1, 2, 5))))
    bounds = [0, *cuts, len(frames)]
    parts = [frames[max(a - rng.choice((0, 0, 3)), 0) : b] for a, b in itertools.pairwise(bounds)]
    if rng.random() < 0.5:
        rng.shuffle(parts)
    return parts


def _interleaved(rng: random.Random, frames: list[Frame]) -> list[list[Frame]]:
    """The packets in several files at the same time."""
    parts: list[list[Frame]] = [[] for _ in range(rng.choice((2, 2, 3)))]
    for frame in frames:
        rng.choice(parts).append(frame)
    return parts


def repeated(
    rng: random.Random, seeds: Sequence[Seed], times: Sequence[int]
) -> tuple[list[bytes], str]:
    """(one capture so many times over, for each of `times`; what was begun with)."""
    able = [seed for seed in seeds if any(frame.transport for frame in seed.frames)]
    seed = rng.choice(able)
    change = rng.choice((of_packets, of_streams))
    frames = [copy.copy(frame) for frame in seed.frames]
    for _ in range(rng.choice((0, 1, 3, 10))):
        if frames:
            change(rng, frames)
    span = max((frame.time_ns for frame in frames), default=0)
    span = span + 1_000_000 if 0 <= span < 10**11 else 10**9
    kind = rng.choice(("again", "ports", "onward"))
    made = []
    for count in times:
        rows = []
        for turn in range(count):
            for frame in frames:
                data, t = bytearray(frame.data), frame.transport
                if t + 12 > len(data):  # cut
                    t = 0
                if t and kind == "ports":
                    data[t : t + 4] = bytes(
                        x ^ y
                        for x, y in zip(data[t : t + 4], turn.to_bytes(2, "big") * 2, strict=True)
                    )
                elif t and kind == "onward":
                    for at in (t + 4, t + 8):
                        number = int.from_bytes(data[at : at + 4], "big") + turn * 200_000
                        data[at : at + 4] = (number % (1 << 32)).to_bytes(4, "big")
                rows.append(
                    Frame(frame.time_ns + turn * span, bytes(data), frame.original, range(0))
                )
        made.append(as_pcap(random.Random(0), seed.link_type, rows))
    return made, f"{seed.name} {kind}"


def of_bytes(rng: random.Random, data: bytes, seeds: Sequence[Seed]) -> bytes:
    """Flip, overwrite, cut, repeat, insert, delete, splice."""
    made = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 5, 10, 30))):
        if not made:
            break
        size = len(made)
        at = rng.randrange(size) if rng.random() < 0.7 else rng.randrange(min(size, 120))
        kind = rng.randrange(10)
        length = rng.choice((1, 2, 4, 8, 16, 24, 60, 200, 1000))
        if kind == 0:
            made[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            made[at] = rng.randrange(256)
        elif kind == 2:
            width = rng.choice((2, 4, 8))
            order = rng.choice(("little", "big"))
            number = rng.choice(NUMBERS) & ((1 << 8 * width) - 1)
            made[at : at + width] = number.to_bytes(width, order)
        elif kind == 3:
            del made[at : at + length]
        elif kind == 4:
            made[at:at] = rng.randbytes(length)
        elif kind == 5:
            made[at:at] = made[at : at + length] * rng.choice((1, 2, 10))
        elif kind == 6:
            del made[rng.randrange(size) :]
        elif kind == 7:
            other = rng.choice(seeds).raw
            begin = rng.randrange(len(other))
            made[at : at + length] = other[begin : begin + length]
        elif kind == 8:
            made[at:at] = rng.choice(seeds).raw[: rng.choice((24, 28, 100, 1000))]
        else:
            made[at : at + length] = bytes([rng.choice((0, 255, 65))]) * length
    return bytes(made)


def of_packets(rng: random.Random, frames: list[Frame]) -> None:
    """Lose, repeat, exchange, cut packets; change times and header fields."""
    i = rng.randrange(len(frames))
    frame = frames[i]
    data = bytearray(frame.data)
    headers = frame.payload.start if frame.payload else len(data)
    kind = rng.randrange(15)
    if kind == 0:
        del frames[i : i + rng.choice((1, 1, 2, 5, 20))]
    elif kind == 1:
        frames[i:i] = [copy.copy(frame) for _ in range(rng.choice((1, 1, 2, 8)))]
    elif kind == 2:
        j = rng.randrange(len(frames))
        frames[i], frames[j] = frames[j], frames[i]
    elif kind == 3:
        frame.data = bytes(data[: rng.randrange(len(data) + 1)])
        frame.payload = range(0)
    elif kind == 4:
        limit = rng.choice((14, 20, 34, 54, 66, 96, 128))
        for each in frames:
            each.data = each.data[:limit]
            each.payload = range(0)
    elif kind == 5:
        frame.time_ns += rng.choice((-1, 1)) * rng.choice((1, 10**3, 10**6, 10**9, 10**12, 10**17))
    elif kind == 6:
        shift = rng.choice((-1, 1)) * rng.choice((10**6, 10**9, 10**11))
        for each in frames[i:]:
            each.time_ns += shift
    elif kind == 7:
        for each in frames:
            each.time_ns = frame.time_ns
    elif kind == 8:
        frame.original = rng.choice(NUMBERS)
    elif kind == 9:
        frames[:] = frames[i : i + rng.choice((1, 2, 10, 50))] or frames
    elif kind == 10 and len(frames) > 4:
        part = frames[i : i + 8]
        rng.shuffle(part)
        frames[i : i + 8] = part
    elif data:
        at = rng.randrange(min(headers, len(data)) or 1)
        width = min(rng.choice((1, 1, 2, 4)), len(data) - at)
        if rng.random() < 0.5:
            data[at] ^= 1 << rng.randrange(8)
        else:
            number = rng.choice(NUMBERS) & ((1 << 8 * width) - 1)
            data[at : at + width] = number.to_bytes(width, "big")
        frame.data = bytes(data)


def of_streams(rng: random.Random, frames: list[Frame]) -> None:
    """Change what connections say; headers stay, so that it reaches the parsers."""
    with_payload = [i for i, frame in enumerate(frames) if frame.payload]
    if not with_payload:
        of_packets(rng, frames)
        return
    chosen = rng.choice(with_payload)
    frame = frames[chosen]
    if frame.transport and rng.random() < 0.3:
        _resize(rng, frames, chosen)
        return
    data = bytearray(frame.data)
    begin, size = frame.payload.start, len(frame.payload)
    # The beginnings of payloads and of what is in them matter most.
    at = begin + (rng.randrange(size) if rng.random() < 0.5 else rng.randrange(min(size, 16)))
    room = frame.payload.stop - at
    kind = rng.randrange(9)
    if kind == 0:
        data[at] ^= 1 << rng.randrange(8)
    elif kind == 1:
        data[at] = rng.randrange(256)
    elif kind == 2:
        width = min(rng.choice((1, 2, 3, 4)), room)
        number = rng.choice(NUMBERS) & ((1 << 8 * width) - 1)
        data[at : at + width] = number.to_bytes(width, "big")
    elif kind == 3:
        token = rng.choice(TOKENS)[:room]
        data[at : at + len(token)] = token
    elif kind == 4:
        other = frames[rng.choice(with_payload)]
        source = other.data[other.payload.start : other.payload.stop]
        shift = rng.randrange(len(source))
        part = source[shift:][:room]
        data[at : at + len(part)] = part
    elif kind == 5:
        data[at : frame.payload.stop] = rng.randbytes(room)
    elif kind == 6:
        data[at : frame.payload.stop] = bytes(room)
    elif kind == 7:
        tokens = b"".join(rng.choice(TOKENS) for _ in range(6))[:room]
        data[at : at + len(tokens)] = tokens
    else:
        length = min(rng.choice((1, 2, 5, 9, 40)), room)
        part = data[at : at + length]
        data[at : frame.payload.stop] = (part * (room // length + 1))[:room]
    frame.data = bytes(data)


def _resize(rng: random.Random, frames: list[Frame], chosen: int) -> None:
    """Insert or delete bytes of a TCP stream; all that follows moves along.

    So everything behind stays readable, as it would not if the sequence numbers stayed.
    """
    frame = frames[chosen]
    begin, end, tcp = frame.payload.start, frame.payload.stop, frame.transport
    at = rng.randrange(begin, end)
    kind = rng.randrange(4)
    taken = min(rng.choice((1, 2, 5, 9, 40, 2000)), end - at) if kind != 1 else 0
    given = b""
    if kind == 1:
        given = b"".join(rng.choice(TOKENS) for _ in range(rng.choice((1, 1, 2, 8))))
    elif kind == 2:
        given = frame.data[begin:at] * rng.choice((1, 3))
    elif kind == 3:
        other = rng.choice(frames)
        given = other.data[other.payload.start : other.payload.stop]
    given = given[: 60_000 - len(frame.data)] if len(frame.data) < 60_000 else b""
    more = len(given) - taken
    seq = int.from_bytes(frame.data[tcp + 4 : tcp + 8], "big") + at - begin
    ports = frame.data[tcp : tcp + 4]
    data = bytearray(frame.data[:at] + given + frame.data[at + taken :])
    _grow_network(data, tcp, more)
    frame.data, frame.original = bytes(data), frame.original + more
    frame.payload = range(begin, end + more)
    for other in frames:
        t = other.transport
        if other is frame or not t or t + 12 > len(other.data):
            continue
        mine = other.data[t : t + 4]
        field = t + 4 if mine == ports else t + 8 if mine == ports[2:] + ports[:2] else 0
        if not field:
            continue
        number = int.from_bytes(other.data[field : field + 4], "big")
        if 0 < (number - seq) % (1 << 32) < 1 << 31:
            moved = bytearray(other.data)
            moved[field : field + 4] = ((number + more) % (1 << 32)).to_bytes(4, "big")
            other.data = bytes(moved)


def _grow_network(data: bytearray, tcp: int, more: int) -> None:
    """Change the length in the IP header before a TCP header."""
    for head, version, field in ((tcp - 20, 4, 2), (tcp - 40, 6, 4)):
        if head >= 0 and data[head] >> 4 == version:
            length = int.from_bytes(data[head + field : head + field + 2], "big") + more
            data[head + field : head + field + 2] = (length & 0xFFFF).to_bytes(2, "big")
            return


def as_pcap(rng: random.Random, link_type: int, frames: Sequence[Frame]) -> bytes:
    """A pcap file of these packets, in either byte order and resolution."""
    order = rng.choice("<<<>")
    unit, magic = rng.choice(((1000, 0xA1B2C3D4), (1, 0xA1B23C4D)))
    parts = [struct.pack(order + "IHHiIII", magic, 2, 4, 0, 0, 262_144, link_type)]
    for frame in frames:
        seconds, rest = divmod(1_772_546_831 * 10**9 + frame.time_ns, 10**9)
        head = (seconds & 0xFFFFFFFF, rest // unit, len(frame.data), frame.original & 0xFFFFFFFF)
        parts.append(struct.pack(order + "IIII", *head) + frame.data)
    return b"".join(parts)


def as_pcapng(rng: random.Random, link_type: int, frames: Sequence[Frame]) -> bytes:
    """A pcapng file of these packets, with every kind of block in it."""
    order = rng.choice("<<>")

    def block(kind: int, body: bytes) -> bytes:
        body += bytes(-len(body) % 4)
        size = struct.pack(order + "I", len(body) + 12)
        return struct.pack(order + "I", kind) + size + body + size

    def option(code: int, value: bytes) -> bytes:
        return struct.pack(order + "HH", code, len(value)) + value + bytes(-len(value) % 4)

    shift, scale = 0, 10**9

    def start() -> bytes:
        nonlocal shift, scale
        made = block(0x0A0D0D0A, struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1))
        resolution = rng.choice((9, 9, 9, 6, 3, 0x80 | 20, 12))
        power, base = resolution & 127, 2 if resolution & 128 else 10
        scale = base**power
        shift = rng.choice((0, 0, 0, 5, -5, 1_700_000_000))
        options = option(9, bytes([resolution])) + option(2, b"eth0")
        if shift:
            options += option(14, struct.pack(order + "q", shift))
        return made + b"".join(
            block(1, struct.pack(order + "HHI", kind, 0, snap) + options + option(0, b""))
            for kind, snap in ((link_type, 0), (rng.choice((link_type, 113, 101)), 96))
        )

    parts = [start()]
    for frame in frames:
        ns = (1_772_546_831 - shift) * 10**9 + frame.time_ns
        ticks = ns * scale // 10**9 & 0xFFFFFFFFFFFFFFFF
        data = frame.data + bytes(-len(frame.data) % 4)
        sizes = len(frame.data), frame.original & 0xFFFFFFFF
        kind = rng.randrange(40)
        if kind == 0:
            parts.append(block(3, struct.pack(order + "I", sizes[1]) + data))
            continue
        if kind == 1:
            head = struct.pack(order + "HHIIII", 0, 3, ticks >> 32, ticks & 0xFFFFFFFF, *sizes)
            parts.append(block(2, head + data))
            continue
        interface = int(rng.random() < 0.02)
        head = struct.pack(order + "IIIII", interface, ticks >> 32, ticks & 0xFFFFFFFF, *sizes)
        more = (
            option(1, b"a comment") + option(4, struct.pack(order + "Q", 2)) if kind == 2 else b""
        )
        parts.append(block(6, head + data + more))
        if kind == 3:
            parts.append(block(5, struct.pack(order + "III", 0, 0, 0) + option(5, bytes(8))))
        elif kind == 4:
            parts.append(block(4, option(1, b"\xc0\x00\x02\x01a.example\0") + option(0, b"")))
        elif kind == 5:
            parts.append(block(0xBAD, struct.pack(order + "I", 32473) + b"custom"))
        elif kind == 6:
            order = rng.choice("<>")
            parts.append(start())
        elif kind == 7:
            parts.append(block(10, struct.pack(order + "II", 0x544C534B, 4) + b"keys"))
    return b"".join(parts)
