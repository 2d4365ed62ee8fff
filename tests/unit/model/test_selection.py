from __future__ import annotations

import ipaddress

import pytest

from capture_analyzer.errors import OptionError
from capture_analyzer.model.selection import EVERYTHING, Instant, parse_selection

S = 10**9
MARCH = 1_772_546_831


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("+0", Instant(0, True)),
        ("+12.5", Instant(12_500_000_000, True)),
        ("+0.000000001", Instant(1, True)),
        ("1772546831", Instant(MARCH * S, False)),
        ("1772546831.25", Instant(MARCH * S + S // 4, False)),
        ("2026-03-03T14:07:11Z", Instant(MARCH * S, False)),
        ("2026-03-03 14:07:11", Instant(MARCH * S, False)),
        ("2026-03-03T14:07:11.000000001Z", Instant(MARCH * S + 1, False)),
        ("2026-03-03T15:07:11.5+01:00", Instant(MARCH * S + S // 2, False)),
        ("2026-03-03T09:07-0500", Instant((MARCH - 11) * S, False)),
    ],
)
def test_instants(text, expected):
    assert parse_selection(start=text).start == expected
    assert parse_selection(end=text).end == expected


@pytest.mark.parametrize(
    "text", ["", "soon", "+", "-5", "12:00", "2026-13-03T00:00:00Z", "+1e3", "2026-03-03", "nan"]
)
def test_what_is_no_instant(text):
    with pytest.raises(OptionError, match="--from takes"):
        parse_selection(start=text)


def test_a_span_in_time_of_the_capture():
    selection = parse_selection(start="+1.5", end="2026-03-03T14:07:21Z")
    assert selection.span(MARCH * S) == (1_500_000_000, 10 * S)
    begin, end = EVERYTHING.span(MARCH * S)
    assert begin < -(2**62) < 2**62 < end
    with pytest.raises(OptionError, match="before it begins"):
        parse_selection(start="+2", end="+1")


def test_hosts_are_addresses_networks_or_names():
    selection = parse_selection(["192.0.2.1", "2001:DB8::/32", "API.example.", "*.svc.example"])
    assert selection.networks == (
        ipaddress.ip_network("192.0.2.1/32"),
        ipaddress.ip_network("2001:db8::/32"),
    )
    assert [selection.fits_name(n) for n in ("api.example", "Api.Example.", "x.api.example")] == [
        True,
        True,
        False,
    ]
    assert [selection.fits_name(n) for n in ("a.svc.example", "a.b.svc.example")] == [True, True]
    assert not selection.fits_name("svc.example")
    for bad in ("10.0.0.0/99", "a b", "", "x/y", "http://host"):
        with pytest.raises(OptionError, match="--host"):
            parse_selection([bad])


def test_ports():
    assert parse_selection(ports=[443]).ports == (443,)
    for bad in (0, 65_536, -1):
        with pytest.raises(OptionError, match="--port"):
            parse_selection(ports=[bad])


def test_nothing_asked_for_is_everything():
    assert not EVERYTHING
    assert not parse_selection()
    assert parse_selection(ports=[1])
    assert parse_selection(start="+1")
    assert parse_selection(["a.example"])
