"""Table `certificates`: chains that servers presented, each read once.

Thousands of connections show the same chain. Its bytes are the key: parsing costs once for
each distinct message, and once for each distinct certificate in them.
"""

from __future__ import annotations

import dataclasses
import warnings
from typing import TYPE_CHECKING, Final

from capture_analyzer.model.anomalies import Anomaly
from capture_analyzer.model.certificates import Certificate
from capture_analyzer.model.quick_dataclass import quick_dataclass

if TYPE_CHECKING:
    from capture_analyzer.protocols.tls.certificates import Entry, Facts, Identity

# The parsers are loaded when there is a certificate to read: without keys TLS 1.3 hides them.

SECOND: Final = 1_000_000_000

MAX_CHAINS: Final = 10_000
"""Distinct chains kept; a forward proxy's capture has some hundreds."""


_CODINGS: Final = {1: "deflate", 2: "br", 3: "zstd"}  # RFC 8879, section 7.3

MAX_DECOMPRESSED: Final = 1 << 18
"""Chains of 100 KB exist; what is longer when it is unpacked is not read."""


def decompress(body: bytes) -> bytes | None:
    """The Certificate message in a CompressedCertificate (RFC 8879, section 4).

    Returns:
        Its body; None if the algorithm is unknown, or the content not what it says.
    """
    if len(body) < 8:
        return None
    coding = _CODINGS.get(int.from_bytes(body[:2], "big"))
    length = int.from_bytes(body[2:5], "big")
    packed = body[8:]
    if (
        coding is None
        or length > MAX_DECOMPRESSED
        or len(packed) != int.from_bytes(body[5:8], "big")
    ):
        return None
    from capture_analyzer.protocols.codings import CodingError, decode

    pieces = decode([coding], [packed])
    content = bytearray()
    try:
        for piece in pieces or ():
            content += piece
            if len(content) > length:
                return None
    except CodingError:
        return None
    return bytes(content) if len(content) == length else None


@quick_dataclass
class Chain:
    """A chain as a server sent it: its entries, and the connections it was shown on."""

    entries: list[Entry]
    connection_nos: list[int]


@quick_dataclass
class Presented:
    """The chains of a capture, in order of first appearance.

    Attributes:
        chains: each distinct one.
        chain_of: for a connection its index in `chains`.
        anomalies: messages that can't be read.
    """

    chains: list[Chain] = dataclasses.field(default_factory=list)
    chain_of: dict[int, int] = dataclasses.field(default_factory=dict)
    anomalies: list[Anomaly] = dataclasses.field(default_factory=list)
    _known: dict[tuple[bytes, bytes | None, bool], int] = dataclasses.field(default_factory=dict)

    def add(self, connection_no: int, body: bytes, status: bytes | None, *, tls13: bool) -> bool:
        """Note the Certificate (and CertificateStatus) messages of a connection.

        Returns:
            Whether there is a stapled response for the server's own certificate.
        """
        from capture_analyzer.protocols.tls.certificates import (
            MalformedCertificateError,
            parse_certificate,
            parse_certificate_status,
        )

        key = (body, status, tls13)
        number = self._known.get(key)
        if number is None:
            if len(self.chains) >= MAX_CHAINS:
                return status is not None
            entries: list[Entry] = []
            try:
                entries = parse_certificate(body, tls13=tls13)
                if status is not None and entries:
                    staple = parse_certificate_status(status)
                    entries[0] = dataclasses.replace(entries[0], staple=staple)
            except MalformedCertificateError as error:
                self.anomalies.append(
                    Anomaly("tls-malformed", "peer", str(error), connection_no, None)
                )
            number = self._known[key] = len(self.chains)
            self.chains.append(Chain(entries, []))
        chain = self.chains[number]
        chain.connection_nos.append(connection_no)
        self.chain_of[connection_no] = number
        return bool(chain.entries) and chain.entries[0].staple is not None

    def merge(self, later: Presented, first: int) -> None:
        """Take over the chains of later connections, which are numbered from `first`."""
        added = set()
        for key, number in later._known.items():
            chain = later.chains[number]
            mine = self._known.get(key)
            if mine is None:
                if len(self.chains) >= MAX_CHAINS:
                    continue
                mine = self._known[key] = len(self.chains)
                self.chains.append(Chain(chain.entries, []))
                added.add(first + chain.connection_nos[0])
            numbers = [first + connection_no for connection_no in chain.connection_nos]
            self.chains[mine].connection_nos += numbers
            self.chain_of.update(dict.fromkeys(numbers, mine))
        for anomaly in later.anomalies:  # one for each chain, at its first connection
            assert anomaly.connection_no is not None
            anomaly.connection_no += first
            if anomaly.connection_no in added:
                self.anomalies.append(anomaly)


