"""A link to a sync child: one bundle at a time, watched through the shared page.

While a bundle of several jobs is out, a tick every 25 ms looks at the page. If one job has kept others
waiting for 100 ms, those are taken back: the child is stopped, the page says which job it is at, nothing
behind that is allowed any more, and the child is continued. No word of the child's is needed. In the same way
it is found out which job of a bundle a stop would hit.

A job that was stopped has had no chance to clean up after itself, and its child lives on. So before its
result is passed on, and before the child is given anything else, the guardian kills every process that the
child has started, itself or through others, since that job began; what its app had started before stays.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Iterable, Sequence

from fairway.adapters.python import frames
from fairway.adapters.python.judge import describe
from fairway.adapters.python.link import Key, Link, new_page
from fairway.adapters.python.page import ALLOWED, INDEX, NONE_YET, STARTED
from fairway.wire.messages import Assignment, Note, Result
from fairway.worker.guardian import read_clock

TICK_SECONDS = 0.025
PATIENCE_SECONDS = 0.1
#: Results that stand this long behind a running job are sent for.
FLUSH_SECONDS = 0.005


class Run:
    """A bundle, or a single job, on its way through a child."""

    __slots__ = ("assignments", "began", "bound", "keys", "sent", "stopped", "stops", "trimming")

    def __init__(self, assignments: Sequence[Assignment], keys: list[Key]) -> None:
        self.assignments, self.keys = assignments, keys
        self.bound = len(keys)  # jobs from here on were taken back
        self.sent = False
        self.trimming = False
        self.stops: dict[int, tuple[str, bool]] = {}  # to be decided when the child stands still
        self.stopped: list[Result] = []  # kept until what they left is killed
        self.began = 0  # when the job that is stopped began, on the page's clock


class SyncLink(Link):
    """Runs `def` tasks."""

    kind = "sync"
    pipes = ("stdout", "stderr")
    run: Run | None = None
    _timer: asyncio.TimerHandle | None = None

    def begin(self, assignments: Sequence[Assignment], keys: list[Key]) -> None:
        """Run a bundle; the child must be idle."""
        self.run = Run(assignments, keys)
        self.process.bind(assignments[0].kill)
        if self.is_ready:
            self._send()

    def became_ready(self) -> None:
        """Send what has waited."""
        if self.run is not None:
            self._send()

    def _send(self) -> None:
        run = self.run
        assert run is not None
        run.sent = True
        if not run.keys:
            self.became_idle()
            return
        new_page(self.page, len(run.keys))
        self.send_jobs(run.assignments)
        if len(run.keys) > 1:
            self._timer = self._loop.call_later(TICK_SECONDS, self._tick)
        elif (timeout := run.assignments[0].timeout) is not None:
            self._timer = self._loop.call_later(timeout, self._time_out, run.keys[0])

    def took_results(self, results: list[Result]) -> list[Result]:
        """Keep back the result of a job that was stopped; it is the last of its bundle."""
        if not self._stopped_as or self.run is None:
            return results
        stopped = [one for one in results if one[:2] in self._told and one.kind != "ok"]
        self.run.stopped += stopped
        return [one for one in super().took_results(results) if one not in stopped]

    def became_idle(self) -> None:
        """The bundle has ended; what a stopped job left is killed first."""
        if self.run is not None and self.run.stopped:
            seconds = (time.monotonic_ns() - self.run.began) * 1e-9
            self.process.sweep(read_clock() - seconds)
        else:
            self._rest()

    def was_swept(self) -> None:
        """Nothing is left of the job that was stopped: tell of it, and go on."""
        if self.run is not None:
            self.owner.take_results(self.run.stopped)
            self._rest()

    def _rest(self) -> None:
        self.run = None
        self.process.bind(False)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.owner.became_idle(self)

    def has_started(self, index: int) -> bool:
        """Whether the code of a job has begun."""
        return self.run is not None and self.run.sent and self.page[INDEX] >= index

    def current_key(self) -> Key | None:
        """Return the job the page names; after the last one that, as it may have been read late."""
        run = self.run
        if run is None or not run.sent or not run.keys or self.page[INDEX] < 0:
            return None
        return run.keys[min(self.page[INDEX], len(run.keys) - 1)]

    def running_keys(self) -> Iterable[Key]:
        """Return the one that runs."""
        key = self.current_key()
        return () if key is None else (key,)

    # --- watching -----------------------------------------------------------------------------------
    def _tick(self) -> None:
        run = self.run
        if run is None or self.gone:
            return
        self._timer = self._loop.call_later(TICK_SECONDS, self._tick)
        index = self.page[INDEX]
        seconds = (time.monotonic_ns() - self.page[STARTED]) * 1e-9
        if not NONE_YET < index < run.bound:
            return
        if seconds > PATIENCE_SECONDS and index + 1 < run.bound:
            self.trim()
        if seconds > FLUSH_SECONDS and index > 0 and self.owner.holds(run.keys[index - 1]):
            self.send_control(frames.FLUSH)
        timeout = run.assignments[index].timeout
        if timeout is not None and seconds > timeout:
            self._time_out(run.keys[index], index)

    def _time_out(self, key: Key, index: int = 0) -> None:
        if self.owner.holds(key) and key not in self._stopped_as:
            self.stop(key, index, "timeout", force=False)

    def trim(self) -> None:
        """Take back all jobs that have not started."""
        run = self.run
        if run is None or run.trimming:
            return
        if not run.sent:
            self._take_back(0)
            return
        run.trimming = True
        self.process.signal(signal.SIGSTOP, group=False)

    def was_halted(self) -> None:
        """The child stands still: what the page says is so."""
        run = self.run
        if run is not None and run.trimming:
            bound = min(self.page[INDEX] + 1, run.bound)
            self.page[ALLOWED] = bound
            run.trimming = False
            self._take_back(bound)
            self._decide_stops(run)
        self.process.signal(signal.SIGCONT, group=False)

    def _take_back(self, bound: int) -> None:
        run = self.run
        assert run is not None
        back, run.bound = run.keys[bound : run.bound], bound
        if not run.sent:
            run.keys, run.assignments = run.keys[:bound], run.assignments[:bound]
        stopped = [key for key in back if self._stopped_as.get(key, "stopped") != "stopped"]
        self.owner.take_results([self._unstarted(key) for key in stopped])
        self.owner.give_back([key for key in back if key not in stopped])
        for key in back:
            self._stopped_as.pop(key, None)

    def _unstarted(self, key: Key) -> Result:
        return Result(*key, self._stopped_as[key], describe("Stopped", "stopped before it began"), 0.0)

    def stop(self, key: Key, index: int, kind: str, force: bool) -> None:
        """Stop one job of the bundle, started or not."""
        run = self.run
        if run is None:
            return
        has_started = self.has_started(index)
        if has_started and len(run.keys) == 1:
            self._stop_now(run, 0, kind, force)
            return
        # Which job a kill would hit is known only when the child stands still: it might be a neighbour. And
        # nothing may start behind a stopped job, for what that one left is found by the time it began.
        if not has_started:
            self._stopped_as.setdefault(key, kind)
        run.stops[index] = (kind, force)
        self.trim()

    def _stop_now(self, run: Run, index: int, kind: str, force: bool) -> None:
        """Stop the job that runs; the page has its beginning, or has it in a moment."""
        run.began = run.began or self.page[STARTED] or time.monotonic_ns()
        self.stop_running(run.keys[index], kind, force, run.assignments[index].grace)

    def _decide_stops(self, run: Run) -> None:
        """Stop the job the child is at, if it is one of those; one before it has ended, its result comes."""
        index = self.page[INDEX]
        if index in run.stops and index < run.bound and self.owner.holds(run.keys[index]):
            self._stop_now(run, index, *run.stops[index])
        run.stops.clear()

    # --- its end --------------------------------------------------------------------------------------
    def has_ended(self, was_ready: bool, how: str) -> None:
        """Charge the job it was at; give the others back, and that one too if it cannot have begun."""
        run, self.run = self.run, None
        if self._timer is not None:
            self._timer.cancel()
        if run is None:
            return
        self.owner.take_results(run.stopped)
        # Before anything was sent the first job is charged with the import, unless that was cut short.
        unsent = NONE_YET if self.guardian_lost or self.lease_over else 0
        index = self.page[INDEX] if run.sent else unsent
        if len(run.keys) == 1 and index >= 0:
            index = 0  # whether it had finished nobody knows: it may be one that must not start twice
        charged = run.keys[index] if 0 <= index < run.bound else None
        if charged is not None and run.sent and (peak := self.most_bytes):
            self.owner.take_notes([Note(*charged, memory_bytes=peak)])
        left = [key for key in run.keys if self.owner.holds(key)]
        self.owner.give_back([key for key in left if key != charged and key not in self._stopped_as])
        for key in left:
            if key in self._stopped_as or key == charged:
                self.owner.take_results([self._end_of(key, how, was_ready, run.sent)])

    def _end_of(self, key: Key, how: str, was_ready: bool, sent: bool) -> Result:
        seconds = (time.monotonic_ns() - self.page[STARTED]) * 1e-9 if sent and self.page[STARTED] else 0.0
        kind = self._stopped_as.get(key, "stopped" if self.lease_over else None)
        if kind is not None:
            kind_of_end = "TimeLimitReached" if kind == "timeout" else "Stopped"
            return Result(*key, kind, describe(kind_of_end, f"it did not end when asked; {how}"), seconds)
        if self.failure:
            return Result(*key, "error", describe("AppNotImported", "its app failed", self.failure), 0.0)
        when = "running it" if was_ready else "starting"
        return Result(
            *key, "crashed", describe(self.ended_as, f"its process ended while {when}: {how}"), seconds
        )
