"""What a TLS connection says without keys, on real sessions."""

from __future__ import annotations

import ssl

import numpy as np
import pytest

from capture_analyzer.model.tls_records import HANDSHAKE_NAMES, ROLES
from capture_analyzer.protocols.tls.connection import Fragment, Understood, understand
from capture_analyzer.protocols.tls.records import walk
from capture_analyzer.protocols.tls.roles import Columns, Head

MS = 1_000_000
REQUEST = ("client", b"G" * 120, 1 * MS)
ANSWER = ("server", b"A" * 700, 45 * MS)


def heads_of(client, server) -> tuple[Head, Head, Fragment]:
    """Both directions, the server's records behind the client's."""
    streams = (client, server)
    tables = [walk(stream) for stream in streams]
    counts = [len(table) for table in tables]

    def both(name: str) -> list[int]:
        return [value for table in tables for value in getattr(table, name).tolist()]

    columns = Columns(
        bytes(both("content_type")),
        both("length"),
        both("first_packet_no"),
        both("last_packet_no"),
        both("seen_ns"),
        np.maximum(both("seen_ns"), both("complete_ns")).tolist(),  # NO_TIME is below all times
        both("complete_ns"),
    )
    owners = [
        stream for stream, table in zip(streams, tables, strict=True) for _ in range(len(table))
    ]
    offsets, complete = both("offset"), both("complete")

    def fragment(place: int) -> bytes | None:
        if not complete[place]:
            return None
        start = offsets[place] + 5
        return owners[place].read(start, start + columns.lengths[place])

    return (
        Head(columns, 0, counts[0], counts[0]),
        Head(columns, counts[0], sum(counts), counts[1]),
        fragment,
    )


def read(make_stream, talk, rtt_ns: int | None = 30 * MS) -> tuple[Understood, list, list]:
    """The result, and the role of every record of each side."""
    client, server, fragment = heads_of(
        make_stream(talk.client), make_stream(talk.server, from_client=False)
    )
    result = understand(client, server, fragment, rtt_ns=rtt_ns)
    sides = []
    for head, special in ((client, result.client_roles), (server, result.server_roles)):
        outer = {20: "ccs", 21: "alert", 22: "handshake", 23: "application"}
        roles = [outer[kind] for kind in head.columns.types[head.start : head.stop]]
        for index, role in special:
            roles[index] = ROLES[role]
        sides.append([role for role in roles if role != "ccs"])
    return result, *sides


def names_of(result: Understood) -> list[str]:
    """Names of the handshake messages in clear."""
    return [HANDSHAKE_NAMES[kind] for _, kind, *_ in result.messages]


def test_tls13_full_handshake(make_stream, talker):
    talk = talker(alpn=(["h2", "http/1.1"], ["http/1.1"])).talk([REQUEST, ANSWER], close=False)
    result, client, server = read(make_stream, talk)
    assert client == ["handshake", "handshake", "application"]
    assert server == ["handshake"] * 5 + ["ticket", "ticket", "application"]
    summary = result.summary
    assert summary.version == "TLS 1.3"
    assert summary.cipher_suite in ("TLS_AES_256_GCM_SHA384", "TLS_AES_128_GCM_SHA256")
    assert (summary.resumption_offered, summary.resumed) == (False, False)
    assert not summary.hello_retry
    assert (summary.start_ns, summary.end_ns) == (0, talk.finished_ns)
    assert not summary.end_certain
    assert result.server_name == "api.example"
    assert summary.alpn_offered == ["h2", "http/1.1"]
    assert result.alpn == "http/1.1"  # by the length of EncryptedExtensions
    assert names_of(result) == ["client_hello", "server_hello"]
    assert result.tls13


@pytest.mark.parametrize(
    ("chosen", "seen"), [(["h2"], "h2"), (["http/1.1"], "http/1.1"), ([], None)]
)
def test_alpn_of_tls13_shows_in_a_length(make_stream, talker, chosen, seen):
    talk = talker(alpn=(["h2", "http/1.1"], chosen)).talk([REQUEST, ANSWER])
    assert read(make_stream, talk)[0].alpn == seen


def test_alpn_that_was_offered_alone_but_not_taken(make_stream, talker):
    talk = talker(alpn=(["h2"], [])).talk([REQUEST, ANSWER])
    assert read(make_stream, talk)[0].alpn is None


