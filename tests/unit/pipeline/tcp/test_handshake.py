"""Roles, handshakes and what the connections table says of them."""

from __future__ import annotations

from capture_analyzer.model.packets import (
    HAS_MSS,
    HAS_TIMESTAMPS,
    HAS_WINDOW_SCALE,
    LABELS,
    MECHANISMS,
)

MS = 1_000_000


def row(wire, number=0):
    return wire.analyse().facts.connections[number]


def test_a_plain_handshake(new_wire):
    wire = new_wire()
    wire.handshake(5, rtt=20)
    c = row(wire)
    assert (c.client_ip, c.client_port, c.server_ip, c.server_port) == (
        "10.0.0.1",
        40000,
        "10.0.0.2",
        80,
    )
    assert c.roles_certain
    assert (c.syn_packet_no, c.syn_ack_packet_no, c.established_packet_no) == (1, 2, 3)
    assert c.syn_ns == c.syn_last_ns == c.start_ns == 5 * MS
    assert c.syn_ack_ns == 25 * MS
    assert c.server_side_rtt_ns == 20 * MS
    assert c.client_side_rtt_ns == 50_000
    assert c.rtt_ns == 20 * MS + 50_000
    assert c.syn_retransmissions == 0
    assert c.retry_packet_nos == []
    assert not c.refused
    assert c.reset_by is None
    assert c.tcp_stream == c.connection_no == 0


def test_syn_options(new_wire):
    wire = new_wire()
    options = HAS_MSS | HAS_WINDOW_SCALE
    wire.client(0, "S", 1000, options=options, mss=1460, window_scale=7)
    wire.server(20, "SA", 5000, 1001, options=options, mss=1400, window_scale=15)
    c = row(wire)
    assert (c.mss_client, c.mss_server) == (1460, 1400)
    assert (c.window_scale_client, c.window_scale_server) == (7, 14)  # 14 is the most


def test_no_scaling_unless_both_ask_for_it(new_wire):
    wire = new_wire()
    wire.client(0, "S", 1000, options=HAS_WINDOW_SCALE, window_scale=7)
    wire.server(20, "SA", 5000, 1001)
    c = row(wire)
    assert (c.window_scale_client, c.window_scale_server) == (0, 0)
    assert c.mss_client is None


def test_scale_is_unknown_without_a_syn(new_wire):
    wire = new_wire()
    wire.client(0, "A", 1000, 5000, b"x")
    c = row(wire)
    assert c.window_scale_client is None
    assert c.syn_packet_no is None


def lost_syn(wire, **stamps):
    wire.client(0, "S", 1000, **({"tsval": 100} if stamps else {}))
    wire.client(1000, "S", 1000, **({"tsval": 1100} if stamps else {}))
    wire.server(1030, "SA", 5000, 1001, **({"tsval": 7, **stamps} if stamps else {}))
    wire.client(1030.1, "A", 1001, 5001, **({"tsval": 1130, "tsecr": 7} if stamps else {}))
    return row(wire)


def test_a_syn_sent_again(new_wire):
    c = lost_syn(new_wire(), tsecr=1100)
    assert c.syn_retransmissions == 1
    assert c.retry_packet_nos == [2]
    assert (c.syn_packet_no, c.syn_ns, c.syn_last_ns) == (1, 0, 1000 * MS)
    assert c.server_side_rtt_ns == 30 * MS


def test_the_first_of_two_syns_was_answered_late(new_wire):
    assert lost_syn(new_wire(), tsecr=100).server_side_rtt_ns == 1030 * MS


def test_without_timestamps_the_answered_syn_is_not_known(new_wire):
    c = lost_syn(new_wire())
    assert c.syn_retransmissions == 1
    assert c.server_side_rtt_ns is None
    assert c.rtt_ns is None
    assert c.client_side_rtt_ns == 100_000


def test_unless_data_took_as_long_as_the_last_syn(new_wire):
    for later, known in ((29, 30 * MS), (600, None)):
        wire = new_wire()
        wire.client(0, "S", 1000)
        wire.client(1000, "S", 1000)
        wire.server(1030, "SA", 5000, 1001)
        wire.client(1030.1, "A", 1001, 5001)
        wire.client(1031, "A", 1001, 5001, b"GET")
        wire.server(1031 + later, "A", 5001, 1004)
        assert row(wire).server_side_rtt_ns == known


