"""The command adapter: programs run by their argv lists, step by step.

Each step is a process that leads its own group under the guardian; whatever it leaves behind is killed when
it ends. The first step that fails ends the attempt. To stop one, its group gets SIGTERM and, two seconds
later, SIGKILL.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import time
from collections.abc import Sequence
from pathlib import PurePath
from typing import Any

import msgspec

from fairway import ids
from fairway.adapter import Reporter
from fairway.adapters.output import Output
from fairway.wire.messages import Assignment, Note, Result, Task
from fairway.worker.warden import Ended, Happening, NotSpawned, Process, Warden

log = logging.getLogger(__name__)

GRACE_SECONDS = 2.0
#: How long the output of a step that ended may take to be read to its end.
OUTPUT_SECONDS = 1.0


class Work(msgspec.Struct):
    """What a command job carries."""

    run: list[list[str]]
    env: dict[str, str] = {}
    cwd: str | None = None


class Payload(msgspec.Struct):
    """The job's payload around it."""

    work: Work


class CommandAdapter:
    """Runs command jobs."""

    name = "command"

    def __init__(self, warden: Warden) -> None:
        self._warden = warden
        self._reporter: Reporter
        self._live: dict[tuple[int, int], Execution] = {}
        self._idle = asyncio.Event()
        self._idle.set()

    async def start(self, reporter: Reporter) -> list[Task]:
        """Nothing to prepare; commands have no registry."""
        self._reporter = reporter
        return []

    def begin(self, assignments: Sequence[Assignment]) -> None:
        """Run each of them; commands do not share a process, so a bundle is just several."""
        for assignment in assignments:
            execution = Execution(assignment, self._warden, self._reporter)
            self._live[assignment[:2]] = execution
            self._idle.clear()
            execution.task = asyncio.get_running_loop().create_task(self._run(execution))

    async def _run(self, execution: Execution) -> None:
        result: Result | None
        try:
            result = await execution.run()
        except Exception as error:
            log.error("a command could not be run: %r", error, exc_info=error)
            result = execution.describe_crash(error)
        finally:
            del self._live[execution.key]
            if not self._live:
                self._idle.set()
        if result is None:
            self._reporter.handed_back([execution.key])
        else:
            if execution.used is not None:
                self._reporter.noted([execution.used])
            self._reporter.finished([result])

    def stop(self, job: int, attempt: int, force: bool, kind: str = "cancelled") -> None:
        """Terminate the attempt's processes, or kill them at once."""
        if execution := self._live.get((job, attempt)):
            execution.stop(kind, force)

    def started(self, job: int, attempt: int) -> bool:
        """A command starts as soon as it is begun."""
        return (job, attempt) in self._live

    async def look(self, job: int, attempt: int) -> str | None:
        """Nothing can be told yet."""
        return None

    def resize(self, slots: int) -> None:
        """Commands share nothing: nothing is kept for slots."""

    async def close(self, grace_seconds: float) -> None:
        """Give what runs the grace, then a second to terminate, then kill it."""
        for wait_seconds, force in ((grace_seconds, None), (1.0, False), (0.5, True)):
            if force is not None:
                for execution in list(self._live.values()):
                    execution.stop("stopped", force)
            try:
                async with asyncio.timeout(wait_seconds):
                    await self._idle.wait()
                return
            except TimeoutError:
                continue


class NotBegun(Exception):
    """No process of this attempt was ever started, through no fault of its own."""


