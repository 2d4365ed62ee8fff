"""The simulated TCP keeps the timers and rules that the captures are meant to show."""

from __future__ import annotations

import itertools
import struct
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))

from capture_maker import headers, http, tcp
from capture_maker.network import Fault, Packet
from capture_maker.simulation import MS, US, Process
from capture_maker.stage import Stage

if TYPE_CHECKING:
    from capture_maker.network import Host

RTT = 40 * MS
SLACK = 200 * US  # serialisation, jitter and the hosts' own work


def data(packet: Packet) -> bool:
    return packet.protocol == 6 and bool(packet.payload)


def download(tmp_path: Path, size: int, *faults: Fault) -> Stage:
    """One GET whose answer has so many bytes; the server closes at the end."""
    stage = Stage(tmp_path / "keys")
    host, path = stage.server("app", "192.0.2.10", RTT, 1_000_000_000)
    path.faults += faults

    def route(method: str, target: str) -> http.Reply:
        return http.reply("200 OK", b"d" * size)

    stage.serve(host, 80, route)

    def client() -> Process:
        connected = yield from stage.open(host, 80)
        assert connected
        call = yield from connected.call(http.request("GET", "/", "app.example"))
        assert call.response_plain_end == connected.read
        connected.close()

    stage.simulation.start(client())
    stage.simulation.run()
    return stage


def sent(stage: Stage, picks: Callable[[Packet], bool]) -> list[Packet]:
    return [p for p in stage.network.packets if picks(p)]


def test_internet_checksum_of_rfc_1071() -> None:
    words = bytes.fromhex("0001f203f4f5f6f7")
    assert headers.checksum(words) == ~0xDDF2 & 0xFFFF
    packet = headers.ip("192.0.2.1", "192.0.2.2", 6, 64, 7, b"")
    assert headers.checksum(packet) == 0
    assert struct.unpack("!H", packet[2:4]) == (20,)


def test_nothing_is_repeated_without_loss(tmp_path: Path) -> None:
    stage = download(tmp_path, 200_000)
    assert sent(stage, lambda p: bool(p.again)) == []
    # 10 segments in the first flight (RFC 6928), then more.
    to_client = sent(stage, lambda p: data(p) and not p.from_client)
    first_flight = [p for p in to_client if p.sent_ns - to_client[0].sent_ns < RTT // 2]
    assert len(first_flight) == 10


def test_handshake_takes_one_round_trip(tmp_path: Path) -> None:
    stage = download(tmp_path, 100)
    syn, syn_ack, ack = stage.network.packets[:3]
    assert (syn.flags, syn_ack.flags, ack.flags) == (0x02, 0x12, 0x10)
    assert RTT <= ack.sent_ns - syn.sent_ns <= RTT + SLACK


def test_syn_is_repeated_after_1_2_and_4_s(tmp_path: Path) -> None:
    stage = download(
        tmp_path, 100, Fault("server", lambda p: bool(p.flags & 0x02), "drop", (1, 2, 3))
    )
    times = [p.sent_ns for p in sent(stage, lambda p: p.flags == 0x02)]
    assert [b - a for a, b in itertools.pairwise(times)] == [
        1_000 * MS,
        2_000 * MS,
        4_000 * MS,
    ]


def test_lost_segment_is_repeated_after_three_sacks(tmp_path: Path) -> None:
    stage = download(tmp_path, 60_000, Fault("client", data, "drop", (5,)))
    repeats = sent(stage, lambda p: bool(p.again))
    assert [p.again for p in repeats] == ["fast"]
    before = [
        p for p in stage.network.packets if p.sack and (p.arrived_ns or 0) < repeats[0].sent_ns
    ]
    assert len(before) == 3


def test_last_segment_is_repeated_by_a_probe(tmp_path: Path) -> None:
    stage = download(tmp_path, 5_000, Fault("client", data, "drop", (4,)))
    (repeat,) = sent(stage, lambda p: bool(p.again))
    assert repeat.again == "tlp"
    original = next(p for p in stage.network.packets if data(p) and p.offset == repeat.offset)
    # The others were acknowledged before: one is in flight, so 2 SRTT + 200 ms behind that.
    assert 2 * RTT + 200 * MS <= repeat.sent_ns - original.sent_ns <= 4 * RTT + 200 * MS


def test_timeout_follows_a_lost_probe(tmp_path: Path) -> None:
    stage = download(tmp_path, 5_000, Fault("client", data, "drop", (4, 5)))
    probe, timeout = sent(stage, lambda p: bool(p.again))
    assert (probe.again, timeout.again) == ("tlp", "rto")
    assert 200 * MS + RTT <= timeout.sent_ns - probe.sent_ns <= 200 * MS + 3 * RTT


def test_late_segment_is_answered_with_d_sack(tmp_path: Path) -> None:
    stage = download(tmp_path, 60_000, Fault("client", data, "delay", (5,), extra_ns=100 * MS))
    (repeat,) = sent(stage, lambda p: bool(p.again))
    below = [
        p for p in stage.network.packets if p.sack and (p.sack[0][0] - p.ack) & 0xFFFFFFFF > 1 << 31
    ]
    assert len(below) == 1
    assert below[0].sack[0][0] == repeat.seq


def test_one_small_segment_is_acknowledged_after_40_ms(tmp_path: Path) -> None:
    stage = Stage(tmp_path / "keys")
    host, _ = stage.server("app", "192.0.2.10", RTT)
    turns: Iterator[int] = iter([1, 1, 300])
    stage.serve(
        host, 80, lambda method, target: http.reply("200 OK", b"x", think_ns=next(turns) * MS)
    )

    def client(host: Host) -> Process:
        connected = yield from stage.open(host, 80)
        assert connected
        for _ in range(3):
            yield from connected.call(http.request("GET", "/", "app.example"))
        connected.close()

    stage.simulation.start(client(host))
    stage.simulation.run()
    third = sent(stage, lambda p: data(p) and p.from_client)[2]
    acked = next(
        p
        for p in stage.network.packets
        if not p.from_client and p.ack == (third.seq + len(third.payload)) & 0xFFFFFFFF
    )
    assert not acked.payload
    assert acked.sent_ns - (third.arrived_ns or 0) == pytest.approx(tcp.DELAYED_ACK_NS, abs=SLACK)
