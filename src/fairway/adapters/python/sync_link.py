"""A link to a sync child: a bundle at a time, watched through the shared page, and one more behind it.

While a bundle of several jobs is out, or one stands behind it, a tick every 25 ms looks at the page. If one
job has kept others waiting for 100 ms, those are taken back: the child is stopped, the page says which job
it is at, nothing behind that is allowed any more, and the child is continued. No word of the child's is
needed. In the same way it is found out which job of a bundle a stop would hit.

A bundle that was begun ahead may stand in the child's pipe behind the one that runs: the child goes on with
it by itself, without a word from the agent between the two.

A job that was stopped has had no chance to clean up after itself, and its child lives on. So before its
result is passed on, and before the child is given anything else, the guardian kills every process that the
child has started, itself or through others, since that job began; what its app had started before stays.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections import deque
from collections.abc import Iterable, Sequence

from fairway.adapters.python import frames
from fairway.adapters.python.judge import describe
from fairway.adapters.python.link import Key, Link, Owner
from fairway.adapters.python.page import ALLOWED, INDEX, STARTED
from fairway.wire.messages import Assignment, Note, Result
from fairway.worker.guardian import read_clock
from fairway.worker.warden import Warden

TICK_SECONDS = 0.025
PATIENCE_SECONDS = 0.1
#: Behind a job that runs for so long already nothing is put: it was to be short.
SLOW_NANOSECONDS = 50_000_000
#: Results that stand this long behind a running job are sent for.
FLUSH_SECONDS = 0.005


class Run:
    """A bundle, or a single job, on its way through a child."""

    __slots__ = ("assignments", "base", "began", "bound", "given_at", "is_over", "keys", "sent", "stopped")

    def __init__(self, base: int, assignments: Sequence[Assignment], keys: list[Key], now: float) -> None:
        self.base = base  # the first job's number on the page
        self.assignments, self.keys = assignments, keys
        self.given_at = now
        self.bound = len(keys)  # jobs from here on were taken back
        self.sent = False
        self.is_over = False
        self.stopped: list[Result] = []  # kept until what they left is killed
        self.began = 0  # when the job that is stopped began, on the page's clock

    @property
    def is_whole(self) -> bool:
        """Whether it goes on as it was given: none of it was taken back."""
        return self.sent and not self.is_over and self.bound == len(self.keys)


class SyncLink(Link):
    """Runs `def` tasks."""

    kind = "sync"
    pipes = ("stdout", "stderr")

    def __init__(self, warden: Warden, apps: Sequence[str], owner: Owner) -> None:
        self.bundles: deque[Run] = deque()  # what runs, what stands behind it, at most
        self.next_index = 0  # the page's number of the next job that is given
        self._halting = False  # the child is to stand still, so that something can be decided
        self._stops: dict[int, tuple[str, bool]] = {}  # to be decided then, by number
        self._speaking: Key | None = None
        self._timer: asyncio.TimerHandle | None = None
        super().__init__(warden, apps, owner)

    def begin(self, assignments: Sequence[Assignment], keys: list[Key]) -> None:
        """Run a bundle; the child must be idle."""
        run = self._add(assignments, keys)
        self.process.bind(assignments[0].kill)
        if self.is_ready:
            self._send(run)

    @property
    def can_go_on(self) -> bool:
        """Whether a bundle may stand behind the one that runs, and would be run if nothing happens."""
        return (
            len(self.bundles) == 1
            and self.bundles[0].is_whole
            and not self.bundles[0].stopped
            and not self._is_slow
            and not (self.bundles[0].assignments[0].kill or self.bundles[0].assignments[0].once)
            and not (self._halting or self._stops or self._stopped_as or self.gone)
        )

    @property
    def _is_slow(self) -> bool:
        """Whether the job that runs was to be short, and is not."""
        has_begun = self.page[INDEX] >= self.bundles[0].base
        return has_begun and time.monotonic_ns() - self.page[STARTED] > SLOW_NANOSECONDS

    def begin_behind(self, assignments: Sequence[Assignment], keys: list[Key]) -> None:
        """Run a bundle right after the one that runs; only if it can go on."""
        self._send(self._add(assignments, keys))

    def _add(self, assignments: Sequence[Assignment], keys: list[Key]) -> Run:
        run = Run(self.next_index, assignments, keys, self._loop.time())
        self.next_index += len(keys) + 1
        self.bundles.append(run)
        return run

    def became_ready(self) -> None:
        """Send what has waited."""
        for run in list(self.bundles):
            self._send(run)

    def _send(self, run: Run) -> None:
        run.sent = True
        if not run.keys:
            self.became_idle()
            return
        self.page[ALLOWED] = run.base + len(run.keys)
        self.send_jobs(run.base, run.assignments)
        self._watch(run)

    def hear(self, ended: bool) -> None:
        """Read what was written; with one behind, that may run and write already."""
        if not ended or len(self.bundles) < 2:
            super().hear(ended)
            return
        run = self.bundles[0]
        self._speaking = run.keys[max(run.bound - 1, 0)]
        self.hearing.end_lines()
        self._speaking = None
        super().hear(ended=False)

    def took_results(self, results: list[Result]) -> list[Result]:
        """Keep back the result of a job that was stopped; it is the last of its bundle."""
        if not self._stopped_as or not self.bundles:
            return results
        stopped = [one for one in results if one[:2] in self._told and one.kind != "ok"]
        self.bundles[0].stopped += stopped
        return [one for one in super().took_results(results) if one not in stopped]

    def became_idle(self) -> None:
        """A bundle has ended; what a stopped job left is killed first."""
        ended = next((run for run in self.bundles if not run.is_over), None)
        if ended is not None:
            ended.is_over = True
        if not self.bundles or not self.bundles[0].stopped:
            self._go_on()
        elif ended is self.bundles[0]:
            seconds = (time.monotonic_ns() - ended.began) * 1e-9
            self.process.sweep(read_clock() - seconds)

    def was_swept(self) -> None:
        """Nothing is left of the job that was stopped: tell of it, and go on."""
        if self.bundles:
            stopped, self.bundles[0].stopped = self.bundles[0].stopped, []
            for result in stopped:  # it may have been told again to stop meanwhile
                self._stopped_as.pop(result[:2], None)
                self._told.discard(result[:2])
            self.owner.take_results(stopped)
            self._go_on()

    def _go_on(self) -> None:
        while self.bundles and self.bundles[0].is_over:
            self.bundles.popleft()
        if not self.bundles:
            self._rest()
        elif going := self.bundles[0].keys[: self.bundles[0].bound]:
            self.owner.went_on(going)

    def _rest(self) -> None:
        self._halting = False
        self._stops.clear()
        self.process.bind(False)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.owner.became_idle(self)

    # --- which job ----------------------------------------------------------------------------------
    def _run_of(self, index: int) -> Run | None:
        """Return the bundle that has the job of this number."""
        return next((run for run in self.bundles if run.base <= index < run.base + len(run.keys)), None)

    def has_started(self, index: int) -> bool:
        """Whether the code of a job has begun."""
        run = self._run_of(index)
        return run is not None and run.sent and self.page[INDEX] >= index

    def current_key(self) -> Key | None:
        """Return the job the page names; after the last one that, as it may have been read late."""
        if self._speaking is not None:
            return self._speaking
        index = self.page[INDEX]
        for run in reversed(self.bundles):
            if run.sent and run.keys and index >= run.base:
                return run.keys[min(index - run.base, len(run.keys) - 1)]
        return None

    def running_keys(self) -> Iterable[Key]:
        """Return the one that runs."""
        key = self.current_key()
        return () if key is None else (key,)

    # --- watching -----------------------------------------------------------------------------------
    def _watch(self, run: Run) -> None:
        """See to it that somebody looks: often while others wait, else when its time is over."""
        if self._timer is not None:
            self._timer.cancel()
        timeout = run.assignments[0].timeout
        if len(self.bundles) > 1 or len(run.keys) > 1:
            self._timer = self._loop.call_later(TICK_SECONDS, self._tick)
        elif timeout is not None:
            self._timer = self._loop.call_later(timeout, self._time_out, run.keys[0], run.base)

    def _tick(self) -> None:
        if not self.bundles or self.gone:
            return
        self._timer = self._loop.call_later(TICK_SECONDS, self._tick)
        index = self.page[INDEX]
        seconds = (time.monotonic_ns() - self.page[STARTED]) * 1e-9
        run = self._run_of(index)
        if run is None or index >= run.base + run.bound:
            return
        number, last = index - run.base, self.bundles[-1]
        is_behind = last is not run and last.bound > 0
        waited = self._loop.time() - last.given_at if is_behind else 0.0
        if (
            seconds > PATIENCE_SECONDS and (number + 1 < run.bound or is_behind)
        ) or waited > PATIENCE_SECONDS:
            self.trim()
        if seconds > FLUSH_SECONDS and number > 0 and self.owner.holds(run.keys[number - 1]):
            self.send_control(frames.FLUSH)
        timeout = run.assignments[number].timeout
        if timeout is not None and seconds > timeout:
            self._time_out(run.keys[number], index)

    def _time_out(self, key: Key, index: int) -> None:
        if self.owner.holds(key) and key not in self._stopped_as:
            self.stop(key, index, "timeout", force=False)

    def trim(self) -> None:
        """Take back all jobs that have not started."""
        if not self.bundles or self._halting:
            return
        if not self.bundles[0].sent:
            self._take_back(self.bundles[0], 0)
            return
        self._halting = True
        self.process.signal(signal.SIGSTOP, group=False)

    def was_halted(self) -> None:
        """The child stands still: what the page says is so."""
        if self._halting:
            self._halting = False
            index = self.page[INDEX]
            self.page[ALLOWED] = min(index + 1, self.page[ALLOWED])
            for run in list(self.bundles):
                self._take_back(run, max(0, min(index + 1 - run.base, run.bound)))
            self._decide_stops(index)
        self.process.signal(signal.SIGCONT, group=False)

    def _take_back(self, run: Run, bound: int) -> None:
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
        """Stop one job, started or not."""
        run = self._run_of(index)
        if run is None:
            return
        has_started = self.has_started(index)
        if has_started and len(run.keys) == 1 and len(self.bundles) == 1:
            self._stop_now(run, index, kind, force)
            return
        # Which job a kill would hit is known only when the child stands still: it might be a neighbour. And
        # nothing may start behind a stopped job, for what that one left is found by the time it began.
        if not has_started:
            self._stopped_as.setdefault(key, kind)
        self._stops[index] = (kind, force)
        self.trim()

    def _stop_now(self, run: Run, index: int, kind: str, force: bool) -> None:
        """Stop the job that runs; the page has its beginning."""
        number = index - run.base
        run.began = run.began or self.page[STARTED]
        self.stop_running(run.keys[number], kind, force, run.assignments[number].grace)

    def _decide_stops(self, index: int) -> None:
        """Stop the job the child is at, if it is one of those; one before it has ended, its result comes."""
        run = self._run_of(index)
        is_ours = run is not None and index < run.base + run.bound
        if (
            run is not None
            and is_ours
            and index in self._stops
            and self.owner.holds(run.keys[index - run.base])
        ):
            self._stop_now(run, index, *self._stops[index])
        self._stops.clear()

    # --- its end --------------------------------------------------------------------------------------
    def has_ended(self, was_ready: bool, how: str) -> None:
        """Charge the job it was at; give the others back, and that one too if it cannot have begun."""
        runs, self.bundles = self.bundles, deque()
        if self._timer is not None:
            self._timer.cancel()
        if not runs:
            return
        for run in runs:
            self.owner.take_results(run.stopped)
        sent, charged = runs[0].sent, self._charged(runs)
        if charged is not None and sent and (peak := self.most_bytes):
            self.owner.take_notes([Note(*charged, memory_bytes=peak)])
        left = [key for run in runs for key in run.keys if self.owner.holds(key)]
        self.owner.give_back([key for key in left if key != charged and key not in self._stopped_as])
        for key in left:
            if key in self._stopped_as or key == charged:
                began = self.page[STARTED] if sent and key == charged else 0
                self.owner.take_results([self._end_of(key, how, was_ready, began)])

    def _charged(self, runs: Iterable[Run]) -> Key | None:
        """Return the job it was at when it ended."""
        index = self.page[INDEX]
        for run in runs:
            if not run.sent:
                # Before anything was sent the first is charged with the import, unless that was cut short.
                return run.keys[0] if run.bound and not (self.guardian_lost or self.lease_over) else None
            if run.base <= index <= run.base + len(run.keys):
                # Whether a single one had finished nobody knows: it may be one that must not start twice.
                number = index - run.base if len(run.keys) > 1 else 0
                return run.keys[number] if number < run.bound else None
        return None

    def _end_of(self, key: Key, how: str, was_ready: bool, began: int) -> Result:
        seconds = (time.monotonic_ns() - began) * 1e-9 if began else 0.0
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
