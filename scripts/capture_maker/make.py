"""Plays a scenario and writes its files."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import tempfile
import zlib
from pathlib import Path
from typing import Any

from capture_maker import files, headers
from capture_maker.network import Packet
from capture_maker.simulation import US
from capture_maker.stage import SCENARIOS, Form, Scenario, Stage
from capture_maker.truth import Written, tell

EPOCH_NS = 1_772_546_831_250_318_000  # 2026-03-03 14:07:11.250318 UTC, the clock's zero
_CONFIGURED = "CAPTURE_MAKER_OPENSSL"  # environment: the configuration this process runs with
_MIDDLE_HOPS = 3  # routers between the client and the middle vantage


def encode(packet: Packet, form: Form, client_addresses: tuple[str, ...]) -> bytes:
    """The frame as the vantage captures it."""
    upward = packet.source[0] in client_addresses
    at = packet.seen_at or form.vantage
    passed = {
        "client": 0 if upward else packet.hops,
        "middle": _MIDDLE_HOPS if upward else packet.hops - _MIDDLE_HOPS,
        "server": packet.hops if upward else 0,
    }[at]
    if packet.protocol == headers.UDP:
        body = headers.udp(packet.source, packet.destination, packet.payload)
    else:
        body = headers.tcp(
            packet.source,
            packet.destination,
            packet.seq,
            packet.ack,
            packet.flags,
            packet.window,
            packet.options,
            packet.payload,
        )
    datagram = headers.ip(
        packet.source[0],
        packet.destination[0],
        packet.protocol,
        64 - passed,
        packet.ip_id,
        body,
    )
    outgoing = passed == 0
    return headers.link(form.link, datagram, outgoing=outgoing)


def play(scenario: Scenario, key_log: Path) -> tuple[Stage, Written, list[files.Frame]]:
    """Run a scenario; returns the stage, and what its vantage captured."""
    stage = Stage(key_log, ipv6=scenario.ipv6)
    scenario.play(stage)
    stage.simulation.run()
    form = scenario.form
    resolution = 1 if form.nanoseconds else US
    at = form.vantage
    seen = [p for p in stage.network.packets if at in p.tapped]
    seen += _copies(stage.network.packets, form)
    seen.sort(key=lambda p: p.tapped[at])  # stable: ties in order of sending
    if form.keeps:
        seen = [p for n, p in enumerate(seen) if form.keeps(n, p)]
    if form.clock:
        for packet in stage.network.packets:
            packet.tapped = {where: form.clock(time) for where, time in packet.tapped.items()}
    if form.queues:
        for n in range(form.queues, len(seen) - 1, form.queues):
            seen[n], seen[n + 1] = seen[n + 1], seen[n]
    stamps = [p.tapped[at] // resolution * resolution for p in seen]
    frames = []
    for packet, stamp in zip(seen, stamps, strict=True):
        data = encode(packet, form, stage.client.addresses)
        frames.append(files.Frame(EPOCH_NS + stamp, data, len(data)))
    return stage, Written(seen, stamps, at), frames


def _copies(packets: list[Packet], form: Form) -> list[Packet]:
    """Packets that the capture holds a second time, stamped as it saw them."""
    at = form.vantage
    twins = []
    for packet in packets:
        if form.twice_ns and at in packet.tapped:
            when = packet.tapped[at] + form.twice_ns
            twins.append(dataclasses.replace(packet, copy=True, tapped={at: when}))
        elif form.merged and "server" in packet.tapped:
            when = packet.tapped["server"]
            twins.append(
                dataclasses.replace(packet, copy=True, tapped={at: when}, seen_at="server")
            )
    return twins


def write(form: Form, frames: list[files.Frame], key_log: bytes) -> bytes:
    """The bytes of the capture file."""
    frames = [frame.cut(form.snap_length) for frame in frames]
    link_type = headers.LINK_TYPES[form.link]
    if form.format == "pcap":
        data = files.pcap(
            frames,
            link_type,
            order=form.order,
            nanoseconds=form.nanoseconds,
            snap_length=form.snap_length,
        )
    else:
        data = _pcapng(form, frames, link_type, key_log)
    return zlib.compress(data, 9, wbits=31) if form.gzip else data


def _pcapng(form: Form, frames: list[files.Frame], link_type: int, key_log: bytes) -> bytes:
    out = files.Pcapng()
    halves = [frames[: len(frames) // 2], frames[len(frames) // 2 :]]
    sections = halves if form.two_sections else [frames]
    order = form.order
    for number, part in enumerate(sections):
        out.section(order)
        out.interface(link_type, f"eth{number}", nanoseconds=form.nanoseconds or number == 1)
        if form.keys_inside and number == 0 and not form.keys_last:
            out.secrets(key_log)
        for frame in part:
            out.packet(frame)
        out.statistics(len(part), 0)
        order = ">" if order == "<" else "<"
    if form.keys_inside and form.keys_last:
        out.secrets(key_log)
    return bytes(out.data)


def file_name(scenario: Scenario) -> str:
    """The capture's file name."""
    return f"{scenario.name}.{scenario.form.format}{'.gz' if scenario.form.gzip else ''}"


