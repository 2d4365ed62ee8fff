"""Labels: one a packet, the first that fits."""

from __future__ import annotations

import pytest

from capture_analyzer.model.packets import LABELS, MECHANISMS, SPURIOUS, UDP
from capture_analyzer.pipeline.flows import group
from capture_analyzer.pipeline.tcp import analyse


def labels(wire):
    return [LABELS[code] for code in wire.analyse().packets.label]


@pytest.fixture
def up(new_wire):
    """A connection that is up, captured at the client; the server has sent 1000 bytes."""
    wire = new_wire()
    wire.handshake(0)
    wire.server(100, "A", 5001, 1001, b"x" * 1000, ttl=57, ip_id=1)
    wire.client(101, "A", 1001, 6001)
    return wire


def after(wire):
    return labels(wire)[5:]


def test_the_beginning(up):
    assert labels(up) == ["syn", "syn", "ack", "original", "ack"]


def test_what_is_not_tcp(new_wire):
    wire = new_wire()
    wire.client(0, "A", 1, 1)
    _, packets = wire.build()
    packets.protocol[:] = UDP
    analyse(packets, group(packets))
    assert LABELS[packets.label[0]] == "other"
    assert packets.from_client[0] == -1


def test_fin_and_reset(up):
    up.server(200, "FA", 6001, 1001)
    up.server(201, "FA", 6001, 1001)
    up.client(202, "R", 1001)
    assert after(up) == ["fin", "fin", "rst"]


def test_a_fin_with_payload_is_data(up):
    up.server(200, "FA", 6001, 1001, b"bye")
    up.server(900, "FA", 6001, 1001, b"bye")
    assert after(up) == ["original", "retransmission"]


def test_keep_alive_and_its_answer(up):
    up.server(9000, "A", 6000, 1001)
    up.client(9001, "A", 1001, 6001)
    up.server(19000, "A", 6000, 1001, b"\0")
    up.client(19001, "A", 1001, 6001)
    assert after(up) == ["keep_alive", "keep_alive_ack"] * 2


def test_one_byte_below_while_data_is_outstanding_is_no_keep_alive(up):
    up.server(200, "A", 6001, 1001, b"y" * 10)
    up.server(900, "A", 6010, 1001, b"y")
    assert after(up) == ["original", "retransmission"]


def test_window_probes(up):
    up.client(110, "A", 1001, 6001, window=0)
    up.server(400, "A", 6000, 1001)
    up.client(401, "A", 1001, 6001, window=0)
    up.server(900, "A", 6001, 1001, b"z")
    up.client(901, "A", 1001, 6001, window=0)
    up.client(1500, "A", 1001, 6001, window=500)
    assert after(up) == [
        "zero_window",
        "zero_window_probe",
        "zero_window",
        "zero_window_probe",
        "zero_window",
        "window_update",
    ]


def test_duplicate_acknowledgements_need_outstanding_data(up):
    up.client(110, "A", 1001, 6001)  # nothing outstanding: a plain repeat
    up.server(200, "A", 6501, 1001, b"y" * 10)  # 500 bytes before it are missing
    up.client(201, "A", 1001, 6001)
    up.client(202, "A", 1001, 6001)
    up.client(203, "A", 1001, 6001, window=2000)
    assert after(up) == ["ack", "original", "dup_ack", "dup_ack", "window_update"]


def test_a_window_after_the_syn_is_no_update_of_it(new_wire):
    wire = new_wire()
    wire.client(0, "S", 1000, window=64000)
    wire.server(20, "SA", 5000, 1001, window=64000)
    wire.client(21, "A", 1001, 5001, window=500)
    wire.client(22, "A", 1001, 5001, window=500)
    assert labels(wire)[2:] == ["ack", "ack"]


def test_overtaken_or_sent_again_by_the_round_trip(new_wire):
    for delay, label in ((1, "reordered"), (15, "reordered"), (25, "retransmission")):
        wire = new_wire()
        wire.handshake(0, rtt=20)
        wire.server(100, "A", 6001, 1001, b"b" * 10, ttl=57)
        wire.server(100 + delay, "A", 5001, 1001, b"a" * 1000, ttl=57)
        assert labels(wire)[3:] == ["original", label]


def test_overtaken_or_sent_again_by_timestamps(new_wire):
    for stamp, label in ((49, "reordered"), (51, "retransmission")):
        wire = new_wire()
        wire.handshake(0, rtt=20)
        wire.server(100, "A", 6001, 1001, b"b" * 10, ttl=57, tsval=50)
        wire.server(500, "A", 5001, 1001, b"a" * 1000, ttl=57, tsval=stamp)
        assert labels(wire)[3:] == ["original", label]


def test_overtaken_or_sent_again_by_identification(new_wire):
    for identification, label in ((14, "reordered"), (16, "retransmission")):
        wire = new_wire()
        wire.handshake(0, rtt=20)
        for i in range(4):
            wire.server(100 + i, "A", 5001 + i * 10, 1001, b"b" * 10, ttl=57, ip_id=10 + i)
        wire.server(110, "A", 5051, 1001, b"b" * 10, ttl=57, ip_id=15)
        wire.server(500, "A", 5041, 1001, b"a" * 10, ttl=57, ip_id=identification)
        assert labels(wire)[3:] == ["original"] * 5 + [label]


