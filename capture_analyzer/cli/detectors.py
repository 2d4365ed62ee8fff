"""``capture-analyzer detectors``: the list of what is looked for."""

from __future__ import annotations

import shutil

import click


@click.command()
def detectors() -> None:
    """List the detectors: what is looked for in a capture."""
    from capture_analyzer.cli.safe_text import fit, wrap
    from capture_analyzer.detectors.catalogue import catalogue

    known = catalogue()
    columns = min(shutil.get_terminal_size().columns, 100)
    indent = max(map(len, known.ids()), default=0) + 2
    for detector_id in known.ids():
        if detector_id in known.broken:
            text = known.broken[detector_id]
        else:
            text = known.detectors[detector_id].documentation.title
        lines = wrap(text, columns - indent, most=9)
        click.echo(fit(detector_id, indent) + lines[0])
        for line in lines[1:]:
            click.echo(" " * indent + line)