def test_tls13_resumed(make_stream, talker):
    ends = talker()
    first = ends.talk([REQUEST, ANSWER])
    talk = ends.talk([REQUEST, ANSWER], session=first.session, close=False)
    result, client, server = read(make_stream, talk)
    assert (result.summary.resumption_offered, result.summary.resumed) == (True, True)
    assert client == ["handshake", "handshake", "application"]
    assert server == ["handshake"] * 3 + ["ticket", "application"]


def test_tls13_without_tickets_takes_no_answer_for_one(make_stream, talker):
    talk = talker(tickets=0).talk([REQUEST, ("server", b"A" * 249, 30 * MS), ANSWER], close=False)
    server = read(make_stream, talk)[2]
    assert server == ["handshake"] * 5 + ["application", "application"]


def test_tls13_lone_answer_as_long_as_a_ticket_stays_an_answer(make_stream, talker):
    talk = talker(tickets=0).talk([REQUEST, ("server", b"A" * 249, 30 * MS)], close=False)
    assert read(make_stream, talk)[2][-1] == "application"


def test_tls13_equal_events_of_a_stream_are_no_tickets(make_stream, talker):
    events = [("server", b"e" * 190, 30 * MS) for _ in range(4)]
    talk = talker(tickets=0).talk([REQUEST, ("server", b"h" * 150, 80 * MS), *events], close=False)
    assert read(make_stream, talk)[2].count("application") == 5


def test_tls13_hello_retry(make_stream, talker):
    talk = talker(group="secp384r1").talk([REQUEST, ANSWER], close=False)
    result, client, server = read(make_stream, talk)
    assert result.summary.hello_retry
    assert result.summary.group == "secp384r1"
    assert client == ["handshake"] * 3 + ["application"]
    assert server == ["handshake"] * 6 + ["ticket", "ticket", "application"]
    assert names_of(result) == [
        "client_hello",
        "client_hello",
        "hello_retry_request",
        "server_hello",
    ]


def test_tls13_client_certificate_belongs_to_the_handshake(make_stream, talker):
    talk = talker(client_certificate=True).talk([REQUEST, ANSWER], close=False)
    result, client, server = read(make_stream, talk)
    assert client[:-1] == ["handshake"] * (len(client) - 1)
    assert client[-1] == "application"
    assert server[-1] == "application"
    assert server.count("application") == 1
    assert result.summary.end_ns == talk.finished_ns


def test_tls13_refused_certificate_is_an_alert(make_stream, talker):
    ends = talker()
    ends.client_context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # trusts nobody
    ends.client_context.minimum_version = ssl.TLSVersion.TLSv1_3
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = ends.client_context.wrap_bio(to_client, to_server, server_hostname="api.example")
    server_in, server_out = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = ends.server_context.wrap_bio(server_in, server_out, server_side=True)
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    hello = to_server.read()
    server_in.write(hello)
    with pytest.raises(ssl.SSLWantReadError):
        server.do_handshake()
    flight = server_out.read()
    to_client.write(flight)
    with pytest.raises(ssl.SSLCertVerificationError):
        client.do_handshake()

    class Talk:
        client = [(0, 1, hello), (31 * MS, 3, to_server.read())]  # noqa: RUF012
        server = [(30 * MS, 2, flight)]  # noqa: RUF012

    result, client_roles, server_roles = read(make_stream, Talk)
    assert client_roles == ["handshake", "alert"]
    assert server_roles == ["handshake"] * 5
    assert result.summary.end_ns is None


