"""Servers as findings name and group them."""

from __future__ import annotations

from capture_analyzer.model.connections import Connection

Server = tuple[str, int]
"""What one server is: its name (or address where no name is known) and port."""


def server_of(connection: Connection) -> Server:
    """The server of a connection: endpoints of one name and port are one server."""
    return (connection.server_name or connection.server_ip, connection.server_port)


def label(connection: Connection) -> str:
    """A server in a sentence: by name, else by address and port (IPv6 in brackets)."""
    if connection.server_name:
        return connection.server_name
    ip = connection.server_ip
    return f"[{ip}]:{connection.server_port}" if ":" in ip else f"{ip}:{connection.server_port}"


def same_server(one: Connection, other: Connection) -> bool:
    """Whether two connections were meant for one server: by port, and by address or name.

    Of a connection that failed only the address is known, unless DNS named it.
    """
    if one.server_port != other.server_port:
        return False
    named = one.server_name is not None and one.server_name == other.server_name
    return named or one.server_ip == other.server_ip


def with_port(connection: Connection) -> str:
    """A server in a sentence, with its port."""
    text = label(connection)
    return f"{text} (port {connection.server_port})" if connection.server_name else text
