"""Makes the project's own labelled captures.

Real protocol bytes (TLS by Python's ssl module, plain HTTP, DNS) are carried by a simulated
TCP over a simulated network, so that what happened to every byte is known exactly.

==============  ==================================================================
simulation      the event loop, and processes that sleep and wait
network         hosts, paths with delay and rate, scripted faults, taps
tcp             one endpoint of a TCP connection: opening, receiving, acknowledging
sender          its sending half: windows, timers, loss recovery
headers         Ethernet, VLAN, SLL, IP, TCP and UDP headers
tls             TLS over an endpoint, certificates of a CA of its own
http            an HTTP/1.1 server with scripted replies, and a client
dns             a resolver with scripted answers
truth           what is true in a capture, computed from the simulation
files           pcap and pcapng writers
stage           where a scenario plays; the register of scenarios
make            plays a scenario and writes its files
scenarios       the captures, by topic
==============  ==================================================================
"""
