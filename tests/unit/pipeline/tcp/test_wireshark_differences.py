"""Every packet of the lab: ours and Wireshark's labels agree, or differ for a reason we name."""

from __future__ import annotations

from collections import Counter

import pytest

from capture_analyzer.model.packets import LABELS, MECHANISMS, SPURIOUS
from capture_analyzer.model.wireshark_labels import DIFFERENCES, agree, why_differs
from capture_analyzer.pipeline.flows import group
from capture_analyzer.pipeline.scan import scan
from capture_analyzer.pipeline.tcp import analyse
from capture_analyzer.pipeline.tcp.wireshark import add_labels
from capture_analyzer.readers import open_capture


@pytest.mark.shared
def test_differences_in_the_lab(lab):
    kinds: Counter[str] = Counter()
    unnamed = []
    paths = sorted(lab.glob("*/*/*.pcap*"))
    assert len(paths) > 100
    for path in paths:
        capture = open_capture(path)
        packets, _ = scan(capture)
        analyse(packets, group(packets))
        add_labels(packets, capture.epoch_ns)
        columns = (packets.label, packets.mechanism, packets.spurious, packets.wireshark_label)
        for number, codes in enumerate(
            zip(*(column.tolist() for column in columns), strict=True), 1
        ):
            label, mechanism, spurious, says = codes
            words = (
                LABELS[label],
                MECHANISMS[mechanism],
                SPURIOUS[spurious],
                packets.wireshark_labels[says],
            )
            if agree(*words):
                continue
            difference = why_differs(*words)
            if difference is None:
                unnamed.append((f"{path.parent.name}/{path.name}", number, words))
            else:
                kinds[difference.name] += 1
    assert unnamed == []
    # The counts in the documentation; after a change to a label, look at what changed.
    assert dict(kinds) == {d.name: d.seen for d in DIFFERENCES if d.seen}
