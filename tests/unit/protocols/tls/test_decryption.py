"""Which key opens a record: the order of keys, updates, lost records, early data, wrong keys."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESCCM, AESGCM, ChaCha20Poly1305

sys.path.insert(0, str(Path(__file__).resolve().parents[4] / "scripts"))

from capture_maker.records import Keys

from capture_analyzer.protocols.tls import decryption
from capture_analyzer.protocols.tls.decryption import (
    ALERT,
    APPLICATION_DATA,
    HANDSHAKE,
    Decryptor,
    Opened,
    tls12_decryptors,
    tls12_openers,
    tls13_decryptors,
)
from capture_analyzer.protocols.tls.key_schedule import TLS12_SUITES, tls12_keys
from capture_analyzer.protocols.tls.sessions import SessionFinder
from capture_analyzer.protocols.tls.suites import why_not

SUITES = {
    0x1301: "TLS_AES_128_GCM_SHA256",
    0x1302: "TLS_AES_256_GCM_SHA384",
    0x1303: "TLS_CHACHA20_POLY1305_SHA256",
}
SUITE = 0x1302
KEY_UPDATE = b"\x18\x00\x00\x01\x00"
FINISHED = b"\x14\x00\x00\x04done"
TICKET = b"\x04\x00\x00\x02ok"
LABELS = (
    "CLIENT_EARLY_TRAFFIC_SECRET",
    "CLIENT_HANDSHAKE_TRAFFIC_SECRET",
    "SERVER_HANDSHAKE_TRAFFIC_SECRET",
    "CLIENT_TRAFFIC_SECRET_0",
    "SERVER_TRAFFIC_SECRET_0",
)


def secrets(name: str = "a", suite: int = SUITE) -> dict[str, bytes]:
    """The secrets of a session, by its name."""
    size = 48 if suite == 0x1302 else 32
    return {label: hashlib.sha512(f"{name} {label}".encode()).digest()[:size] for label in LABELS}


class Sender:
    """Protects what one side sends."""

    def __init__(self, side: str, name: str = "a", suite: int = SUITE) -> None:
        own = secrets(name, suite)
        self.handshake, self.application = (
            Keys(own[label], SUITES[suite])
            for label in (f"{side}_HANDSHAKE_TRAFFIC_SECRET", f"{side}_TRAFFIC_SECRET_0")
        )
        self.early = Keys(own["CLIENT_EARLY_TRAFFIC_SECRET"], SUITES[suite])

    def data(self, text: bytes, padding: int = 0) -> bytes:
        return bytes(self.application.seal(APPLICATION_DATA, text, padding))

    def update(self) -> bytes:
        record = self.application.seal(HANDSHAKE, KEY_UPDATE)
        self.application.update()
        return bytes(record)


def take(decryptor: Decryptor | None, record: bytes) -> Opened | None:
    assert decryptor is not None
    return decryptor.open(record[:5], record[5:])


def text(opened: Opened | None) -> bytes:
    assert opened is not None
    return opened.plaintext


@pytest.fixture(params=SUITES)
def suite(request: pytest.FixtureRequest) -> int:
    return int(request.param)


def test_from_handshake_to_application_keys(suite: int) -> None:
    for side, index in (("CLIENT", 0), ("SERVER", 1)):
        sender = Sender(side, suite=suite)
        decryptor = tls13_decryptors(secrets(suite=suite), suite, early=False)[index]
        assert decryptor
        assert not decryptor.data_key
        first = take(decryptor, sender.handshake.seal(HANDSHAKE, b"\x08\x00\x00\x02\x00\x00"))
        assert first == Opened(HANDSHAKE, b"\x08\x00\x00\x02\x00\x00", 0)
        assert text(take(decryptor, sender.handshake.seal(HANDSHAKE, FINISHED))) == FINISHED
        assert not decryptor.data_key
        data = take(decryptor, sender.data(b"one"))
        assert data == Opened(APPLICATION_DATA, b"one", 0, new_key=True)
        assert decryptor.data_key
        assert take(decryptor, sender.data(b"two")) == Opened(APPLICATION_DATA, b"two", 0)
        ended = take(decryptor, sender.application.seal(ALERT, b"\x01\x00"))
        assert ended == Opened(ALERT, b"\x01\x00", 0)
        assert (decryptor.opened, decryptor.failed) == (5, 0)


def test_padding_is_no_content() -> None:
    sender = Sender("SERVER")
    _, decryptor = tls13_decryptors(secrets(), SUITE, early=False)
    assert text(take(decryptor, sender.data(b"text\x00\x00", padding=300))) == b"text\x00\x00"
    assert text(take(decryptor, sender.data(b"", padding=1))) == b""


def test_no_record_goes_back_to_an_older_key() -> None:
    sender = Sender("CLIENT")
    decryptor, _ = tls13_decryptors(secrets(), SUITE, early=False)
    late = sender.handshake.seal(HANDSHAKE, FINISHED)
    assert take(decryptor, sender.data(b"one"))
    assert take(decryptor, late) is None
    assert text(take(decryptor, sender.data(b"two"))) == b"two"


def test_key_update_takes_effect_on_the_next_record() -> None:
    sender = Sender("SERVER")
    _, decryptor = tls13_decryptors(secrets(), SUITE, early=False)
    assert text(take(decryptor, sender.data(b"one"))) == b"one"
    for round_ in range(3):
        told = take(decryptor, sender.update())
        assert told
        assert told.content_type == HANDSHAKE
        expected = b"in round %d" % round_
        assert take(decryptor, sender.data(expected)) == Opened(APPLICATION_DATA, expected, 0)
    assert decryptor
    assert decryptor.failed == 0


def test_key_update_behind_a_ticket_in_one_record() -> None:
    sender = Sender("SERVER")
    _, decryptor = tls13_decryptors(secrets(), SUITE, early=False)
    record = sender.application.seal(HANDSHAKE, TICKET + KEY_UPDATE)
    sender.application.update()
    assert take(decryptor, record)
    assert text(take(decryptor, sender.data(b"new key"))) == b"new key"


def test_application_data_that_looks_like_a_key_update_is_none() -> None:
    sender = Sender("SERVER")
    _, decryptor = tls13_decryptors(secrets(), SUITE, early=False)
    assert take(decryptor, sender.data(KEY_UPDATE))
    assert text(take(decryptor, sender.data(b"same key"))) == b"same key"


@pytest.mark.parametrize(("gone", "least", "most"), [(1, 1, 1), (3, 1, 40), (700, 2, 900)])
def test_lost_records_are_counted_by_sequence_numbers(gone: int, least: int, most: int) -> None:
    sender = Sender("SERVER")
    _, decryptor = tls13_decryptors(secrets(), SUITE, early=False)
    assert decryptor
    assert take(decryptor, sender.data(b"before"))
    for _ in range(gone):
        sender.data(b"lost")
    decryptor.lose(least, most)
    assert take(decryptor, sender.data(b"behind")) == Opened(
        APPLICATION_DATA, b"behind", 0, lost=gone
    )
    assert take(decryptor, sender.data(b"next")) == Opened(APPLICATION_DATA, b"next", 0)


def test_a_record_that_was_none_does_not_put_the_count_out() -> None:
    """What was taken for a lost record was no record: the count is lower than was said."""
    sender = Sender("SERVER")
    _, decryptor = tls13_decryptors(secrets(), SUITE, early=False)
    assert decryptor
    assert take(decryptor, sender.data(b"before"))
    decryptor.lose(1, 1)
    assert text(take(decryptor, sender.data(b"behind"))) == b"behind"


def test_without_a_trace_only_a_few_lost_records_are_looked_for() -> None:
    sender = Sender("SERVER")
    _, decryptor = tls13_decryptors(secrets(), SUITE, early=False)
    assert decryptor
    assert take(decryptor, sender.data(b"before"))
    sender.data(b"lost unseen")
    assert take(decryptor, sender.data(b"not yet")) is None
    found = take(decryptor, sender.data(b"found"))
    assert found == Opened(APPLICATION_DATA, b"found", 0, lost=2)
    assert decryptor.failed == 1


def test_records_lost_where_the_key_changes() -> None:
    sender = Sender("SERVER")
    _, decryptor = tls13_decryptors(secrets(), SUITE, early=False)
    assert decryptor
    assert take(decryptor, sender.handshake.seal(HANDSHAKE, b"\x08\x00\x00\x02\x00\x00"))
    sender.handshake.seal(HANDSHAKE, FINISHED)  # lost, and so is one under the new key
    sender.data(b"lost")
    decryptor.lose(1, 5)
    found = take(decryptor, sender.data(b"found"))
    assert found == Opened(APPLICATION_DATA, b"found", 0, lost=1, new_key=True)


def test_a_key_update_among_what_was_lost() -> None:
    sender = Sender("SERVER")
    _, decryptor = tls13_decryptors(secrets(), SUITE, early=False)
    assert decryptor
    assert take(decryptor, sender.data(b"before"))
    sender.update()
    sender.data(b"lost")
    decryptor.lose(1, 4)
    found = take(decryptor, sender.data(b"found"))
    assert found == Opened(APPLICATION_DATA, b"found", 0, lost=1, new_key=True)
    assert take(decryptor, sender.update())
    assert text(take(decryptor, sender.data(b"after"))) == b"after"


def test_wrong_keys_open_nothing() -> None:
    sender = Sender("SERVER", name="somebody else's")
    _, decryptor = tls13_decryptors(secrets(), SUITE, early=False)
    assert decryptor
    assert all(take(decryptor, sender.data(b"x")) is None for _ in range(20))
    assert (decryptor.opened, decryptor.failed) == (0, 20)


def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    tries = [0]
    real = Decryptor._try

    def trying(self: Decryptor, *arguments: object) -> Opened | None:
        tries[0] += 1
        return real(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(Decryptor, "_try", trying)
    return tries


def test_the_search_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is lost and however often, a direction costs no more than its share."""
    tries = counted(monkeypatch)
    sender = Sender("SERVER", name="somebody else's")
    _, decryptor = tls13_decryptors(secrets(), SUITE, early=False)
    assert decryptor
    records = [sender.data(b"x") for _ in range(100)]
    for record in records:
        decryptor.lose(0, 1 << 30)
        assert take(decryptor, record) is None
    keys = 2
    assert tries[0] <= decryption.MAX_TRIES + keys * len(records) + 100


