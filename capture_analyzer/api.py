"""The one composer: readers, pipeline and detectors, from a file to an Analysis."""

from __future__ import annotations

import gc
from collections.abc import Mapping, Sequence
from pathlib import Path

from capture_analyzer import readers
from capture_analyzer.detectors import runner
from capture_analyzer.model.analysis import Analysis
from capture_analyzer.model.capture import Capture
from capture_analyzer.model.progress import Progress, silent
from capture_analyzer.model.secrets import Secrets
from capture_analyzer.pipeline.build import build
from capture_analyzer.readers.key_log import parse_key_log, read_key_log
from capture_analyzer.version import __version__


def analyze(
    capture: str | Path,
    *,
    keylogs: Sequence[str | Path] = (),
    select: Sequence[str] = (),
    ignore: Sequence[str] = (),
    settings: Mapping[str, Mapping[str, object]] | None = None,
    redact: str = "default",
    jobs: int = 1,
    progress: Progress = silent,
) -> Analysis:
    """Analyse a capture file.

    Args:
        capture: a pcap or pcapng file, plain or compressed with gzip.
        keylogs: TLS key logs in the NSS format. Key logs inside a pcapng file are used as
            well. Connections that they do not open say why.
        select: ids of the detectors to run; empty = all.
        ignore: ids of detectors not to run.
        settings: options by detector id and option name, over the defaults.
        redact: "none", "default", or a comma list of "hosts", "ips", "paths", which also
            replaces those by sequence numbers.
        jobs: how many processes may work; the result does not depend on it.
        progress: called as long work goes on.

    Returns:
        The tables, the findings made of them, and the outcome of every detector.

    Raises:
        CaptureReadError: the file can't be read, or is no capture of a supported format.
        KeyLogError: a key log can't be read, or is none.
        OptionError: an unknown detector or option, or a value of the wrong type.
    """
    collecting = gc.isenabled()
    gc.disable()  # the tables hold no cycles; walking 10^5 fresh rows again and again costs a third
    try:
        packets = readers.open_capture(Path(capture), progress=progress)
        tables = build(
            packets,
            secrets=_secrets(packets, keylogs),
            redact=redact,
            progress=progress,
        )
        progress("judging", 0, 1)
        findings, outcomes = runner.run(
            tables, select=select, ignore=ignore, settings=settings or {}
        )
        progress("judging", 1, 1)
    finally:
        if collecting:
            gc.enable()
    return Analysis(tables=tables, findings=findings, detectors=outcomes, version=__version__)


def _secrets(packets: Capture, keylogs: Sequence[str | Path]) -> Secrets | None:
    """All secrets that were given, in files or inside the capture; None if none were."""
    if not keylogs and not packets.secrets:
        return None
    secrets = Secrets()
    for text in packets.secrets:
        secrets.merge(parse_key_log(text))
    for path in keylogs:
        secrets.merge(read_key_log(Path(path)))
    return secrets
