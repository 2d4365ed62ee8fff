"""How far a connection is decrypted, and what is said where it is not."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from capture_analyzer.api import analyze
from capture_analyzer.detectors.handshakes import handshakes_of
from capture_analyzer.model.analysis import Analysis
from capture_analyzer.model.connections import TlsSummary
from capture_analyzer.model.tls_records import ROLE_CODE, ROLES
from capture_analyzer.pipeline.dissect import heads
from capture_analyzer.protocols.tls import ech
from capture_analyzer.protocols.tls.connection import Understood

CAPTURES = Path(__file__).resolve().parents[4] / "captures"


def frames(name: str) -> tuple[bytes, list[bytes]]:
    """Header of a pcap file, and its records."""
    data = (CAPTURES / f"{name}.pcap").read_bytes()
    found, at = [], 24
    while at < len(data):
        (length,) = struct.unpack_from("<I", data, at + 8)
        found.append(data[at : at + 16 + length])
        at += 16 + length
    return data[:24], found


def lines(name: str) -> list[str]:
    return (CAPTURES / f"{name}.keys").read_text().splitlines()


class Case:
    """A capture with some of its packets and some of its keys."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def analyse(
        self,
        name: str,
        *,
        without: Iterable[int] = (),
        keys: Callable[[list[str]], list[str]] = lambda keys: keys,
    ) -> Analysis:
        header, packets = frames(name)
        gone = set(without)
        kept = [packet for number, packet in enumerate(packets, 1) if number not in gone]
        capture, log = self.folder / "some.pcap", self.folder / "some.keys"
        capture.write_bytes(header + b"".join(kept))
        log.write_text("".join(line + "\n" for line in keys(lines(name))))
        return analyze(capture, keylogs=[log], redact="none")


@pytest.fixture
def case(tmp_path: Path) -> Case:
    return Case(tmp_path)


def summary(analysis: Analysis, connection_no: int = 0) -> TlsSummary:
    tls = analysis.tables.connections[connection_no].tls
    assert tls is not None
    return tls


def paths(analysis: Analysis) -> list[tuple[str | None, str | None, int | None]]:
    return [
        (row.method, row.path and row.path.partition("?")[0], row.status)
        for row in analysis.tables.exchanges
        if not row.inferred
    ]


BOTH = [("GET", "/small", 200), ("GET", "/large", 200)]
NAMES = [
    *("tls13-aes128", "tls13-chacha", "tls13-ccm", "tls13-hrr-keys", "tls13-keyupdate"),
    *("tls12-chacha", "tls12-ccm", "tls12-camellia"),
]


@pytest.mark.parametrize("name", NAMES)
def test_all_keys(name: str, case: Case) -> None:
    analysis = case.analyse(name)
    assert (summary(analysis).decrypted, summary(analysis).why_not) == ("yes", None)
    assert paths(analysis)[:2] == BOTH
    records = analysis.tables.tls_records
    assert not records.role_inferred.any()
    messages = [(m.from_client, m.type) for m in analysis.tables.handshake_messages]
    assert (True, "finished") in messages
    assert (False, "finished") in messages
    if name.startswith("tls13"):
        assert (False, "certificate") in messages
        assert summary(analysis).end_certain


def chosen(*starts: str) -> Callable[[list[str]], list[str]]:
    return lambda keys: [line for line in keys if line.startswith(starts)]


@pytest.mark.parametrize(("side", "lacking"), [("CLIENT_", "server"), ("SERVER_", "client")])
def test_secrets_of_one_side(side: str, lacking: str, case: Case) -> None:
    analysis = case.analyse("tls13-aes128", keys=chosen(side))
    assert summary(analysis).decrypted == "partial"
    assert summary(analysis).why_not == f"the key log lacks the {lacking}'s secrets"
    found = paths(analysis)
    if side == "CLIENT_":
        assert found == [("GET", "/small", None), ("GET", "/large", None)]
    else:
        assert found == [(None, None, 200), (None, None, 200)]


