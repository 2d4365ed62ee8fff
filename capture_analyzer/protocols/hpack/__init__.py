"""HPACK, field compression for HTTP/2 (RFC 7541): a passive decoder."""

from capture_analyzer.protocols.hpack.decoder import Decoder, HeaderField, HpackError

__all__ = ["Decoder", "HeaderField", "HpackError"]
