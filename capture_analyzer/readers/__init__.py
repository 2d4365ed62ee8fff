"""Containers of packets, read into a Capture."""
