"""``capture-analyzer analyze``: from a capture to verdict, report, JSON and packet table."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from capture_analyzer.cli import exit_codes, output, process
from capture_analyzer.cli.progress import ProgressBar
from capture_analyzer.cli.safe_text import printable
from capture_analyzer.errors import KeyLogError, OptionError

if TYPE_CHECKING:
    from capture_analyzer.model.analysis import Analysis

STANDARD: Final = "-"
_LEVELS: Final = ("critical", "warning", "info")
_BEGINNINGS: Final = frozenset(
    (
        b"\xa1\xb2",
        b"\xd4\xc3",
        b"\x4d\x3c",
        b"\x34\xcd",
        b"\x0a\x0d",
        b"\x1f\x8b",
        b"\x28\xb5",
        b"\x04\x22",
    )
)
"""First two bytes of what `analyze` reads: pcap in its kinds, pcapng, gzip, zstd, lz4."""
_SIZE: Final = r"(?i)(\d{1,12})([KMGT]?)(?:i?B)?"
_REDACTABLE: Final = ("hosts", "ips", "paths")


def _size(ctx: click.Context, param: click.Parameter, value: str) -> int:
    """A number of bytes: "500M", "8G", "1GiB" (powers of 1024)."""
    match = re.fullmatch(_SIZE, value.strip())
    if match is None:
        raise click.BadParameter(f"{value!r} is no size such as 500M or 8G", ctx, param)
    return int(match.group(1)) << 10 * " KMGT".index(match.group(2).upper() or " ")


@click.command()
@click.argument("captures", metavar="CAPTURE...", nargs=-1, required=True)
@click.option("-o", "report", metavar="REPORT.html", help="Write the report.")
@click.option("--json", "json_file", metavar="FILE", help="Write the analysis as JSON; - = stdout.")
@click.option("--packets", metavar="FILE.csv", help="Write a CSV row for every packet.")
@click.option(
    "--keylog",
    "keylogs",
    metavar="FILE",
    multiple=True,
    help="TLS key log (SSLKEYLOGFILE) to decrypt with; may be given several times.",
)
@click.option(
    "--host",
    "hosts",
    metavar="ADDR|NAME",
    multiple=True,
    help="Only connections with this address, network or host name.",
)
@click.option(
    "--port",
    "ports",
    metavar="N",
    type=click.IntRange(1, 65_535),
    multiple=True,
    help="Only connections with this port.",
)
@click.option(
    "--from",
    "start",
    metavar="T",
    help="Only from then on: +SECONDS since the first packet, or a time (2026-03-03T14:07:11Z).",
)
@click.option("--to", "end", metavar="T", help="Only up to then.")
@click.option(
    "--select", metavar="ID", multiple=True, help='Run only these detectors ("tcp/*" works).'
)
@click.option("--ignore", metavar="ID", multiple=True, help="Don't run these detectors.")
@click.option(
    "--set",
    "settings",
    metavar="DETECTOR.OPTION=VALUE",
    multiple=True,
    help="Change an option of a detector; explain ID lists them.",
)
@click.option(
    "--fail-on", type=click.Choice(_LEVELS), help="Exit with 1 on a finding this severe or more."
)
@click.option(
    "--redact",
    metavar="LEVEL",
    default="default",
    show_default=True,
    help="none, default, or a list of hosts,ips,paths to replace by numbers as well.",
)
@click.option(
    "--no-charts",
    is_flag=True,
    help="Leave the script that draws charts (2 MB) out of the report.",
)
@click.option(
    "--jobs",
    metavar="N",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Processes that may work; the result does not depend on it. They pay from some "
    "100,000 packets on.",
)
@click.option(
    "--max-spool",
    metavar="SIZE",
    callback=_size,
    default="8G",
    show_default=True,
    help="Most disk space for what can't be read in place: standard input, compressed files. As "
    "much again may be taken by the packet columns of more than 4 million packets, which are "
    "kept in files so that memory stays bounded (in $TMPDIR, else /tmp).",
)
@click.option("--quiet", is_flag=True, help="No summary and no progress.")
def analyze(
    captures: tuple[str, ...],
    report: str | None,
    json_file: str | None,
    packets: str | None,
    keylogs: tuple[str, ...],
    hosts: tuple[str, ...],
    ports: tuple[int, ...],
    start: str | None,
    end: str | None,
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    settings: tuple[str, ...],
    fail_on: str | None,
    redact: str,
    no_charts: bool,
    jobs: int,
    max_spool: int,
    quiet: bool,
) -> int:
    """Analyse a capture: pcap or pcapng, plain or compressed with gzip, zstd or lz4.

    CAPTURE is a file, - for standard input, a folder or a pattern of files. Several, such as
    the files of a ring, are merged in time order. Says why requests were slow. Without -o the
    result is the summary in the terminal.
    """
    chosen = _settings(settings)
    _check_redaction(redact)
    _check_keylogs(keylogs)
    outputs = {"-o": report, "--json": json_file, "--packets": packets}
    _check_outputs({name: path for name, path in outputs.items() if path}, [*captures, *keylogs])
    if STANDARD in captures and sys.stdin.isatty():
        raise OptionError("- reads a capture from standard input, which is a terminal here")

    from capture_analyzer.api import analyze as analyze_capture

    process.keep_freed_memory()
    with ProgressBar(quiet=quiet) as progress:
        analysis = analyze_capture(
            captures,
            keylogs=keylogs,
            hosts=hosts,
            ports=ports,
            start=start,
            end=end,
            select=select,
            ignore=ignore,
            settings=chosen,
            redact=redact,
            jobs=jobs,
            max_spool=max_spool,
            progress=progress,
        )
        progress("writing", 0, 1)
        try:
            _write(analysis, report, json_file, packets, charts=not no_charts)
        except BrokenPipeError:  # the exit code still says what was found
            output.drop()
    _warn(analysis)
    if not quiet and not _occupied(outputs.values()):
        _summarise(analysis, report)
    return _verdict(analysis, fail_on)


def _occupied(outputs: Iterable[str | None]) -> bool:
    """Whether a result goes to standard output, where the summary would spoil it."""
    from capture_analyzer.exporters.destination import is_standard_output

    return any(path is not None and is_standard_output(path) for path in outputs)


def _settings(texts: tuple[str, ...]) -> dict[str, dict[str, object]]:
    """DETECTOR.OPTION=VALUE texts by detector and option; the last of several counts."""
    settings: dict[str, dict[str, object]] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        detector_id, dot, option = name.rpartition(".")
        if not (equals and dot and detector_id and option):
            raise OptionError(f"--set takes DETECTOR.OPTION=VALUE, not {text!r}")
        settings.setdefault(detector_id, {})[option] = value
    return settings


def _check_redaction(level: str) -> None:
    if level in {"none", "default"} or set(level.split(",")) <= set(_REDACTABLE):
        return
    raise OptionError(
        f"--redact takes none, default or a list of {','.join(_REDACTABLE)}, not {level!r}"
    )


def _check_keylogs(paths: tuple[str, ...]) -> None:
    for path in paths:
        try:
            with Path(path).open("rb") as file:
                file.read(1)
        except OSError as error:
            raise KeyLogError(f"{path}: {error.strerror or 'unreadable'}") from None


def _check_outputs(outputs: dict[str, str], inputs: list[str]) -> None:
    """Complain before the work about destinations that can't work."""
    from capture_analyzer.exporters.destination import check, is_standard_output

    seen: dict[str, str] = {}
    read = {os.path.realpath(path) for path in inputs if path != STANDARD}
    folders = {path for path in read if Path(path).is_dir()}
    for option, path in outputs.items():
        place = STANDARD if is_standard_output(path) else os.path.realpath(path)
        if place in read:
            raise OptionError(f"{option} {path} would overwrite an input")
        if os.path.dirname(place) in folders and _is_capture(place):  # noqa: PTH120
            raise OptionError(f"{option} {path} would overwrite a capture")
        other = seen.setdefault(place, option)
        if other != option:
            raise OptionError(f"{other} and {option} can't both write to {path}")
        check(path)


