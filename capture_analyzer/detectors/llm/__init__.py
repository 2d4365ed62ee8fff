"""Detectors of streamed answers, such as those of large language models."""
