"""Against captures of which it is known what became of every packet."""

from __future__ import annotations

import json

import numpy as np
import pytest

from capture_analyzer.model.holes import HOLE_KINDS
from capture_analyzer.model.packets import LABELS, MECHANISMS, SPURIOUS
from capture_analyzer.pipeline.flows import group
from capture_analyzer.pipeline.scan import scan
from capture_analyzer.pipeline.tcp import analyse
from capture_analyzer.readers import open_capture

pytestmark = pytest.mark.shared

MECHANISM = {"fast": "fast", "TLP": "tlp", "RTO": "rto", "after-RTO": "after_rto"}

PROBED_WITH_NEW_DATA = {"loss/acks-blackout", "loss/delay-spike"}
"""Runs whose kernel probed with new data (no retransmission) and then let its retransmission
timer send the first segment: both counters had moved by then, the truth names the probe."""

WINDOW_NS = 2_000_000  # tcpdump's stamps against the link's own


def runs(lab):
    for folder in sorted(lab.glob("*/*")):
        truth = json.loads((folder / "truth.json").read_text())
        flows = [flow for flow in truth["flows"] if flow["proto"] == "tcp"]
        if flows:
            yield f"{folder.parent.name}/{folder.name}", folder, flows


def analysed(path):
    packets, _ = scan(open_capture(path))
    return packets, analyse(packets, group(packets))


@pytest.mark.parametrize("side", ["client", "server"])
def test_retransmissions(lab, side):
    total = spurious = 0
    for name, folder, flows in runs(lab):
        packets, _ = analysed(folder / f"{side}.pcap")
        truth = {
            row[f"{side}_frame"]: row
            for flow in flows
            for way in ("c2s", "s2c")
            for row in flow[way]["retransmissions"]
            if row.get(f"{side}_frame")
        }
        is_one = (packets.label == LABELS.index("retransmission")) & (packets.payload_bytes > 0)
        assert (np.flatnonzero(is_one) + 1).tolist() == sorted(truth), name
        for number, row in truth.items():
            total += 1
            spurious += not row["needed"]
            said = SPURIOUS[packets.spurious[number - 1]]
            assert said == ("false" if row["needed"] else "true"), (name, number)
            mechanism = MECHANISMS[packets.mechanism[number - 1]]
            expected = MECHANISM[row["mechanism"].split()[0]]
            if name in PROBED_WITH_NEW_DATA and row["kernel_counters"].get("TCPTimeouts"):
                expected = "rto"
            assert mechanism == expected, (name, number)
    assert total > 40
    assert spurious > 4


def test_no_label_is_wrong_about_what_was_overtaken(lab):
    overtaken = 0
    for name, folder, _ in runs(lab):
        packets, _ = analysed(folder / "client.pcap")
        lines = map(json.loads, (folder / "packets.jsonl").read_text().splitlines())
        late = {
            line["client_frame"]
            for line in lines
            if line.get("delayed") and line["dir"] == "s2c" and line.get("len")
            if line.get("client_frame") and not line["retx"] and line.get("proto") == "tcp"
        }
        got = set((np.flatnonzero(packets.label == LABELS.index("reordered")) + 1).tolist())
        assert got <= late, name
        overtaken += len(got)
    assert overtaken >= 4


def test_holes_at_the_receiver(lab):
    matched = 0
    for name, folder, flows in runs(lab):
        if name in ("capture-quirks/capture-loss", "loss/rate-limit"):
            continue  # holes of the capture itself; many at once, which the truth joins
        _, facts = analysed(folder / "client.pcap")
        holes = facts.holes
        ports = {c.client_port: c.connection_no for c in facts.connections}
        for flow in flows:
            connection = ports[int(flow["client"].rsplit(":", 1)[1])]
            mine = (holes.connection_no == connection) & ~holes.from_client
            mine &= holes.confidence > 0.9  # not what is inferred of tails
            truth = flow["s2c"]["receiver_holes"]
            assert holes.offset[mine].tolist() == [row["at"] for row in truth], name
            for i, row in zip(np.flatnonzero(mine).tolist(), truth, strict=True):
                waited = int(holes.filled_ns[i] - holes.opened_ns[i])
                assert abs(waited - row["ms"] * 1e6) < WINDOW_NS, name
                assert holes.opened_packet_no[i] == row["by"]["client_frame"]
                assert holes.filled_packet_no[i] == row["filled_by"]["client_frame"]
                reordered = HOLE_KINDS[holes.kind[i]] == "reordering"
                assert reordered == name.startswith("loss/reorder")
                matched += 1
    assert matched > 20


def test_what_only_the_capture_lost(lab):
    _, facts = analysed(lab / "capture-quirks/capture-loss/client.pcap")
    kinds = [HOLE_KINDS[kind] for kind in facts.holes.kind.tolist()]
    assert kinds.count("loss") == 1
    assert kinds.count("capture") >= 1


def test_roles_vantage_and_round_trips(lab):
    for side in ("client", "server"):
        for name, folder, flows in runs(lab):
            _, facts = analysed(folder / f"{side}.pcap")
            clients = {flow["client"].rsplit(":", 1)[0] for flow in flows}
            for connection in facts.connections:
                if connection.syn_packet_no is None or connection.refused:
                    continue
                if connection.client_ip in clients:
                    assert connection.vantage_side == side, (name, connection.connection_no)
                    assert connection.vantage_confidence > 0.9


def test_syn_retransmissions(lab):
    for side in ("client", "server"):
        for name, folder, flows in runs(lab):
            _, facts = analysed(folder / f"{side}.pcap")
            if side == "client":
                expected = sum(flow["c2s"]["syn_retransmissions"] for flow in flows)
                first = [c for c in facts.connections if c.syn_packet_no]
                got = sum(len([p for p in c.retry_packet_nos if _asks(c, p)]) for c in first)
                assert got == expected, name


def _asks(connection, packet_no):
    """Whether a repeat came from the client: its SYN-ACK had not been there yet."""
    return connection.syn_ack_packet_no is None or packet_no < connection.syn_ack_packet_no
