"""HTTP messages against tshark: every request's method and target, every response's status.

tshark gets the same keys and puts segments in order. Where the two differ, the table below
says why; each entry is checked, so that none stays when its reason has gone.
"""

from __future__ import annotations

import dataclasses
import json
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from capture_analyzer.api import analyze

pytestmark = [
    pytest.mark.oracle,
    pytest.mark.shared,
    pytest.mark.skipif(shutil.which("tshark") is None, reason="no tshark here"),
]

FIELDS = (
    "http.request.method",
    "http.request.uri",
    "http.response.code",
    "http2.headers.method",
    "http2.headers.path",
    "http2.headers.status",
)
# Ports of HTTP/2 in clear text, which tshark does not find by itself.
CLEAR_HTTP2 = (50051, 44363)

Messages = Counter[tuple[str, ...]]


@dataclasses.dataclass(frozen=True)
class Difference:
    """What one of the two finds and the other does not, and why."""

    reason: str
    ours_only: tuple[tuple[str, ...], ...] = ()
    theirs_only: tuple[tuple[str, ...], ...] = ()


UNTIL_CLOSE = (
    "The answer's content ends with the connection. tshark waits for the FIN to show it, and "
    "drops it where close_notify comes first; RFC 9112, section 6.3, case 8 makes it a response."
)
DIFFERENCES = {
    "corpus/tls-keys/tls_nss_example.pcap": Difference(
        UNTIL_CLOSE, ours_only=(("h1", "200"), ("h1", "200"))
    ),
    "lab/ocsp/s_server-tls13-staple/client.pcap": Difference(
        UNTIL_CLOSE, ours_only=(("h1", "200"),)
    ),
    "lab/ocsp/s_server-tls13-staple/server.pcap": Difference(
        UNTIL_CLOSE, ours_only=(("h1", "200"),)
    ),
    "corpus/http2-grpc/http2-nghttp2.pcap": Difference(
        "The request is a HEADERS frame of 16 KB that a CONTINUATION goes on with, which this "
        "tshark does not decode. And it counts the request that a PUSH_PROMISE announces; "
        "nobody sent that.",
        ours_only=(("h2", "GET", "/"),),
        theirs_only=(("h2", "GET", "/stylesheets/screen.css"),),
    ),
    "lab/capture-quirks/capture-loss/client.pcap": Difference(
        "The capture lacks packets of the answer. tshark gives its TLS stream up at the gap; the "
        "response's head was in front of it.",
        ours_only=(("h1", "200"),),
    ),
}


def theirs(path: Path, keys: Path | None) -> Messages:
    command = ["tshark", "-n", "-r", str(path), "-o", "tcp.reassemble_out_of_order:TRUE"]
    for port in CLEAR_HTTP2:
        command += ["-d", f"tcp.port=={port},http2"]
    if keys:
        command += ["-o", f"tls.keylog_file:{keys}"]
    command += ["-Y", " or ".join(FIELDS), "-T", "fields"]
    command += ["-E", "aggregator=|", *(part for field in FIELDS for part in ("-e", field))]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    found: Messages = Counter()
    for line in ran.stdout.splitlines():
        columns = [column.split("|") if column else [] for column in line.split("\t")]
        for version, (methods, targets, statuses) in (("h1", columns[:3]), ("h2", columns[3:])):
            found.update((version, *pair) for pair in zip(methods, targets, strict=True))
            found.update((version, status) for status in statuses)
    return found


def ours(path: Path, keys: Path | None) -> Messages:
    analysis = analyze(path, keylogs=[keys] if keys else [], redact="none")
    found: Messages = Counter()
    for message in analysis.tables.messages:
        version = "h2" if message.protocol == "h2" else "h1"
        if message.from_client and message.method:
            found[version, message.method, message.target or ""] += 1
        for row in (*message.interim, message):
            if row.status is not None:
                found[version, str(row.status)] += 1
    return found


def keys_of(path: Path) -> Path | None:
    beside = (path.parent / "keys.log", path.with_suffix(".keys"), path.with_suffix(".keys.txt"))
    return next((keys for keys in beside if keys.exists()), None)


