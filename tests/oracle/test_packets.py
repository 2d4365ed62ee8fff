"""Readers and scan against tshark: every packet, its time and its header fields."""

from __future__ import annotations

import shutil
import subprocess
from decimal import Decimal
from pathlib import Path

import pytest

from capture_analyzer.errors import CaptureAnalyzerError
from capture_analyzer.model.column import NO_TIME
from capture_analyzer.model.packets import (
    HAS_MSS,
    HAS_TIMESTAMPS,
    HAS_WINDOW_SCALE,
    SACK_PERMITTED,
    TCP,
    UDP,
)
from capture_analyzer.pipeline.scan import scan
from capture_analyzer.readers import open_capture

pytestmark = [
    pytest.mark.oracle,
    pytest.mark.skipif(shutil.which("tshark") is None, reason="no tshark here"),
]

NAMES = (
    "frame.number frame.protocols frame.time_epoch frame.len frame.cap_len "
    "ip.src ip.dst ipv6.src ipv6.dst ip.ttl ipv6.hlim ip.id "
    "tcp.srcport tcp.dstport tcp.len tcp.seq_raw tcp.ack_raw tcp.flags tcp.window_size_value "
    "tcp.hdr_len tcp.options.timestamp.tsval tcp.options.timestamp.tsecr "
    "tcp.options.mss_val tcp.options.wscale.shift tcp.options.sack_perm "
    "tcp.options.sack_le tcp.options.sack_re udp.srcport udp.dstport udp.length"
)
FIELDS = NAMES.split()

NOT_DECODED_YET = {
    "nflog-http.pcap": "link type",
    "pppoe-over-qinq.pcap": "tunnel",
}
"""Packets of these are counted, but what is in them is not compared."""


def theirs(path: Path) -> list[dict[str, str]]:
    command = ["tshark", "-n", "-r", str(path), "-o", "ip.defragment:FALSE"]
    command += ["-o", "tcp.relative_sequence_numbers:FALSE", "-T", "fields"]
    for field in FIELDS:
        command += ["-e", field]
    output = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    rows = [dict(zip(FIELDS, line.split("\t"), strict=True)) for line in output.splitlines()]
    packets = [row for row in rows if row["frame.protocols"] != "data"]  # no custom blocks
    if len(packets) < len(rows):
        for number_, row in enumerate(packets, 1):
            row["frame.number"] = str(number_)
    return packets


def number(text: str) -> int:
    return int(text, 0) if text else 0


def differences(path: Path) -> list[str]:
    capture = open_capture(path)
    packets, anomalies = scan(capture)
    undecoded = 0
    rows = theirs(path)
    found = []

    def same(what: str, ours: object, expected: object) -> None:
        if ours != expected:
            found.append(f"packet {i + 1} {what}: {ours!r}, tshark {expected!r}")

    same_count = len(packets) == len(rows)
    if not same_count:
        return [f"{len(packets)} packets, tshark {len(rows)}"]
    for i, row in enumerate(rows):
        same("number", int(packets.frame_no[i]), number(row["frame.number"]))
        same("length", int(packets.original_bytes[i]), number(row["frame.len"]))
        same("captured", int(packets.captured_bytes[i]), number(row["frame.cap_len"]))
        if packets.time_ns[i] == NO_TIME:
            same("time", "", row["frame.time_epoch"])
            continue
        ours_ns = capture.epoch_ns + int(packets.time_ns[i])
        same("time", ours_ns, int(Decimal(row["frame.time_epoch"]) * 10**9))
        layers = row["ip.src"].split(",") + row["ipv6.src"].split(",")
        if path.name in NOT_DECODED_YET or len([x for x in layers if x]) != 1:
            continue  # no IP, or a tunnel
        version = 4 if row["ip.src"] else 6
        prefix = "ip" if version == 4 else "ipv6"
        if packets.ip_version[i] == 0:
            undecoded += 1
            continue  # IP inside something that is not decoded, and counted so (MPLS ...)
        same("version", int(packets.ip_version[i]), version)
        same("source", packets.addresses[packets.source[i]], row[f"{prefix}.src"])
        same("destination", packets.addresses[packets.destination[i]], row[f"{prefix}.dst"])
        same("ttl", int(packets.ttl[i]), number(row["ip.ttl" if version == 4 else "ipv6.hlim"]))
        same("id", int(packets.ip_id[i]), number(row["ip.id"]))
        if row["tcp.srcport"]:
            same("protocol", int(packets.protocol[i]), TCP)
            compare_tcp(packets, i, row, same)
        elif row["udp.srcport"] and "," not in row["udp.srcport"]:
            same("protocol", int(packets.protocol[i]), UDP)
            same("source port", int(packets.source_port[i]), number(row["udp.srcport"]))
            same("destination port", int(packets.destination_port[i]), number(row["udp.dstport"]))
            same("udp length", int(packets.payload_bytes[i]) + 8, number(row["udp.length"]))
    same("undecoded", undecoded, min(undecoded, sum(a.count for a in anomalies)))
    return found


