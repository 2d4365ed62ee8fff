"""What was sent again: by which mechanism, and whether the receiver had it already."""

from __future__ import annotations

import pytest

from capture_analyzer.model.packets import LABELS, MECHANISMS, SACK_PERMITTED, SPURIOUS

MSS = 1000
BASE = 5001


class Transfer:
    """The server sends numbered segments of 1000 bytes; round trip 20 ms, SACK allowed."""

    def __init__(self, wire, *, at_client, sack=True, stamps=False):
        self.wire = wire
        self.at_client = at_client
        self.stamps = stamps
        self.ttl = {"client": 64 if at_client else 57, "server": 57 if at_client else 64}
        allowed = {"options": SACK_PERMITTED} if sack else {}
        near, far = (0.05, 20) if at_client else (20, 0.05)
        self._send("client", 0, "S", 1000, 0, b"", **allowed)
        self._send("server", far, "SA", 5000, 1001, b"", **allowed)
        self._send("client", far + near, "A", 1001, BASE, b"")

    def _send(self, side, at, flags, seq, ack, payload, **more):
        if self.stamps:
            more.setdefault("tsval", round(at) + 1000)
        send = self.wire.client if side == "client" else self.wire.server
        send(at, flags, seq, ack, payload, ttl=self.ttl[side], **more)

    def data(self, at, number, count=1, **more):
        self._send("server", at, "A", BASE + number * MSS, 1001, b"x" * MSS * count, **more)

    def ack(self, at, upto, sack=(), **more):
        blocks = [(BASE + a * MSS, BASE + b * MSS) for a, b in sack]
        self._send("client", at, "A", 1001, BASE + upto * MSS, b"", sack=blocks, **more)

    def result(self):
        """(packet_no, mechanism, spurious) of what was sent again."""
        packets = self.wire.analyse().packets
        return [
            (i + 1, MECHANISMS[packets.mechanism[i]], SPURIOUS[packets.spurious[i]])
            for i in range(len(packets))
            if LABELS[packets.label[i]] == "retransmission"
        ]


@pytest.fixture
def sender(new_wire):
    return Transfer(new_wire(), at_client=False)


@pytest.fixture
def receiver(new_wire):
    return Transfer(new_wire(), at_client=True)


def test_fast_by_sack_at_the_sender(sender):
    for n in range(4):
        sender.data(100 + n / 10, n)
    sender.ack(120, 1)
    sender.ack(120.2, 1, [(2, 3)])
    sender.data(120.3, 1)
    sender.ack(140.3, 4)
    assert sender.result() == [(10, "fast", "false")]


def test_fast_by_sack_at_the_receiver(receiver):
    receiver.data(100, 0)
    receiver.ack(100.1, 1)
    receiver.data(100.2, 2)
    receiver.ack(100.3, 1, [(2, 3)])
    receiver.data(120.4, 1)
    receiver.ack(120.5, 3)
    assert receiver.result() == [(8, "fast", "false")]


def test_fast_by_three_duplicate_acknowledgements_without_sack(new_wire):
    for duplicates, mechanism in ((3, "fast"), (2, "rto")):
        transfer = Transfer(new_wire(), at_client=False, sack=False)
        for n in range(5):
            transfer.data(100 + n / 10, n)
        transfer.ack(120, 1)
        for n in range(duplicates):
            transfer.ack(120.1 + n / 10, 1)
        transfer.data(121, 1)
        transfer.ack(141, 5)
        assert [m for _, m, _ in transfer.result()] == [mechanism]


def test_the_first_timer_sends_the_last_segment_a_probe(sender):
    sender.data(100, 0)
    sender.data(100.1, 1)
    sender.ack(120.1, 1)
    sender.data(360, 1)
    sender.ack(380, 2)
    assert sender.result() == [(7, "tlp", "false")]


def test_a_timer_that_sends_the_first_of_several_is_the_retransmission_timer(sender):
    for n in range(3):
        sender.data(100 + n / 10, n)
    sender.data(360, 0)
    sender.ack(380, 1)
    sender.data(380.1, 1)
    sender.data(380.2, 2)
    sender.ack(400.2, 3)
    assert sender.result() == [
        (7, "rto", "false"),
        (9, "after_rto", "false"),
        (10, "after_rto", "false"),
    ]


def test_the_second_timer_is_the_retransmission_timer(sender):
    sender.data(100, 0)
    sender.data(360, 0)
    sender.data(880, 0)
    sender.ack(900, 1)
    assert [m for _, m, _ in sender.result()] == ["tlp", "rto"]


def test_sooner_than_any_timer_and_without_a_report_is_unknown(sender):
    sender.data(100, 0)
    sender.data(103, 0)
    sender.ack(123, 1)
    assert [m for _, m, _ in sender.result()] == ["unknown"]


def test_without_sack_there_is_no_probe(new_wire):
    transfer = Transfer(new_wire(), at_client=False, sack=False)
    transfer.data(100, 0)
    transfer.data(360, 0)
    transfer.ack(380, 1)
    assert [m for _, m, _ in transfer.result()] == ["rto"]


def test_a_fast_repeat_lost_again_is_left_to_the_timer(sender):
    for n in range(3):
        sender.data(100 + n / 10, n)
    sender.ack(120.1, 0, [(1, 2)])
    sender.data(120.2, 0)
    sender.data(400, 0)
    sender.ack(420, 3)
    assert [m for _, m, _ in sender.result()] == ["fast", "rto"]


