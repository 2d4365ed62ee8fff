"""Detectors about The capture itself: can it be trusted, and what can't it show."""
