"""Detectors about TCP: set-up, loss, windows."""
