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