def compare_tcp(packets, i, row, same) -> None:
    same("source port", int(packets.source_port[i]), number(row["tcp.srcport"]))
    same("destination port", int(packets.destination_port[i]), number(row["tcp.dstport"]))
    same("seq", int(packets.seq[i]), number(row["tcp.seq_raw"]))
    same("flags", int(packets.flags[i]), number(row["tcp.flags"]) & 0xFF)
    if packets.flags[i] & 0x10:
        same("ack", int(packets.ack[i]), number(row["tcp.ack_raw"]))
    same("window", int(packets.window[i]), number(row["tcp.window_size_value"]))
    same("header", int(packets.tcp_header_bytes[i]), number(row["tcp.hdr_len"]))
    same("payload", int(packets.payload_bytes[i]), number(row["tcp.len"]))
    options = int(packets.options[i])
    for bit, field, ours in (
        (HAS_TIMESTAMPS, "tcp.options.timestamp.tsval", int(packets.tsval[i])),
        (HAS_TIMESTAMPS, "tcp.options.timestamp.tsecr", int(packets.tsecr[i])),
        (HAS_MSS, "tcp.options.mss_val", int(packets.mss[i])),
        (HAS_WINDOW_SCALE, "tcp.options.wscale.shift", int(packets.window_scale[i])),
    ):
        same(field, ours if options & bit else None, number(row[field]) if row[field] else None)
    same("sack permitted", bool(options & SACK_PERMITTED), bool(row["tcp.options.sack_perm"]))
    blocks = slice(packets.sack_first[i], packets.sack_first[i] + packets.sack_count[i])
    for edges, field in (
        (packets.sack_left, "tcp.options.sack_le"),
        (packets.sack_right, "tcp.options.sack_re"),
    ):
        same(field, ",".join(map(str, edges[blocks].tolist())), row[field])


def readable(paths: list[Path]) -> list[Path]:
    result = []
    for path in sorted(paths):
        try:
            open_capture(path)
        except CaptureAnalyzerError:
            continue
        result.append(path)
    return result


@pytest.mark.shared
def test_corpus(corpus: Path) -> None:
    paths = readable([path for path in corpus.rglob("*") if path.is_file()])
    paths = [path for path in paths if "corrupt" not in path.parts]
    assert len(paths) > 40
    found = {path.name: differences(path)[:5] for path in paths}
    assert {name: rows for name, rows in found.items() if rows} == {}


@pytest.mark.shared
def test_lab(lab: Path) -> None:
    paths = readable(list(lab.glob("*/*/client.pcap*")))
    assert len(paths) > 60
    found = {path.parent.name: differences(path)[:5] for path in paths}
    assert {name: rows for name, rows in found.items() if rows} == {}


@pytest.mark.shared
def test_what_a_cut_file_holds_is_what_tshark_shows(corpus: Path, tmp_path: Path) -> None:
    for name in ("tcp/ipp.pcap", "tcp/tcp_zerowindowrecovery.pcapng"):
        whole = (corpus / name).read_bytes()
        cut = tmp_path / Path(name).name
        cut.write_bytes(whole[: len(whole) - 11])
        assert differences(cut) == []
        assert len(open_capture(cut)) == len(open_capture(corpus / name)) - 1
        assert open_capture(cut).files[0].cut
