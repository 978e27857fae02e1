"""An async child: runs `async def` tasks, many at once, on one event loop.

Everything happens on the loop; a task that blocks it delays the others, and its stop too, so the agent kills
the process when asking does not help within its grace.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from time import monotonic_ns

import msgspec

from fairway import context
from fairway.adapters.python import frames
from fairway.adapters.python.judge import (
    Outcome,
    RegisteredTask,
    describe,
    judge_arguments,
    judge_call,
    judge_missing,
    judge_value,
)
from fairway.adapters.python.notes import Notes
from fairway.adapters.python.speech import Speech
from fairway.adapters.python.stacks import show_task
from fairway.adapters.python.watchdog import Watchdog
from fairway.wire.messages import Assignment, Result

Key = tuple[int, int]


class AsyncChild:
    """Owned by the loop it runs on."""

    def __init__(
        self, tasks: dict[str, RegisteredTask], apps: list[str], speech: Speech, blocked: int
    ) -> None:
        self._tasks, self._apps, self._speech = tasks, apps, speech
        self._running: dict[Key, asyncio.Task[None]] = {}
        self._stopped_as: dict[Key, str] = {}
        self._results: list[Result] = []
        self._encoder = msgspec.msgpack.Encoder()
        self._decoder = msgspec.msgpack.Decoder(tuple[int, list[Assignment]])
        self._transport: asyncio.WriteTransport
        self._loop: asyncio.AbstractEventLoop
        self._gone = asyncio.Event()
        self._notes = Notes(self._send_notes_soon, self._send_notes_at_once)
        self._watchdog = Watchdog(self._running, blocked)
        speech.is_running = self._running.__contains__

    async def serve(self, data: socket.socket, control: socket.socket) -> None:
        """Run jobs until the agent is gone."""
        loop = asyncio.get_running_loop()
        for connection in (data, control):
            connection.setblocking(False)
        await loop.create_unix_connection(lambda: Listener(self._take, self._gone.set), sock=control)
        transport, _ = await loop.create_unix_connection(
            lambda: Listener(self._take, self._gone.set), sock=data
        )
        self._transport, self._loop = transport, loop
        context.speaker = self._notes
        await self._gone.wait()

    def _take(self, kind: bytes, body: bytes) -> None:
        if kind == frames.JOBS:
            for job in self._decoder.decode(body)[1]:
                self._running[job[:2]] = asyncio.get_running_loop().create_task(self._run(job))
            if not self._watchdog.is_watching:
                self._watchdog.begin()
        elif kind in (frames.ASK, frames.STOP):
            self._stop(kind, *msgspec.msgpack.decode(body))
        elif kind == frames.LOOK:
            self._look(*msgspec.msgpack.decode(body))

    def _look(self, number: int, job: int, attempt: int) -> None:
        """Say where an attempt is; while the loop is blocked the agent finds out by itself."""
        task = self._running.get((job, attempt))
        stack = "" if task is None else show_task(task, OWN_CODE)
        self._speech.send(frames.SEEN, number, stack)

    def _stop(self, kind: bytes, job: int, attempt: int, stopped_as: str) -> None:
        key = (job, attempt)
        task = self._running.get(key)
        if task is None:
            return
        context.asked_to_end.add(key)
        if kind == frames.STOP:
            self._stopped_as[key] = stopped_as
            task.add_done_callback(lambda _: self._report_unrun(key))
            task.cancel()

    def _report_unrun(self, key: Key) -> None:
        """Report a task that was cancelled before its first step: its coroutine never ran."""
        if self._running.pop(key, None) is not None:
            kind = self._stopped_as.pop(key)
            context.asked_to_end.discard(key)
            self._report(Result(*key, kind, describe("Stopped", "stopped before it began"), 0.0))

    async def _run(self, job: Assignment) -> None:
        """Carry one attempt from its payload to its result."""
        started = monotonic_ns()
        key = job[:2]
        context.enter_shared(job)
        try:
            kind, body, retry_after = await self._call(job)
        finally:
            self._running.pop(key, None)
            context.asked_to_end.discard(key)
            if self._speech.voices:
                self._speech.finish(key)
        stopped_as = self._stopped_as.pop(key, None)
        if stopped_as is not None and kind != "ok":
            kind = stopped_as
        self._report(Result(*key, kind, body, (monotonic_ns() - started) * 1e-9, retry_after))

    async def _call(self, job: Assignment) -> Outcome:
        task = self._tasks.get(job.task)
        if task is None:
            return judge_missing(job.task, self._apps)
        try:
            arguments, named = task.load(job.payload)
        except Exception as error:
            return judge_arguments(task, error)
        try:
            value = await task.function(*arguments, **named)
        except BaseException as error:  # SystemExit and cancellation too: the process serves others
            return judge_call(task, error)
        return judge_value(task, value)

    def _report(self, result: Result) -> None:
        """Collect what ends in one turn of the loop into one frame."""
        if not self._results:
            asyncio.get_running_loop().call_soon(self._flush)
        self._results.append(result)

    def _flush(self) -> None:
        if self._notes.are_waiting:
            self._send_notes()
        results, self._results = self._results, []
        if self._speech.has_unsent:
            self._speech.flush()
        self._transport.write(frames.pack(frames.RESULTS, self._encoder.encode(results)))

    # --- notes --------------------------------------------------------------------------------------
    def _send_notes(self) -> None:
        if notes := self._notes.take():
            self._transport.write(frames.pack(frames.NOTES, self._encoder.encode(notes)))

    def _send_notes_soon(self) -> None:
        """In the thread of the notes: only the loop may write."""
        try:
            self._loop.call_soon_threadsafe(self._send_notes)
        except RuntimeError:  # it is closed: the agent is gone
            raise OSError("nobody listens any more") from None

    def _send_notes_at_once(self) -> bool:
        """Send, if this is the loop's thread; another one waits only until the loop knows of it."""
        if asyncio._get_running_loop() is not self._loop:
            return False
        self._send_notes()
        return True


OWN_CODE = frozenset({AsyncChild._run.__code__, AsyncChild._call.__code__})


class Listener(asyncio.Protocol):
    """Feeds frames to a function and tells when the other end is gone."""

    def __init__(self, take: Callable[[bytes, bytes], None], gone: Callable[[], None]) -> None:
        self._take, self._on_gone, self._reader = take, gone, frames.FrameReader()

    def data_received(self, data: bytes) -> None:
        """Take in what came."""
        for kind, body in self._reader.feed(data):
            self._take(kind, body)

    def connection_lost(self, exc: Exception | None) -> None:
        """The agent is gone."""
        self._on_gone()
