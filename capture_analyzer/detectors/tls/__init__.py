"""Detectors of TLS: handshakes and records."""
