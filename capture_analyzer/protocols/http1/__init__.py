"""HTTP/1.x (RFC 9112) as it can be watched: a passive parser of both directions."""
