"""Makes the project's own labelled captures.

Real protocol bytes (TLS by Python's ssl module, HTTP/1.1, HTTP/2, DNS) are carried by a simulated
TCP over a simulated network, so that what happened to every byte is known exactly.

==============  ==================================================================
simulation      the event loop, and processes that sleep and wait
network         hosts, paths with delay and rate, scripted faults, taps
tcp             one endpoint of a TCP connection: opening, receiving, acknowledging
sender          its sending half: windows, timers, loss recovery
headers         Ethernet, VLAN, SLL, IP, TCP and UDP headers
tls             TLS over an endpoint, certificates of a CA of its own
records         TLS 1.3 records of our own behind a handshake, to update keys and pad
http            an HTTP/1.1 server with scripted replies, and a client
http2           HTTP/2 endpoints with the h2 library
llm             streamed answers of LLM APIs, and texts that must never get out
dns             a resolver with scripted answers
truth           what is true in a capture, computed from the simulation
files           pcap and pcapng writers
stage           where a scenario plays; the register of scenarios
make            plays a scenario and writes its files
scenarios       the captures, by topic
==============  ==================================================================
"""
