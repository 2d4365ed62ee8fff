"""DNS lookups, and the connections that used their answers."""

from __future__ import annotations

import ipaddress
import json

import pytest

from capture_analyzer.model.connections import Connection
from capture_analyzer.model.packets import TCP, UDP
from capture_analyzer.pipeline.lookups import (
    REPEAT_NS,
    USE_NS,
    add_tcp_lookups,
    find_lookups,
    join_lookups,
)
from capture_analyzer.pipeline.scan import scan
from capture_analyzer.readers import open_capture

MS = 1_000_000


def name_of(name: str) -> bytes:
    return b"".join(bytes([len(p)]) + p.encode() for p in name.split(".")) + b"\x00"


def question(number: int, name: str = "api.example", kind: int = 1) -> bytes:
    return (
        number.to_bytes(2, "big")
        + bytes.fromhex("0100000100000000 0000")
        + name_of(name)
        + kind.to_bytes(2, "big")
        + b"\x00\x01"
    )


def answer(number: int, *addresses: str, name: str = "api.example", rcode: int = 0) -> bytes:
    head = number.to_bytes(2, "big") + (0x8180 | rcode).to_bytes(2, "big")
    counts = b"\x00\x01" + len(addresses).to_bytes(2, "big") + bytes(4)
    records = b""
    for address in addresses:
        packed = ipaddress.ip_address(address).packed
        kind = 1 if len(packed) == 4 else 28
        records += b"\xc0\x0c" + kind.to_bytes(2, "big") + b"\x00\x01" + bytes(4)
        records += len(packed).to_bytes(2, "big") + packed
    return head + counts + name_of(name) + b"\x00\x01\x00\x01" + records


@pytest.fixture
def find(new_wire):
    """Finds the lookups of datagrams: (ms, from client, payload, client port)."""

    def run(*datagrams, protocol=UDP, server_port=53):
        wire = new_wire()
        for at, from_client, payload, *port in datagrams:
            send = wire.client if from_client else wire.server
            send(
                at,
                "",
                0,
                0,
                payload,
                client_port=port[0] if port else 40000,
                server_port=server_port,
            )
        capture, packets = wire.build()
        packets.protocol[:] = protocol
        return find_lookups(capture, packets)

    return run


def test_question_and_answer(find):
    (lookup,), anomalies = find((0, True, question(7)), (25, False, answer(7, "192.0.2.1")))
    assert (lookup.client_ip, lookup.server_ip) == ("10.0.0.1", "10.0.0.2")
    assert (lookup.name, lookup.type, lookup.rcode) == ("api.example", "A", "NOERROR")
    assert (lookup.start_ns, lookup.end_ns) == (0, 25 * MS)
    assert lookup.addresses == ["192.0.2.1"]
    assert lookup.packet_nos == [1, 2]
    assert anomalies == []


def test_copies_that_the_capture_made_are_no_repeats(find):
    (lookup,), _ = find(
        (0, True, question(7)),
        (0.04, True, question(7)),
        (25, False, answer(7, "192.0.2.1")),
        (25.04, False, answer(7, "192.0.2.1")),
    )
    assert (lookup.question_count, lookup.packet_nos) == (1, [1, 3])


def test_repeats_are_counted_and_the_first_answer_wins(find):
    (lookup,), _ = find(
        (0, True, question(7)),
        (2000, True, question(7)),
        (2025, False, answer(7, "192.0.2.1")),
        (2040, False, answer(7, "192.0.2.99")),
    )
    assert lookup.question_count == 2
    assert (lookup.start_ns, lookup.end_ns) == (0, 2025 * MS)
    assert lookup.addresses == ["192.0.2.1"]
    assert lookup.packet_nos == [1, 2, 3, 4]


@pytest.mark.parametrize(
    "other",
    [
        (25, False, answer(8, "192.0.2.1")),  # another transaction
        (25, False, answer(7, "192.0.2.1", name="b.example")),  # another name
        (25, False, answer(7, "192.0.2.1"), 40001),  # another port
    ],
)
def test_what_does_not_answer_it(find, other):
    (lookup,), _ = find((0, True, question(7)), other)
    assert (lookup.end_ns, lookup.rcode, lookup.addresses) == (None, None, [])


def test_two_types_are_two_lookups(find):
    lookups, _ = find(
        (0, True, question(7)),
        (0, True, question(8, kind=28)),
        (20, False, answer(7, "192.0.2.1")),
    )
    assert [(x.lookup_no, x.type, x.end_ns) for x in lookups] == [
        (0, "A", 20 * MS),
        (1, "AAAA", None),
    ]


