"""Passive parsers, one protocol a module; no I/O."""
