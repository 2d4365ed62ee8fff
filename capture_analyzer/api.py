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
from capture_analyzer.model.room import Room
from capture_analyzer.model.scheduler import InProcess, Scheduler
from capture_analyzer.model.secrets import Secrets
from capture_analyzer.model.selection import parse_selection
from capture_analyzer.pipeline.build import build
from capture_analyzer.readers.spool import DEFAULT_LIMIT_BYTES
from capture_analyzer.version import __version__


def analyze(
    capture: str | Path | Sequence[str | Path],
    *,
    keylogs: Sequence[str | Path] = (),
    hosts: Sequence[str] = (),
    ports: Sequence[int] = (),
    start: str | None = None,
    end: str | None = None,
    select: Sequence[str] = (),
    ignore: Sequence[str] = (),
    settings: Mapping[str, Mapping[str, object]] | None = None,
    redact: str = "default",
    jobs: int = 1,
    max_spool: int = DEFAULT_LIMIT_BYTES,
    progress: Progress = silent,
) -> Analysis:
    """Analyse a capture.

    Args:
        capture: a pcap or pcapng file, plain or compressed with gzip, zstd or lz4; "-" for
            standard input; a folder or a pattern of files; or several of these, which are
            merged in time order.
        keylogs: TLS key logs in the NSS format. Key logs inside a pcapng file are used as
            well. Connections that they do not open say why.
        hosts: only connections of one of these addresses, networks or host names.
        ports: only connections of one of these ports.
        start: only connections with a packet since then, and their exchanges: "+12.5" (seconds
            since the first packet), "2026-03-03T14:07:11Z", or seconds since 1970.
        end: likewise, up to then.
        select: ids of the detectors to run; empty = all.
        ignore: ids of detectors not to run.
        settings: options by detector id and option name, over the defaults.
        redact: "none", "default", or a comma list of "hosts", "ips", "paths", which also
            replaces those by sequence numbers.
        jobs: how many processes may work; the result does not depend on it. They are forked
            from the caller's, which is one of them; where that is not possible (Windows), it
            works alone.
        max_spool: most bytes put on disk of what can't be read in place.
        progress: called as long work goes on.

    Returns:
        The tables, the findings made of them, and the outcome of every detector.

    Raises:
        CaptureReadError: a file can't be read, or is no capture of a supported format.
        TwoPointsError: the files hold the same segments, captured at two points.
        KeyLogError: a key log can't be read, or is none.
        WorkerError: a worker process died.
        OptionError: an unknown detector or option, or a value of the wrong type.
    """
    selection = parse_selection(hosts, ports, start, end)
    names = [capture] if isinstance(capture, str | Path) else list(capture)
    collecting = gc.isenabled()
    gc.disable()  # the tables hold no cycles; walking 10^5 fresh rows again and again costs a third
    try:
        room = Room(limit=max_spool)
        packets = readers.open_captures(names, max_spool=max_spool, room=room, progress=progress)
        scheduler = _scheduler(jobs, len(packets), room)
        tables = build(
            packets,
            secrets=_secrets(packets, keylogs),
            selection=selection,
            redact=redact,
            scheduler=scheduler,
            room=room,
            progress=progress,
        )
        progress("judging", 0, 1)
        findings, outcomes = runner.run(
            tables, select=select, ignore=ignore, settings=settings or {}, scheduler=scheduler
        )
        progress("judging", 1, 1)
    finally:
        if collecting:
            gc.enable()
    return Analysis(tables, findings, outcomes, __version__, scheduler)


def _scheduler(jobs: int, packets: int, room: Room) -> Scheduler:
    """Who works: as many processes as may, if there is enough to do for more than one."""
    if jobs > 1:
        from capture_analyzer.pipeline import workers

        if workers.can_fork() and packets >= workers.FEWEST_PACKETS:
            room.shared = True
            return workers.Processes(jobs, room)
    return InProcess()


def _secrets(packets: Capture, keylogs: Sequence[str | Path]) -> Secrets | None:
    """All secrets that were given, in files or inside the capture; None if none were."""
    if not keylogs and not packets.secrets:
        return None
    from capture_analyzer.readers.key_log import parse_key_log, read_key_log

    secrets = Secrets()
    for text in packets.secrets:
        secrets.merge(parse_key_log(text))
    for path in keylogs:
        secrets.merge(read_key_log(Path(path)))
    return secrets
