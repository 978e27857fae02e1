"""A link to an async child: many attempts at once, each with a timer of its own if its time is limited."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Sequence

from fairway.adapters.python.judge import describe
from fairway.adapters.python.link import Key, Link, Owner
from fairway.wire.messages import Assignment, Result
from fairway.worker.warden import Warden


class AsyncLink(Link):
    """Runs `async def` tasks."""

    kind = "async"
    has_loop = True

    def __init__(
        self, warden: Warden, apps: Sequence[str], owner: Owner, kill: bool = False, once: bool = False
    ) -> None:
        self.ends_with_lease, self.once = kill, once  # all that it runs
        self.drains = False  # it takes no more, and goes when all it has have ended
        self.sent_at: dict[Key, float] = {}  # what runs, as far as we know
        self.waiting: dict[Key, Assignment] = {}  # what goes out at the next turn of the loop, or when ready
        self._timers: dict[Key, asyncio.TimerHandle] = {}
        self._graces: dict[Key, float] = {}  # of those that have one of their own
        super().__init__(warden, apps, owner)

    def __len__(self) -> int:
        return len(self.sent_at) + len(self.waiting)

    def running_keys(self) -> Iterable[Key]:
        """Return all that were sent."""
        return self.sent_at

    def begin(self, assignment: Assignment) -> None:
        """Run one more; those of one turn of the loop go out together."""
        if not self.waiting and self.is_ready:
            self._loop.call_soon(self.became_ready)
        self.waiting[assignment[:2]] = assignment
        self._bind()

    def _bind(self) -> None:
        """Let it end with the lease while it holds something that must."""
        if self.ends_with_lease:
            self.process.bind(len(self) > 0)

    def became_ready(self) -> None:
        """Send what has waited."""
        if not self.waiting or self.gone:
            return
        assignments, self.waiting = list(self.waiting.values()), {}
        self.send_jobs(0, assignments)
        now = time.monotonic()
        for assignment in assignments:
            key = assignment[:2]
            self.sent_at[key] = now
            if assignment.grace is not None:
                self._graces[key] = assignment.grace
            if assignment.timeout is not None:
                self._timers[key] = self._loop.call_later(
                    assignment.timeout, self.stop, key, "timeout", False
                )

    def took_results(self, results: list[Result]) -> list[Result]:
        """Forget the attempts that ended."""
        for result in results:
            key = result[:2]
            self.sent_at.pop(key, None)
            if self._graces:
                self._graces.pop(key, None)
            if self._timers and (timer := self._timers.pop(key, None)):
                timer.cancel()
        self._bind()
        return super().took_results(results)

    def take_back(self) -> None:
        """Give back what has not been sent."""
        waiting, self.waiting = self.waiting, {}
        self._bind()
        self.owner.give_back(list(waiting))

    def stop(self, key: Key, kind: str, force: bool) -> None:
        """Stop one attempt; by force all its companions end with it and are given back."""
        if self.waiting.pop(key, None) is not None:
            self._bind()
            body = describe("Stopped", "stopped before it began")
            if kind == "stopped":
                self.owner.give_back([key])
            else:
                self.owner.take_results([Result(*key, kind, body, 0.0)])
        else:
            self.stop_running(key, kind, force, self._graces.get(key))

    def has_ended(self, was_ready: bool, how: str) -> None:
        """Charge those it ran, unless we killed it to stop one of them: then the others are innocent.

        What had not begun when the guardian went, or the lease was over, is given back.
        """
        for timer in self._timers.values():
            timer.cancel()
        now = time.monotonic()
        charged = {key: now - at for key, at in self.sent_at.items()}
        if not was_ready and not (self.guardian_lost or self.lease_over):
            charged = dict.fromkeys(self.waiting, 0.0)
        else:
            self.take_back()
        self.owner.take_results([self._end_of(key, how, seconds) for key, seconds in charged.items()])

    def _end_of(self, key: Key, how: str, seconds: float) -> Result:
        kind = self._stopped_as.get(key, "stopped" if self.lease_over else None)
        if kind is not None:
            type = "TimeLimitReached" if kind == "timeout" else "Stopped"
            return Result(*key, kind, describe(type, f"it did not end when asked; {how}"), seconds)
        if self._stopped_as:
            body = describe("Stopped", "its process was killed to stop another attempt in it")
            return Result(*key, "stopped", body, seconds)
        if self.failure:
            return Result(*key, "error", describe("AppNotImported", "its app failed", self.failure), 0.0)
        return Result(*key, "crashed", describe(self.ended_as, f"its process ended: {how}"), seconds)
