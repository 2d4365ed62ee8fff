"""tshark finds nothing malformed in the project's captures, and decrypts with their keys."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "captures"
NAMES = sorted(path.stem for path in FOLDER.glob("*.json"))
TSHARK = shutil.which("tshark")

pytestmark = [
    pytest.mark.oracle,
    pytest.mark.skipif(TSHARK is None, reason="tshark is not installed"),
]


def tshark(name: str, *arguments: str) -> list[str]:
    truth = json.loads((FOLDER / f"{name}.json").read_text())
    command = [str(TSHARK), "-n", "-r", str(FOLDER / truth["file"])]
    for protocol in ("ip", "tcp", "udp"):
        command += ["-o", f"{protocol}.check_checksum:TRUE"]
    command += ["-o", "tcp.reassemble_out_of_order:TRUE", "-d", "tcp.port==3128,http"]
    keys = FOLDER / f"{name}.keys"
    if keys.exists():
        command += ["-o", f"tls.keylog_file:{keys}"]
    ran = subprocess.run([*command, *arguments], capture_output=True, text=True, check=False)
    return ran.stdout.splitlines()


@pytest.mark.parametrize("name", NAMES)
def test_well_formed(name: str) -> None:
    truth = json.loads((FOLDER / f"{name}.json").read_text())
    fields = ("frame.number", "_ws.malformed", "ip", "tcp", "udp")
    wanted = [f if "." in f or "_" in f else f"{f}.checksum.status" for f in fields]
    rows = tshark(name, "-T", "fields", *(part for field in wanted for part in ("-e", field)))
    assert len(rows) == truth["packet_count"]
    for row in rows:
        _, malformed, *checksums = row.split("\t")
        assert malformed == "", row
        assert "0" not in checksums, row  # bad; 1 is good, 2 can't be checked (snap length)
        assert "1" in checksums


@pytest.mark.parametrize("name", ["llm-incident", "sse-stream", "sse-stall", "pcapng-dsb"])
def test_decrypts(name: str) -> None:
    truth = json.loads((FOLDER / f"{name}.json").read_text())
    fields = ["-T", "fields", "-e", "http.request.method", "-e", "http.request.uri"]
    seen = tshark(name, "-Y", "http.request", *fields)
    wanted = [f"{r['method']}\t{r['target']}" for r in truth["requests"]]
    assert sorted(seen) == sorted(wanted)