def test_early_data_comes_first() -> None:
    sender = Sender("CLIENT")
    decryptor, _ = tls13_decryptors(secrets(), SUITE, early=True)
    early = take(decryptor, sender.early.seal(APPLICATION_DATA, b"GET /"))
    assert early == Opened(APPLICATION_DATA, b"GET /", 0, early=True)
    ended = take(decryptor, sender.early.seal(HANDSHAKE, b"\x05\x00\x00\x00"))
    assert ended
    assert ended.early
    finished = take(decryptor, sender.handshake.seal(HANDSHAKE, FINISHED))
    assert finished == Opened(HANDSHAKE, FINISHED, 0, new_key=True)
    assert take(decryptor, sender.data(b"more")) == Opened(
        APPLICATION_DATA, b"more", 0, new_key=True
    )


def test_early_data_that_was_offered_but_not_sent() -> None:
    sender = Sender("CLIENT")
    decryptor, _ = tls13_decryptors(secrets(), SUITE, early=True)
    finished = take(decryptor, sender.handshake.seal(HANDSHAKE, FINISHED))
    assert finished
    assert not finished.early
    assert text(take(decryptor, sender.data(b"one"))) == b"one"


def test_early_data_without_its_secret_stays_closed_and_harms_nothing() -> None:
    sender = Sender("CLIENT")
    own = secrets()
    del own["CLIENT_EARLY_TRAFFIC_SECRET"]
    decryptor, _ = tls13_decryptors(own, SUITE, early=True)
    assert decryptor
    for _ in range(3):
        assert take(decryptor, sender.early.seal(APPLICATION_DATA, b"GET /")) is None
    assert text(take(decryptor, sender.handshake.seal(HANDSHAKE, FINISHED))) == FINISHED
    assert text(take(decryptor, sender.data(b"one"))) == b"one"
    assert decryptor.failed == 3