def make(scenario: Scenario, out: Path, *, force: bool) -> str:
    """Make one capture; returns what was done, in a word or two.

    Args:
        scenario: what to play.
        out: folder for its files.
        force: make it anew though it exists and is random.
    """
    truth_file = out / f"{scenario.name}.json"
    if not force and truth_file.exists() and json.loads(truth_file.read_text())["random"]:
        return "kept (random; --force makes it anew)"
    if scenario.openssl and os.environ.get(_CONFIGURED) != scenario.openssl:
        return _make_apart(scenario, out)
    with tempfile.TemporaryDirectory() as folder:
        key_log = Path(folder) / "keys"
        stage, written, frames = play(scenario, key_log)
        # OpenSSL writes a comment line with its name first; it is of no use.
        lines = key_log.read_text().splitlines() if key_log.exists() else []
        lines = [line for line in lines if not line.startswith("#")]
    form = scenario.form
    if form.keys_kept:
        lines = form.keys_kept(lines)
    keys = "".join(line + "\n" for line in lines).encode()
    data = write(form, frames, keys)
    if form.cut_bytes:  # what is no longer whole was not captured
        data = data[: -form.cut_bytes]
        while len(write(form, frames, keys)) > len(data):
            frames.pop()
            written.packets.pop()
            written.stamps_ns.pop()
    truth: dict[str, Any] = {
        "name": scenario.name,
        "file": file_name(scenario),
        "describe": scenario.describe,
        "vantage": form.vantage,
        "link": form.link,
        "keys": "beside" if form.keys else "inside" if form.keys_inside else None,
        "random": any(c.tls or c.tls_inside for c in stage.ledger.connections),
        "expect": {
            "fire": {k: v and list(v) for k, v in scenario.expect.fire.items()},
            "silent": list(scenario.expect.silent),
        },
        **_without_keys(scenario),
        **scenario.facts,
        "epoch_ns": str(EPOCH_NS + written.stamps_ns[0]),
        **tell(stage.ledger, stage.network.packets, written, 1 if form.nanoseconds else US),
    }
    (out / file_name(scenario)).write_bytes(data)
    if form.keys:
        (out / f"{scenario.name}.keys").write_bytes(keys)
    truth_file.write_text(json.dumps(truth, indent=1) + "\n")
    return f"{len(data):,} bytes, {len(frames)} packets"


def _without_keys(scenario: Scenario) -> dict[str, Any]:
    """What an analysis without the keys beside the capture must find: that it can't decrypt."""
    if not scenario.form.keys:
        return {}
    silent = [i for i in scenario.expect.silent if i.startswith(("tcp/", "dns/"))]
    kept = {k: v for k, v in scenario.expect.fire.items() if k.startswith(("tcp/", "dns/"))}
    fire = {k: v and list(v) for k, v in {**kept, "capture/not-decrypted": None}.items()}
    return {"expect_without_keys": {"fire": fire, "silent": silent}}


def _make_apart(scenario: Scenario, out: Path) -> str:
    """Make a capture in a process of its own, whose OpenSSL is configured as it needs."""
    script = Path(__file__).resolve().parents[1] / "make_captures.py"
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "openssl.cnf"
        file.write_text(
            "openssl_conf = a\n[a]\nssl_conf = b\n[b]\nsystem_default = c\n[c]\n"
            + scenario.openssl
            + "\n"
        )
        environment = {**os.environ, "OPENSSL_CONF": str(file), _CONFIGURED: scenario.openssl}
        command = [sys.executable, str(script), scenario.name, "--out", str(out)]
        done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    return done.stdout.partition(": ")[2].strip()


README = """\
# Sample captures

Made by `scripts/make_captures.py`: real protocol bytes (TLS by OpenSSL, HTTP/1.1, HTTP/2, DNS) in a
simulated TCP over a simulated network, so that what happened to every byte is known. Addresses
and names are those kept for documentation (RFC 5737, RFC 3849, RFC 2606); the certificates
belong to a CA of the script's own. Nothing here was captured from anybody.

`NAME.json` is what is true in a capture. All times are in ns since its packet 1, as the file's
time stamps state them:

- `requests`: first and last byte of the request as seen at the vantage; `response_start_ns`: the
  first byte of the final response was usable (in order, its TLS record complete);
  `end_ns`: the last one (`ended`: the server closed or reset the connection behind it), or
  RST_STREAM; `think_ns`: what the server's program took between the
  whole request and its first write; `request_bytes`, `response_bytes`: plaintext (HTTP/1.1: all,
  HTTP/2: the content);
- of streams of server-sent events: `event_kinds`, and when the last byte of each event was seen
  (`events_seen_ns`), in order (`events_in_order_ns`) and usable (`events_ns`); `ttft_ns`: from
  the request's first byte to the first event of kind content;
- `retransmissions`: packets that repeat data, how the sender came to it (fast, tlp, rto,
  after_rto, syn) and whether it was needed;
- `connections`, `lookups`: likewise;
- `expect`: findings that an analysis must have, with the range of their cost in ms (null: any),
  and those that it must not have, given `NAME.keys` if there is one (`expect_without_keys`: not
  given it). Findings of detectors that don't exist yet are listed too.

`NAME.keys` holds TLS secrets in the format of SSLKEYLOGFILE. Captures with TLS can't be made
twice with the same bytes (handshakes are random), all others can.

| capture | packets | bytes | TLS keys | what is true in it |
|---|---:|---:|---|---|
"""


def readme(out: Path) -> str:
    """The text of README.md: a row for each capture in the folder, in the script's order."""
    rows = []
    for name in SCENARIOS:
        truth_file = out / f"{name}.json"
        if truth_file.exists():
            truth = json.loads(truth_file.read_text())
            size = (out / truth["file"]).stat().st_size
            keys = truth["keys"] or ("withheld" if truth["random"] else "")
            rows.append(
                f"| [{truth['file']}]({truth['file']}) | {truth['packet_count']} | {size:,} "
                f"| {keys} | {truth['describe']} |\n"
            )
    return README + "".join(rows)
