"""What is kept out of every output: field values, query values, on demand names and addresses.

Text passes through a `Redactor` before it enters a table. Names of fields and of query
parameters stay, values become `…` with their length in characters. Pseudonyms are sequence
numbers in order of appearance, so that they say nothing about what they stand for.
"""

from __future__ import annotations

import copy
import re
from typing import Final

from capture_analyzer.errors import OptionError
from capture_analyzer.model.analysis import Redaction

OPTIONS: Final = ("hosts", "ips", "paths")
"""What a level may list to be replaced as well."""

SAFE_FIELDS: Final = frozenset(
    (
        # How a message is framed, coded and routed (RFC 9110, RFC 9112).
        "accept",
        "accept-encoding",
        "accept-ranges",
        "age",
        "allow",
        "alt-svc",
        "cache-control",
        "connection",
        "content-encoding",
        "content-length",
        "content-range",
        "content-type",
        "date",
        "expect",
        "host",
        "keep-alive",
        "max-forwards",
        "pragma",
        "proxy-connection",
        "range",
        "retry-after",
        "server",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "vary",
        "via",
        # Buffering by intermediaries.
        "x-accel-buffering",
        # WebSocket (RFC 6455) and gRPC.
        "sec-websocket-version",
        "grpc-accept-encoding",
        "grpc-encoding",
        "grpc-status",
        "grpc-timeout",
        # Rate limits (the families are in _SAFE_PREFIXES).
        "ratelimit",
        "retry-after-ms",
        "x-should-retry",
    )
)
"""Fields whose values are kept. None of them carries an identity or a secret by its meaning;
never add authorization, cookie, or any that a user's data may enter."""

_SAFE_PREFIXES: Final = ("ratelimit-", "x-ratelimit-", "x-rate-limit-", "anthropic-ratelimit-")

_NUMERIC_FIELDS: Final = frozenset(
    ("openai-processing-ms", "x-envoy-upstream-service-time", "x-response-time", "x-runtime")
)
"""Times that servers report: kept where they are nothing but a number."""

_NUMBER: Final = re.compile(r"[0-9]{1,12}(\.[0-9]{1,9})? ?(ms|s|us)?")
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,15}://")
_IPV4: Final = re.compile(r"(?:[0-9]{1,3}\.){3}[0-9]{1,3}")
_PORT: Final = re.compile(r":[0-9]{0,5}")