def test_secrets_of_one_side_or_the_wrong_size() -> None:
    own = {label: secret for label, secret in secrets().items() if label.startswith("SERVER")}
    client, server = tls13_decryptors(own, SUITE, early=True)
    assert client is None
    assert server is not None
    assert tls13_decryptors(own, 0x1301, early=False) == (None, None)  # SHA-256 has 32 octets
    assert tls13_decryptors(own, 0x9999, early=False) == (None, None)
    assert tls13_decryptors({}, SUITE, early=True) == (None, None)


def test_suites() -> None:
    assert all(why_not(suite, tls13=True) is None for suite in range(0x1301, 0x1306))
    for suite in (0xC02F, 0xCCA9, 0xC013, 0xC012, 0xC076, 0xC0AC):
        assert why_not(suite, tls13=False) is None
    assert why_not(0xC05C, tls13=False) == "the cryptography library has no ARIA"
    assert "Camellia in GCM mode" in (why_not(0xC086, tls13=False) or "")
    assert "RFC 7465" in (why_not(0x0005, tls13=False) or "")
    assert "does not encrypt" in (why_not(0x003B, tls13=False) or "")
    assert why_not(0xC02F, tls13=True) == "its cipher is not known here"


CLIENT_RANDOM, SERVER_RANDOM, MASTER = b"c" * 32, b"s" * 32, b"m" * 48


