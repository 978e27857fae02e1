"""How many examples a property is tried with: some each time, many times as many in the long run."""

from __future__ import annotations

import os

from hypothesis import settings

FACTOR = int(os.environ.get("FAIRWAY_TEST_EXAMPLES", "1"))


LEAST = 1000  # examples of a property in the long run, however dear one is


def drawn(count: int) -> settings:
    """Try a property with so many examples; `make test-properties` with many times as many."""
    return settings(max_examples=count if FACTOR == 1 else max(count * FACTOR, LEAST), deadline=None)
