"""TLS against tshark: handshake messages and records of every connection, with and without keys."""

from __future__ import annotations

import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from capture_analyzer.api import analyze
from capture_analyzer.model.connections import Connection
from capture_analyzer.model.tls_records import HANDSHAKE_NAMES
from capture_analyzer.pipeline.dissect import _HttpReader
from capture_analyzer.pipeline.dissect.decrypt import OpenedConnection

pytestmark = [
    pytest.mark.oracle,
    pytest.mark.shared,
    pytest.mark.skipif(shutil.which("tshark") is None, reason="no tshark here"),
]

Found = Counter[tuple[int, str]]

# Captures with gaps: tshark gives a TLS stream up there, and finds no record behind.
BEHIND_GAPS = {
    "lab/capture-quirks/capture-loss/client.pcap",
    "lab/capture-quirks/snaplen-96/client.pcap",
}


def tshark(path: Path, keys: Path | None, *fields: str) -> list[list[list[str]]]:
    """Values of fields of every packet with TLS."""
    command = ["tshark", "-n", "-r", str(path), "-o", "tcp.reassemble_out_of_order:TRUE"]
    if keys:
        command += ["-o", f"tls.keylog_file:{keys}"]
    command += ["-Y", "tls && tcp", "-T", "fields", "-E", "aggregator=|"]
    command += [part for field in fields for part in ("-e", field)]
    lines = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    return [
        [column.split("|") if column else [] for column in line.split("\t")]
        for line in lines.splitlines()
    ]


def keys_of(path: Path) -> Path | None:
    beside = (path.parent / "keys.log", path.with_suffix(".keys"), path.with_suffix(".keys.txt"))
    return next((keys for keys in beside if keys.exists()), None)


def handshake_messages(path: Path, keys: Path | None) -> tuple[Found, Found]:
    """(ours, tshark's): TCP stream and name of each; a HelloRetryRequest is a ServerHello."""
    theirs: Found = Counter()
    for stream, types in tshark(path, keys, "tcp.stream", "tls.handshake.type"):
        theirs.update((int(stream[0]), HANDSHAKE_NAMES[int(kind)]) for kind in types)
    tables = analyze(path, keylogs=[keys] if keys else []).tables
    ours = Counter(
        (
            tables.connections[message.connection_no].tcp_stream or 0,
            message.type.replace("hello_retry_request", "server_hello"),
        )
        for message in tables.handshake_messages
    )
    return ours, theirs


def records(path: Path) -> tuple[Counter[int], Counter[int]]:
    """(ours, tshark's): how many each TCP stream has."""
    theirs: Counter[int] = Counter()
    fields = ("tcp.stream", "tls.record.content_type", "tls.record.opaque_type")
    for stream, clear, opaque in tshark(path, None, *fields):
        theirs[int(stream[0])] += len(clear) + len(opaque)
    tables = analyze(path).tables
    ours = Counter(
        tables.connections[number].tcp_stream or 0
        for number in tables.tls_records.connection_no.tolist()
    )
    return ours, theirs


CORPUS = [
    "tls-keys/tls13-rfc8446.pcap",
    "tls-keys/tls-1.2-stream-keylog.pcap",
    "tls-keys/tls_nss_example.pcap",
    "tls-keys/tls12-dsb.pcapng",
    "http2-grpc/http2-brotli.pcapng",
    "http2-grpc/http2-data-reassembly.pcap",
    "tls-no-keys/client-certificate.pcap",
    "tls-no-keys/chrome-1250-tls-x25519-kyber.pcap",
    "tls-no-keys/tls-fragmented-handshakes.pcap.gz",
    "tls-no-keys/hrr.pcap",
    "tls-no-keys/tls-1.2-handshake-failure.pcap",
    "tls-no-keys/tls13_psk_succesfull.pcap",
    "ocsp/ocsp-stapling.pcap",
]
GROUPS = [
    "tls13-h1",
    "sse-llm",
    "h2-multiplex",
    "h2-flowcontrol",
    "browser",
    "curl-dns",
    "ocsp",
    "capture-quirks",
    "encrypted-no-keys",
]


@pytest.mark.parametrize("name", CORPUS)
def test_corpus(name: str, corpus: Path) -> None:
    ours, theirs = handshake_messages(corpus / name, keys_of(corpus / name))
    assert ours == theirs
    assert ours
    embedded = name.endswith(".pcapng")  # tshark can't be told to leave those keys
    if not embedded:
        mine, tsharks = records(corpus / name)
        assert mine == tsharks