def test_handshake_secrets_only(case: Case) -> None:
    keep = chosen("CLIENT_HANDSHAKE", "SERVER_HANDSHAKE")
    analysis = case.analyse("tls13-aes128", keys=keep)
    assert summary(analysis).decrypted == "partial"
    assert "do not open" in (summary(analysis).why_not or "")
    assert paths(analysis) == []
    assert "certificate" in [message.type for message in analysis.tables.handshake_messages]
    assert [row.inferred for row in analysis.tables.exchanges] == [True, True]


def test_application_secrets_only(case: Case) -> None:
    keep = chosen("CLIENT_TRAFFIC", "SERVER_TRAFFIC")
    analysis = case.analyse("tls13-aes128", keys=keep)
    assert summary(analysis).decrypted == "partial"
    assert paths(analysis) == BOTH


def test_secrets_that_do_not_fit(case: Case) -> None:
    def wrong(keys: list[str]) -> list[str]:
        return [line[:-64] + "00" * 32 for line in keys]

    analysis = case.analyse("tls13-aes128", keys=wrong)
    assert summary(analysis).decrypted == "no"
    assert summary(analysis).why_not == "the key log's secrets do not open its records"
    assert [row.inferred for row in analysis.tables.exchanges] == [True, True]


def test_secrets_of_the_wrong_size(case: Case) -> None:
    analysis = case.analyse("tls13-aes128", keys=lambda keys: [line[:-2] for line in keys])
    assert summary(analysis).decrypted == "no"
    assert summary(analysis).why_not == "the key log has no traffic secrets for this session"


def test_no_secrets_for_this_session(case: Case) -> None:
    analysis = case.analyse("tls13-aes128", keys=lambda _: lines("tls13-chacha"))
    assert summary(analysis).decrypted == "no"
    assert summary(analysis).why_not == "the key log has no secrets for this session"


def test_an_unsupported_suite_is_named(case: Case) -> None:
    analysis = case.analyse("tls12-aria")
    assert summary(analysis).decrypted == "no"
    assert summary(analysis).why_not == (
        "cipher suite TLS_ECDHE_ECDSA_WITH_ARIA_128_GCM_SHA256 can't be decrypted: "
        "the cryptography library has no ARIA"
    )


def test_a_handshake_that_failed_has_nothing_to_decrypt(case: Case) -> None:
    analysis = analyze(CAPTURES / "tls-alert.pcap", keylogs=[CAPTURES / "sse-stream.keys"])
    assert summary(analysis).why_not == "the handshake was not completed"


def hello(name: str, *, from_client: bool) -> int:
    """Number of the packet with a hello; both lie in packets of their own."""
    kind = b"\x01\x00" if from_client else b"\x02\x00"
    for number, packet in enumerate(frames(name)[1], 1):
        at = packet.find(b"\x16\x03")
        if at > 0 and packet[at + 5 : at + 7] == kind:
            return number
    raise AssertionError("no hello")


@pytest.mark.parametrize("name", ["tls13-aes128", "tls13-chacha", "tls12-chacha", "tls12-keys"])
def test_without_client_hello_the_session_is_found_by_trial(name: str, case: Case) -> None:
    others = [line for other in NAMES if other != name for line in lines(other)]
    analysis = case.analyse(
        name, without=[hello(name, from_client=True)], keys=lambda keys: others + keys
    )
    assert paths(analysis)[:2] == BOTH
    assert summary(analysis).version == ("TLS 1.2" if name.startswith("tls12") else "TLS 1.3")


@pytest.mark.parametrize("name", ["tls13-aes128", "tls13-chacha", "sse-stream"])
def test_without_server_hello_the_suite_is_found_by_trial(name: str, case: Case) -> None:
    analysis = case.analyse(name, without=[hello(name, from_client=False)])
    assert summary(analysis).version == "TLS 1.3"
    assert summary(analysis).cipher_suite is not None
    assert paths(analysis)[0][0] in ("GET", "POST")
    assert paths(analysis)[0][2] == 200