def test_tls12_full_and_resumed(make_stream, talker):
    ends = talker(ssl.TLSVersion.TLSv1_2, alpn=(["h2", "http/1.1"], ["h2"]))
    first = ends.talk([REQUEST, ANSWER], close=False)
    result, client, server = read(make_stream, first)
    summary = result.summary
    assert summary.version == "TLS 1.2"
    assert summary.cipher_suite.startswith("TLS_ECDHE_ECDSA_WITH_")
    assert summary.resumed is False
    assert summary.ocsp_stapled is False
    assert summary.end_certain
    assert summary.end_ns == first.server[1][0]
    assert summary.group is not None
    assert result.alpn == "h2"
    assert client[-1] == server[-1] == "application"
    assert not result.tls13
    assert "server_hello_done" in names_of(result)

    second = ends.talk([REQUEST, ANSWER], session=first.session, close=False)
    summary = read(make_stream, second)[0].summary
    assert (summary.resumption_offered, summary.resumed) == (True, True)
    assert summary.end_certain
    assert summary.end_ns == second.client[1][0]


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_3, ssl.TLSVersion.TLSv1_2])
def test_snap_length_that_leaves_the_headers(make_stream, talker, version):
    talk = talker(version).talk([REQUEST, ANSWER], close=False)

    def snapped(pieces):
        kept = []
        for time_ns, packet_no, data in pieces:
            # Records of one flight lie in packets of their own here, cut behind 30 bytes.
            at = 0
            while at < len(data):
                size = 5 + int.from_bytes(data[at + 3 : at + 5], "big")
                kept.append((time_ns, packet_no, data[at : at + min(30, size)]))
                if size > 30:
                    kept.append((0, 0, size - 30))
                at += size
        return kept

    client, server, fragment = heads_of(
        make_stream(snapped(talk.client)), make_stream(snapped(talk.server), from_client=False)
    )
    result = understand(client, server, fragment, rtt_ns=30 * MS)
    summary = result.summary
    if version == ssl.TLSVersion.TLSv1_2:
        assert (summary.version, summary.start_ns) == (None, None)
        assert result.client_roles == result.server_roles == []
        return
    assert (summary.version, summary.cipher_suite) == ("TLS 1.3", None)
    assert (summary.start_ns, summary.end_ns) == (0, talk.finished_ns)
    assert [index for index, _ in result.client_roles] == [2]
    assert [ROLES[role] for _, role in result.server_roles] == ["handshake"] * 4 + ["ticket"] * 2


def test_half_a_handshake(make_stream, talker):
    talk = talker().talk([REQUEST, ANSWER])
    talk.server = []
    result, _, _ = read(make_stream, talk)
    assert result.summary.version is None
    assert result.server_name == "api.example"
    talk = talker().talk([REQUEST, ANSWER])
    talk.client = []
    result, _, _ = read(make_stream, talk)
    assert result.summary.version == "TLS 1.3"
    assert result.summary.start_ns is None


def test_application_data_from_the_middle_on(make_stream, talker):
    talk = talker().talk([REQUEST, ANSWER] * 3, close=False)
    talk.client = talk.client[2:]
    talk.server = talk.server[2:]
    result, client, server = read(make_stream, talk)
    assert set(client) == set(server) == {"application"}
    assert result.summary.start_ns is None


def test_alert_in_clear(make_stream, talker):
    hello = talker().talk([REQUEST]).client[0]

    class Talk:
        client = [hello]  # noqa: RUF012
        server = [(5, 2, bytes.fromhex("15030300020228"))]  # noqa: RUF012

    result, _, server = read(make_stream, Talk)
    assert result.summary.alert == "server: handshake_failure"
    assert server == ["alert"]


def test_handshake_cut_into_tiny_records(make_stream, talker):
    talk = talker(ssl.TLSVersion.TLSv1_2).talk([REQUEST, ANSWER])
    whole = read(make_stream, talk)[0]

    def cut(pieces):
        result = []
        for time_ns, packet_no, data in pieces:
            at, out = 0, b""
            while at < len(data):
                size = int.from_bytes(data[at + 3 : at + 5], "big")
                content = data[at + 5 : at + 5 + size]
                # Encrypted handshake records (behind ChangeCipherSpec) must stay whole.
                if data[at] == 22 and content[0] in (1, 2, 11, 12, 14, 16):
                    for start in range(0, size, 7):
                        part = content[start : start + 7]
                        out += data[at : at + 3] + len(part).to_bytes(2, "big") + part
                else:
                    out += data[at : at + 5 + size]
                at += 5 + size
            result.append((time_ns, packet_no, out))
        return result

    talk.client, talk.server = cut(talk.client), cut(talk.server)
    tiny = read(make_stream, talk)[0]
    assert tiny.summary == whole.summary
    assert [message[:3] for message in tiny.messages] == [message[:3] for message in whole.messages]
