"""HPACK, field compression for HTTP/2 (RFC 7541): a passive decoder."""

from capture_analyzer.protocols.hpack.decoder import (
    MAX_TABLE_SIZE,
    Decoder,
    HeaderField,
    HpackError,
)

__all__ = ["MAX_TABLE_SIZE", "Decoder", "HeaderField", "HpackError"]