def _is_capture(path: str) -> bool:
    """Whether there is a file that begins like a capture or a compressed one."""
    try:
        with Path(path).open("rb") as file:
            return file.read(2) in _BEGINNINGS
    except OSError:
        return False


def _write(
    analysis: Analysis,
    report: str | None,
    json_file: str | None,
    packets: str | None,
    *,
    charts: bool,
) -> None:
    if json_file:
        from capture_analyzer.exporters import json as json_exporter

        json_exporter.export(analysis, json_file)
    if packets:
        from capture_analyzer.exporters import packets_csv

        packets_csv.export(analysis, packets)
    if report:
        from capture_analyzer.exporters.destination import write_bytes
        from capture_analyzer.report import html

        write_bytes(report, html.render(analysis, charts=charts))


def _warn(analysis: Analysis) -> None:
    """Name detectors that failed: their silence is no good news."""
    for outcome in analysis.detectors:
        if outcome.outcome == "failed":
            text = f"capture-analyzer: the detector {outcome.id} failed: {outcome.reason}"
            click.echo(printable(text), err=True)


def _summarise(analysis: Analysis, report: str | None) -> None:
    from capture_analyzer.cli import terminal

    colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    columns = shutil.get_terminal_size().columns
    try:
        for line in terminal.summary(analysis, columns=columns, report=report):
            click.echo(terminal.painted(line) if colour else terminal.plain(line), color=colour)
        sys.stdout.flush()
    except BrokenPipeError:
        output.drop()


def _verdict(analysis: Analysis, fail_on: str | None) -> int:
    if fail_on is None:
        return exit_codes.DONE
    failing = _LEVELS[: _LEVELS.index(fail_on) + 1]
    found = any(finding.severity in failing for finding in analysis.findings)
    return exit_codes.MISSED if found else exit_codes.DONE