def test_at_the_receiver_a_lost_fast_repeat_shows_by_the_time_it_took(receiver):
    receiver.data(100, 0)
    receiver.data(100.2, 2)
    receiver.ack(100.3, 1, [(2, 3)])
    receiver.data(400, 1)
    receiver.ack(400.1, 3)
    assert receiver.result() == [(7, "rto", "false")]


def test_what_the_receiver_has_seen_is_needless(receiver):
    receiver.data(100, 0)
    receiver.data(400, 0)
    receiver.ack(400.1, 1)
    assert receiver.result() == [(5, "tlp", "true")]


def test_acknowledged_before_it_was_sent_again(sender):
    sender.data(100, 0)
    sender.data(100.1, 1)
    sender.ack(120, 1)
    sender.data(120.1, 0)
    assert [s for _, _, s in sender.result()] == ["true"]


def test_selectively_acknowledged_before_it_was_sent_again(sender):
    for n in range(3):
        sender.data(100 + n / 10, n)
    sender.ack(120, 0, [(1, 3)])
    sender.data(400, 1)
    assert [s for _, _, s in sender.result()] == ["true"]


def test_reported_as_received_twice(sender):
    sender.data(100, 0)
    sender.data(360, 0)
    sender.ack(380, 1, [(0, 1)])  # a lost acknowledgement: the first answer is a D-SACK
    assert [s for _, _, s in sender.result()] == ["true"]


def test_a_report_about_other_bytes_says_nothing_of_these(sender):
    sender.data(100, 0)
    sender.ack(120, 1)
    sender.data(130, 1)
    sender.data(390, 1)
    sender.ack(410, 2, [(0, 1)])
    assert [s for _, _, s in sender.result()] == ["false"]


def test_the_answer_came_too_soon_to_be_caused_by_the_repeat(sender):
    sender.data(100, 0)
    sender.ack(120, 1)
    sender.data(200, 1)
    sender.data(500, 1)
    sender.ack(503, 2)
    assert [s for _, _, s in sender.result()] == ["true"]


def test_the_echo_tells_which_copy_was_answered(new_wire):
    for echo, verdict in ((1100, "true"), (1360, "false")):
        transfer = Transfer(new_wire(), at_client=False, stamps=True)
        transfer.data(100, 0)
        transfer.data(360, 0)
        transfer.ack(380, 1, tsecr=echo)
        assert [s for _, _, s in transfer.result()] == [verdict]


def test_without_sack_an_echo_of_the_repeat_proves_nothing(new_wire):
    transfer = Transfer(new_wire(), at_client=False, sack=False, stamps=True)
    transfer.data(100, 0)
    transfer.data(360, 0)
    transfer.ack(380, 1, tsecr=1360)
    assert [s for _, _, s in transfer.result()] == [""]


def test_never_answered(sender):
    sender.data(100, 0)
    sender.data(360, 0)
    assert [s for _, _, s in sender.result()] == [""]


def tail(receiver, *, missing=1, pause=260, owed=False):
    for n in range(5):
        receiver.data(100 + n, n, ip_id=10 + n)
        if not owed:
            receiver.ack(100.1 + n, n + 1)
    if owed:  # a request whose acknowledgement may be what is missing
        receiver.wire.client(110, "A", 1001, BASE + 5 * MSS, b"more")
    receiver.data(104 + pause, 5, ip_id=15 + missing)
    return receiver.result()


def test_a_lost_tail_is_inferred_from_a_missing_packet_and_a_pause(receiver):
    assert [(m, s) for _, m, s in tail(receiver)] == [("tlp", "false")]


def test_no_packet_missing_is_a_sender_that_paused(receiver):
    assert tail(receiver, missing=0) == []


def test_no_pause_is_a_lost_acknowledgement_or_reordering(receiver):
    assert tail(receiver, pause=5) == []


def test_what_is_missing_may_be_an_acknowledgement(receiver):
    assert tail(receiver, owed=True) == []


def test_a_count_by_two_misses_nothing(receiver):
    for n in range(6):
        receiver.data(100 + n * 300, n, ip_id=10 + 2 * n)
        receiver.ack(100.1 + n * 300, n + 1)
    assert receiver.result() == []


def test_a_system_that_shares_one_count_between_connections(receiver):
    receiver.ttl["server"] = 120
    assert tail(receiver) == []


def test_numbers_missing_at_most_pauses_mean_a_shared_count(receiver):
    number = 10
    for n in range(12):
        late = n // 4  # three bursts
        number += 2 if n and n % 4 == 0 else 1
        receiver.data(100 + n + late * 300, n, ip_id=number)
        receiver.ack(100.1 + n + late * 300, n + 1)
    assert receiver.result() == []


def test_a_lost_tail_is_a_hole(receiver):
    tail(receiver)
    holes = receiver.wire.analyse().facts.holes
    assert holes.offset.tolist() == [5 * MSS]
    assert holes.confidence[0] < 0.7
    # Two round trips and 200 ms before the repeat, at the earliest.
    assert int(holes.filled_ns[0] - holes.opened_ns[0]) == pytest.approx(240.1e6, abs=1e6)


def test_counts_in_the_connections_table(sender):
    sender.data(100, 0)
    sender.data(360, 0)
    sender.data(880, 0)
    sender.ack(900, 1, [(0, 1)])
    connection = sender.wire.analyse().facts.connections[0]
    assert connection.retransmissions == 2
    assert connection.retransmissions_spurious == 2
    assert connection.retransmissions_by_mechanism == {"tlp": 1, "rto": 1}