def compare(shared: Path, path: Path) -> int:
    """Compare one capture; returns how many messages both found."""
    name = str(path.relative_to(shared))
    keys = keys_of(path)
    mine, tsharks = ours(path, keys), theirs(path, keys)
    known = DIFFERENCES.get(name, Difference(""))
    assert mine - tsharks == Counter(known.ours_only), f"{name}: more than tshark"
    assert tsharks - mine == Counter(known.theirs_only), f"{name}: less than tshark"
    return sum((mine & tsharks).values())


CORPUS = {
    "tls-keys/tls13-rfc8446.pcap": 6,
    "tls-keys/tls12-dsb.pcapng": 4,
    "tls-keys/tls-1.2-stream-keylog.pcap": 32,
    "tls-keys/tls_nss_example.pcap": 2,
    "http2-grpc/http2-brotli.pcapng": 2,
    "http2-grpc/http2-data-reassembly.pcap": 2,
    # In clear text
    "http2-grpc/http2-nghttp2.pcap": 2,
    "http2-grpc/http2-continuation-input.pcap": 2,
    "http2-grpc/grpc_person_search_protobuf_with_image.pcapng.gz": 2,
    "http2-grpc/grpc_stream_reassembly_sample.pcapng.gz": 3,
    "http1/pipelined-requests.pcap": None,
    "http1/100-continue.pcap": None,
    "http1/get-gzip.pcap": None,
    "http1/http-brotli-ce-input.pcap": None,
    "http1/http-packets2.pcap": None,
    "http1/jupyter-websocket.pcap": None,
}
"""Captures with keys (beside or inside) and in clear text, with the number of messages."""


@pytest.mark.parametrize("name", CORPUS)
def test_corpus(name: str, corpus: Path) -> None:
    count = compare(corpus.parent, corpus / name)
    assert count == CORPUS[name] or (CORPUS[name] is None and count > 1)


def test_every_capture_of_the_corpus_with_keys_is_compared(corpus: Path) -> None:
    rows = [line.split("\t") for line in (corpus / "INDEX.tsv").read_text().splitlines()]
    column = rows[0].index("keys")
    with_keys = {row[1] for row in rows[1:] if row[column]}
    not_here = {name for name in with_keys if name.startswith("quic/")}
    not_here.add("tls-keys/tls-renegotiation.pcap")  # a private RSA key is no key log
    assert with_keys - not_here <= set(CORPUS)


GROUPS = [
    "tls13-h1",
    "sse-llm",
    "h2-multiplex",
    "h2-flowcontrol",
    "browser",
    "curl-dns",
    "ocsp",
    "capture-quirks",
    "grpc",
    "http1-plain",
]


@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("side", ["client", "server"])
def test_lab(group: str, side: str, lab: Path) -> None:
    paths = sorted((lab / group).glob(f"*/{side}.pcap*"))
    assert paths
    assert sum(compare(lab.parent, path) for path in paths) > 1


def test_every_difference_is_of_a_capture_that_is_compared(lab: Path) -> None:
    for name in DIFFERENCES:
        assert (lab.parent / name).exists()
        assert name.removeprefix("corpus/") in CORPUS or name.split("/")[1] in GROUPS


def test_the_browsers_requests_are_those_that_the_server_behind_logged(lab: Path) -> None:
    """Chromium over HTTP/2 with nginx, which hands all but three files on."""
    folder = lab / "browser" / "chromium-h2"
    log = json.loads((folder / "truth.json").read_text())["app"]
    handed_on = Counter((r["method"], r["path"]) for r in log if r["ev"] == "req_received")
    assert len(handed_on) == 15
    own = Counter(("GET", path) for path in ("/page.html", "/style.css", "/favicon.ico"))
    for side in ("client", "server"):
        capture = folder / f"{side}.pcap"
        analysis = analyze(capture, keylogs=[folder / "keys.log"], redact="none")
        found = Counter((row.method, row.path) for row in analysis.tables.exchanges)
        assert found == handed_on + own
