"""What the events of streaming LLM APIs mean, one API family a module.

An adapter looks at one event at a time and says its kind, how much generated text it
holds and what token counts it reports. It keeps no text.
"""

from capture_analyzer.protocols.llm.adapters import (
    MAX_JSON_OCTETS,
    request_facts,
)
from capture_analyzer.protocols.llm.facts import EventFacts, EventKind, RequestFacts
from capture_analyzer.protocols.llm.repeats import Frame, Known, Repeats

__all__ = [
    "MAX_JSON_OCTETS",
    "EventFacts",
    "EventKind",
    "Frame",
    "Known",
    "Repeats",
    "RequestFacts",
    "request_facts",
]
