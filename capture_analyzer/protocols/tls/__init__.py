"""TLS (RFC 8446, RFC 5246) as it can be watched: records, handshake messages, names."""