def test_transaction_used_again_later_is_another_lookup(find):
    later = REPEAT_NS / MS + 1
    lookups, _ = find((0, True, question(7)), (later, True, question(7)))
    assert len(lookups) == 2
    lookups, _ = find(
        (0, True, question(7)), (9, False, answer(7, "192.0.2.1")), (20, True, question(7))
    )
    assert [x.end_ns for x in lookups] == [9 * MS, None]


def test_failure_and_garbage(find):
    (lookup,), anomalies = find(
        (0, True, question(7)),
        (5, True, b"\x00"),
        (6, True, b"garbage that is no dns"),
        (20, False, answer(7, rcode=3)),
    )
    assert (lookup.rcode, lookup.addresses) == ("NXDOMAIN", [])
    assert [(a.code, a.count, a.packet_no) for a in anomalies] == [("dns-malformed", 2, 2)]


def test_other_ports_and_protocols_are_no_dns(find):
    assert find((0, True, question(7)), server_port=5353)[0] == []
    assert find((0, True, question(7)), protocol=TCP)[0] == []


def connection(number: int, syn_ms: float | None, server_ip: str = "192.0.2.1") -> Connection:
    made = Connection(number, "tcp", number, "10.0.0.1", 40000, server_ip, 443, True, 0, 1, 1, 2, 2)
    made.syn_ns = None if syn_ms is None else round(syn_ms * MS)
    return made


def test_connections_use_the_last_answer_before_their_syn(find):
    lookups, _ = find(
        (0, True, question(7)),
        (20, False, answer(7, "192.0.2.1", "192.0.2.2")),
        (100, True, question(8, name="b.example")),
        (120, False, answer(8, "192.0.2.1", name="b.example")),
    )
    connections = [
        connection(0, 21),
        connection(1, 125),
        connection(2, 125, "192.0.2.2"),
        connection(3, 19),  # before the answer
        connection(4, 125, "192.0.2.3"),
        connection(5, None),  # when it was opened is not known
        connection(6, 120 + USE_NS / MS + 1),
    ]
    connections[2].server_name = "from.sni"
    join_lookups(lookups, connections)
    assert [c.lookup_no for c in connections] == [0, 1, 0, None, None, None, None]
    assert [c.server_name for c in connections[:4]] == [
        "api.example",
        "b.example",
        "from.sni",
        None,
    ]
    assert [x.connection_nos for x in lookups] == [[0, 2], [1]]


def test_another_clients_answer_is_not_used(find):
    lookups, _ = find((0, True, question(7)), (20, False, answer(7, "192.0.2.1")))
    stranger = connection(0, 30)
    stranger.client_ip = "10.0.0.9"
    join_lookups(lookups, [stranger])
    assert stranger.lookup_no is None


@pytest.mark.shared
@pytest.mark.parametrize("run_name", ["slow-dns", "h1"])
def test_lookups_are_those_of_the_lab(lab, run_name):
    folder = lab / "curl-dns" / run_name
    truth = json.loads((folder / "truth.json").read_text())
    capture = open_capture(folder / "client.pcap")
    packets, _ = scan(capture)
    lookups, anomalies = find_lookups(capture, packets)
    assert anomalies == []
    kinds = {"A": 1, "AAAA": 28}
    true = {
        (row["ev"], row["type"]): row["t"] - capture.epoch_ns
        for row in truth["app"]
        if row.get("ev") in ("dns_query", "dns_answer")
    }
    assert [x.type for x in lookups] == list(kinds)
    for lookup in lookups:
        assert lookup.name == "api.lab.test"
        asked, answered = (true[ev, kinds[lookup.type]] for ev in ("dns_query", "dns_answer"))
        # The resolver is half a round trip of 30 ms away.
        assert asked - lookup.start_ns == pytest.approx(15 * MS, abs=2 * MS)
        assert lookup.end_ns - answered == pytest.approx(15 * MS, abs=2 * MS)


def prefixed(*messages: bytes) -> bytes:
    return b"".join(len(m).to_bytes(2, "big") + m for m in messages)


class OneConnection:
    """Streams of one connection, by direction."""

    def __init__(self, client, server) -> None:
        self._of = {True: client, False: server}

    def stream(self, connection_no: int, from_client: bool):
        return self._of[from_client]


