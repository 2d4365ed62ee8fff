"""``capture-analyzer explain ID``: the documentation of a detector, or of a cause."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import click

from capture_analyzer.errors import OptionError

if TYPE_CHECKING:
    from capture_analyzer.detectors.contract import Detector

WIRESHARK: Final = "wireshark"


@click.command()
@click.argument("name", metavar="ID")
def explain(name: str) -> None:
    """Explain a detector, a cause or a label.

    ID is that of a detector, such as tcp/syn-retransmission, the name of a cause in the ledger
    of an exchange, such as syn_retry, the label of a packet, such as dup_ack, or the cause of a
    silence or what limited a sender, such as timeout_tail. "wireshark" says where and why our
    labels differ from Wireshark's.
    """
    from capture_analyzer.detectors.catalogue import catalogue
    from capture_analyzer.detectors.options import unknown
    from capture_analyzer.model.causes import CAUSES
    from capture_analyzer.model.packet_labels import LABEL_MEANINGS, MECHANISM_MEANINGS
    from capture_analyzer.model.sender_limits import SENDER_LIMITS
    from capture_analyzer.model.stalls import STALLS
    from capture_analyzer.model.wireshark_labels import DIFFERENCES, WIRESHARK_FLAGS

    known = catalogue()
    columns = min(shutil.get_terminal_size().columns, 88)
    if name in known.detectors:
        lines = _detector(known.detectors[name], columns)
    elif name in known.broken:
        raise OptionError(f"the detector {name} {known.broken[name]}")
    elif name in CAUSES:
        lines = _cause(name, columns)
    elif name == WIRESHARK:
        lines = _wireshark(columns)
    elif name in LABEL_MEANINGS:
        lines = _label(name, columns)
    elif name in MECHANISM_MEANINGS:
        lines = _word(name, "how a packet came to be sent again", MECHANISM_MEANINGS[name], columns)
    elif name in STALLS:
        whose, meaning = STALLS[name]
        kind = "a silence of a connection" + ("" if whose == "unknown" else f", the {whose}'s")
        lines = _word(name, kind, meaning, columns)
    elif name in SENDER_LIMITS:
        lines = _word(name, "what limited a sender", SENDER_LIMITS[name], columns)
    elif name in WIRESHARK_FLAGS:
        lines = _word(name, "a flag of Wireshark's", WIRESHARK_FLAGS[name], columns)
    elif name in {difference.name for difference in DIFFERENCES}:
        lines = _difference(name, columns)
    else:
        names = [*known.ids(), *CAUSES, *LABEL_MEANINGS, *MECHANISM_MEANINGS, WIRESHARK]
        names += [
            *STALLS,
            *SENDER_LIMITS,
            *WIRESHARK_FLAGS,
            *(difference.name for difference in DIFFERENCES),
        ]
        raise OptionError(unknown(name, names, "detector, cause or label"))
    click.echo("\n".join(lines))


def _detector(detector: Detector, columns: int) -> Iterator[str]:
    from capture_analyzer.detectors.contract import SECTIONS
    from capture_analyzer.model.column import describe

    meta = detector.meta
    yield detector.id
    yield ""
    yield from _paragraphs(detector.documentation.title, columns)
    for key, heading in SECTIONS.items():
        yield ""
        yield heading
        yield from _paragraphs(getattr(detector.documentation, key), columns, "  ")
    yield ""
    yield "Severity"
    yield from _paragraphs(meta.severity, columns, "  ")
    if meta.causes:
        yield ""
        yield f"Causes of the ledger that it owns: {', '.join(meta.causes)}"
    options = describe(meta.options)
    if options:
        yield ""
        yield "Options"
        for option in options:
            unit = f" {option.unit}" if option.unit else ""
            yield f"  --set {detector.id}.{option.name}={_value(meta.options, option.name)}{unit}"
            yield from _paragraphs(option.doc, columns, "      ")
    if meta.references:
        yield ""
        yield "References"
        for reference in meta.references:
            yield from _paragraphs(reference, columns, "  ")


def _cause(name: str, columns: int) -> Iterator[str]:
    from capture_analyzer.detectors.catalogue import catalogue
    from capture_analyzer.model.causes import CAUSE_CODE, CAUSE_NAMES, CAUSES

    rank = CAUSE_CODE[name]
    yield f"{name} (a cause of the ledger)"
    yield ""
    yield from _paragraphs(f"{CAUSES[name][0].upper()}{CAUSES[name][1:]}.", columns)
    yield ""
    before = ", ".join(CAUSE_NAMES[:rank]) or "no other"
    yield from _paragraphs(
        f"Where waits overlap, the ledger books the time on one cause. This one gives way to: "
        f"{before}.",
        columns,
    )
    owners = [
        detector.id for detector in catalogue().detectors.values() if name in detector.meta.causes
    ]
    yield ""
    yield f"Detectors that judge it: {', '.join(owners) if owners else 'none yet'}"


def _label(name: str, columns: int) -> Iterator[str]:
    from capture_analyzer.model.packet_labels import LABEL_MEANINGS
    from capture_analyzer.model.wireshark_labels import DIFFERENCES, WIRESHARK_FLAGS

    yield from _word(name, "a label of packets", LABEL_MEANINGS[name], columns)
    if name in WIRESHARK_FLAGS:
        yield ""
        yield from _paragraphs(f"Wireshark calls a packet so if {WIRESHARK_FLAGS[name]}.", columns)
    others = [difference for difference in DIFFERENCES if name in difference.labels]
    if others:
        yield ""
        yield "Where Wireshark says something else (explain NAME says why)"
        for difference in others:
            yield from _paragraphs(f"{difference.name}: it says {difference.theirs}", columns, "  ")


def _wireshark(columns: int) -> Iterator[str]:
    from capture_analyzer.model.wireshark_labels import DIFFERENCES

    yield "Where our labels of packets differ from Wireshark's, and why"
    yield ""
    yield from _paragraphs(
        "Wireshark judges a packet by the packets before it and by fixed times; we also use what "
        "comes after it, identifications, timestamps and the side where the capture was made. "
        "The table of packets has both: label, and wireshark_label by Wireshark 4.0's own rules.",
        columns,
    )
    for difference in DIFFERENCES:
        yield ""
        yield from _difference(difference.name, columns)


def _difference(name: str, columns: int) -> Iterator[str]:
    from capture_analyzer.model.wireshark_labels import DIFFERENCES

    found = next(difference for difference in DIFFERENCES if difference.name == name)
    yield f"{found.name}"
    yield from _paragraphs(f"We say: {found.ours}.", columns, "  ")
    yield from _paragraphs(f"Wireshark says: {found.theirs}.", columns, "  ")
    yield from _paragraphs(found.why, columns, "  ")


def _word(name: str, kind: str, meaning: str, columns: int) -> Iterator[str]:
    yield f"{name} ({kind})"
    yield ""
    yield from _paragraphs(f"{meaning[0].upper()}{meaning[1:]}.", columns)


def _value(options: type, name: str) -> object:
    """The default of an option as it is written on a command line."""
    value = getattr(options(), name)
    return str(value).lower() if isinstance(value, bool) else value


def _paragraphs(text: str, columns: int, indent: str = "") -> Iterator[str]:
    """Paragraphs filled to the width, an empty line between them."""
    from capture_analyzer.cli.safe_text import wrap

    for number, paragraph in enumerate(text.split("\n\n")):
        if number:
            yield ""
        for line in wrap(" ".join(paragraph.split()), columns - len(indent), most=99):
            yield indent + line
