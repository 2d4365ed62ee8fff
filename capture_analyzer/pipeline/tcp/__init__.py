"""TCP facts: roles, handshakes, round trips, vantage, labels, holes, limits.

==============  ===================================================================
roles           client and server of each connection
handshake       SYN, SYN-ACK, ACK; their round trips and repeats
segments        packets as stream offsets, direction by direction
coverage        first copies of bytes, and gaps
round_trips     samples on data
vantage         where the capture was made
labels          what each packet is
resends         sent again or overtaken; how and whether needlessly
overtaken       reordering beyond the capture point, by the receiver's reports
holes           what the receiver had to wait for
limits          what held senders back: windows and the congestion window
nagle           segments held by Nagle's algorithm
queues          round trips that grew while data flowed
samples         every round-trip sample, when asked for
places          where each segment stands in its streams, when asked for
rows            the connections table
==============  ===================================================================
"""

from capture_analyzer.pipeline.tcp.analyse import analyse
from capture_analyzer.pipeline.tcp.facts import TcpFacts

__all__ = ["TcpFacts", "analyse"]
