"""How long ended jobs stay, queue by queue: deleted window by window of the time they ended.

What is older than the longest retention goes by time alone, whatever its queue. Each shorter one has a mark
that moves forward: of the jobs that ended before it, all that may go have gone. So a round looks at what has
come of age since the last one and at nothing else, however much is kept for longer; the first round of a
leader, or after a setting changed, goes through all that is kept once, an hour of it at a time at most.

A step deletes a bounded number of jobs. Owned by the leader's housework.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping

from fairway.store import Store
from fairway.times import MICRO

#: How much of the past a step looks at, in microseconds: more and more of it while little is found.
SPAN_LEAST, SPAN_MOST = 60 * MICRO, 3600 * MICRO
#: A commit may be kept this much later than the time of the ends it writes.
LAG = 60 * MICRO
MOST = 5000


class Retention:
    """The marks of one leader. *default* is in seconds, for queues that say nothing."""

    def __init__(self, store: Store, default: float, most: int = MOST) -> None:
        self._store = store
        self._default = default
        self._most = most
        self._settings: dict[str, float] = {}
        self._marks: dict[float, int] = {}  # retention → all that ended before this time is dealt with
        self._span = SPAN_LEAST

    @property
    def longest(self) -> float:
        """The seconds after which an ended job of any queue goes."""
        return max(self._default, *self._settings.values()) if self._settings else self._default

    def set(self, settings: Mapping[str, float]) -> None:
        """Take the settings of queues, by path; a change lets everything be looked through once more."""
        if settings != self._settings:
            self._settings, self._marks = dict(settings), {}

    async def steps(self, now: int) -> AsyncIterator[int]:
        """Forget what has come of age by *now*; each step forgets a bounded number and says how many."""
        for seconds in sorted({self._default, *self._settings.values()} - {self.longest}):
            until = now - int(seconds * MICRO)
            since = self._marks.get(seconds, now - int(self.longest * MICRO))
            while since < until:
                end = min(until, since + self._span)
                gone = await self._forget(seconds, since, end)
                if gone < self._most:
                    self._marks[seconds], since = min(end, now - LAG), end
                yield gone

    async def _forget(self, seconds: float, since: int, until: int) -> int:
        queues = await self._store.ended_queues(since, until)
        mine = [queue for queue in queues if self.seconds_of(queue) == seconds]
        gone = await self._store.forget_ended(mine, since, until, self._most) if mine else 0
        self._span = min(self._span * 2, SPAN_MOST) if gone < self._most else SPAN_LEAST
        return gone

    def seconds_of(self, path: str) -> float:
        """Return for how long ended jobs of a queue stay: its own setting, or the nearest above it."""
        while path:
            if path in self._settings:
                return self._settings[path]
            path = path.rpartition("/")[0]
        return self._default
