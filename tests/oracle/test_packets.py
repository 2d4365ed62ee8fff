"""Readers and scan against tshark: every packet, its time and its header fields."""

from __future__ import annotations

import logging
import shutil
import struct
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

DIFFERENT = {
    "bug-6875-01-fuzz.pcap": {
        "count": "behind a damaged packet tshark makes a packet of 1 byte from 1970 of the noise",
    },
    "shb-option-too-long.pcapng": {
        "count": "tshark gives up at an option of the section header that is too long; nothing in "
        "the packets depends on it",
    },
}
"""Differences that are meant: by file, what differs, and why."""


def theirs(path: Path) -> list[dict[str, str]]:
    command = ["tshark", "-n", "-r", str(path)]
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


def last(text: str, count: int) -> str:
    """The value of the innermost of `count` layers; further ones are quoted in ICMP messages."""
    values = text.split(",")
    return values[count - 1] if count <= len(values) else ""


def differences(path: Path) -> list[str]:
    capture = open_capture(path)
    packets, _ = scan(capture)
    rows = theirs(path)
    known = DIFFERENT.get(path.name, {})
    found = []

    def same(what: str, ours: object, expected: object) -> None:
        if ours != expected and what not in known:
            found.append(f"packet {i + 1} {what}: {ours!r}, tshark {expected!r}")

    if len(packets) != len(rows):
        return [] if "count" in known else [f"{len(packets)} packets, tshark {len(rows)}"]
    for i, row in enumerate(rows):
        same("number", int(packets.frame_no[i]), number(row["frame.number"]))
        same("length", int(packets.original_bytes[i]), number(row["frame.len"]))
        same("captured", int(packets.captured_bytes[i]), number(row["frame.cap_len"]))
        if packets.time_ns[i] == NO_TIME:
            same("time", "", row["frame.time_epoch"])
            continue
        ours_ns = capture.epoch_ns + int(packets.time_ns[i])
        same("time", ours_ns, int(Decimal(row["frame.time_epoch"]) * 10**9))
        layers = row["frame.protocols"].split(":")
        for quoting in ("icmp", "icmpv6"):
            if quoting in layers:
                layers = layers[: layers.index(quoting)]
        count = {name: layers.count(name) for name in ("ip", "ipv6", "tcp", "udp")}
        networks = [layer for layer in layers if layer in ("ip", "ipv6")]
        if not networks or not (row["ip.src"] or row["ipv6.src"]):
            same("no IP", int(packets.ip_version[i]), 0)
            continue
        prefix = networks[-1]
        version = 4 if prefix == "ip" else 6
        same("version", int(packets.ip_version[i]), version)
        if not packets.ip_version[i]:
            continue
        ends = packets.addresses[packets.source[i]], packets.addresses[packets.destination[i]]
        same("source", ends[0], last(row[f"{prefix}.src"], count[prefix]))
        same("destination", ends[1], last(row[f"{prefix}.dst"], count[prefix]))
        limit, identification = ("ip.ttl", "ip.id") if version == 4 else ("ipv6.hlim", "")
        same("ttl", int(packets.ttl[i]), number(last(row[limit], count[prefix])))
        if identification:
            same("id", int(packets.ip_id[i]), number(last(row["ip.id"], count["ip"])))
        transports = [layer for layer in layers if layer in ("tcp", "udp")]
        if transports[-1:] == ["tcp"]:
            same("protocol", int(packets.protocol[i]), TCP)
            compare_tcp(packets, i, row, same)
        elif transports[-1:] == ["udp"]:
            same("protocol", int(packets.protocol[i]), UDP)
            source = last(row["udp.srcport"], count["udp"])
            destination = last(row["udp.dstport"], count["udp"])
            length = last(row["udp.length"], count["udp"])
            same("source port", int(packets.source_port[i]), number(source))
            same("destination port", int(packets.destination_port[i]), number(destination))
            same("udp length", int(packets.payload_bytes[i]) + 8, number(length))
        else:
            same("no transport", int(packets.protocol[i]) in (TCP, UDP), False)
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


def compared(paths: list[Path]) -> dict[str, list[str]]:
    """Differences by file; for files that we refuse, whether tshark finds packets in them."""
    found = {}
    for path in sorted(paths):
        try:
            rows = differences(path)[:5]
        except CaptureAnalyzerError as error:
            rows = [f"refused: {error}"] if theirs(path) else []
        if rows:
            found[f"{path.parent.name}/{path.name}"] = rows
    return found


