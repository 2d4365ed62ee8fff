"""Neither secrets of key logs nor what they open get out, whatever is given and whatever fails."""

from __future__ import annotations

import base64
import gzip
import io
import os
import pickle
import re
import subprocess
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from capture_analyzer.api import analyze
from capture_analyzer.cli.main import main
from capture_analyzer.errors import CaptureAnalyzerError
from capture_analyzer.pipeline.dissect.guard import Guard
from capture_analyzer.protocols.tls import decryption
from capture_analyzer.protocols.tls.key_schedule import TLS13_SUITES, traffic_key
from capture_analyzer.readers import open_capture
from capture_analyzer.readers.key_log import parse_key_log

ROOT = Path(__file__).resolve().parents[2]
CAPTURES = ROOT / "captures"
sys.path.insert(0, str(ROOT / "scripts"))

from capture_maker.llm import ANSWER_NEEDLE, NEEDLES, PROMPT  # noqa: E402

BESIDE = sorted(CAPTURES.glob("*.keys"))
INSIDE = sorted(CAPTURES.glob("*dsb*.pcapng"))
OUTPUTS = ("out.html", "out.json", "out.csv")
OPTIONS = ("-o", "out.html", "--json", "out.json", "--packets", "out.csv", "--no-charts")


def capture_of(keys: Path) -> Path:
    return next(path for path in CAPTURES.glob(f"{keys.stem}.pcap*") if path.suffix != ".json")


RUNS = [(capture_of(keys), keys) for keys in BESIDE] + [(path, None) for path in INSIDE]


def secrets_of(capture: Path, keys: Path | None) -> list[bytes]:
    """All secrets of a capture's key logs, and the keys that follow from them."""
    logs = [keys.read_bytes()] if keys else [bytes(log) for log in open_capture(capture).secrets]
    found: list[bytes] = []
    for log in logs:
        for _, labels in parse_key_log(log).sessions():
            for secret in labels.values():
                found.append(secret)
                for suite in (0x1301, 0x1302, 0x1303):
                    key, iv = traffic_key(secret, TLS13_SUITES[suite])
                    found += [key, iv]
    assert found
    return found


