"""Wireshark's rules on hand-made packets: what sets each flag, and what only nearly does.

The oracle tests compare with tshark itself.
"""

from __future__ import annotations

import pytest

from capture_analyzer.model.analysis import Analysis
from capture_analyzer.model.packets import (
    HAS_WINDOW_SCALE,
    LABELS,
    MECHANISMS,
    OPTIONS_BROKEN,
    SPURIOUS,
)
from capture_analyzer.model.wireshark_labels import (
    DIFFERENCES,
    WIRESHARK_FLAGS,
    agree,
    joined,
    why_differs,
)
from capture_analyzer.pipeline.flows import group
from capture_analyzer.pipeline.tcp import analyse
from capture_analyzer.pipeline.tcp.wireshark import add_labels
from capture_analyzer.pipeline.tcp.wireshark.labelling import find_flags

S = HAS_WINDOW_SCALE


def said(wire, epoch_ns=10**18):
    """Wireshark's label of each packet; both ways of finding them agree."""
    _, packets = wire.build()
    analyse(packets, group(packets))
    masks = find_flags(packets, epoch_ns)
    assert masks.tolist() == find_flags(packets, epoch_ns, walk_all=True).tolist()
    return [joined(mask) for mask in masks.tolist()]


@pytest.fixture
def up(new_wire):
    """A connection that is up, its handshake took 20.05 ms; the server has sent 1000 bytes."""
    wire = new_wire()
    wire.handshake(0, options=S, window_scale=0, window=4000)
    wire.server(100, "A", 5001, 1001, b"x" * 1000)
    wire.client(101, "A", 1001, 6001)
    return wire


def after(wire, **more):
    return said(wire, **more)[5:]


def test_nothing_to_say(up):
    up.client(110, "A", 1001, 6001, b"request")
    up.server(130, "A", 6001, 1008)
    up.server(131, "FA", 6001, 1008)
    up.client(132, "FA", 1008, 6002)
    up.server(150, "A", 6002, 1009)
    assert said(up) == [""] * 10


def test_a_repeat_of_the_highest_bytes_is_a_retransmission(up):
    up.server(102, "A", 6001, 1001, b"y" * 100)
    up.server(103, "A", 6001, 1001, b"y" * 100)
    assert after(up) == ["", "retransmission"]


@pytest.mark.parametrize(("gap", "verdict"), [(20.0, "out_of_order"), (20.1, "retransmission")])
def test_out_of_order_for_a_round_trip(up, gap, verdict):
    up.server(200, "A", 6501, 1001, b"z" * 400)
    up.server(200 + gap, "A", 6001, 1001, b"y" * 400)
    assert after(up) == ["lost_segment", verdict]


@pytest.mark.parametrize(("gap", "verdict"), [(2.9, "out_of_order"), (3.0, "retransmission")])
def test_out_of_order_for_3_ms_without_a_handshake(new_wire, gap, verdict):
    wire = new_wire()
    wire.server(0, "A", 5001, 1001, b"x" * 100)
    wire.server(5, "A", 5301, 1001, b"x" * 100)
    wire.server(5 + gap, "A", 5101, 1001, b"x" * 100)
    assert said(wire) == ["", "lost_segment", verdict]


def test_a_syn_at_absolute_time_0_is_no_syn(up):
    up.server(200, "A", 6501, 1001, b"z" * 400)
    up.server(210, "A", 6001, 1001, b"y" * 400)
    assert after(up, epoch_ns=0) == ["lost_segment", "retransmission"]


@pytest.mark.parametrize(
    ("times", "gap", "verdict"),
    [
        (2, 19, "retransmission+fast_retransmission"),
        (1, 19, "out_of_order"),
        (2, 20, "retransmission"),
    ],
)
def test_fast_after_two_duplicates_within_20_ms(up, times, gap, verdict):
    for at in (200, 200.1, 200.2):
        up.server(at, "A", 6001 + round((at - 200) * 10) * 100, 1001, b"y" * 100)
    for _ in range(times):
        up.client(201, "A", 1001, 6001)
    up.server(201 + gap, "A", 6001, 1001, b"y" * 100)
    assert after(up) == [""] * 3 + ["duplicate_ack"] * times + [verdict]


def test_duplicates_count_from_the_last_advance(up):
    up.client(102, "A", 1001, 6001)
    up.client(103, "A", 1001, 6001)
    up.server(110, "A", 6001, 1001, b"y" * 100)
    up.server(111, "A", 6101, 1001, b"y" * 100)
    up.client(112, "A", 1001, 6101)
    up.server(113, "A", 6101, 1001, b"y" * 100)
    assert after(up) == ["duplicate_ack"] * 2 + ["", "", "", "retransmission"]


def test_spurious_below_the_acknowledgement(up):
    up.server(110, "A", 5501, 1001, b"x" * 500)
    up.server(111, "A", 5501, 1001, b"x" * 501)
    assert after(up) == ["retransmission+spurious_retransmission", "out_of_order"]


