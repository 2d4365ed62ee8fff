"""Detectors of name lookups."""
