"""TCP headers and options, decoded for many packets at once."""
