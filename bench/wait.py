"""The one way a benchmark waits: bounded, and it says for what."""

from __future__ import annotations

import time
from collections.abc import Callable


def until(holds: Callable[[], bool], what: str, *, timeout: float, every: float = 0.02) -> None:
    """Return as soon as *holds*; give up after *timeout* seconds."""
    deadline = time.monotonic() + timeout
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {timeout:g} s for {what}")
        time.sleep(every)
