"""Short names of exchanges, connections and the capture as a person would call them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime

from capture_analyzer import wording
from capture_analyzer.model.analysis import Tables
from capture_analyzer.model.connections import Connection
from capture_analyzer.model.exchanges import Exchange

# Not from the locale, on which the result must not depend.
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def host(exchange: Exchange, connection: Connection) -> str:
    """The host a request went to, by the best name that is known."""
    return exchange.authority or server(connection)


def server(connection: Connection) -> str:
    """A connection's server by name, else by address and port."""
    return connection.server_name or endpoint(connection.server_ip, connection.server_port)


def endpoint(ip: str, port: int) -> str:
    """An address with its port; IPv6 in brackets (RFC 3986, section 3.2.2)."""
    return f"[{ip}]:{port}" if ":" in ip else f"{ip}:{port}"


def exchange(row: Exchange, connection: Connection) -> str:
    """Method, host and path, or what stands for them without keys."""
    name = host(row, connection)
    if row.protocol == "opaque":
        return f"{name}, {'encrypted' if connection.tls is not None else 'not readable'}"
    where = place(row, connection)
    return f"{row.method} {where}" if row.method else where


def place(row: Exchange, connection: Connection) -> str:
    """Host and path, without the host standing there twice."""
    rest = target(row)
    return rest if "://" in rest.partition("?")[0] else host(row, connection) + rest


def target(row: Exchange) -> str:
    """What the request target says behind the host.

    That of CONNECT is the host alone (RFC 9112, section 3.2.3); the absolute form, as clients
    send it to a proxy, begins with it (section 3.2.2). One that names another host than the
    request goes to stays whole.
    """
    text = row.path or ""
    if row.method == "CONNECT" and text == row.authority:
        return ""
    scheme, colon, rest = text.partition("://")
    if colon and row.authority and "?" not in scheme and rest.startswith(row.authority):
        behind = rest[len(row.authority) :]
        if not behind or behind[0] in "/?":
            return behind or "/"
    return text


def date(epoch_ns: int) -> str:
    """An instant in UTC to the second: 1 Dec 2026 02:55:52 UTC."""
    try:
        moment = datetime.fromtimestamp(epoch_ns // 1_000_000_000, UTC)
    except (OverflowError, OSError, ValueError):  # a year beyond 9999: a damaged clock
        return "at a time that no calendar holds"
    return f"{moment.day} {MONTHS[moment.month - 1]} {moment.year} {moment:%H:%M:%S} UTC"


def numbers(nos: list[int], most: int = 4) -> str:
    """Row numbers for a sentence or a narrow column: "40, 42", "27, 28, 30 + 4"."""
    if len(nos) <= most:
        return ", ".join(map(str, nos))
    shown = most - 1
    return ", ".join(map(str, nos[:shown])) + f" + {len(nos) - shown:,}"


def vantage(tables: Tables) -> str:
    """Where the capture was made, over all connections, as a clause."""
    sides: Counter[str] = Counter()
    for connection in tables.connections:
        sides[connection.vantage_side] += connection.packet_count
    known = [(count, side) for side, count in sides.items() if side != "unknown"]
    if not known:
        return "capture point not known"
    count, side = max(known)
    place = {"client": "at the client", "server": "at the server", "middle": "between the hosts"}
    if len(known) > 1 and count < 0.9 * sum(number for number, _ in known):
        return "captured on a host that is client and server"
    return f"captured {place[side]}"


def decryption(tables: Tables) -> str:
    """How many TLS connections were readable, as a clause; without TLS, that."""
    states = [connection.tls for connection in tables.connections if connection.tls is not None]
    if not states:
        return "no TLS"
    total = wording.count(len(states), "TLS connection")
    by_state = Counter(state.decrypted for state in states)
    reason = _commonest(state.why_not for state in states if state.decrypted == "no")
    because = f", {reason}" if reason else ""
    if by_state["no"] == len(states):
        return f"not decrypted: {len(states):,} of {total}{because}"
    text = f"decrypted {len(states) - by_state['no']:,} of {total}"
    if by_state["partial"]:
        text += f" ({by_state['partial']:,} in part)"
    return text + (f", {by_state['no']:,} not{because}" if by_state["no"] else "")


def _commonest(texts: Iterable[str | None]) -> str | None:
    """The text that is there most often, of several the first by the alphabet."""
    counts = Counter(text for text in texts if text)
    return min(counts, key=lambda text: (-counts[text], text)) if counts else None
