"""Table `tunnels`: what packets were inside of."""

from __future__ import annotations

from capture_analyzer.model.column import column
from capture_analyzer.model.quick_dataclass import quick_dataclass


@quick_dataclass
class Tunnel:
    """One way through a tunnel: packets from one address to another with one identifier.

    The packets table describes the packets inside; each was captured inside the packet of the
    same number (`Packets.tunnel_no` names its row here).
    """

    tunnel_no: int = column("1-based, in order of its first packet.")
    kind: str = column('"ipip", "gre", "erspan", "etherip", "mpls", "vxlan", "geneve" or "gtp".')
    identifier: int | None = column(
        "VXLAN or GENEVE network, GRE key, ERSPAN session, GTP tunnel; None without."
    )
    source_ip: str = column("Source address of the outer packets.")
    destination_ip: str = column("Destination address of the outer packets.")
    outer_no: int = column("The tunnel that this one is inside of; 0 = none.", default=0)
    first_packet_no: int = column("First packet.", default=0)
    packet_count: int = column("Packets.", default=0)
