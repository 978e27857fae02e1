"""The command adapter: programs run by their argv lists, step by step.

Each step is a process that leads its own group under the guardian; whatever it leaves behind is killed when
it ends. The first step that fails ends the attempt. To stop one, all its processes get SIGTERM and, when the
grace of its job is over, SIGKILL. As whom it runs is found out in command_rights.py, what came of it in
command_result.py.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import time
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePath
from typing import Any

import msgspec

from fairway import ids
from fairway.adapter import Reporter
from fairway.adapters.command_payload import Step, Work, open_input, read_work
from fairway.adapters.command_result import BadResult, NotRead, Scratch, find_result, meaning, remove
from fairway.adapters.command_rights import AS_IT_IS, NotAllowed, Rights, find_rights
from fairway.adapters.notes import PLACE, Notes
from fairway.adapters.output import Output
from fairway.adapters.processes import show_processes
from fairway.wire.messages import Assignment, Note, Result, Task
from fairway.worker.warden import Ended, Happening, NotSpawned, Process, Warden

log = logging.getLogger(__name__)

GRACE_SECONDS = 2.0
#: How long the output of a step that ended may take to be read to its end.
OUTPUT_SECONDS = 1.0


class CommandAdapter:
    """Runs command jobs."""

    name = "command"

    def __init__(self, warden: Warden) -> None:
        self._warden = warden
        self._reporter: Reporter
        self._live: dict[tuple[int, int], Execution] = {}
        self._scratch = Scratch()
        self._idle = asyncio.Event()
        self._idle.set()

    async def start(self, reporter: Reporter) -> list[Task]:
        """Nothing to prepare; commands have no registry."""
        self._reporter = reporter
        return []

    def begin(self, assignments: Sequence[Assignment]) -> None:
        """Run each of them; commands do not share a process, so a bundle is just several."""
        for assignment in assignments:
            execution = Execution(assignment, self._warden, self._reporter, self._scratch)
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

    def begin_behind(self, assignments: Sequence[Assignment]) -> bool:
        """Nothing stands behind anything here."""
        return False

    def take_back(self) -> None:
        """Nothing stands behind anything here."""

    def stop(self, job: int, attempt: int, force: bool, kind: str = "cancelled") -> None:
        """Terminate the attempt's processes, or kill them at once."""
        if execution := self._live.get((job, attempt)):
            execution.stop(kind, force)

    def started(self, job: int, attempt: int) -> bool:
        """A command starts as soon as it is begun."""
        return (job, attempt) in self._live

    async def look(self, job: int, attempt: int) -> str | None:
        """Return its processes and what they do."""
        execution = self._live.get((job, attempt))
        pid = None if execution is None else execution.pid
        return None if pid is None else await asyncio.to_thread(show_processes, pid)

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

    def __init__(self, assignment: Assignment, warden: Warden, reporter: Reporter, scratch: Scratch) -> None:
        self.key = assignment[:2]
        self.task: asyncio.Task[None] | None = None
        self._assignment, self._warden = assignment, warden
        self._output = Output(assignment.job, assignment.attempt, reporter.wrote)
        self._notes = Notes(self.key, reporter.noted, self._complain)
        self._scratch = scratch
        self._rights: Rights = AS_IT_IS
        self._input: int | None = None
        self._result_file = Path()
        self._time_limit = assignment.timeout or 0.0
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
            self._notes.close()
            for timer in self._timers:
                timer.cancel()
        return Result(*self.key, kind, body, time.monotonic() - started)

    def _complain(self, text: str) -> None:
        """Tell the people who read the log what cannot be taken."""
        self._output.notice(f"[{text}]\n")

    @property
    def pid(self) -> int | None:
        """The process of the step that runs."""
        return None if self._process is None else self._process.pid

    def stop(self, kind: str, force: bool) -> None:
        """End the attempt as *kind*; the first kind given stays, and it is asked only once."""
        asked, self._stopped_as = self._stopped_as is not None, self._stopped_as or kind
        if force:
            self._signal(signal.SIGKILL)
        elif not asked:  # a second SIGTERM means to many programs: at once
            grace = self._assignment.grace
            self._signal(signal.SIGTERM)
            loop = asyncio.get_running_loop()
            seconds = GRACE_SECONDS if grace is None else grace
            self._timers.append(loop.call_later(seconds, self._signal, signal.SIGKILL))

    def _signal(self, number: int) -> None:
        if self._process is not None:
            self._process.signal(number)

    async def _run_steps(self) -> tuple[str, bytes]:
        try:
            work = read_work(self._assignment.payload)
            self._rights = await find_rights(work, os.geteuid())
        except (ValueError, RecursionError) as error:
            return "permanent", self._body("BadPayload", f"not a command: {error}")
        except NotAllowed as error:
            return "permanent", self._body("NotAllowed", str(error))
        except TimeoutError:
            log.warning("users and groups cannot be looked up here now: handing back")
            raise NotBegun from None
        code = 0
        with self._prepared(work):
            for number, step in enumerate(work.steps, 1):
                ending = await self._try_step(number, step, work) if self._stopped_as is None else None
                if number == 1 and never_ran(ending) and self._stopped_as in (None, "stopped"):
                    raise NotBegun  # also if it was stopped before its first process, by the worker itself
                if isinstance(ending, Ended | NotSpawned) and ending.lease_over:
                    self._stopped_as = self._stopped_as or "stopped"
                if self._stopped_as is not None:
                    return self._stopped_as, self._describe_stop(number, step.argv)
                code = ending.code if isinstance(ending, Ended) else -1
                if code < 0 or meaning(code, work.exit_codes) != "ok":
                    return self._describe_failure(number, step.argv, ending, work)
            return await self._find_result(work, code)

    @contextlib.contextmanager
    def _prepared(self, work: Work) -> Iterator[None]:
        """Have what the steps share: their input, and a file for their result."""
        self._output.keeps_last = work.result is not None
        name = f"{ids.show(self.key[0])}.{self.key[1]}"
        with contextlib.ExitStack() as undone:
            try:
                self._result_file = self._scratch.new_file(name, self._rights.uid)
                undone.callback(remove, self._result_file)
                self._input = open_input(work)
            except OSError:
                raise NotBegun from None
            if self._input is not None:
                undone.callback(os.close, self._input)
            yield

    async def _find_result(self, work: Work, code: int) -> tuple[str, bytes]:
        try:
            line, uid = self._output.last_line, self._rights.uid
            return "ok", await find_result(work, self._result_file, line, code, uid)
        except BadResult as error:
            return "permanent", self._body("BadResult", str(error))
        except NotRead as error:
            return "error", self._body("NotRead", str(error))

    async def _try_step(self, number: int, step: Step, work: Work) -> Happening:
        """Run a step; a worker that cannot even open a pipe for the first one gives the job back."""
        try:
            return await self._run_step(step, work)
        except OSError:
            if number == 1:
                raise NotBegun from None
            raise

    async def _run_step(self, step: Step, work: Work) -> Happening:
        ending: asyncio.Future[Happening] = asyncio.get_running_loop().create_future()

        def tell(happening: Happening) -> None:
            if isinstance(happening, Ended | NotSpawned) and not ending.done():
                ending.set_result(happening)

        fds: dict[int, int] = {}
        try:
            for place, name in ((1, "stdout"), (2, "stderr")):
                fds[place] = self._output.open(name)
            fds[PLACE] = self._notes.open()
            if self._input is not None:
                os.lseek(self._input, 0, os.SEEK_SET)
                fds[0] = os.dup(self._input)
            self._process = self._warden.spawn(
                step.argv,
                tell,
                env={**self._rights.env, **work.env, **work.secrets, **self._marks()},
                cwd=work.cwd,
                fds=fds,
                bound=self._assignment.kill,
                trusted=False,
                rights=self._rights.to_request(),
            )
        finally:
            for fd in fds.values():
                os.close(fd)
        with self._timed(step.seconds):
            happening = await ending
        self._process = None
        if isinstance(happening, Ended) and not happening.guardian_lost:
            self.used = add_use(self.used or Note(*self.key), happening)
        self._notes.finish()
        await self._read_to_the_end()
        return happening

    @contextlib.contextmanager
    def _timed(self, seconds: float | None) -> Iterator[None]:
        """Stop the attempt if this step takes longer than it may by itself."""
        if seconds is None:
            yield
            return
        timer = asyncio.get_running_loop().call_later(seconds, self._time_out, seconds)
        try:
            yield
        finally:
            timer.cancel()

    def _time_out(self, seconds: float) -> None:
        if self._stopped_as is None:
            self._time_limit = seconds
        self.stop("timeout", False)

    async def _read_to_the_end(self) -> None:
        try:
            async with asyncio.timeout(OUTPUT_SECONDS):
                await self._output.ended.wait()
        except TimeoutError:  # something that escaped the guardian holds the pipe open
            self._output.close()

    def _marks(self) -> dict[str, str]:
        marks = {
            "FAIRWAY_JOB": ids.show(self._assignment.job),
            "FAIRWAY_ATTEMPT": str(self._assignment.attempt),
            "FAIRWAY_QUEUE": self._assignment.queue,
            "FAIRWAY_RESULT": str(self._result_file),
            "FAIRWAY_NOTES": str(PLACE),
        }
        if self._assignment.checkpoint is not None:
            marks["FAIRWAY_CHECKPOINT"] = self._assignment.checkpoint.decode(errors="replace")
        return marks

    # --- what to say -------------------------------------------------------------------------------
    def describe_crash(self, error: Exception) -> Result:
        """Say that the worker itself failed, not the command."""
        message = f"the worker could not run it: {type(error).__name__}: {error}"
        return Result(*self.key, "crashed", self._body("WorkerFailed", message), 0.0)

    def _describe_stop(self, number: int, argv: list[str]) -> bytes:
        step = name_step(number, argv)
        if self._stopped_as == "timeout":
            return self._body("TimeLimitReached", f"{step} was stopped after {self._time_limit:g} s")
        return self._body("Stopped", f"{step} was stopped: {self._stopped_as}")

    def _describe_failure(
        self, number: int, argv: list[str], ending: Happening | None, work: Work
    ) -> tuple[str, bytes]:
        step = name_step(number, argv)
        if isinstance(ending, NotSpawned) and not ending.guardian_lost:
            return "error", self._body("CommandNotFound", f"{step} did not start: {ending.message}")
        if isinstance(ending, NotSpawned) or (isinstance(ending, Ended) and ending.guardian_lost):
            return "crashed", self._body("WorkerLost", f"{step} was lost: the worker's guardian is gone")
        assert isinstance(ending, Ended)
        if ending.code < 0:
            name = name_signal(-ending.code)
            if ending.out_of_memory:
                message = f"{step} was killed by {name} because memory ran out"
                return "error", self._body("OutOfMemory", message, signal=name)
            return "error", self._body("Signal", f"{step} was killed by {name}", signal=name)
        kind = "permanent" if meaning(ending.code, work.exit_codes) == "permanent" else "error"
        return kind, self._body("ExitCode", f"{step} exited with {ending.code}", exit_code=ending.code)

    def _body(
        self, type: str, message: str, exit_code: int | None = None, signal: str | None = None
    ) -> bytes:
        body: dict[str, Any] = {
            "type": type,
            "message": message,
            "exit_code": exit_code,
            "signal": signal,
            "traceback": self._output.tail,
        }
        return msgspec.json.encode(body)


def add_use(used: Note, step: Ended) -> Note:
    """Add what a step used: CPU adds up, of memory the most counts."""
    return used._replace(
        cpu_seconds=(used.cpu_seconds or 0.0) + step.cpu_seconds,
        memory_bytes=max(used.memory_bytes or 0, step.most_kilobytes * 1024),
    )


def never_ran(ending: Happening | None) -> bool:
    """Whether a step was not even tried, because the worker could or must not."""
    return ending is None or (isinstance(ending, NotSpawned) and (ending.guardian_lost or ending.lease_over))


def name_step(number: int, argv: list[str]) -> str:
    """Name a step for people."""
    return f"step {number} {PurePath(argv[0]).name[:100]!r}" if argv else f"step {number}"


def name_signal(number: int) -> str:
    """Return SIGTERM for 15, and so on."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
