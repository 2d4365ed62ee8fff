"""Detectors about HTTP: requests, answers and how clients use their connections."""