def test_no_session_of_the_key_log_fits(case: Case) -> None:
    first = hello("tls13-aes128", from_client=True)
    analysis = case.analyse("tls13-aes128", without=[first], keys=lambda _: lines("tls13-hrr-keys"))
    assert summary(analysis).decrypted == "no"
    assert summary(analysis).why_not == (
        "the handshake was not captured, and no session of the key log fits"
    )


def test_a_session_that_another_connection_names_is_not_tried(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[int] = []
    from capture_analyzer.protocols.tls import sessions

    real = sessions.SessionFinder.__init__

    def counting(self: object, found: Iterable[object]) -> None:
        kept = list(found)
        tried.append(len(kept))
        real(self, kept)  # type: ignore[arg-type]

    monkeypatch.setattr(sessions.SessionFinder, "__init__", counting)
    case.analyse("tls13-resumed-keys")
    assert tried == [0]


def test_bytes_that_the_capture_lacks(case: Case) -> None:
    analysis = case.analyse("tls13-gap-keys")
    assert summary(analysis).decrypted == "partial"
    assert summary(analysis).why_not == "the capture lacks bytes of some records"
    assert paths(analysis) == [*BOTH, ("GET", "/small", 200)]


@pytest.mark.parametrize("lost", range(4, 11))
def test_a_packet_of_the_handshake_is_missing(lost: int, case: Case) -> None:
    """Whichever it is, requests and responses are read."""
    analysis = case.analyse("tls13-aes128", without=[lost])
    assert paths(analysis)[:2] == BOTH or lost == 9  # the first request itself


def test_roles_are_read_off(case: Case) -> None:
    records = case.analyse("tls13-keyupdate").tables.tls_records
    roles = [ROLES[code] for code in records.role]
    assert "unknown" not in roles
    assert roles.count("alert") == 2  # close_notify from both
    # Without keys the updates look like content: they are padded.
    assert roles.count("handshake") >= 2 + 3


def test_key_logs_as_they_are_in_the_wild(case: Case) -> None:
    def wild(keys: list[str]) -> list[str]:
        return ["# comment", "", "nonsense", *[line.upper() + "\r" for line in reversed(keys)]]

    analysis = case.analyse("tls13-aes128", keys=wild)
    assert summary(analysis).decrypted == "yes"


@pytest.mark.parametrize("offered", [True, False])
def test_an_encrypted_client_hello_has_another_random_in_the_key_log(
    offered: bool, case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log goes by the inner ClientHello's random; the capture shows the outer one's."""
    real = heads.understand

    def understood(*arguments: Any, **more: Any) -> Understood:
        result = real(*arguments, **more)
        result.summary.ech_offered = offered
        return result

    def inner(keys: list[str]) -> list[str]:
        return [f"{label} {'ee' * 32} {secret}" for label, _, secret in map(str.split, keys)]

    monkeypatch.setattr(heads, "understand", understood)
    analysis = case.analyse("tls13-aes128", keys=inner)
    assert summary(analysis).decrypted == ("yes" if offered else "no")
    assert paths(analysis) == (BOTH if offered else [])
    other = case.analyse("tls13-aes128", keys=lambda _: lines("tls13-chacha"))
    assert summary(other).why_not == "the key log has no secrets for this session"


def test_keys_change_with_every_handshake_on_a_connection(case: Case) -> None:
    analysis = case.analyse("tls12-renegotiation")
    tls = summary(analysis)
    assert (tls.decrypted, tls.renegotiations, tls.secure_renegotiation) == ("yes", 2, True)
    assert paths(analysis) == BOTH
    hellos = [m.type for m in analysis.tables.handshake_messages if m.type.endswith("hello")]
    assert hellos == ["client_hello"] * 3 + ["server_hello"] * 3
    shake = handshakes_of(analysis.tables, [0])[0]
    assert shake.flight_ns is not None
    assert tls.end_ns is not None
    assert shake.flight_ns < tls.end_ns, "the steps are those of the first handshake"
    records = analysis.tables.tls_records
    assert tls.end_ns < records.seen_ns[records.role == ROLE_CODE["handshake"]].max()


@pytest.mark.parametrize(("kept", "asked"), [(2, BOTH[:1]), (1, [])])
def test_the_secrets_of_a_later_handshake_lack(
    kept: int, asked: list[tuple[str, str, int]], case: Case
) -> None:
    analysis = case.analyse(
        "tls12-renegotiation", keys=lambda keys: [k for k in keys if k[0] != "#"][:kept]
    )
    tls = summary(analysis)
    assert (tls.decrypted, tls.renegotiations) == ("partial", 2)
    assert tls.why_not == "the key log has no secrets for a later handshake on the connection"
    assert paths(analysis) == asked


@pytest.mark.parametrize(
    ("lost", "left"), [(17, (None, None, 200)), (20, BOTH[1]), (23, BOTH[0]), (33, BOTH[0])]
)
def test_renegotiation_with_a_packet_missing(
    lost: int, left: tuple[str | None, str | None, int], case: Case
) -> None:
    """A request, an answer or a later ClientHello lost: what is not behind it stays readable."""
    analysis = case.analyse("tls12-renegotiation", without=[lost])
    assert summary(analysis).decrypted == "partial"
    assert left in paths(analysis)


@pytest.mark.shared
def test_renegotiation_is_seen_without_keys(corpus: Path) -> None:
    analysis = analyze(corpus / "tls-keys" / "tls-renegotiation.pcap")
    tls = summary(analysis)
    assert (tls.renegotiations, tls.secure_renegotiation) == (4, True)


def not_ech(keys: list[str]) -> list[str]:
    return [line for line in keys if not line.startswith("ECH_")]


def only_ech(keys: list[str]) -> list[str]:
    return [line for line in keys if line.startswith("ECH_")]


@pytest.mark.parametrize("kept", [lambda keys: keys, not_ech])
def test_an_accepted_encrypted_client_hello(
    kept: Callable[[list[str]], list[str]], case: Case
) -> None:
    """With ECH_SECRET its server name is read; without, its session is found by trial."""
    analysis = case.analyse("tls13-ech", keys=kept)
    tls, connection = summary(analysis), analysis.tables.connections[0]
    assert (tls.ech, tls.decrypted, tls.why_not) == ("accepted", "yes", None)
    assert tls.server_name_outer == "cover.example"
    assert connection.server_name == "api.example"  # by its SNI, or by the requests
    assert paths(analysis) == BOTH


def test_an_inner_hello_without_the_sessions_secrets(case: Case) -> None:
    analysis = case.analyse("tls13-ech", keys=only_ech)
    tls = summary(analysis)
    assert (tls.ech_offered, tls.ech, tls.decrypted) == (True, None, "no")
    assert tls.why_not == "the key log has no secrets for this session"
    assert analysis.tables.connections[0].server_name == "cover.example"


def test_the_servers_random_confirms_the_inner_hello(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ech, "confirmed", lambda *_: True)  # no capture here has that random
    analysis = case.analyse("tls13-ech", keys=only_ech)
    tls = summary(analysis)
    assert (tls.ech, tls.decrypted) == ("accepted", "no")
    assert "has no secrets for it" in (tls.why_not or "")
    assert analysis.tables.connections[0].server_name == "api.example"


def test_a_rejected_encrypted_client_hello(case: Case) -> None:
    """The log's secrets are under the outer random: that hello was answered."""
    outer = only_ech(lines("tls13-ech"))[0].split()[1]

    def rejected(keys: list[str]) -> list[str]:
        rows = (line.split() for line in not_ech(keys))
        return [*only_ech(keys), *(f"{label} {outer} {secret}" for label, _, secret in rows)]

    analysis = case.analyse("tls13-ech", keys=rejected)
    tls = summary(analysis)
    assert (tls.ech, tls.server_name_outer) == ("rejected", None)
    assert analysis.tables.connections[0].server_name == "cover.example"


def test_grease_is_not_taken_for_ech(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """Most browsers send the extension with nothing in it."""
    real = heads.understand

    def understood(*arguments: Any, **more: Any) -> Understood:
        result = real(*arguments, **more)
        result.summary.ech_offered = True
        return result

    monkeypatch.setattr(heads, "understand", understood)
    analysis = case.analyse("tls13-aes128")
    tls = summary(analysis)
    assert (tls.ech, tls.server_name_outer, tls.decrypted) == ("unused", None, "yes")
    assert analysis.tables.connections[0].server_name == "api.example"


@pytest.mark.shared
def test_grease_without_keys(corpus: Path) -> None:
    analysis = analyze(corpus / "tls-no-keys" / "chrome-1250-tls-x25519-kyber.pcap")
    tls = summary(analysis)
    assert (tls.ech_offered, tls.ech) == (True, None)


@pytest.mark.parametrize("kept", [lambda keys: keys, lambda keys: keys[:-1]])
def test_rejected_early_data_is_no_request(
    kept: Callable[[list[str]], list[str]], case: Case
) -> None:
    """The server skips it (RFC 8446, section 4.2.10); with or without its secret."""
    analysis = case.analyse("tls13-early-rejected", keys=kept)
    tls = summary(analysis)
    assert (tls.early_data, tls.early_data_accepted, tls.resumed) == (True, False, False)
    assert paths(analysis) == [("GET", "/small", 200)]
    records = analysis.tables.tls_records
    if kept(["a", "b"]) == ["a", "b"]:
        assert tls.decrypted == "yes"
        assert (records.role == ROLE_CODE["early_data"]).sum() == 1
    request = next(row for row in analysis.tables.exchanges)
    early = records.seen_ns[records.from_client][1]
    assert request.request_start_ns > early + 20_000_000, "the one behind the handshake"


def test_what_is_lost_in_the_middle_is_said(case: Case) -> None:
    """By the sequence numbers it is known how many records that are."""
    analysis = case.analyse("tls13-gap-keys")
    (lost,) = [row for row in analysis.tables.anomalies if row.code == "tls-records-lost"]
    assert (lost.origin, lost.connection_no) == ("capture", 0)
    assert "of the server" in lost.detail
    assert lost.count == 3  # of 3,000 bytes each, where 4.3 KB are missing
    assert summary(analysis).decrypted == "partial"
    assert [path for _, path, _ in paths(analysis)] == ["/small", "/large", "/small"]
    whole = case.analyse("tls13-aes128")
    assert not [row for row in whole.tables.anomalies if row.code == "tls-records-lost"]


@pytest.mark.parametrize("with_keys", [True, False])
def test_early_data_in_front_of_a_retry(with_keys: bool, case: Case) -> None:
    """The second ClientHello behind it is still read; the early request is none."""
    analysis = case.analyse("tls13-early-retried", keys=lambda keys: keys if with_keys else [])
    tls, records = summary(analysis), analysis.tables.tls_records
    assert (tls.hello_retry, tls.early_data_accepted) == (True, False)
    hellos = [m.type for m in analysis.tables.handshake_messages if m.from_client][:2]
    assert hellos == ["client_hello", "client_hello"]
    assert (records.role == ROLE_CODE["early_data"]).sum() == 1
    (exchange,) = analysis.tables.exchanges
    assert exchange.inferred != with_keys
    assert exchange.request_start_ns > 70_000_000
