"""Bounded reading of wire formats."""