def test_a_repeated_syn_is_labelled(new_wire):
    wire = new_wire()
    wire.client(0, "S", 1000)
    wire.client(1000, "S", 1000)
    packets = wire.analyse().packets
    assert [LABELS[code] for code in packets.label] == ["syn", "syn"]
    assert [MECHANISMS[code] for code in packets.mechanism] == ["", "syn"]


def test_a_syn_captured_twice_was_not_sent_twice(new_wire):
    wire = new_wire()
    wire.client(0, "S", 1000, ip_id=9)
    wire.client(0.1, "S", 1000, ip_id=9)
    wire.server(20, "SA", 5000, 1001)
    wire.client(20.1, "A", 1001, 5001)
    c = row(wire)
    assert c.syn_retransmissions == 0
    assert c.server_side_rtt_ns == 20 * MS


def test_a_syn_ack_sent_again_because_the_ack_was_lost(new_wire):
    # Captured at the server: which SYN-ACK did the client answer? Its echo says.
    wire = new_wire()
    stamp = {"options": HAS_TIMESTAMPS}
    wire.client(0, "S", 1000, tsval=100)
    wire.server(0.05, "SA", 5000, 1001, tsval=7, tsecr=100, **stamp)
    wire.server(1000, "SA", 5000, 1001, tsval=1007, tsecr=100, **stamp)
    wire.client(1030, "A", 1001, 5001, tsval=1130, tsecr=1007)
    c = row(wire)
    assert c.syn_retransmissions == 1
    assert c.retry_packet_nos == [3]
    assert c.syn_ack_packet_no == 3
    assert c.client_side_rtt_ns == 30 * MS
    assert c.server_side_rtt_ns == 50_000


def test_an_ack_with_the_request_on_it_is_no_round_trip(new_wire):
    wire = new_wire()
    wire.client(0, "S", 1000)
    wire.server(0.05, "SA", 5000, 1001)
    wire.client(900, "A", 1001, 5001, b"GET")
    c = row(wire)
    assert c.established_packet_no == 3
    assert c.client_side_rtt_ns is None


def test_refused(new_wire):
    wire = new_wire()
    wire.client(0, "S", 1000)
    wire.server(20, "RA", 0, 1001)
    c = row(wire)
    assert c.refused
    assert (c.reset_by, c.reset_ns) == ("server", 20 * MS)
    assert c.rtt_ns is None


def test_a_reset_later_is_no_refusal(new_wire):
    wire = new_wire()
    wire.handshake(0)
    wire.client(30, "R", 1001)
    c = row(wire)
    assert not c.refused
    assert (c.reset_by, c.reset_ns) == ("client", 30 * MS)


def test_only_the_syn_ack_was_captured(new_wire):
    wire = new_wire()
    wire.server(0, "SA", 5000, 1001)
    c = row(wire)
    assert c.roles_certain
    assert c.server_port == 80
    assert c.syn_ns is None
    assert c.server_side_rtt_ns is None


def test_roles_by_port_in_the_middle(new_wire):
    wire = new_wire()
    wire.server(0, "A", 1, 1, b"x", client_port=50000, server_port=443)
    wire.server(1, "A", 1, 1, b"x", client_port=50001, server_port=8080)
    wire.server(2, "A", 1, 1, b"x", client_port=50002, server_port=7777)
    rows = wire.analyse().facts.connections
    assert [c.server_port for c in rows] == [443, 8080, 7777]
    assert not any(c.roles_certain for c in rows)


def test_roles_by_who_spoke_first_where_ports_tell_nothing(new_wire):
    wire = new_wire()
    wire.server(0, "A", 1, 1, client_port=50000, server_port=50001)
    wire.client(1, "A", 1, 1, b"hello", client_port=50000, server_port=50001)
    assert row(wire).server_port == 50001


def test_sums(new_wire):
    wire = new_wire()
    wire.handshake(0)
    wire.client(30, "A", 1001, 5001, b"abc")
    wire.server(50, "FA", 5001, 1004, b"defgh")
    wire.client(51, "A", 1004, 5007)
    c = row(wire)
    assert (c.client_bytes, c.server_bytes, c.missing_bytes) == (3, 5, 0)
    assert (c.packet_count, c.first_packet_no, c.last_packet_no) == (6, 1, 6)
    assert c.fin_ns == 50 * MS
    assert c.end_ns == 51 * MS