def seal12(suite: int, from_client: bool, sequence: int, kind: int, content: bytes) -> bytes:
    """A record of TLS 1.2 (RFC 5288, RFC 6655, RFC 7905)."""
    protection = TLS12_SUITES[suite]
    keys = tls12_keys(MASTER, CLIENT_RANDOM, SERVER_RANDOM, protection)
    key, iv = keys[0 if from_client else 1]
    number = sequence.to_bytes(8, "big")
    header = bytes((kind,)) + b"\x03\x03"
    additional = number + header + len(content).to_bytes(2, "big")
    if protection.aead == "chacha20-poly1305":
        nonce = (int.from_bytes(iv, "big") ^ sequence).to_bytes(12, "big")
        fragment = ChaCha20Poly1305(key).encrypt(nonce, content, additional)
    elif protection.aead == "aes-gcm":
        fragment = number + AESGCM(key).encrypt(iv + number, content, additional)
    else:
        cipher = AESCCM(key, tag_length=protection.tag_octets)
        fragment = number + cipher.encrypt(iv + number, content, additional)
    return header + len(fragment).to_bytes(2, "big") + fragment


@pytest.mark.parametrize("suite12", [0xC02F, 0xC030, 0xCCA8, 0xC0AC, 0xC0AE, 0x009C])
def test_tls12(suite12: int) -> None:
    openers = tls12_openers({"CLIENT_RANDOM": MASTER}, suite12, CLIENT_RANDOM, SERVER_RANDOM)
    assert openers
    pair = tls12_decryptors([openers])
    lead = 0 if suite12 == 0xCCA8 else 8
    for from_client, decryptor in zip((True, False), pair, strict=True):
        assert decryptor
        assert decryptor.data_key
        finished = take(decryptor, seal12(suite12, from_client, 0, HANDSHAKE, FINISHED))
        assert finished == Opened(HANDSHAKE, FINISHED, lead)
        data = take(decryptor, seal12(suite12, from_client, 1, APPLICATION_DATA, b"GET /"))
        assert data == Opened(APPLICATION_DATA, b"GET /", lead)
        decryptor.lose(1, 9)
        behind = take(decryptor, seal12(suite12, from_client, 5, APPLICATION_DATA, b"more"))
        assert behind == Opened(APPLICATION_DATA, b"more", lead, lost=3)
        assert take(decryptor, b"\x17\x03\x03\x00\x04abcd") is None  # shorter than its tag
        other = seal12(suite12, not from_client, 6, APPLICATION_DATA, b"the other's")
        assert take(decryptor, other) is None
    record = seal12(suite12, True, 0, HANDSHAKE, FINISHED)
    assert pair[0]
    assert len(record) - 5 - len(FINISHED) == pair[0].overhead