def dns_connection(**more) -> Connection:
    columns = {
        "connection_no": 0,
        "transport": "tcp",
        "tcp_stream": 0,
        "client_ip": "10.0.0.1",
        "client_port": 40000,
        "server_ip": "10.0.0.2",
        "server_port": 53,
        "roles_certain": True,
        "start_ns": 0,
        "end_ns": 0,
        "first_packet_no": 1,
        "last_packet_no": 9,
        "packet_count": 9,
        "protocol": "opaque",
    }
    return Connection(**(columns | more))


def test_an_answer_with_a_time_before_its_question(find):
    (lookup,), _ = find((40, True, question(7)), (25, False, answer(7, "192.0.2.1")))
    assert (lookup.start_ns, lookup.end_ns) == (40 * MS, 40 * MS)
    connection = dns_connection(server_ip="192.0.2.1", syn_ns=30 * MS)
    join_lookups([lookup], [connection])
    assert connection.lookup_no is None


def test_lookups_over_tcp(make_stream):
    asked = prefixed(question(7), question(8, "other.example"))
    first = prefixed(answer(8, "192.0.2.8", name="other.example"))
    answered = first + prefixed(answer(7, "192.0.2.7"))
    end = len(first)
    client = make_stream([(10 * MS, 4, asked[:5]), (11 * MS, 5, asked[5:])])
    server = make_stream(
        [(30 * MS, 6, answered[:1]), (31 * MS, 7, answered[1:end]), (40 * MS, 8, answered[end:])],
        from_client=False,
    )
    connection = dns_connection()
    lookups = []
    add_tcp_lookups(lookups, OneConnection(client, server), [connection])
    assert connection.protocol == "dns"
    rows = [(x.lookup_no, x.name, x.start_ns, x.end_ns, x.addresses, x.packet_nos) for x in lookups]
    assert rows == [
        (0, "api.example", 10 * MS, 40 * MS, ["192.0.2.7"], [4, 5, 8]),
        (1, "other.example", 11 * MS, 31 * MS, ["192.0.2.8"], [5, 6, 7]),
    ]


def test_lookups_over_tcp_and_udp_are_numbered_together(find, make_stream):
    lookups, _ = find((0, True, question(1)), (25, True, question(2, "late.example")))
    client = make_stream([(10 * MS, 4, prefixed(question(7)))])
    add_tcp_lookups(lookups, OneConnection(client, make_stream([])), [dns_connection()])
    assert [(x.lookup_no, x.start_ns) for x in lookups] == [(0, 0), (1, 10 * MS), (2, 25 * MS)]
    assert lookups[1].end_ns is None


@pytest.mark.parametrize(
    "data",
    [b"", b"\0", b"\0\0", b"\0\x05hello", b"\xff\xff" + question(7), question(7)],
)
def test_what_is_no_dns_on_its_port_stays_opaque(data, make_stream):
    connection = dns_connection()
    lookups = []
    streams = OneConnection(make_stream([(0, 1, data)]), make_stream([]))
    add_tcp_lookups(lookups, streams, [connection])
    assert (lookups, connection.protocol) == ([], "opaque")


def test_a_gap_ends_what_can_be_read_of_a_stream(make_stream):
    message = prefixed(question(7))
    streams = OneConnection(
        make_stream([(0, 1, message), (1, 2, message[:4]), (0, 0, 3), (2, 3, message)]),
        make_stream([]),
    )
    lookups = []
    add_tcp_lookups(lookups, streams, [dns_connection()])
    assert [x.packet_nos for x in lookups] == [[1]]


def test_only_unread_connections_to_port_53_are_looked_at(make_stream):
    streams = OneConnection(make_stream([(0, 1, prefixed(question(7)))]), make_stream([]))
    for more in ({"server_port": 54}, {"protocol": "tls"}, {"protocol": "none"}):
        lookups = []
        add_tcp_lookups(lookups, streams, [dns_connection(**more)])
        assert lookups == []


def test_names_of_the_capture_file_come_last(find):
    lookups, _ = find((0, True, question(7)), (5, False, answer(7, "192.0.2.1")))
    names = {"192.0.2.1": "by-file.example", "192.0.2.2": "other.example"}
    rows = [
        dns_connection(server_ip="192.0.2.1", syn_ns=10 * MS),
        dns_connection(server_ip="192.0.2.2", syn_ns=10 * MS),
        dns_connection(server_ip="192.0.2.2", server_name="own.example"),
        dns_connection(server_ip="192.0.2.3"),
    ]
    join_lookups(lookups, rows, names)
    assert [row.server_name for row in rows] == [
        "api.example",
        "other.example",
        "own.example",
        None,
    ]
