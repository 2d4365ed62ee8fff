"""What part of a capture is to be analysed: hosts, ports, and a span of time."""

from __future__ import annotations

import datetime
import ipaddress
import re
from collections.abc import Sequence
from typing import Final

from capture_analyzer.errors import OptionError
from capture_analyzer.model.quick_dataclass import quick_dataclass

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_SECOND_NS: Final = 1_000_000_000
_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
# Compiled when there is a selection to read, which mostly there is not.
_SECONDS: Final = r"(\+?)(\d{1,10}(?:\.\d+)?)"
_ISO: Final = r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d(?::\d\d)?)(?:[.,](\d+))?(Z|[+-]\d\d(?::?\d\d)?)?"
_NAME: Final = r"(?:\*\.)?[\w-]+(?:\.[\w-]+)*"


@quick_dataclass(frozen=True)
class Instant:
    """An instant: since 1970 in UTC, or since the first packet."""

    ns: int
    relative: bool

    def since(self, epoch_ns: int) -> int:
        """Nanoseconds since the first packet, which was at `epoch_ns`."""
        return self.ns if self.relative else self.ns - epoch_ns


@quick_dataclass(frozen=True)
class Selection:
    """Which connections are looked at.

    A connection is if all that was asked for fits: one of the networks or names, one of the
    ports (each at either end), and a packet in the span of time. What was not asked for fits
    always.

    Attributes:
        networks: addresses.
        names: host names, lower-case; "*.example.com" stands for all names below it.
        ports: TCP or UDP ports.
        start: begin of the span; None = the capture's.
        end: its end; None = the capture's.
    """

    networks: tuple[Network, ...] = ()
    names: tuple[str, ...] = ()
    ports: tuple[int, ...] = ()
    start: Instant | None = None
    end: Instant | None = None

    def __bool__(self) -> bool:
        return bool(self.by_host or self.ports or self.by_time)

    @property
    def by_host(self) -> bool:
        """Whether hosts were asked for."""
        return bool(self.networks or self.names)

    @property
    def by_time(self) -> bool:
        """Whether a span of time was asked for."""
        return self.start is not None or self.end is not None

    def fits_name(self, name: str) -> bool:
        """Whether a host name is one of those asked for."""
        name = name.lower().rstrip(".")
        return any(
            name.endswith(wanted[1:]) if wanted.startswith("*.") else name == wanted
            for wanted in self.names
        )

    def span(self, epoch_ns: int) -> tuple[int, int]:
        """Begin and end in nanoseconds since the first packet, which was at `epoch_ns`."""
        most = (1 << 63) - 1
        start = -most if self.start is None else self.start.since(epoch_ns)
        end = most if self.end is None else self.end.since(epoch_ns)
        return max(start, -most), min(end, most)


EVERYTHING: Final = Selection()


def parse_selection(
    hosts: Sequence[str] = (),
    ports: Sequence[int] = (),
    start: str | None = None,
    end: str | None = None,
) -> Selection:
    """Read what somebody wrote.

    Args:
        hosts: addresses ("192.0.2.1", "2001:db8::/32") or names ("api.example.com").
        ports: port numbers.
        start: "+12.5" (seconds since the first packet), "2026-03-03T14:07:11.5Z" (without a
            zone it is UTC), or seconds since 1970.
        end: likewise.

    Raises:
        OptionError: something is none of that, or the span ends before it begins.
    """
    networks: list[Network] = []
    names: list[str] = []
    for host in hosts:
        try:
            networks.append(ipaddress.ip_network(host, strict=False))
        except ValueError:
            name = host.lower().rstrip(".")
            if not re.fullmatch(_NAME, name):
                raise OptionError(f"--host takes an address or a name, not {host!r}") from None
            names.append(name)
    for port in ports:
        if not 0 < port < 65_536:
            raise OptionError(f"--port takes a number from 1 to 65535, not {port}")
    begin, stop = _instant(start, "--from"), _instant(end, "--to")
    if begin and stop and begin.relative == stop.relative and begin.ns > stop.ns:
        raise OptionError("the span from --from to --to ends before it begins")
    return Selection(tuple(networks), tuple(names), tuple(ports), begin, stop)


def _instant(text: str | None, option: str) -> Instant | None:
    if text is None:
        return None
    text = text.strip()
    seconds = re.fullmatch(_SECONDS, text)
    if seconds:
        from decimal import Decimal

        return Instant(int(Decimal(seconds.group(2)) * _SECOND_NS), bool(seconds.group(1)))
    parts = re.fullmatch(_ISO, text)
    if parts:
        day, clock, fraction, zone = parts.groups()
        try:
            when = datetime.datetime.fromisoformat(f"{day}T{clock}{zone or 'Z'}")
        except ValueError:
            pass
        else:
            fraction_ns = int((fraction or "0")[:9].ljust(9, "0"))
            whole = (when - _EPOCH) // datetime.timedelta(seconds=1)
            return Instant(whole * _SECOND_NS + fraction_ns, False)
    raise OptionError(
        f"{option} takes +seconds (since the first packet), a time such as "
        f"2026-03-03T14:07:11Z, or seconds since 1970, not {text!r}"
    )