def scapy_frames() -> dict[str, tuple[int, list[bytes]]]:
    """Link type and frames of tunnels and fragments, as scapy makes them."""
    logging.getLogger("scapy.runtime").setLevel(logging.ERROR)
    from scapy.contrib import erspan, geneve, gtp, mpls
    from scapy.layers import dot11, inet, inet6, ipsec, l2, ppp, vxlan
    from scapy.packet import Raw

    def to(port: int) -> inet.UDP:
        return inet.UDP(sport=50000, dport=port, chksum=0)

    segment = inet.TCP(sport=40000, dport=80, seq=1000, ack=7, flags="PA") / Raw(b"x" * 1200)
    four = inet.IP(src="10.1.1.1", dst="10.2.2.2", id=77) / segment
    six = inet6.IPv6(src="2001:db8::1", dst="2001:db8::2") / segment
    outer = inet.IP(src="192.0.2.1", dst="192.0.2.2", id=5)
    outer6 = inet6.IPv6(src="2001:db8::9", dst="2001:db8::8")
    ether = l2.Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")
    session = ppp.PPPoE(sessionid=3)
    last = mpls.MPLS(label=17, s=1)
    long = inet.TCP(sport=40000, dport=80, flags="PA") / Raw(b"y" * 4000)
    long4 = inet.IP(src="10.1.1.1", dst="10.2.2.2", id=9) / long
    extensions = inet6.IPv6ExtHdrFragment(id=9) / inet6.IPv6ExtHdrDestOpt()
    long6 = inet6.IPv6(src="2001:db8::1", dst="2001:db8::2") / extensions / long
    parts = [ether / part for part in inet.fragment(long4)]
    parts6 = [ether / part for part in inet6.fragment6(long6, 1280)]
    tunnelled = inet.fragment(outer / to(4789) / vxlan.VXLAN(vni=9) / ether / long4, 1400)
    ends = {f"addr{n}": f"02:00:00:00:00:0{n}" for n in (1, 2, 3)}
    data = dot11.Dot11(type=2, subtype=0, FCfield=1, **ends)
    quality = dot11.Dot11(type=2, subtype=8, FCfield=2, **ends) / dot11.Dot11QoS()
    llc = l2.LLC(dsap=0xAA, ssap=0xAA, ctrl=3) / l2.SNAP()
    gre = l2.GRE

    kinds = {
        "ethernet": (
            1,
            [
                ether / l2.Dot1AD(vlan=5) / l2.Dot1Q(vlan=6) / four,
                ether / mpls.MPLS(label=16, s=0) / last / four,
                ether / last / six,
                ether / session / ppp.PPP(proto=0x21) / four,
                ether / session / ppp.PPP(proto=0x57) / six,
                ether / outer / four,
                ether / outer / six,
                ether / outer6 / four,
                ether / outer / gre() / four,
                ether / outer / gre(key_present=1, key=42, seqnum_present=1) / six,
                ether / outer / gre(proto=0x6558) / ether / four,
                ether / outer / gre(seqnum_present=1) / erspan.ERSPAN_II() / ether / four,
                ether / outer / to(4789) / vxlan.VXLAN(vni=42) / ether / four,
                ether / outer / to(6081) / geneve.GENEVE(vni=42) / ether / four,
                ether / outer / to(2152) / gtp.GTP_U_Header(teid=42) / four,
                ether / outer / ipsec.AH(nh=6, payloadlen=4, icv=bytes(12), padding=b"") / segment,
                *reversed(parts),
                *parts6,
                *(ether / part for part in tunnelled),
            ],
        ),
        "cooked": (
            113,
            [l2.CookedLinux(proto=0x0800) / four, l2.CookedLinux(proto=0x86DD) / six],
        ),
        "wifi": (105, [data / llc / four, quality / llc / six]),
        "radiotap": (127, [dot11.RadioTap() / data / llc / four]),
        "ppp": (9, [ppp.PPP(proto=0x21) / four, ppp.PPP(proto=0x57) / six]),
        "raw": (101, [four, six]),
    }
    return {kind: (link, [bytes(frame) for frame in made]) for kind, (link, made) in kinds.items()}


def test_tunnels_and_fragments(tmp_path: Path) -> None:
    for kind, (link_type, frames) in scapy_frames().items():
        path = tmp_path / f"{kind}.pcap"
        parts = [struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, link_type)]
        for number_, frame in enumerate(frames):
            parts.append(struct.pack("<IIII", 1000, number_, len(frame), len(frame)) + frame)
        path.write_bytes(b"".join(parts))
        assert differences(path) == [], kind
        packets, anomalies = scan(open_capture(path))
        assert anomalies == []
        undecoded = int((packets.protocol == 0).sum())
        assert undecoded == (7 if kind == "ethernet" else 0), kind  # fragments before the last


@pytest.mark.shared
@pytest.mark.parametrize(
    "group",
    ["corrupt", "http1", "http2-grpc", "link", "ocsp", "quic", "tcp", "tls-keys", "tls-no-keys"],
)
def test_corpus(corpus: Path, group: str) -> None:
    paths = [path for path in (corpus / group).iterdir() if path.suffix != ".keys"]
    assert len(paths) > 1
    assert compared(paths) == {}


@pytest.mark.shared
def test_lab(lab: Path) -> None:
    paths = list(lab.glob("*/*/client.pcap*"))
    assert len(paths) > 60
    assert compared(paths) == {}


@pytest.mark.shared
def test_what_a_cut_file_holds_is_what_tshark_shows(corpus: Path, tmp_path: Path) -> None:
    for name in ("tcp/ipp.pcap", "tcp/tcp_zerowindowrecovery.pcapng"):
        whole = (corpus / name).read_bytes()
        cut = tmp_path / Path(name).name
        cut.write_bytes(whole[: len(whole) - 11])
        assert differences(cut) == []
        assert len(open_capture(cut)) == len(open_capture(corpus / name)) - 1
        assert open_capture(cut).files[0].cut
