"""Counts of requests by method, route and status, and the numbers page for Prometheus.

Routes are counted by their templates, and unknown paths and methods as one, so that no caller can make
the page grow.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping

METHODS = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE", "WEBSOCKET"})

_name = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")


class Tally:
    """Counts requests; touched from one loop."""

    def __init__(self) -> None:
        self.requests: Counter[tuple[str, str, int]] = Counter()
        self.bad_notes = 0

    def count(self, method: str, route: str | None, status: int) -> None:
        """Count one answered request."""
        known = method if method in METHODS else "OTHER"
        self.requests[known, route or "unknown", status] += 1

    def numbers(self) -> dict[str, int]:
        """Return the counts under their names and labels."""
        numbers = {"worker_notes_refused_total": self.bad_notes} if self.bad_notes else {}
        return numbers | {
            f'http_requests_total{{method="{method}",route="{route}",code="{status}"}}': count
            for (method, route, status), count in self.requests.items()
        }


def number_lines(numbers: Mapping[str, float]) -> Iterator[str]:
    """Write a node's numbers; a name may bring labels along, as in `jobs{state="running"}`."""
    typed: set[str] = set()
    for key, value in sorted(numbers.items()):
        match = _name.match(key)
        if not match:
            continue
        name = match[0] if match[0].startswith("fairway_") else f"fairway_{match[0]}"
        if name not in typed:
            typed.add(name)
            yield f"# TYPE {name} {'counter' if name.endswith('_total') else 'gauge'}"
        yield f"{name}{key[match.end() :]} {value}"
