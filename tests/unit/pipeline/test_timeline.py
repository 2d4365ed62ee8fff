"""Ledger and phases of exchanges made by hand."""

from __future__ import annotations

from typing import Any

import numpy as np

from capture_analyzer.model.causes import CAUSE_CODE, CAUSE_NAMES
from capture_analyzer.model.exchanges import Exchange, Exchanges
from capture_analyzer.model.waits import Ledger, Waits
from capture_analyzer.pipeline.timeline import add_phases, resolve

MS = 1_000_000


def exchange(number: int = 0, start: int = 0, last: int = 100, **columns: Any) -> Exchange:
    base: dict[str, Any] = {
        "exchange_no": number,
        "connection_no": 0,
        "stream_id": None,
        "protocol": "http/1.1",
        "kind": "http",
        "inferred": False,
        "start_ns": start,
        "request_start_ns": start,
        "request_end_ns": start,
        "end_ns": last,
        "last_ns": last,
        "request_first_packet_no": 1,
    }
    return Exchange(**(base | columns))


def waits(*rows: tuple[int, str, int, int, int]) -> Waits:
    """Of each: exchange, cause, from, to, a number that its packets and confidence tell."""
    count = len(rows)
    number = np.array([row[4] for row in rows], np.int32)
    return Waits(
        from_ns=np.array([row[2] for row in rows], np.int64),
        to_ns=np.array([row[3] for row in rows], np.int64),
        connection_no=np.zeros(count, np.int32),
        exchange_no=np.array([row[0] for row in rows], np.int32),
        cause=np.array([CAUSE_CODE[row[1]] for row in rows], np.uint8),
        confidence=(number / 100).astype(np.float32),
        packet_a=number,
        packet_b=number + 50,
        packet_c=np.where(number % 2, number + 80, 0).astype(np.int32),
    )


def entries(ledger: Ledger) -> list[tuple[int, str, int, int]]:
    return [
        (x, CAUSE_NAMES[cause], begin, end)
        for x, cause, begin, end in zip(
            ledger.exchange_no.tolist(),
            ledger.cause.tolist(),
            ledger.from_ns.tolist(),
            ledger.to_ns.tolist(),
            strict=True,
        )
    ]


def test_no_exchange_no_ledger() -> None:
    assert len(resolve(Exchanges.of([]), Waits())) == 0


def test_without_waits_all_is_unknown() -> None:
    rows = [exchange(0), exchange(1, 50, 80)]
    assert entries(resolve(Exchanges.of(rows), Waits())) == [
        (0, "unknown", 0, 100),
        (1, "unknown", 50, 80),
    ]


def test_an_exchange_of_no_length_has_one_entry() -> None:
    rows = [exchange(0, 7, 7), exchange(1, 8, 9)]
    assert entries(resolve(Exchanges.of(rows), Waits()))[0] == (0, "unknown", 7, 7)


def test_a_wait_around_an_exchange_of_no_length_is_of_no_consequence() -> None:
    ledger = resolve(Exchanges.of([exchange(0, 7, 7)]), waits((0, "transfer", 0, 10, 1)))
    assert entries(ledger) == [(0, "unknown", 7, 7)]


def test_the_stronger_cause_cuts_the_weaker_in_two() -> None:
    ledger = resolve(
        Exchanges.of([exchange()]),
        waits((0, "transfer", 0, 100, 1), (0, "loss_recovery", 30, 60, 2)),
    )
    assert entries(ledger) == [
        (0, "transfer", 0, 30),
        (0, "loss_recovery", 30, 60),
        (0, "transfer", 60, 100),
    ]
    assert ledger.packet_a.tolist() == [1, 2, 1]
    assert ledger.packet_b.tolist() == [51, 52, 51]
    assert ledger.packet_c.tolist() == [81, 0, 81]


def test_neighbours_of_one_cause_join_with_the_evidence_of_both() -> None:
    ledger = resolve(
        Exchanges.of([exchange()]),
        waits((0, "loss_recovery", 50, 100, 4), (0, "loss_recovery", 0, 50, 6)),
    )
    assert entries(ledger) == [(0, "loss_recovery", 0, 100)]
    assert (ledger.packet_a[0], ledger.packet_b[0]) == (6, 54)
    assert ledger.confidence[0] == np.float32(0.04)