@quick_dataclass
class Read:
    """The rows, and what the rows don't say but finding OCSP queries needs.

    Attributes:
        certificates: by chain, then position.
        identities: of each row, what an OCSP request calls it; None if it can't be read.
        first_row: for each chain its first row; -1 if it has none.
        anomalies: certificates and responses that can't be read.
    """

    certificates: list[Certificate]
    identities: list[Identity | None]
    first_row: list[int]
    anomalies: list[Anomaly]


def read_chains(presented: Presented, epoch_ns: int) -> Read:
    """Read the certificates of all chains.

    Args:
        presented: as the connections had them.
        epoch_ns: the first packet's time.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of certificates that bend the rules and are still read
        return _read(presented, epoch_ns)


def _read(presented: Presented, epoch_ns: int) -> Read:
    read = Read([], [], [], list(presented.anomalies))
    facts: dict[bytes, Facts | None] = {}
    for chain_no, chain in enumerate(presented.chains):
        chain.connection_nos.sort()
        read.first_row.append(len(read.certificates) if chain.entries else -1)
        known = [
            _facts(entry.der, facts, chain.connection_nos[0], read.anomalies)
            for entry in chain.entries
        ]
        issuers = {fact.subject: fact.public_key for fact in known if fact is not None}
        for position, (entry, fact) in enumerate(zip(chain.entries, known, strict=True)):
            row = Certificate(chain_no, position, chain.connection_nos, len(entry.der))
            identity = None
            if fact is not None:
                _fill(row, fact, epoch_ns)
                own = fact.identity
                identity = dataclasses.replace(own, issuer_key=issuers.get(own.issuer_name))
            if entry.staple is not None:
                _add_staple(row, entry.staple, identity, epoch_ns)
                if row.staple_response == "malformed":
                    read.anomalies.append(
                        Anomaly(
                            "tls-malformed",
                            "peer",
                            "a stapled OCSP response can't be read",
                            chain.connection_nos[0],
                            None,
                        )
                    )
            read.certificates.append(row)
            read.identities.append(identity)
    return read


def _facts(
    der: bytes, known: dict[bytes, Facts | None], connection_no: int, anomalies: list[Anomaly]
) -> Facts | None:
    if der not in known:
        from capture_analyzer.protocols.tls.certificates import (
            MalformedCertificateError,
            read_certificate,
        )

        try:
            known[der] = read_certificate(der)
        except MalformedCertificateError as error:
            known[der] = None
            anomalies.append(Anomaly("tls-malformed", "peer", str(error), connection_no, None))
    return known[der]


def _fill(row: Certificate, fact: Facts, epoch_ns: int) -> None:
    row.name = fact.name
    row.dns_names = list(fact.dns_names)
    row.not_before_ns = fact.not_before_s * SECOND - epoch_ns
    row.not_after_ns = fact.not_after_s * SECOND - epoch_ns
    row.key_type = fact.key_type
    row.self_signed = fact.self_signed
    row.must_staple = fact.must_staple
    row.ocsp_responder = fact.ocsp_responder


def _add_staple(row: Certificate, staple: bytes, identity: Identity | None, epoch_ns: int) -> None:
    from capture_analyzer.protocols.ocsp import MalformedOcspError, parse_response

    row.staple_bytes = len(staple)
    try:
        response = parse_response(staple)
    except MalformedOcspError:
        row.staple_response = "malformed"
        return
    row.staple_response = response.response
    row.staple_status = response.status
    if response.certificate is not None and identity is not None:
        row.staple_for_this = response.certificate.names(identity)
    if response.this_update_s is not None:
        row.staple_this_update_ns = response.this_update_s * SECOND - epoch_ns
    if response.next_update_s is not None:
        row.staple_next_update_ns = response.next_update_s * SECOND - epoch_ns