class Execution:
    """One attempt at a command job, from its first step to its result."""

    def __init__(self, assignment: Assignment, warden: Warden, reporter: Reporter) -> None:
        self.key = assignment[:2]
        self.task: asyncio.Task[None] | None = None
        self._assignment, self._warden = assignment, warden
        self._output = Output(assignment.job, assignment.attempt, reporter.wrote)
        self._process: Process | None = None
        self._stopped_as: str | None = None
        self.used: Note | None = None  # over all steps so far
        self._timers: list[asyncio.TimerHandle] = []

    async def run(self) -> Result | None:
        """Run the steps in order; the first that fails is the outcome. None: nothing of it has begun."""
        started = time.monotonic()
        loop = asyncio.get_running_loop()
        if self._assignment.timeout is not None:
            self._timers.append(loop.call_later(self._assignment.timeout, self.stop, "timeout", False))
        try:
            kind, body = await self._run_steps()
        except NotBegun:
            return None
        finally:
            self._output.close()
            for timer in self._timers:
                timer.cancel()
        seconds = time.monotonic() - started
        return Result(*self.key, kind, msgspec.json.encode(body), seconds)

    def stop(self, kind: str, force: bool) -> None:
        """End the attempt as *kind*; the first kind given stays."""
        self._stopped_as = self._stopped_as or kind
        if force:
            self._signal(signal.SIGKILL)
        else:
            self._signal(signal.SIGTERM)
            loop = asyncio.get_running_loop()
            self._timers.append(loop.call_later(GRACE_SECONDS, self._signal, signal.SIGKILL))

    def _signal(self, number: int) -> None:
        if self._process is not None:
            self._process.signal(number)

    async def _run_steps(self) -> tuple[str, dict[str, Any]]:
        try:
            work = msgspec.json.decode(self._assignment.payload, type=Payload).work
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            return "permanent", {"type": "BadPayload", "message": f"not a command: {error}", "traceback": ""}
        for number, argv in enumerate(work.run, 1):
            ending = await self._try_step(number, argv, work) if self._stopped_as is None else None
            if number == 1 and never_ran(ending) and self._stopped_as in (None, "stopped"):
                raise NotBegun
            if isinstance(ending, Ended | NotSpawned) and ending.lease_over:
                self._stopped_as = self._stopped_as or "stopped"
            if self._stopped_as is not None:
                return self._stopped_as, self._describe_stop(number, argv)
            if not isinstance(ending, Ended) or ending.code != 0:
                return self._describe_failure(number, argv, ending)
        return "ok", {"exit_code": 0, "signal": None}

    async def _try_step(self, number: int, argv: list[str], work: Work) -> Happening:
        """Run a step; a worker that cannot even open a pipe for the first one gives the job back."""
        try:
            return await self._run_step(argv, work)
        except OSError:
            if number == 1:
                raise NotBegun from None
            raise

    async def _run_step(self, argv: list[str], work: Work) -> Happening:
        ending: asyncio.Future[Happening] = asyncio.get_running_loop().create_future()

        def tell(happening: Happening) -> None:
            if isinstance(happening, Ended | NotSpawned) and not ending.done():
                ending.set_result(happening)

        fds: dict[int, int] = {}
        try:
            for place, name in ((1, "stdout"), (2, "stderr")):
                fds[place] = self._output.open(name)
            env = {**work.env, **self._marks()}
            self._process = self._warden.spawn(
                argv, tell, env=env, cwd=work.cwd, fds=fds, bound=self._assignment.kill
            )
        finally:
            for fd in fds.values():
                os.close(fd)
        happening = await ending
        self._process = None
        if isinstance(happening, Ended) and not happening.guardian_lost:
            self.used = add_use(self.used or Note(*self.key), happening)
        await self._read_to_the_end()
        return happening

    async def _read_to_the_end(self) -> None:
        try:
            async with asyncio.timeout(OUTPUT_SECONDS):
                await self._output.ended.wait()
        except TimeoutError:  # something that escaped the guardian holds the pipe open
            self._output.close()

    def _marks(self) -> dict[str, str]:
        return {
            "FAIRWAY_JOB": ids.show(self._assignment.job),
            "FAIRWAY_ATTEMPT": str(self._assignment.attempt),
            "FAIRWAY_QUEUE": self._assignment.queue,
        }

    # --- what to say -------------------------------------------------------------------------------
    def describe_crash(self, error: Exception) -> Result:
        """Say that the worker itself failed, not the command."""
        message = f"the worker could not run it: {type(error).__name__}: {error}"
        return Result(*self.key, "crashed", msgspec.json.encode(self._body("WorkerFailed", message)), 0.0)

    def _describe_stop(self, number: int, argv: list[str]) -> dict[str, Any]:
        step = name_step(number, argv)
        if self._stopped_as == "timeout":
            limit = self._assignment.timeout or 0.0
            return self._body("TimeLimitReached", f"{step} was stopped after {limit:g} s")
        return self._body("Stopped", f"{step} was stopped: {self._stopped_as}")

    def _describe_failure(
        self, number: int, argv: list[str], ending: Happening | None
    ) -> tuple[str, dict[str, Any]]:
        step = name_step(number, argv)
        if isinstance(ending, NotSpawned) and not ending.guardian_lost:
            return "error", self._body("CommandNotFound", f"{step} did not start: {ending.message}")
        if isinstance(ending, NotSpawned) or (isinstance(ending, Ended) and ending.guardian_lost):
            return "crashed", self._body("WorkerLost", f"{step} was lost: the worker's guardian is gone")
        assert isinstance(ending, Ended)
        if ending.code < 0:
            name = name_signal(-ending.code)
            return "error", self._body("Signal", f"{step} was killed by {name}", signal=name)
        message = f"{step} exited with {ending.code}"
        return "error", self._body("ExitCode", message, exit_code=ending.code)

    def _body(
        self, type: str, message: str, exit_code: int | None = None, signal: str | None = None
    ) -> dict[str, Any]:
        return {
            "type": type,
            "message": message,
            "exit_code": exit_code,
            "signal": signal,
            "traceback": self._output.tail,
        }


def add_use(used: Note, step: Ended) -> Note:
    """Add what a step used: CPU adds up, of memory the most counts."""
    return used._replace(
        cpu_seconds=(used.cpu_seconds or 0.0) + step.cpu_seconds,
        memory_bytes=max(used.memory_bytes or 0, step.most_kilobytes * 1024),
    )


def never_ran(ending: Happening | None) -> bool:
    """Whether a step was not even tried, because the worker could or must not."""
    return isinstance(ending, NotSpawned) and (ending.guardian_lost or ending.lease_over)


def name_step(number: int, argv: list[str]) -> str:
    """Name a step for people."""
    return f"step {number} {PurePath(argv[0]).name[:100]!r}" if argv else f"step {number}"


def name_signal(number: int) -> str:
    """Return SIGTERM for 15, and so on."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
