"""The command line from outside: options, exit codes, streams."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from capture_analyzer.cli import main as program
from capture_analyzer.errors import CaptureReadError, UnsupportedFormatError
from capture_analyzer.model.findings import DetectorOutcome, Finding
from capture_analyzer.version import __version__

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    """Runs the program in this process; gives exit code, stdout, stderr."""

    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["capture-analyzer", *map(str, arguments)])
        monkeypatch.setattr("capture_analyzer.cli.process.end", sys.exit)  # not this process
        with pytest.raises(SystemExit) as stop:
            program.run()
        assert isinstance(stop.value.code, int)
        out, err = capfd.readouterr()
        return stop.value.code, out, err

    return run


@pytest.fixture
def analysed(monkeypatch: pytest.MonkeyPatch, hand_made: ModuleType) -> dict[str, Any]:
    """Replaces the analysis by a hand-made one; gives the arguments it was called with."""
    called: dict[str, Any] = {}
    findings = [Finding("http/slow-server", "warning", 1.0, "It waited.", finding_no=0, cost_ns=5)]
    outcomes = [DetectorOutcome("http/slow-server", "ran")]
    called["findings"], called["outcomes"] = findings, outcomes

    def analyze(capture: str, **options: Any) -> Any:
        called.update(capture=capture, **options)
        if isinstance(called.get("raises"), BaseException):
            raise called["raises"]
        return hand_made.analysis(findings=findings, detectors=outcomes)

    monkeypatch.setattr("capture_analyzer.api.analyze", analyze)
    return called


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_output_that_finds_no_place() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "capture_analyzer", "--version"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 2
    assert done.stderr == (
        "capture-analyzer: the output can't be written: No space left on device\n"
    )


def test_version(run: Run) -> None:
    assert run("--version") == (0, f"capture-analyzer {__version__}\n", "")


def test_help_of_every_command(run: Run) -> None:
    for command in program.main.commands:
        code, out, _ = run(command, "--help")
        assert code == 0
        assert out.startswith(f"Usage: capture-analyzer {command}")


@pytest.mark.parametrize(
    "arguments",
    [
        ("nonsense",),
        ("analyze",),
        ("analyze", "x.pcap", "--nonsense"),
        ("analyze", "x.pcap", "--fail-on", "dreadful"),
        ("analyze", "x.pcap", "--jobs", "0"),
        ("analyze", "x.pcap", "--set", "http/slow-server"),
        ("analyze", "x.pcap", "--set", "warning_ms=5"),
        ("analyze", "x.pcap", "--redact", "everything"),
        ("analyze", "x.pcap", "--redact", "hosts,default"),
        ("analyze", "x.pcap", "--json", "a", "--packets", "a"),
        ("analyze", "x.pcap", "--json", "-", "-o", "/dev/stdout"),
        ("analyze", "x.pcap", "--json", "missing-folder/a.json"),
        ("analyze", "x.pcap", "--port", "65536"),
        ("analyze", "x.pcap", "--max-spool", "5Q"),
        ("explain", "http/slow-servr"),
    ],
)
def test_usage_errors(arguments: tuple[str, ...], run: Run, analysed: dict[str, Any]) -> None:
    code, out, err = run(*arguments)
    assert code == 2
    assert out == ""
    assert err
    assert "Traceback" not in err


def test_inputs_are_not_overwritten(run: Run, tmp_path: Path, analysed: dict[str, Any]) -> None:
    capture = tmp_path / "a.pcap"
    capture.write_bytes(b"precious")
    (tmp_path / "link").symlink_to(capture)
    for output in (capture, tmp_path / "link"):
        code, _, err = run("analyze", capture, "--json", output)
        assert code == 2
        assert "would overwrite an input" in err
    capture.write_bytes(b"\x0a\x0d precious")
    code, _, err = run("analyze", tmp_path, "--json", capture)
    assert code == 2
    assert "would overwrite a capture" in err
    assert run("analyze", tmp_path, "--json", tmp_path / "new.json")[0] == 0
    capture.write_bytes(b"precious")
    code, _, _ = run("analyze", "other.pcap", "--keylog", capture, "-o", capture)
    assert code == 2
    assert capture.read_bytes() == b"precious"


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (CaptureReadError("x.pcap", "is no file"), 3, "capture-analyzer: x.pcap: is no file\n"),
        (UnsupportedFormatError("x.pcap", "\x1b[2J", 7), 3, "\\x1b[2J (at byte 7)"),
        (KeyboardInterrupt(), 130, ""),
        (ValueError("GET /captured"), 4, "internal error: ValueError in cli/test_main.py, line"),
        (MemoryError(), 4, "internal error: MemoryError"),
    ],
)
def test_exit_codes(
    error: BaseException, code: int, message: str, run: Run, analysed: dict[str, Any]
) -> None:
    analysed["raises"] = error
    got, out, err = run("analyze", "x.pcap")
    assert got == code
    assert out == ""
    assert message in err
    assert "captured" not in err
    assert "Traceback" not in err


def test_traceback_on_demand(
    run: Run, analysed: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    analysed["raises"] = ValueError("detail")
    monkeypatch.setenv("CAPTURE_ANALYZER_DEBUG", "1")
    code, _, err = run("analyze", "x.pcap")
    assert code == 4
    assert "Traceback" in err
    assert "ValueError: detail" in err


@pytest.mark.parametrize(
    ("level", "severity", "code"),
    [
        (None, "critical", 0),
        ("critical", "critical", 1),
        ("critical", "warning", 0),
        ("warning", "critical", 1),
        ("warning", "warning", 1),
        ("warning", "info", 0),
        ("info", "info", 1),
    ],
)
def test_fail_on(
    level: str | None, severity: Any, code: int, run: Run, analysed: dict[str, Any]
) -> None:
    analysed["findings"][0].severity = severity
    options = ["--fail-on", level] if level else []
    assert run("analyze", "x.pcap", "--quiet", *options)[0] == code


def test_fail_on_without_findings(run: Run, analysed: dict[str, Any]) -> None:
    analysed["findings"].clear()
    assert run("analyze", "x.pcap", "--quiet", "--fail-on", "info")[0] == 0


def test_options_reach_the_analysis(run: Run, tmp_path: Path, analysed: dict[str, Any]) -> None:
    keys = tmp_path / "keys.log"
    keys.write_text("# none\n")
    options = ["--keylog", keys, "--select", "tcp/*", "--ignore", "a/b", "--redact", "hosts,ips"]
    options += ["--host", "a.example", "--host", "10.0.0.1", "--port", "443", "--from", "+1"]
    options += ["--to", "+2", "--max-spool", "3m"]
    options += ["--set", "a/b.x=1", "--set", "a/b.y=p=q", "--set", "a/b.x=2", "--jobs", "2"]
    assert run("analyze", "x.pcap", "y.pcap", *options)[0] == 0
    assert analysed["capture"] == ("x.pcap", "y.pcap")
    assert (analysed["hosts"], analysed["ports"]) == (("a.example", "10.0.0.1"), (443,))
    assert (analysed["start"], analysed["end"], analysed["max_spool"]) == ("+1", "+2", 3 << 20)
    assert analysed["keylogs"] == (str(keys),)
    assert analysed["select"] == ("tcp/*",)
    assert analysed["ignore"] == ("a/b",)
    assert analysed["settings"] == {"a/b": {"x": "2", "y": "p=q"}}
    assert analysed["redact"] == "hosts,ips"
    assert analysed["jobs"] == 2


def test_unreadable_key_log(run: Run, tmp_path: Path, analysed: dict[str, Any]) -> None:
    code, _, err = run("analyze", "x.pcap", "--keylog", tmp_path / "none.log")
    assert code == 3
    assert "none.log: No such file or directory" in err
    assert "capture" not in analysed  # found out before the work


def test_json_on_standard_output_is_all_there_is(run: Run, analysed: dict[str, Any]) -> None:
    for name in ("-", "/dev/stdout"):
        code, out, err = run("analyze", "x.pcap", "--json", name)
        assert code == 0
        assert json.loads(out)["schema"] == "capture-analyzer/analysis/1"
        assert err == ""


def test_all_outputs_at_once(run: Run, tmp_path: Path, analysed: dict[str, Any]) -> None:
    names = {"-o": "r.html", "--json": "a.json", "--packets": "p.csv"}
    options = [item for option, name in names.items() for item in (option, tmp_path / name)]
    code, out, err = run("analyze", "x.pcap", *options)
    assert (code, err) == (0, "")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(names.values())
    assert out.endswith(f"\nReport: {tmp_path / 'r.html'}\n")


def test_quiet(run: Run, analysed: dict[str, Any]) -> None:
    assert run("analyze", "x.pcap", "--quiet") == (0, "", "")


def test_failed_detector_is_named(run: Run, analysed: dict[str, Any]) -> None:
    analysed["outcomes"].append(DetectorOutcome("acme/x", "failed", "KeyError in x.py, line 3"))
    _, _, err = run("analyze", "x.pcap")
    assert err == "capture-analyzer: the detector acme/x failed: KeyError in x.py, line 3\n"


def test_summary_is_plain_where_it_is_no_terminal(run: Run, analysed: dict[str, Any]) -> None:
    code, out, err = run("analyze", "x.pcap")
    assert (code, err) == (0, "")
    assert "It waited" in out
    assert "\x1b" not in out


def test_explain_detector(run: Run) -> None:
    code, out, _ = run("explain", "http/slow-server")
    assert code == 0
    for part in ("What it detects", "When it is wrong", "--set http/slow-server.warning_ms=500"):
        assert part in out


def test_explain_silences_and_limits(run: Run) -> None:
    for name, kind in (
        ("timeout_tail", "a silence of a connection, the network's"),
        ("recovery", "what limited a sender"),
    ):
        code, out, _ = run("explain", name)
        assert code == 0
        assert out.startswith(f"{name} ({kind})\n")


def test_explain_cause(run: Run) -> None:
    code, out, _ = run("explain", "syn_retry")
    assert code == 0
    assert "Detectors that judge it: tcp/syn-retransmission" in out


def test_explain_every_word_of_the_packet_table(run: Run) -> None:
    from capture_analyzer.model.packet_labels import LABEL_MEANINGS, MECHANISM_MEANINGS
    from capture_analyzer.model.packets import LABELS, MECHANISMS

    assert tuple(LABEL_MEANINGS) == LABELS
    assert ("", *MECHANISM_MEANINGS) == MECHANISMS
    assert run("explain", "dup_ack")[1].startswith("dup_ack (a label of packets)\n\nIt ack")
    assert "RFC 8985" in run("explain", "tlp")[1]


def test_explain_why_wireshark_says_something_else(run: Run) -> None:
    from capture_analyzer.model.wireshark_labels import DIFFERENCES, WIRESHARK_FLAGS

    code, out, _ = run("explain", "wireshark")
    assert code == 0
    for difference in DIFFERENCES:
        assert difference.name in out
        assert run("explain", difference.name)[1].startswith(f"{difference.name}\n")
    for flag in WIRESHARK_FLAGS:
        assert run("explain", flag)[0] == 0, flag
    assert "fast-as-out-of-order: it says out_of_order" in run("explain", "retransmission")[1]


def test_explain_suggests_the_nearest(run: Run) -> None:
    assert "did you mean http/slow-server?" in run("explain", "http/slow-servr")[2]


def test_report_without_charts(run: Run, captures: Path, tmp_path: Path) -> None:
    sizes = []
    for option in ([], ["--no-charts"]):
        report = tmp_path / "report.html"
        keys = ("--keylog", captures / "sse-stream.keys")
        code, _, err = run("analyze", captures / "sse-stream.pcap", *keys, "-o", report, *option)
        assert (code, err) == (0, "")
        sizes.append(report.stat().st_size)
        assert (b'id="chart-script">' in report.read_bytes()) == (not option)
    assert sizes[0] > 1_900_000
    assert sizes[1] < 300_000


def test_list_of_detectors(run: Run) -> None:
    code, out, _ = run("detectors")
    assert code == 0
    assert any(line.startswith("capture/not-decrypted ") for line in out.splitlines())


def test_reader_that_goes_away_is_no_error(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "capture_analyzer", "explain", "http/slow-server"],
        stdout=writer,
        stderr=subprocess.PIPE,
        check=False,
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, b"")


def test_plain_locale_gets_its_characters_escaped() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "capture_analyzer", "explain", "capture/not-decrypted"],
        capture_output=True,
        check=False,
        env={**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"},
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.isascii()


def test_module_is_the_same_program() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "capture_analyzer", "--version"], capture_output=True, check=True
    )
    assert done.stdout.decode() == f"capture-analyzer {__version__}\n"


def test_several_captures_and_standard_input(captures: Path, tmp_path: Path) -> None:
    whole = (captures / "http-keepalive.pcap").read_bytes()
    half = 24
    while half < len(whole) // 2:
        half += 16 + int.from_bytes(whole[half + 8 : half + 12], "little")
    (tmp_path / "b").write_bytes(whole[:half])
    (tmp_path / "a").write_bytes(whole[:24] + whole[half:])
    command = [sys.executable, "-m", "capture_analyzer", "analyze", "--quiet", "--json", "-"]

    def connections(*arguments: object, stdin: bytes = b"") -> Any:
        done = subprocess.run(
            [*command, *map(str, arguments)], input=stdin, capture_output=True, check=False
        )
        assert done.returncode == 0, done.stderr
        result = json.loads(done.stdout)
        return result["connections"], result["exchanges"], result["capture"]["files"]

    expected = connections(captures / "http-keepalive.pcap")
    for arguments in ((tmp_path / "a", tmp_path / "b"), (tmp_path,), (f"{tmp_path}/[ab]",)):
        got = connections(*arguments)
        assert got[:2] == expected[:2]
        assert [file["name"] for file in got[2]] == ["b", "a"]
    got = connections("-", stdin=whole)
    assert got[:2] == expected[:2]
    assert [file["name"] for file in got[2]] == ["stdin"]


def test_two_points_are_refused_in_one_sentence(captures: Path) -> None:
    names = ["loss-fast-client.pcap", "loss-fast-server.pcap"]
    command = [sys.executable, "-m", "capture_analyzer", "analyze"]
    command += [str(captures / name) for name in names]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert all(name in done.stderr for name in names)