def test_identifications_that_do_not_count_tell_nothing(new_wire):
    wire = new_wire()
    wire.handshake(0, rtt=20)
    for i, number in enumerate((900, 13, 40000, 7)):
        wire.server(100 + i, "A", 5001 + i * 10, 1001, b"b" * 10, ttl=57, ip_id=number)
    wire.server(110, "A", 5051, 1001, b"b" * 10, ttl=57, ip_id=20000)
    wire.server(500, "A", 5041, 1001, b"a" * 10, ttl=57, ip_id=6)
    assert labels(wire)[-1] == "retransmission"  # by the time it took


def test_a_retransmission_with_more_data_than_before(up):
    up.server(900, "A", 5501, 1001, b"y" * 1000, ip_id=2)
    assert after(up) == ["retransmission"]


def test_one_direction_captured_alone(new_wire):
    wire = new_wire()
    for i in range(3):
        wire.server(i, "A", 5001 + 10 * i, 1001, b"a" * 10)
    wire.server(400, "A", 5011, 1001, b"a" * 10)
    assert labels(wire) == ["original"] * 3 + ["retransmission"]


def test_the_network_made_one_copy(up):
    for i in range(6):
        up.server(200 + i, "A", 6001 + 10 * i, 1001, b"a" * 10, ttl=57, ip_id=2 + i)
    up.server(205.2, "A", 6051, 1001, b"a" * 10, ttl=57, ip_id=7)
    assert after(up) == ["original"] * 6 + ["network_duplicate"]


def test_a_copy_that_was_held_up_is_known_by_its_identification(up):
    for i in range(4):
        up.server(200 + i, "A", 6001 + 10 * i, 1001, b"a" * 10, ttl=57, ip_id=2 + i)
    up.server(230, "A", 6011, 1001, b"a" * 10, ttl=57, ip_id=3)
    assert after(up) == ["original"] * 4 + ["network_duplicate"]


def test_an_identification_that_never_changes_knows_none(new_wire):
    wire = new_wire()
    wire.handshake(0, ip_id=7)
    for i in range(4):
        wire.server(200 + i, "A", 5001 + 10 * i, 1001, b"a" * 10, ttl=57, ip_id=7)
    wire.server(230, "A", 5011, 1001, b"a" * 10, ttl=57, ip_id=7)
    assert labels(wire)[3:] == ["original"] * 4 + ["retransmission"]


def test_the_capture_doubled_everything(new_wire):
    wire = new_wire()
    wire.handshake(0)
    for i in range(8):
        for late in (0, 0.01):
            wire.server(100 + i + late, "A", 5001 + 10 * i, 1001, b"a" * 10, ttl=57, ip_id=2 + i)
    analysed = wire.analyse()
    got = [LABELS[code] for code in analysed.packets.label][3:]
    assert got == ["original", "capture_duplicate"] * 8
    assert analysed.facts.connections[0].retransmissions == 0
    assert analysed.streams.stream(0, False).read(0, 999) == b"a" * 80


def test_sent_again_at_once_is_no_copy(up):
    up.server(101.1, "A", 5001, 1001, b"x" * 1000, ttl=57, ip_id=2)
    assert after(up) == ["retransmission"]


def test_equal_duplicate_acknowledgements_without_identification_are_no_copies(up):
    up.server(200, "A", 6501, 1001, b"y" * 10)
    up.client(200.1, "A", 1001, 6001)
    up.client(200.2, "A", 1001, 6001)
    assert after(up) == ["original", "dup_ack", "dup_ack"]


def test_columns_beside_the_label_are_empty_for_what_was_not_sent_again(up):
    packets = up.analyse().packets
    assert {MECHANISMS[code] for code in packets.mechanism} == {""}
    assert {SPURIOUS[code] for code in packets.spurious} == {""}
    assert packets.from_client.tolist() == [1, 0, 1, 0, 1]


def test_a_syn_ack_without_identification_captured_twice(new_wire):
    wire = new_wire()
    for at in (0, 0.01):
        wire.client(at, "S", 1000, ip_id=7)
    for at in (30, 30.01):  # Linux sends SYN-ACKs with identification 0
        wire.server(at, "SA", 5000, 1001)
    for at in (30.1, 30.11):
        wire.client(at, "A", 1001, 5001, ip_id=8)
    assert labels(wire) == ["syn", "capture_duplicate"] * 2 + ["ack", "capture_duplicate"]


def test_a_syn_ack_sent_again_is_no_copy(new_wire):
    wire = new_wire()
    wire.client(0, "S", 1000)
    wire.server(30, "SA", 5000, 1001)
    wire.server(1030, "SA", 5000, 1001)
    assert labels(wire) == ["syn", "syn", "syn"]