def test_tls12_without_a_usable_secret() -> None:
    for secrets12 in ({}, {"CLIENT_RANDOM": b"short"}):
        assert tls12_openers(secrets12, 0xC02F, CLIENT_RANDOM, SERVER_RANDOM) is None
    rc4 = tls12_openers({"CLIENT_RANDOM": MASTER}, 0xC011, CLIENT_RANDOM, SERVER_RANDOM)
    assert rc4 is None


# Sessions that no captured ClientHello names


def trial(record: bytes) -> tuple[bytes, bytes]:
    return record[:5], record[5:]


def others(count: int) -> list[tuple[bytes, dict[str, bytes]]]:
    return [(bytes([number]) * 32, secrets(f"other {number}")) for number in range(count)]


@pytest.mark.parametrize("side", ["CLIENT", "SERVER"])
@pytest.mark.parametrize("before", [0, 1, 300])
def test_a_session_is_found_by_one_record(suite: int, side: str, before: int) -> None:
    sender = Sender(side, suite=suite)
    for _ in range(before):
        sender.data(b"before the capture")
    record = sender.data(b"first")
    finder = SessionFinder([*others(5), (b"r" * 32, secrets(suite=suite))])
    found = finder.find(None, [(side == "CLIENT", trial(record))], from_start=False)
    assert found
    assert (found.suite, found.from_client) == (suite, side == "CLIENT")
    assert found.secrets == secrets(suite=suite)
    decryptor = Decryptor(found.openers)
    assert text(take(decryptor, record)) == b"first"
    assert text(take(decryptor, sender.data(b"next"))) == b"next"
    # A session belongs to one connection.
    assert finder.find(None, [(side == "CLIENT", trial(record))], from_start=False) is None


def test_a_capture_that_begins_in_the_handshake() -> None:
    sender = Sender("SERVER")
    sender.handshake.seal(HANDSHAKE, b"\x08\x00\x00\x02\x00\x00")
    record = sender.handshake.seal(HANDSHAKE, FINISHED)
    finder = SessionFinder([*others(3), (b"r" * 32, secrets())])
    found = finder.find(SUITE, [(False, trial(record))], from_start=True)
    assert found
    decryptor = Decryptor(found.openers)
    assert text(take(decryptor, record)) == FINISHED
    assert text(take(decryptor, sender.data(b"one"))) == b"one"


def test_the_other_direction_is_tried_as_well() -> None:
    record = Sender("CLIENT").data(b"one")
    stranger = Sender("SERVER", name="unknown").data(b"x")
    finder = SessionFinder([(b"r" * 32, secrets())])
    found = finder.find(None, [(False, trial(stranger)), (True, trial(record))], from_start=False)
    assert found
    assert found.from_client


def test_no_session_fits_and_the_search_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = [0]
    real = decryption.Tls13Opener.open

    def opening(self: decryption.Tls13Opener, *arguments: object) -> tuple[int, bytes]:
        calls[0] += 1
        return real(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(decryption.Tls13Opener, "open", opening)
    monkeypatch.setattr("capture_analyzer.protocols.tls.sessions.MAX_TRIES", 3000)
    monkeypatch.setattr("capture_analyzer.protocols.tls.sessions.MAX_TRIES_A_CONNECTION", 1000)
    finder = SessionFinder(others(200))
    record = Sender("SERVER", name="unknown").data(b"x")
    for _ in range(10):
        assert finder.find(None, [(False, trial(record))], from_start=False) is None
    assert 500 < calls[0] <= 3000


def test_a_tls12_session_is_found_by_the_server_hello() -> None:
    record = seal12(0xC02F, True, 0, HANDSHAKE, FINISHED)
    sessions = [(bytes([n]) * 32, {"CLIENT_RANDOM": bytes([n]) * 48}) for n in range(4)]
    finder = SessionFinder([*sessions, (CLIENT_RANDOM, {"CLIENT_RANDOM": MASTER})])
    found = finder.find_tls12(0xC02F, SERVER_RANDOM, [(True, trial(record))])
    assert found == ({"CLIENT_RANDOM": MASTER}, CLIENT_RANDOM)
    assert finder.find_tls12(0xC02F, SERVER_RANDOM, [(True, trial(record))]) is None