def spellings(secret: bytes) -> set[bytes]:
    """How a secret could be written; half of it would be too much as well."""
    every: set[bytes] = set()
    for part in (secret, secret[: len(secret) // 2], secret[len(secret) // 2 :]):
        if len(part) < 6:
            continue
        digits = part.hex()
        every |= {part, digits.encode(), digits.upper().encode(), repr(part)[2:-1].encode()}
        every |= {":".join(re.findall("..", digits)).encode(), " ".join(map(str, part)).encode()}
        every |= {",".join(map(str, part)).encode(), ", ".join(map(str, part)).encode()}
    coded = base64.b64encode(secret).rstrip(b"=")
    every |= {coded, base64.urlsafe_b64encode(secret).rstrip(b"=")}
    return every


_BASE64 = re.compile(rb"[A-Za-z0-9+/]{64,}={0,2}")


def layers(data: bytes) -> Iterator[bytes]:
    """An output, and whatever is packed in it."""
    yield data
    for match in _BASE64.finditer(data):
        try:
            raw = base64.b64decode(match.group() + b"=" * (-len(match.group()) % 4))
        except ValueError:
            continue
        yield raw
        for unpack in (gzip.decompress, zlib.decompress, lambda b: zlib.decompress(b, -15)):
            try:
                yield unpack(raw)
            except (OSError, EOFError, zlib.error):
                continue


def run(
    capture: Path, keys: Path | None, folder: Path, monkeypatch: pytest.MonkeyPatch, *more: str
) -> dict[str, bytes]:
    """Every output of the program by name."""
    monkeypatch.chdir(folder)
    given = ("--keylog", str(keys)) if keys else ()
    arguments = ["analyze", str(capture), *given, *OPTIONS, *more]
    done = CliRunner().invoke(main, arguments, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    outputs = {name: (folder / name).read_bytes() for name in OUTPUTS}
    return {**outputs, "terminal": done.output_bytes}


def leaks(outputs: dict[str, bytes], forbidden: set[bytes]) -> list[str]:
    """Which output gives what away. Text with escapes is undone first."""
    found = []
    for name, data in outputs.items():
        for layer in layers(data):
            # Without case: any spelling in hexadecimal digits is found.
            folded = layer.lower()
            found += [
                f"{name}: {text[:12]!r}"
                for text in forbidden
                if text in layer or text.lower() in folded
            ]
    return found


@pytest.mark.parametrize(("capture", "keys"), RUNS, ids=[path.stem for path, _ in RUNS])
def test_no_output_holds_a_secret_or_what_it_opens(
    capture: Path, keys: Path | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outputs = run(capture, keys, tmp_path, monkeypatch)
    forbidden = {text for secret in secrets_of(capture, keys) for text in spellings(secret)}
    forbidden |= {needle.encode() for needle in NEEDLES}
    assert leaks(outputs, forbidden) == []


@pytest.mark.parametrize("name", ["sse-stream", "sse-gzip", "sse-h2", "llm-incident", "tls12-keys"])
def test_not_even_without_redaction(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = CAPTURES / f"{name}.keys"
    capture = capture_of(keys)
    outputs = run(capture, keys, tmp_path, monkeypatch, "--redact", "none")
    forbidden = {text for secret in secrets_of(capture, keys) for text in spellings(secret)}
    contents = (PROMPT.split(":")[0], ANSWER_NEEDLE, "asked for a recount", "mismatch between")
    forbidden |= {text.encode() for text in contents}
    assert leaks(outputs, forbidden) == []
    if name in ("sse-stream", "sse-h2"):  # there is something to find
        assert b"needle-query-7Qx2" in outputs["out.json"]


def test_the_search_finds(tmp_path: Path) -> None:
    """What would be found, if it were there."""
    secret = bytes(range(40, 88))
    hidden = base64.b64encode(gzip.compress(b'{"a":"' + secret.hex().upper().encode() + b'"}' * 9))
    for output in (
        secret,
        b"x" + secret.hex().encode(),
        secret.hex().title().encode(),
        secret.hex()[:48].encode(),
        base64.b64encode(secret),
        b"<script>" + hidden + b"</script>",
        str(list(secret)).encode(),
    ):
        assert leaks({"out": output}, spellings(secret)), output
    assert leaks({"out": b"nothing of the kind"}, spellings(secret)) == []


def test_tables_hold_no_secret(tmp_path: Path) -> None:
    """Nothing that an exporter could reach."""
    keys = CAPTURES / "sse-h2.keys"
    capture = capture_of(keys)
    analysis = analyze(capture, keylogs=[keys])
    out = io.BytesIO()
    pickle.Pickler(out, protocol=5).dump(analysis)
    forbidden = {text for secret in secrets_of(capture, keys) for text in spellings(secret)}
    forbidden |= {needle.encode() for needle in NEEDLES}
    assert leaks({"pickle": out.getvalue(), "repr": repr(analysis).encode()}, forbidden) == []


def test_errors_quote_no_key_log(tmp_path: Path) -> None:
    secret = "00112233445566778899aabbccddeeff" * 2
    broken = tmp_path / "broken.keys"
    for text in (
        f"CLIENT_RANDOM {secret}\n",
        f"{secret}\n{secret}",
        f"SERVER_TRAFFIC_SECRET_0 {secret} {secret}x",
        f"\x00{secret}",
    ):
        broken.write_text(text)
        with pytest.raises(CaptureAnalyzerError) as caught:
            analyze(CAPTURES / "sse-stream.pcap", keylogs=[broken])
        told = f"{caught.value}{caught.value!r}{caught.value.__cause__!r}{caught.value.args}"
        assert secret[:16] not in told
    arguments = [CAPTURES / "sse-stream.pcap", "--keylog", broken]
    done = subprocess.run(
        [sys.executable, "-m", "capture_analyzer", "analyze", *map(str, arguments)],
        capture_output=True,
        check=False,
        env={**os.environ, "CAPTURE_ANALYZER_DEBUG": "1"},
        text=True,
    )
    assert done.returncode == 3
    assert secret[:16] not in done.stdout + done.stderr


def test_secrets_tell_nothing() -> None:
    secrets = parse_key_log(b"CLIENT_RANDOM " + b"ab" * 32 + b" " + b"cd" * 48)
    assert "cdcd" not in repr(secrets) + str(secrets) + f"{secrets}"
    assert not hasattr(secrets, "__dict__")
    with pytest.raises(TypeError):
        pickle.dumps(secrets)
    opener = decryption.tls13_openers(
        {"CLIENT_TRAFFIC_SECRET_0": b"\xcd" * 48}, 0x1302, "CLIENT_TRAFFIC_SECRET_0"
    )
    assert "cd" * 8 not in repr(opener)
    assert "\\xcd" not in repr(opener)


def test_a_failing_parser_tells_its_kind_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """An exception may quote the plaintext; the anomaly must not."""

    def fail(self: object, *arguments: object) -> None:
        raise ValueError(f"cannot take {arguments!r} {ANSWER_NEEDLE}")

    monkeypatch.setattr(decryption.Decryptor, "open_run", fail)
    monkeypatch.setattr(Guard, "raises", False)
    analysis = analyze(CAPTURES / "sse-stream.pcap", keylogs=[CAPTURES / "sse-stream.keys"])
    told = [a for a in analysis.tables.anomalies if a.code == "parser-failed"]
    assert [a.connection_no for a in told] == [0]
    assert "ValueError" in told[0].detail
    assert ANSWER_NEEDLE not in repr(analysis)
