"""TLS key logs in the NSS format (RFC 9850), as SSLKEYLOGFILE gives them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from capture_analyzer.errors import KeyLogError
from capture_analyzer.model.secrets import Secrets

MAX_KEY_LOG_BYTES: Final = 1 << 30  # held in memory once; a session takes about 900 bytes
_MAX_SECRET_OCTETS: Final = 64  # SHA-512 would give 64; TLS uses 32 or 48
_MAX_ECH_OCTETS: Final = 4096  # a configuration of ECH holds a public key, of 1,216 octets at most

_LINE: Final = re.compile(rb"(?:QUIC_)?([A-Z][A-Z0-9_]+) +([0-9A-Fa-f]{64}) +([0-9A-Fa-f]{2,8192})")
_LINES: Final = re.compile(rb"[^\r\n]+")


def parse_key_log(text: bytes) -> Secrets:
    """The secrets in a key log's bytes.

    Any line end, either case of the digits, comments and blank lines are accepted; a line
    that is anything else is skipped and counted in `Secrets.bad_lines`.
    """
    secrets = Secrets()
    for found in _LINES.finditer(text.removeprefix(b"\xef\xbb\xbf")):  # an editor's mark
        line = found.group().strip()
        if not line or line.startswith(b"#"):
            continue
        match = _LINE.fullmatch(line)
        if match is None or len(match.group(3)) % 2:
            secrets.bad_lines += 1
            continue
        label, random, secret = match.groups()
        most = _MAX_ECH_OCTETS if label.startswith(b"ECH_") else _MAX_SECRET_OCTETS
        if len(secret) > 2 * most:
            secrets.bad_lines += 1
            continue
        secrets.add(
            label.decode("ascii"),
            bytes.fromhex(random.decode("ascii")),
            bytes.fromhex(secret.decode("ascii")),
        )
    return secrets


def read_key_log(path: Path) -> Secrets:
    """The secrets in a key log file.

    Raises:
        KeyLogError: it can't be read, is too large, or holds no secret although it is not
            empty. The message names the file and no content.
    """
    try:
        if path.stat().st_size > MAX_KEY_LOG_BYTES:
            raise KeyLogError(f"{path}: larger than any key log this can hold in memory (1 GiB)")
        text = path.read_bytes()
    except OSError as error:
        raise KeyLogError(f"{path}: {error.strerror or 'can not be read'}") from None
    secrets = parse_key_log(text)
    if not len(secrets) and secrets.bad_lines:
        raise KeyLogError(f"{path}: not one of its {secrets.bad_lines:,} lines is of a key log")
    return secrets
