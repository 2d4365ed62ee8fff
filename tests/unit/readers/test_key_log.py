"""Key logs as they are found in the wild."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from capture_analyzer.errors import KeyLogError
from capture_analyzer.readers.key_log import parse_key_log, read_key_log

RANDOM = "ab" * 32


def test_line_ends_case_comments_and_prefix() -> None:
    text = (
        f"# comment\r\n\r\nCLIENT_RANDOM {RANDOM} {'01' * 48}\r\n"
        f"CLIENT_TRAFFIC_SECRET_0 {RANDOM.upper()} {'CD' * 32}\r"
        f"  QUIC_SERVER_TRAFFIC_SECRET_0 {RANDOM} {'ef' * 32}  \n"
    )
    secrets = parse_key_log(text.encode())
    assert secrets.bad_lines == 0
    assert secrets.of(bytes.fromhex(RANDOM)) == {
        "CLIENT_RANDOM": b"\x01" * 48,
        "CLIENT_TRAFFIC_SECRET_0": b"\xcd" * 32,
        "SERVER_TRAFFIC_SECRET_0": b"\xef" * 32,
    }
    assert secrets.of(bytes(32)) == {}


def test_a_byte_order_mark_costs_no_line() -> None:
    text = f"\ufeffCLIENT_RANDOM {RANDOM} {'01' * 48}\n"
    secrets = parse_key_log(text.encode())
    assert (len(secrets), secrets.bad_lines) == (1, 0)


@pytest.mark.parametrize(
    "line",
    [
        "hello",
        f"A {RANDOM} {'00' * 65}",
        f"ECH_CONFIG {RANDOM} {'0' * 8194}",
        f"A {RANDOM[:-2]} 00",
        f"A {RANDOM} 0",
        f"A {RANDOM} zz",
        f"A {RANDOM}",
        "\x00",
    ],
)
def test_bad_lines_are_skipped_and_counted(line: str) -> None:
    secrets = parse_key_log(f"{line}\nCLIENT_RANDOM {RANDOM} {'01' * 48}\n".encode())
    assert secrets.bad_lines == 1
    assert len(secrets) == 1


def test_a_configuration_of_ech_is_longer_than_a_secret() -> None:
    secrets = parse_key_log(f"ECH_CONFIG {RANDOM} {'ab' * 1300}\n".encode())
    assert secrets.bad_lines == 0
    assert secrets.of(bytes.fromhex(RANDOM)) == {"ECH_CONFIG": b"\xab" * 1300}


def test_secrets_show_in_no_repr_and_can_not_be_pickled() -> None:
    secrets = parse_key_log(f"CLIENT_RANDOM {RANDOM} {'5e' * 48}\n".encode())
    assert "5e5e" not in repr(secrets)
    with pytest.raises(TypeError):
        pickle.dumps(secrets)


def test_files(tmp_path: Path) -> None:
    path = tmp_path / "keys.log"
    with pytest.raises(KeyLogError, match="No such file"):
        read_key_log(path)
    path.write_text("5e" * 500)
    with pytest.raises(KeyLogError) as caught:
        read_key_log(path)
    assert "5e5e" not in str(caught.value)
    path.write_text("")
    assert len(read_key_log(path)) == 0
