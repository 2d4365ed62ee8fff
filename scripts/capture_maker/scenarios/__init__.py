"""The captures, by topic; importing a module registers its scenarios."""

from capture_maker.scenarios import incident  # noqa: I001 - the order of the table
from capture_maker.scenarios import basic, web, names, tls, tls_faults, streams, multiplex, keys
from capture_maker.scenarios import loss, tcp_faults, pools, tunnels, containers, hostile, staples

__all__ = [
    "basic",
    "containers",
    "hostile",
    "incident",
    "keys",
    "loss",
    "multiplex",
    "names",
    "pools",
    "staples",
    "streams",
    "tcp_faults",
    "tls",
    "tls_faults",
    "tunnels",
    "web",
]
