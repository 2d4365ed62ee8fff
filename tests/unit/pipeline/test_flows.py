"""Grouping of packets into connections."""

from __future__ import annotations

import numpy as np

from capture_analyzer.model.packets import UDP
from capture_analyzer.pipeline import flows as module
from capture_analyzer.pipeline.flows import group


def numbers(wire):
    _, packets = wire.build()
    group(packets)
    return packets.connection_no.tolist()


def test_both_directions_are_one_connection(new_wire):
    wire = new_wire()
    wire.handshake()
    assert numbers(wire) == [0, 0, 0]


def test_connections_are_numbered_by_first_packet_and_keep_capture_order(new_wire):
    wire = new_wire()
    for at, port in ((0, 40007), (1, 40001), (2, 40003), (3, 40001), (4, 40007)):
        wire.client(at, "A", 1, 1, client_port=port)
    _, packets = wire.build()
    flows = group(packets)
    assert packets.connection_no.tolist() == [0, 1, 2, 1, 0]
    assert flows.order.tolist() == [0, 4, 1, 3, 2]
    assert flows.bounds.tolist() == [0, 2, 4, 5]
    assert flows.packets_of(1).tolist() == [1, 3]


def test_same_ports_between_swapped_addresses_are_another_connection(new_wire):
    wire = new_wire()
    wire.client(0, "S", 1, client_port=1000, server_port=2000)
    wire.client(1, "S", 1, client_port=2000, server_port=1000)
    assert numbers(wire) == [0, 1]


def test_port_reuse_is_a_new_connection(new_wire):
    wire = new_wire()
    wire.handshake(0, isn=1000)
    wire.handshake(100, isn=77000)
    assert numbers(wire) == [0, 0, 0, 1, 1, 1]


def test_a_repeated_syn_is_not(new_wire):
    wire = new_wire()
    wire.client(0, "S", 1000)
    wire.client(1000, "S", 1000)
    wire.server(1020, "SA", 5000, 1001)
    wire.client(1021, "A", 1001, 5001)
    assert numbers(wire) == [0, 0, 0, 0]


def test_a_reuse_when_the_capture_began_in_the_middle(new_wire):
    wire = new_wire()
    wire.client(0, "A", 5000, 1)  # its SYN had 4999 or lower
    wire.client(1, "S", 4999)  # as a retransmission would
    wire.client(2, "S", 9999)
    assert numbers(wire) == [0, 0, 1]


def test_the_first_number_is_also_known_from_the_peers_acknowledgement(new_wire):
    wire = new_wire()
    wire.server(0, "A", 1, 5000)
    wire.client(1, "S", 4999)
    wire.client(2, "S", 1234)
    assert numbers(wire) == [0, 0, 1]


def test_a_simultaneous_open_is_one_connection(new_wire):
    wire = new_wire()
    wire.client(0, "S", 1000)
    wire.server(1, "S", 5000)
    assert numbers(wire) == [0, 0]


def test_what_is_not_tcp_belongs_to_none(new_wire):
    wire = new_wire()
    wire.client(0, "S", 1000)
    wire.client(1, "S", 1000)
    wire.client(2, "S", 1000)
    _, packets = wire.build()
    packets.protocol[1] = UDP
    packets.tcp_header_bytes[2] = 0  # a fragment, or cut in the header
    flows = group(packets)
    assert packets.connection_no.tolist() == [0, -1, -1]
    assert flows.order.tolist() == [0]


def test_no_packets_at_all(new_wire):
    _, packets = new_wire().build()
    flows = group(packets)
    assert len(flows) == 0
    assert flows.bounds.tolist() == [0]


def test_a_bad_hash_changes_nothing(new_wire, monkeypatch):
    rng = np.random.default_rng(1)
    wire = new_wire()
    for at, port in enumerate(rng.integers(1, 200, 500).tolist()):
        wire.client(at, "A", 1, 1, client_port=port)
    good = numbers(wire)
    monkeypatch.setattr(module, "_HASH", np.uint64(0))  # all keys collide
    assert numbers(wire) == good


def test_more_addresses_than_fit_into_the_short_key(new_wire):
    wire = new_wire()
    wire.handshake(0, client_port=1)
    wire.handshake(5, client_port=2)
    _, packets = wire.build()
    packets.source[3:][packets.source[3:] == 0] = 70_000
    packets.destination[3:][packets.destination[3:] == 0] = 70_000
    packets.addresses = [str(i) for i in range(70_001)]
    group(packets)
    assert packets.connection_no.tolist() == [0, 0, 0, 1, 1, 1]
