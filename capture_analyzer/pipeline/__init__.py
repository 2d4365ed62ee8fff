"""From a Capture to tables, one step a module, in this order.

=============  ====================================================================
scan           Capture → Packets: headers decoded by whole-array operations
flows          packets → connections, port reuse told apart
tcp            labels, handshakes, round trips, vantage, holes
reassemble     segments → Streams: one ByteStream a direction
dissect        streams → TLS records, handshakes, HTTP messages
lookups        DNS questions and answers, and the connections that used them
exchanges      messages and encrypted flights → exchanges
join           start of an exchange (set-up, lookups), names, final numbers
causes         waits: one cause a file
timeline       phases and ledger: overlaps resolved by precedence
build          the steps above, in this order
=============  ====================================================================
"""