@pytest.mark.parametrize("group", GROUPS)
def test_lab(group: str, lab: Path) -> None:
    paths = sorted((lab / group).glob("*/client.pcap"))
    assert paths
    for path in paths:
        ours, theirs = handshake_messages(path, keys_of(path))
        assert ours == theirs, path
        mine, tsharks = records(path)
        if str(path.relative_to(lab.parent)) in BEHIND_GAPS:
            assert all(mine[stream] > count for stream, count in tsharks.items())
        else:
            assert mine == tsharks, path


# RFC 8448's companion in the corpus: TLS 1.3 with resumption and accepted early data.


def test_early_data_and_resumption_are_read(corpus: Path) -> None:
    path = corpus / "tls-keys" / "tls13-rfc8446.pcap"
    analysis = analyze(path, keylogs=[keys_of(path)], redact="none")  # type: ignore[list-item]
    first, second = analysis.tables.connections
    assert first.tls is not None
    assert second.tls is not None
    assert (first.tls.decrypted, second.tls.decrypted) == ("yes", "yes")
    assert (first.tls.resumed, second.tls.resumed) == (False, True)
    assert (first.tls.early_data, second.tls.early_data) == (False, True)
    asked = [(row.connection_no, row.path, row.status) for row in analysis.tables.exchanges]
    assert asked == [(0, "/first", 200), (1, "/early", 200), (1, "/second", 200)]


# What is inside: the same bytes, direction by direction

KEYED = [
    "tls-keys/tls13-rfc8446.pcap",
    "tls-keys/tls-1.2-stream-keylog.pcap",
    "tls-keys/tls_nss_example.pcap",
    "tls-keys/tls12-dsb.pcapng",
    "http2-grpc/http2-brotli.pcapng",
    "http2-grpc/http2-data-reassembly.pcap",
]
OWN = [
    *("tls13-aes128", "tls13-chacha", "tls13-ccm", "tls13-hrr-keys", "tls13-resumed-keys"),
    *("tls13-keyupdate", "tls12-keys", "tls12-chacha", "tls12-ccm", "tls12-cbc"),
    *("tls12-cbc-mac-first", "tls12-camellia", "tls12-renegotiation", "ocsp13-staple-good"),
]
Sides = tuple[bytes, bytes]


def decrypted(path: Path, keys: Path | None, monkeypatch: pytest.MonkeyPatch) -> dict[int, Sides]:
    """Application data of client and server by TCP stream, as our decryption lays it out."""
    found: dict[int, Sides] = {}
    real = _HttpReader.read_opened

    def watch(self: _HttpReader, connection: Connection, opened: OpenedConnection) -> None:
        number = (
            connection.connection_no if connection.tcp_stream is None else connection.tcp_stream
        )
        found[number] = tuple(  # type: ignore[assignment]
            b"".join(
                side.read(int(start), int(start + length))
                for start, length in zip(side.starts, side.lengths, strict=True)
            )
            for side in (opened.client, opened.server)
        )
        real(self, connection, opened)

    monkeypatch.setattr(_HttpReader, "read_opened", watch)
    analyze(path, keylogs=[keys] if keys else [])
    return found


def followed(path: Path, keys: Path | None, stream: int) -> Sides:
    """The same by tshark. Its client is whoever sent first."""
    command = ["tshark", "-n", "-r", str(path), "-q", "-z", f"follow,tls,raw,{stream}"]
    command += ["-o", "tcp.reassemble_out_of_order:TRUE"]
    if keys:
        command += ["-o", f"tls.keylog_file:{keys}"]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    rows = [line for line in lines if line.strip() and set(line.strip()) <= set("0123456789abcdef")]
    client = b"".join(bytes.fromhex(row) for row in rows if not row.startswith("\t"))
    return client, b"".join(bytes.fromhex(row.strip()) for row in rows if row.startswith("\t"))


def same_bytes(path: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    keys = keys_of(path)
    ours = decrypted(path, keys, monkeypatch)
    for stream, sides in ours.items():
        theirs = followed(path, keys, stream)
        assert sorted(map(len, sides)) == sorted(map(len, theirs)), (path.name, stream)
        assert set(sides) == set(theirs), (path.name, stream)
    return sum(len(side) for sides in ours.values() for side in sides)


@pytest.mark.parametrize("name", KEYED)
def test_corpus_decrypts_to_the_same_bytes(
    name: str, corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert same_bytes(corpus / name, monkeypatch) > 100


@pytest.mark.parametrize("name", OWN)
def test_own_captures_decrypt_to_the_same_bytes(
    name: str, captures: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert same_bytes(captures / f"{name}.pcap", monkeypatch) > 100