def test_a_repeated_fin_is_a_retransmission(up):
    up.server(110, "FA", 6001, 1001)
    up.server(150, "FA", 6001, 1001)
    assert after(up) == ["", "retransmission"]


def test_bytes_acknowledged_unseen_are_said_once(up):
    up.client(110, "A", 1001, 7001)
    up.client(120, "A", 1001, 8001)
    up.server(121, "A", 8001, 1001, b"x")
    assert after(up) == ["ack_lost_segment", "", "lost_segment"]


def test_keep_alive_and_its_answer(up):
    up.server(1000, "A", 6000, 1001)
    up.client(1001, "A", 1001, 6001)
    up.server(2000, "A", 6000, 1001, b"\0")
    up.client(2001, "A", 1001, 6001)
    up.client(2002, "A", 1001, 6001)
    assert after(up) == ["keep_alive", "keep_alive_ack"] * 2 + ["keep_alive_ack"]


def test_no_keep_alive_with_two_bytes_or_two_below(up):
    up.server(1000, "A", 6000, 1001, b"\0\0")
    up.server(1001, "A", 6000, 1001)
    assert after(up) == ["", ""]


def test_window_probe_and_its_answer(up):
    up.client(102, "A", 1001, 6001, window=0)
    up.server(300, "A", 6001, 1001, b"y")
    up.client(301, "A", 1001, 6001, window=0)
    up.client(302, "A", 1001, 6001, window=500)
    up.server(303, "A", 6001, 1001, b"y" * 10)
    assert after(up) == [
        "zero_window",
        "zero_window_probe",
        "zero_window+zero_window_probe_ack",
        "window_update",
        "",
    ]


def test_a_probe_without_payload_is_called_keep_alive(up):
    up.client(102, "A", 1001, 6001, window=0)
    up.server(300, "A", 6000, 1001)
    assert after(up) == ["zero_window", "keep_alive"]


def test_window_updates_and_duplicates_need_the_same_numbers(up):
    up.client(110, "A", 1001, 6001, window=999)
    up.client(111, "A", 1001, 6001, window=999)
    up.client(112, "A", 1001, 6001, window=999, payload=b"x")
    up.client(113, "A", 1002, 6001, window=999)
    up.client(114, "FA", 1002, 6001, window=999)
    assert after(up) == ["window_update", "duplicate_ack", "", "duplicate_ack", ""]


def filled(wire, length):
    wire.server(200, "A", 6001, 1001, b"y" * length)
    return after(wire)


@pytest.mark.parametrize(("length", "verdict"), [(999, ""), (1000, "window_full"), (1001, "")])
def test_window_full_at_its_edge(up, length, verdict):
    assert filled(up, length) == [verdict]


def scaled(new_wire, scale, length, **answer):
    wire = new_wire()
    wire.client(0, "S", 1000, options=S, window_scale=scale)
    wire.server(20, "SA", 5000, 1001, **{"options": S, "window_scale": 7, **answer})
    wire.client(20.1, "A", 1001, 5001, window=100)
    wire.server(30, "A", 5001, 1001, b"y" * length)
    return said(wire)[-1]


def test_window_full_with_scale(new_wire):
    assert scaled(new_wire, 3, 800) == "window_full"
    assert scaled(new_wire, 3, 100) == ""


def test_window_full_where_one_side_does_not_scale(new_wire):
    assert scaled(new_wire, 3, 100, options=0) == "window_full"
    assert scaled(new_wire, 3, 800, options=0) == ""


def test_window_full_needs_a_known_scale(new_wire):
    wire = new_wire()
    wire.client(20.1, "A", 1001, 5001, window=100)
    wire.server(30, "A", 5001, 1001, b"y" * 100)
    assert said(wire) == ["", ""]


def test_options_that_were_cut_leave_the_scale_unknown(new_wire):
    cut = {"options": OPTIONS_BROKEN, "original_bytes": 74, "captured_bytes": 60}
    assert scaled(new_wire, 3, 100, **cut) == ""
    assert scaled(new_wire, 3, 800, **cut) == "window_full"


def test_the_window_of_a_syn_is_not_scaled(new_wire):
    wire = new_wire()
    wire.client(0, "S", 1000, options=S, window_scale=3, window=100)
    wire.server(20, "SA", 5000, 1001, options=S, window_scale=3)
    wire.server(21, "A", 5001, 1001, b"y" * 100)
    assert said(wire)[-1] == ""  # the SYN acknowledges nothing: its window ends nowhere
    wire.client(22, "S", 1000, options=S, window_scale=3, window=100)
    assert said(wire)[-1] == "retransmission"


def test_ports_in_use_before(up):
    up.client(9000, "S", 77_000)
    up.server(9020, "SA", 88_000, 77_001)
    up.client(9021, "A", 77_001, 88_001)
    up.server(9030, "SA", 99_000, 77_001)
    assert after(up) == ["reused_ports", "", "", "lost_segment+reused_ports"]


