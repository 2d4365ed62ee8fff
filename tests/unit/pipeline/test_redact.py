"""What a Redactor lets through."""

from __future__ import annotations

import pytest

from capture_analyzer.errors import OptionError
from capture_analyzer.pipeline.redact import Redactor


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("content-type", "text/event-stream; charset=utf-8", "text/event-stream; charset=utf-8"),
        ("content-length", "17", "17"),
        ("retry-after", "2", "2"),
        ("x-ratelimit-remaining-tokens", "149984", "149984"),
        ("anthropic-ratelimit-requests-reset", "2025-01-01T00:00:00Z", "2025-01-01T00:00:00Z"),
        ("ratelimit", '"default";r=50;t=30', '"default";r=50;t=30'),
        ("host", "api.example:8080", "api.example:8080"),
        ("authorization", "Bearer abc", "…10"),
        ("cookie", "a=b", "…3"),
        ("set-cookie", "a=b", "…3"),
        ("x-api-key", "sk-123", "…6"),
        ("proxy-authorization", "Basic eA==", "…10"),
        ("user-agent", "curl/8", "…6"),
        ("location", "https://a.example/?t=1", "…22"),
        ("x-ratelimit", "none of the family", "…18"),
        ("x-unheard-of", "é€", "…2"),
        ("x-empty", "", ""),
        ("openai-processing-ms", "381", "381"),
        ("openai-processing-ms", "sk-381", "…6"),
        ("x-runtime", "0.004312", "0.004312"),
    ],
)
def test_field_values(name, value, shown):
    assert Redactor().value(name, value) == shown


@pytest.mark.parametrize(
    ("target", "shown"),
    [
        ("/think?ms=5&size=123456", "/think?ms=…1&size=…6"),
        ("/plain/path", "/plain/path"),
        ("/a?token", "/a?…5"),
        ("/a?x=&y==z&&w=1=2", "/a?x=&y=…2&&w=…3"),
        ("/a?q=what?", "/a?q=…5"),
        ("/a;jsessionid=ABC/b", "/a;jsessionid=…3/b"),
        ("*", "*"),
        ("http://api.example:81/x?k=secret", "http://api.example:81/x?k=…6"),
        ("http://user:pass@api.example/x", "http://…9@api.example/x"),
        ("http://api.example?k=v", "http://api.example?k=…1"),
        ("/redirect?to=http://x.example/?a=b", "/redirect?to=…21"),
        ("/http://x.example/", "/http://x.example/"),
    ],
)
def test_targets(target, shown):
    assert Redactor().target(target) == shown
    assert Redactor("none").target(target) == target


def test_counts():
    redactor = Redactor()
    redactor.value("cookie", "x")
    redactor.value("content-length", "1")
    redactor.target("/a?b=1&c=2&d")
    assert redactor.counts.level == "default"
    assert (redactor.counts.field_values, redactor.counts.query_values) == (1, 3)
    assert redactor.counts.path_segments == 0


def test_none_keeps_everything():
    redactor = Redactor("none")
    assert redactor.value("cookie", "a=b") == "a=b"
    assert redactor.authority("u:p@h") == "u:p@h"
    assert redactor.host("h") == "h"
    assert redactor.ip("192.0.2.1") == "192.0.2.1"
    assert redactor.counts.level == "none"
    assert redactor.counts.field_values == 0


def test_pseudonyms_are_numbers_in_order_of_appearance():
    redactor = Redactor("ips, hosts")
    assert redactor.counts.level == "hosts,ips"
    assert redactor.host("b.example") == "host-1.example"
    assert redactor.host("a.example") == "host-2.example"
    assert redactor.host("B.example.") == "host-1.example"
    assert redactor.value("host", "a.example:81") == "host-2.example:81"
    assert redactor.target("http://b.example/x?k=v") == "http://host-1.example/x?k=…1"
    assert redactor.ip("192.0.2.9") == "ipv4-1"
    assert redactor.ip("2001:db8::1") == "ipv6-2"
    assert redactor.value("host", "[2001:db8::1]:443") == "[ipv6-2]:443"
    assert redactor.value("host", "192.0.2.9:80") == "ipv4-1:80"
    assert redactor.value("cookie", "a") == "…1"


def test_pseudonyms_are_not_replaced_again():
    redactor = Redactor("hosts,ips")
    for text in ("api.example", "192.0.2.7", "2001:db8::7"):
        once = redactor.host(text)
        assert redactor.host(once) == once
    assert redactor.host("other.example") == "host-2.example"


def test_hosts_alone_leave_addresses():
    redactor = Redactor("hosts")
    assert redactor.host("192.0.2.7") == "192.0.2.7"
    assert redactor.ip("192.0.2.7") == "192.0.2.7"


def test_paths():
    redactor = Redactor("paths")
    assert redactor.target("/v1/users/17?x=abc") == "/…2/…5/…2?x=…3"
    assert redactor.target("http://h.example/v1/") == "http://h.example/…2/"
    assert redactor.target("*") == "*"
    assert redactor.counts.path_segments == 4
    assert redactor.host("h.example") == "h.example"


@pytest.mark.parametrize("level", ["", "all", "hosts,cookies", "none,hosts", ","])
def test_unknown_levels(level):
    with pytest.raises(OptionError):
        Redactor(level)
