"""What a node tells: its events in their one order, read from outside.

Events carry the number of the commit that they tell of, and stand in the order of its decisions: what ended
and what was changed first, then what was begun because of it. So "at once" is a question of numbers, not of
time, and what happened can be played back exactly.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from datetime import datetime
from typing import Any, NamedTuple

import httpx

from tests.running import RunningNode

MARK = "mark"
MARK_SECONDS = 2.0
KINDS = "kind:job.submitted,job.begun,job.ended,job.returned,job.retrying,queue.changed"


class Happened(NamedTuple):
    """One event. *commit* is its number, *at* its time in seconds."""

    commit: int
    kind: str
    at: float
    queue: str
    job: str
    detail: dict[str, Any]


class Watch:
    """A thread that reads a node's events, from `with` to its end."""

    def __init__(self, node: RunningNode, query: str = KINDS) -> None:
        self.events: list[Happened] = []
        self._node = node
        self._query = query
        self._came = threading.Condition()
        self._mark = 1
        self._marks: set[int] = set()
        self._stopping = False
        self._thread = threading.Thread(target=self._read, daemon=True)

    def __enter__(self) -> Watch:
        self._thread.start()
        self.catch_up()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping = True

    def catch_up(self, seconds: float = 60.0) -> int:
        """Wait until all that was committed before this call is read; return how many events that are."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self._mark += 1  # a mark set before the stream was open is never read: set another
            answer = self._node.http.patch(f"/v1/queues/{MARK}", json={"weight": self._mark})
            assert answer.status_code == 200, answer.text
            with self._came:
                if self._came.wait_for(lambda: self._mark in self._marks, MARK_SECONDS):
                    return len(self.events)
        raise AssertionError(f"events stay away for {seconds:g} s")

    def until(
        self, holds: Callable[[Happened], bool], count: int, since: int = 0, seconds: float = 60.0
    ) -> list[Happened]:
        """Wait until so many events hold, and return them all."""
        found: list[Happened] = []

        def enough() -> bool:
            nonlocal since
            found.extend(event for event in self.events[since:] if holds(event))
            since = len(self.events)
            return len(found) >= count

        with self._came:
            assert self._came.wait_for(enough, seconds), f"{len(found)} of {count} after {seconds:g} s"
        return found

    def let_happen(self, count: int, seconds: float = 0.1) -> None:
        """Wait until so many more events came, or none did for want of anything that may happen."""
        with self._came:
            enough = len(self.events) + count
            self._came.wait_for(lambda: len(self.events) >= enough, seconds)

    def _read(self) -> None:
        while not self._stopping:
            try:
                self._follow()
            except httpx.TransportError:
                time.sleep(0.05)

    def _follow(self) -> None:
        with httpx.stream(
            "GET", f"{self._node.url}/v1/events", params={"q": self._query}, timeout=30
        ) as stream:
            for line in stream.iter_lines():
                if self._stopping:
                    return
                if line.startswith("data: "):
                    self._take(json.loads(line[6:]))

    def _take(self, told: dict[str, Any]) -> None:
        event = Happened(
            int(told["id"].partition(".")[0]),
            told["kind"],
            datetime.fromisoformat(told["at"]).timestamp(),
            told["queue"] or "",
            told["job"] or "",
            told["detail"] or {},
        )
        with self._came:
            self.events.append(event)
            if event.queue == MARK:
                self._marks.add(int(event.detail["weight"]))
            self._came.notify_all()


def is_below(path: str, branch: str) -> bool:
    """Say whether a queue is a branch, or in it."""
    return path == branch or path.startswith(f"{branch}/")