def test_numbers_wrap(new_wire):
    wire = new_wire()
    wire.handshake(0, isn=2**32 - 8)
    wire.client(21, "A", 2**32 - 7, 5001, b"1234")
    wire.client(22, "A", 2**32 - 3, 5001, b"5678")
    wire.client(23, "A", 2**32 + 1, 5001, b"9")
    wire.client(24, "A", 2**32 - 3, 5001, b"5678")
    wire.server(25, "A", 5001, 2**32 + 2)
    wire.client(26, "A", 2**32 - 3, 5001, b"5678")
    assert said(wire)[3:] == [
        "",
        "",
        "",
        "out_of_order",
        "",
        "retransmission+spurious_retransmission",
    ]


def test_long_connections_are_walked_in_parts(new_wire, monkeypatch):
    monkeypatch.setattr("capture_analyzer.pipeline.tcp.wireshark.labelling._CHUNK", 2)
    monkeypatch.setattr("capture_analyzer.pipeline.tcp.regroup.BATCH_PACKETS", 3)
    wire = new_wire()
    for port in (1, 2):
        wire.client(0, "A", 1001, 5001, client_port=port)
        wire.server(1, "A", 5101, 1001, b"x", client_port=port)
        wire.server(2, "A", 5301, 1001, b"x", client_port=port)
        wire.server(3, "A", 5201, 1001, b"x", client_port=port)
        wire.client(4, "A", 1001, 5001, client_port=port)
    assert said(wire) == ["", "", "lost_segment", "out_of_order", "duplicate_ack"] * 2


def test_worked_out_only_when_asked_for(up, hand_made):
    _, packets = up.build()
    analyse(packets, group(packets))
    asked = []
    packets.unfinished = lambda those: (asked.append(1), add_labels(those))[0]
    analysis = hand_made.analysis(packets=packets)
    assert isinstance(analysis, Analysis)
    assert not asked
    frame = analysis.frame("packets")
    assert asked == [1]
    assert set(frame["wireshark_label"].dropna()) == {""}
    analysis.frame("packets")
    assert asked == [1]


def test_labels_are_indices_into_the_distinct_ones(up):
    up.server(300, "A", 6001, 1001, b"y" * 10)
    up.server(310, "A", 5501, 1001, b"x" * 500)
    _, packets = up.build()
    analyse(packets, group(packets))
    add_labels(packets)
    assert packets.wireshark_labels == ["", "retransmission+spurious_retransmission"]
    assert packets.wireshark_label.tolist() == [0] * 6 + [1]


def test_no_packets(new_wire):
    _, packets = new_wire().build()
    add_labels(packets)
    assert packets.wireshark_labels == [""]
    assert len(packets.wireshark_label) == 0


def test_differences_name_labels_and_flags_that_exist():
    names = [difference.name for difference in DIFFERENCES]
    assert len(set(names)) == len(names)
    for difference in DIFFERENCES:
        assert set(difference.labels) <= set(LABELS), difference.name
        assert {*difference.flags, *difference.without} <= set(WIRESHARK_FLAGS), difference.name
        assert difference.mechanism in MECHANISMS
        assert difference.spurious in SPURIOUS
        assert difference.why.endswith("."), difference.name


@pytest.mark.parametrize(
    ("ours", "theirs", "kind"),
    [
        (("retransmission", "fast", "false"), "out_of_order", "fast-as-out-of-order"),
        (("retransmission", "tlp", "false"), "", "unmarked-tail"),
        (("retransmission", "rto", "true"), "retransmission", "needless-not-recognised"),
        (("retransmission", "fast", "false"), "retransmission", "fast-not-recognised"),
        (("retransmission", "rto", "false"), "retransmission", None),
        (("capture_duplicate", "", ""), "duplicate_ack", "capture-copies"),
        (("zero_window_probe", "", ""), "keep_alive", "probe-as-keep-alive"),
        (
            ("reordered", "", ""),
            "retransmission+fast_retransmission",
            "overtaken-called-sent-again",
        ),
        (("original", "", ""), "lost_segment", "gap-before"),
        (("original", "", ""), "window_full", "window-full"),
        (("original", "", ""), "", None),
    ],
)
def test_why_ours_differs(ours, theirs, kind):
    found = why_differs(*ours, theirs)
    assert (found.name if found else None) == kind
    assert agree(*ours, theirs) == (kind is None)


def test_a_syn_sent_again_takes_its_direction_back(new_wire):
    wire = new_wire()
    wire.client(0, "S", 1000)
    wire.client(1, "A", 1011, 5001, b"x")
    wire.client(2, "S", 1000)
    wire.client(3, "A", 1006, 5001, b"x")
    assert said(wire) == ["", "lost_segment", "retransmission", "lost_segment"]
