"""The captures, by topic; importing a module registers its scenarios."""

from capture_maker.scenarios import basic, incident, web

__all__ = ["basic", "incident", "web"]