def test_a_long_wait_keeps_an_entry_of_its_own() -> None:
    rows = waits(
        (0, "generation", 0, 30 * MS, 2),
        (0, "generation", 30 * MS, 60 * MS, 4),
        (0, "generation", 60 * MS, 360 * MS, 6),
        (0, "generation", 360 * MS, 390 * MS, 8),
        (0, "generation", 390 * MS, 400 * MS, 10),
    )
    ledger = resolve(Exchanges.of([exchange(last=400 * MS)]), rows)
    assert [(b // MS, e // MS) for _, _, b, e in entries(ledger)] == [
        (0, 60),
        (60, 360),
        (360, 400),
    ]
    assert ledger.packet_a.tolist() == [2, 6, 8]
    assert ledger.packet_b.tolist() == [54, 56, 60]


def test_long_waits_that_overlap_are_one() -> None:
    rows = waits((0, "loss_recovery", 0, 250 * MS, 2), (0, "loss_recovery", 200 * MS, 400 * MS, 4))
    ledger = resolve(Exchanges.of([exchange(last=400 * MS)]), rows)
    assert entries(ledger) == [(0, "loss_recovery", 0, 400 * MS)]


def test_what_cuts_a_long_wait_leaves_its_parts_apart() -> None:
    rows = waits(
        (0, "generation", 0, 300 * MS, 2),
        (0, "generation", 300 * MS, 330 * MS, 4),
        (0, "loss_recovery", 100 * MS, 150 * MS, 6),
    )
    ledger = resolve(Exchanges.of([exchange(last=330 * MS)]), rows)
    assert [(c, b // MS, e // MS) for _, c, b, e in entries(ledger)] == [
        ("generation", 0, 100),
        ("loss_recovery", 100, 150),
        ("generation", 150, 300),
        ("generation", 300, 330),
    ]
    assert ledger.packet_b.tolist() == [52, 56, 52, 54]


def test_an_entry_ends_where_the_first_token_came() -> None:
    rows = [exchange(0, ttft_ns=40), exchange(1, 50, 90, ttft_ns=0)]
    ledger = resolve(
        Exchanges.of(rows), waits((0, "generation", 20, 90, 1), (1, "transfer", 50, 90, 3))
    )
    assert entries(ledger) == [
        (0, "unknown", 0, 20),
        (0, "generation", 20, 40),
        (0, "generation", 40, 90),
        (0, "unknown", 90, 100),
        (1, "transfer", 50, 90),
    ]


def test_waits_are_cut_to_their_exchange() -> None:
    rows = [exchange(0, 10, 20), exchange(1, 20, 30)]
    ledger = resolve(Exchanges.of(rows), waits((0, "dns", 0, 99, 1), (1, "dns", 0, 25, 1)))
    assert entries(ledger) == [(0, "dns", 10, 20), (1, "dns", 20, 25), (1, "unknown", 25, 30)]


def test_waits_of_no_exchange_are_left_out() -> None:
    ledger = resolve(Exchanges.of([exchange()]), waits((-1, "dns", 0, 100, 1)))
    assert entries(ledger) == [(0, "unknown", 0, 100)]


def test_where_the_capture_cuts_the_ledger_runs_to_the_last_packet() -> None:
    ledger = resolve(Exchanges.of([exchange(end_ns=None, last_ns=60)]), Waits())
    assert entries(ledger) == [(0, "unknown", 0, 60)]


def test_rows_are_found_by_exchange() -> None:
    rows = [exchange(0), exchange(1, 50, 80)]
    ledger = resolve(Exchanges.of(rows), waits((0, "dns", 0, 10, 1)))
    assert ledger.rows_of(0) == slice(0, 2)
    assert ledger.rows_of(1) == slice(2, 3)


def test_phases_without_a_set_up() -> None:
    row = exchange(request_end_ns=20, response_start_ns=70)
    add_phases(Exchanges.of([row]), [])
    phases = row.phases
    assert (phases.send_ns, phases.wait_ns, phases.receive_ns) == (20, 50, 30)
    assert (phases.dns_ns, phases.connect_ns, phases.tls_ns, phases.idle_ns) == (None,) * 4


def test_an_early_answer_cuts_send() -> None:
    row = exchange(request_end_ns=90, response_start_ns=40)
    add_phases(Exchanges.of([row]), [])
    assert (row.phases.send_ns, row.phases.wait_ns, row.phases.receive_ns) == (40, 0, 60)


def test_without_an_answer_all_behind_the_request_is_wait() -> None:
    row = exchange(request_end_ns=20)
    add_phases(Exchanges.of([row]), [])
    assert (row.phases.send_ns, row.phases.wait_ns, row.phases.receive_ns) == (20, 80, None)


def test_without_its_request_all_of_an_answer_is_receive() -> None:
    row = exchange(request_first_packet_no=None, response_start_ns=0)
    add_phases(Exchanges.of([row]), [])
    assert (row.phases.send_ns, row.phases.wait_ns, row.phases.receive_ns) == (None, None, 100)
