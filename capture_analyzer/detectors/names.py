"""Name lookups as detectors see them: which belong to one search for a name."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from capture_analyzer.model.analysis import Tables
from capture_analyzer.model.lookups import Lookup
from capture_analyzer.model.quick_dataclass import quick_dataclass


def same_search(asked: str, used: str) -> bool:
    """Whether a name is the other one, or that with a suffix of a search list."""
    return asked == used or asked.startswith(used + ".") or used.startswith(asked + ".")


@quick_dataclass(frozen=True)
class Lookups:
    """Lookups by client, in order of their first question."""

    of_client: dict[str, list[Lookup]]

    @classmethod
    def of(cls, tables: Tables) -> Lookups:
        """Those of a capture."""
        of_client: dict[str, list[Lookup]] = {}
        for lookup in sorted(tables.lookups, key=_start):
            of_client.setdefault(lookup.client_ip, []).append(lookup)
        return cls(of_client)

    def asked_between(self, like: Lookup, from_ns: int, to_ns: int) -> list[Lookup]:
        """Lookups of the same client and search that began in [from_ns, to_ns)."""
        rows: Sequence[Lookup] = self.of_client.get(like.client_ip, [])
        first = bisect_left(rows, from_ns, key=_start)
        last = bisect_left(rows, to_ns, key=_start)
        return [row for row in rows[first:last] if same_search(row.name, like.name)]


def _start(lookup: Lookup) -> int:
    return lookup.start_ns
