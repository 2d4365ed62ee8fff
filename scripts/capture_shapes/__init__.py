"""Large captures of one shape each: what may be long in a capture, and nothing else.

========  ==============================================================
columns   packets as columns, and their way into a pcap file
streams   conversations of one connection
shapes    the shapes by name
copies    a small capture many times over
measure   what the analysis of a shape costs as it grows
========  ==============================================================
"""
