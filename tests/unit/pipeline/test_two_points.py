"""A connection that was captured at two points of its path."""

from __future__ import annotations

import numpy as np

from capture_analyzer.model.packets import LABELS
from capture_analyzer.pipeline.flows import group
from capture_analyzer.pipeline.tcp import analyse
from capture_analyzer.pipeline.two_points import count_aside, keep_one_point

DUPLICATE = LABELS.index("capture_duplicate")


def conversation(new_wire, points, turns=6, lost=None):
    """Requests and answers; each packet is seen at the client, at the server, or at both.

    The way takes 10 ms and seven routers; `lost` is a turn whose answer never arrives.
    """
    wire = new_wire()
    sent = []  # (time at the client, time at the server, sender, flags, seq, ack, payload)
    sent.append((0, 10, 0, "S", 1000, 0, b""))
    sent.append((20, 10, 1, "SA", 5000, 1001, b""))
    sent.append((20.1, 30.1, 0, "A", 1001, 5001, b""))
    seq, ack = 1001, 5001
    for turn in range(turns):
        at = 50 + 40 * turn
        sent.append((at, at + 10, 0, "PA", seq, ack, b"q" * 50))
        seq += 50
        arrives = None if turn == lost else at + 21
        sent.append((arrives, at + 11, 1, "PA", ack, seq, b"a" * 80))
        if turn == lost:
            sent.append((at + 31, at + 21, 1, "PA", ack, seq, b"a" * 80))
        ack += 80
    rows = []
    for number, (client, server, side, flags, seq_, ack_, payload) in enumerate(sent):
        for point, time in (("client", client), ("server", server)):
            if point in points and time is not None:
                near = (point == "client") == (side == 0)
                rows.append((time, side, flags, seq_, ack_, payload, 64 if near else 57, number))
    for time, side, flags, seq_, ack_, payload, ttl, number in sorted(rows, key=lambda r: r[0]):
        send = wire.server if side else wire.client
        send(time, flags, seq_, ack_, payload, ttl=ttl, ip_id=100 * side + number + 1)
    return wire


def kept(wire):
    """Indices that stay, and those set aside."""
    _, packets = wire.build()
    flows, aside = keep_one_point(packets, group(packets))
    return packets, flows, aside


def test_only_the_clients_point_is_kept(new_wire):
    wire = conversation(new_wire, ("client", "server"))
    packets, flows, aside = kept(wire)
    assert len(flows.order) + len(aside) == len(packets)
    assert len(aside) == len(packets) // 2
    near = packets.ttl == np.where(packets.source == 0, 64, 57)
    assert near[flows.order].all()
    assert not near[aside].any()
    assert (packets.label[aside] == DUPLICATE).all()
    assert flows.bounds.tolist() == [0, len(flows.order)]


def test_what_only_the_other_point_saw_goes_too(new_wire):
    wire = conversation(new_wire, ("client", "server"), lost=3)
    packets, flows, aside = kept(wire)
    assert len(packets) == 2 * len(flows.order) + 1
    assert len(aside) == len(flows.order) + 1


def test_the_same_as_a_capture_at_the_client(new_wire):
    both = kept(conversation(new_wire, ("client", "server"), lost=3))
    alone = conversation(new_wire, ("client",), lost=3).build()[1]
    times = both[0].time_ns[both[1].order]
    assert times.tolist() == alone.time_ns.tolist()


def test_near_miss_one_point(new_wire):
    for point in ("client", "server"):
        _, flows, aside = kept(conversation(new_wire, (point,)))
        assert len(aside) == 0
        assert len(flows.order) == 15


def test_near_miss_route_that_changes(new_wire):
    """Other times to live from some packet on, but no packet twice."""
    wire = conversation(new_wire, ("client",))
    for row in wire.rows[8:]:
        row["ttl"] -= 2
    assert len(kept(wire)[2]) == 0


def test_sides_and_counts_of_what_was_set_aside(new_wire):
    wire = conversation(new_wire, ("client", "server"))
    _, packets = wire.build()
    flows, aside = keep_one_point(packets, group(packets))
    facts = analyse(packets, flows)
    count_aside(packets, flows, facts.connections, aside)
    assert facts.connections[0].packet_count == len(packets)
    assert (packets.from_client == (packets.source == 0)).all()
    assert facts.connections[0].vantage_side == "client"


def test_nothing_at_all(new_wire):
    _, packets = new_wire().build()
    flows, aside = keep_one_point(packets, group(packets))
    assert (len(flows), len(aside)) == (0, 0)
