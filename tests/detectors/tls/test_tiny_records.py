"""tls/tiny-records on tables made by hand: counts, shares, what is not counted."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest

from capture_analyzer.detectors.runner import run
from capture_analyzer.model.findings import Finding
from capture_analyzer.model.tls_records import ROLE_CODE


def judge(
    hand_made: ModuleType,
    lengths: list[int],
    *,
    together: bool = False,
    from_client: bool = False,
    **connection: Any,
) -> list[Finding]:
    """The findings about a direction with records of these lengths on the wire."""
    records = hand_made.tls_records(*((0, 23, 1 + index // 50) for index in range(len(lengths))))
    records.length[:], records.role[:] = lengths, ROLE_CODE["application"]
    records.plaintext_bytes[:], records.from_client[:] = -1, from_client
    records.offset[:] = np.cumsum([0, *lengths])[:-1]
    if not together:
        records.first_packet_no[:] = np.arange(len(lengths)) % 99 + 1
    values = {"tls": hand_made.tls(), "alpn": "http/1.1", **connection}
    tables = hand_made.tables(connections=[hand_made.connection(**values)], tls_records=records)
    findings, _ = run(tables, select=["tls/tiny-records"])
    return findings


def test_it_fires_from_twenty_and_three_fifths_on(hand_made: ModuleType) -> None:
    assert judge(hand_made, [33] * 20)
    assert not judge(hand_made, [33] * 19)
    assert judge(hand_made, [33] * 60 + [500] * 40)
    assert not judge(hand_made, [33] * 59 + [500] * 41)
    assert not judge(hand_made, [34] * 100)


@pytest.mark.parametrize(("suite", "most"), [("TLS_X_AES_128_GCM", 40), ("TLS_X_CHACHA20", 32)])
def test_the_overhead_of_tls12(hand_made: ModuleType, suite: str, most: int) -> None:
    tls = hand_made.tls(version="TLS 1.2", cipher_suite=suite)
    assert judge(hand_made, [most] * 30, tls=tls)
    assert not judge(hand_made, [most + 1] * 30, tls=tls)


def test_the_rest_of_a_full_record_is_none(hand_made: ModuleType) -> None:
    assert not judge(hand_made, [16_401, 26] * 40)
    assert judge(hand_made, [600, 26, 26] * 40), "600 bytes are no full record"


def test_one_last_small_record_of_each_message_is_none(hand_made: ModuleType) -> None:
    assert not judge(hand_made, [500, 22] * 40)


def test_control_frames_are_none(hand_made: ModuleType) -> None:
    frames = [9 + 17, 13 + 17, 17 + 17] * 20
    assert not judge(hand_made, frames, alpn="h2")
    assert judge(hand_made, frames)


def test_what_it_says(hand_made: ModuleType) -> None:
    (row,) = judge(hand_made, [27] * 30)
    assert row.severity == "warning"
    assert row.summary.replace("\u00a0", " ") == (
        "api.example cut its data into tiny TLS records: 30 of 30 held 16 bytes or less, in 30 "
        "packets; 69 % of what was sent was framing."
    )
    assert (row.count, row.measures["content_bytes"]) == (30, 300)
    (row,) = judge(hand_made, [27] * 30, together=True, from_client=True)
    assert row.severity == "info"
    assert row.summary.startswith("The client of api.example cut")
