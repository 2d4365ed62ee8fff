"""The one composer: readers, pipeline and detectors, from a file to an Analysis."""

from __future__ import annotations

import gc
from collections.abc import Mapping, Sequence
from pathlib import Path

from capture_analyzer import readers
from capture_analyzer.detectors import runner
from capture_analyzer.model.analysis import Analysis
from capture_analyzer.model.progress import Progress, silent
from capture_analyzer.pipeline.build import build
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
        keylogs: TLS key logs in the NSS format. Decryption is not built yet: they are
            accepted, and connections say why they were not decrypted.
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
        OptionError: an unknown detector or option, or a value of the wrong type.
    """
    collecting = gc.isenabled()
    gc.disable()  # the tables hold no cycles; walking 10^5 fresh rows again and again costs a third
    try:
        packets = readers.open_capture(Path(capture), progress=progress)
        tables = build(packets, keys_given=bool(keylogs), redact=redact, progress=progress)
        progress("judging", 0, 1)
        findings, outcomes = runner.run(
            tables, select=select, ignore=ignore, settings=settings or {}
        )
        progress("judging", 1, 1)
    finally:
        if collecting:
            gc.enable()
    return Analysis(tables=tables, findings=findings, detectors=outcomes, version=__version__)