class Redactor:
    """Reduces captured text to what a level lets through, and counts what it kept back.

    Args:
        level: "none", "default", or a list as "hosts,ips,paths", which includes the default.

    Raises:
        OptionError: no such level.

    Attributes:
        counts: level and counts, for the result.
    """

    def __init__(self, level: str = "default") -> None:
        parts = [part.strip() for part in level.split(",")]
        if len(parts) == 1 and parts[0] in ("none", "default"):
            options: set[str] = set()
            level = parts[0]
        else:
            options = {part for part in parts if part != "default"}
            unknown = sorted(options - set(OPTIONS))
            if unknown or not options:
                raise OptionError(
                    f"no redaction level {level!r}: give none, default, or a list of "
                    + ", ".join(OPTIONS)
                )
            level = ",".join(option for option in OPTIONS if option in options)
        self.counts = Redaction(level=level)
        self._keeps_all = level == "none"
        self._hosts = "hosts" in options
        self._ips = "ips" in options
        self._paths = "paths" in options
        self._host_names: dict[str, str] = {}
        self._addresses: dict[str, str] = {}

    def apart(self) -> Redactor:
        """One that gives the same pseudonyms, and counts by itself."""
        twin = copy.copy(self)
        twin.counts = Redaction(self.counts.level)
        return twin

    def count(self, counts: Redaction) -> None:
        """Add what another one kept back."""
        self.counts.field_values += counts.field_values
        self.counts.query_values += counts.query_values
        self.counts.path_segments += counts.path_segments

    @property
    def numbers_names(self) -> bool:
        """Whether it gives pseudonyms: then what passes through it must come in order."""
        return self._hosts or self._ips

    def value(self, field_name: str, value: str) -> str:
        """A field's value; `field_name` is lower-case."""
        text, times = self.field(field_name, value)
        self.keep_back(times)
        return text

    def field(self, name: str, value: str) -> tuple[str, int]:
        """A field's value, and how often something was kept out of it, which is not yet counted.

        Args:
            name: lower-case.
            value: as it was sent.
        """
        if self._keeps_all:
            return value, 0
        if name == "host":
            return self._authority(value)
        if name in SAFE_FIELDS or name.startswith(_SAFE_PREFIXES):
            return value, 0
        if not value or (name in _NUMERIC_FIELDS and _NUMBER.fullmatch(value)):
            return value, 0
        return f"…{len(value)}", 1

    def keep_back(self, times: int) -> None:
        """Count what was kept out of field values."""
        self.counts.field_values += times

    def target(self, text: str) -> str:
        """A request target (RFC 9112, section 3.2) in any of its forms."""
        if self._keeps_all:
            return text
        path, question, query = text.partition("?")
        prefix = ""
        scheme = None if path.startswith("/") else _SCHEME.match(path)
        if scheme:
            authority, slash, path = path[scheme.end() :].partition("/")
            prefix, path = scheme.group() + self.authority(authority), slash + path
        if ";" in path:
            path = "/".join(self._without_parameters(part) for part in path.split("/"))
        if self._paths and path.startswith("/"):
            path = "/".join(self._segment(part) for part in path.split("/"))
        if question:
            query = "&".join(map(self._parameter, query.split("&")))
        return prefix + path + question + query

    def authority(self, text: str) -> str:
        """Host and port, without the user information in front (RFC 3986, section 3.2.1)."""
        if self._keeps_all:
            return text
        text, times = self._authority(text)
        self.keep_back(times)
        return text

    def _authority(self, text: str) -> tuple[str, int]:
        user, at, rest = text.rpartition("@")
        if at:
            user = f"…{len(user)}"
        if not (self._hosts or self._ips):
            return user + at + rest, len(at)
        if rest.startswith("["):
            host, bracket, port = rest[1:].partition("]")
            host, port = "[" + self.host(host), bracket + port
        else:
            host, colon, port = rest.rpartition(":")
            if not colon or not _PORT.fullmatch(colon + port):
                host, colon, port = rest, "", ""
            host, port = self.host(host), colon + port
        return user + at + host + port, len(at)

    def host(self, name: str) -> str:
        """A host name, or its pseudonym. Calling it again on a pseudonym changes nothing."""
        if not name or name in self._addresses:
            return self._addresses.get(name, name)
        if _IPV4.fullmatch(name) or ":" in name:
            return self.ip(name)
        if not self._hosts:
            return name
        known = self._host_names
        name = name.lower().removesuffix(".")
        if name not in known:
            # Each name adds itself and its pseudonym, which stays as it is.
            pseudonym = f"host-{len(known) // 2 + 1}.example"
            known[name] = known[pseudonym] = pseudonym
        return known[name]

    def ip(self, address: str) -> str:
        """An address as text, or its pseudonym, which keeps the version of IP."""
        if not self._ips:
            return address
        known = self._addresses
        if address not in known:
            pseudonym = f"ipv{6 if ':' in address else 4}-{len(known) // 2 + 1}"
            known[address] = known[pseudonym] = pseudonym
        return known[address]

    def _parameter(self, text: str) -> str:
        """A query parameter; what has no name is a value."""
        name, equals, value = text.partition("=")
        if not equals:
            name, value = "", name
        if not value:
            return text
        self.counts.query_values += 1
        return f"{name}{equals}…{len(value)}"

    def _without_parameters(self, segment: str) -> str:
        """A path segment whose parameters (RFC 3986, section 3.3) lose their values."""
        name, *parameters = segment.split(";")
        return ";".join([name, *map(self._parameter, parameters)])

    def _segment(self, text: str) -> str:
        if not text:
            return text
        self.counts.path_segments += 1
        return f"…{len(text)}"
