"""A sync child: runs `def` tasks in its main thread, one bundle at a time, one job after the other.

A thread of its own listens to the control socket, so that a job can be asked to end while it runs. To end
one it signals the main thread, whose handler raises: unlike an asynchronous exception, a signal also wakes
code that sleeps or waits for a socket.

A stop must hit the job it is meant for and nothing else. Each job leaves a token while its code may be
interrupted. Whoever takes the token out, at one stroke, decides: the main thread, and the job cannot be
stopped any more; or the control thread, and then the main thread waits for the exception before it goes on.
"""

from __future__ import annotations

import contextlib
import fcntl
import signal
import socket
import termios
import threading
import time
from time import monotonic_ns
from typing import Any

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
    name_of,
    text_of,
    trace_of,
)
from fairway.adapters.python.notes import Notes
from fairway.adapters.python.page import ALLOWED, INDEX, STARTED, Page
from fairway.adapters.python.speech import Speech
from fairway.adapters.python.stacks import show_threads
from fairway.adapters.python.usage import Meter
from fairway.wire.messages import Assignment, Note, Result

FLUSH_NANOSECONDS = 5_000_000
#: What an attempt used is worth a word from here on.
MEASURE_SECONDS = 0.010
#: A job that ran so long may have started processes that wrote something: the agent reads it first.
LONG_NANOSECONDS = 500_000
READ_SECONDS = 0.05
STOP_SIGNAL = signal.SIGRTMIN + 5 if hasattr(signal, "SIGRTMIN") else signal.SIGUSR2

Key = tuple[int, int]


class SyncChild:
    """Owned by the main thread; the control thread only takes tokens and flushes."""

    def __init__(
        self, tasks: dict[str, RegisteredTask], apps: list[str], data: socket.socket, speech: Speech
    ) -> None:
        self._tasks, self._apps, self._data = tasks, apps, data
        self._speech = speech
        self._voices = speech.voices
        speech.raise_due = self._raise_due
        self._results: list[Result] = []  # never replaced: the other thread cuts off its head
        self._sending = threading.Lock()
        self._flushed = 0
        self._encoder = msgspec.msgpack.Encoder()
        self._decoder = msgspec.msgpack.Decoder(tuple[int, list[Assignment]])
        self._tokens: dict[Key, str] = {}
        self._due: context.Stopped | None = None
        self._stop_kind = ""
        self._stop_sent: Key | None = None
        self._main = threading.get_ident()
        self._notes, self._used = Notes(self._send_notes), list[Note]()
        self._meter = Meter()

    def serve(self, control: socket.socket, page: Page) -> None:
        """Run bundles until the agent is gone."""
        signal.signal(STOP_SIGNAL, self._on_stop_signal)
        context.speaker = self._notes
        threading.Thread(target=self._listen, args=(control,), daemon=True, name="fairway-control").start()
        while (frame := frames.read_frame(self._data)) is not None:
            self._run_bundle(*self._decoder.decode(frame[1]), page)

    def _run_bundle(self, base: int, jobs: list[Assignment], page: Page) -> None:
        """Run jobs, the first of which has the number *base* on the page."""
        results = self._results
        alone = len(jobs) == 1  # only then it is worth while to measure it
        last = base + len(jobs) - 1  # its result goes with LAST: whoever has them all takes us to be idle
        if alone:
            self._meter.start()
        self._flushed = monotonic_ns()
        for index, job in enumerate(jobs, base):
            page[STARTED] = started = monotonic_ns()  # first: nobody is to take the last one's for it
            page[INDEX] = index
            if index >= page[ALLOWED]:
                break
            results.append(self._run(job, started))
            if alone and results[-1].seconds > MEASURE_SECONDS:
                self._used.append(self._meter.stop(job.job, job.attempt))
            if started - self._flushed > FLUSH_NANOSECONDS and index < last:
                self.flush(frames.RESULTS)
        else:
            page[INDEX] = base + len(jobs)
        if not results or results[-1].seconds * 1e9 <= LONG_NANOSECONDS:
            wait_until_read()  # the next bundle may stand in the pipe
        self.flush(frames.LAST)

    def _run(self, job: Assignment, started: int) -> Result:
        """Carry one attempt from its payload to its result; a stop arrives in here or nowhere."""
        key = job[:2]
        context.enter_alone(job)
        outcome: Outcome | None = None
        try:
            self._tokens[key] = ""
            outcome = self._call(job)
            if self._tokens.pop(key, None) is None:
                self._wait_for_the_stop(key)
        except context.Stopped as stop:
            body = describe(name_of(type(stop)), text_of(stop), trace_of(stop))
            outcome = outcome or (self._stop_kind, body, 0.0)
        context.enter_alone(None)
        if context.asked_to_end:
            outcome = self._judge_stop(key, outcome)
        if self._voices:
            self._speech.finish(key)
        kind, body, retry_after = outcome
        lasted = monotonic_ns() - started
        if lasted > LONG_NANOSECONDS:
            wait_until_read()
        return Result(job[0], job[1], kind, body, lasted * 1e-9, retry_after)

    def _call(self, job: Assignment) -> Outcome:
        task = self._tasks.get(job.task)
        if task is None:
            return judge_missing(job.task, self._apps)
        try:
            arguments, named = task.load(job.payload)
        except Exception as error:
            return judge_arguments(task, error)
        try:
            value = task.function(*arguments, **named)
        except context.Stopped:
            raise
        except BaseException as error:  # SystemExit too: a task does not end its process
            return judge_call(task, error)
        return judge_value(task, value)

    def flush(self, kind: bytes) -> None:
        """Send the results there are, notes first; LAST is sent even without any."""
        with self._sending:
            frame = self._take_notes() if self._used or self._notes.are_waiting else b""
            count = len(self._results)
            if self._speech.has_unsent:  # what these have written; looked at behind the count
                self._speech.flush()
            if count or kind is frames.LAST:
                body = self._encoder.encode(self._results[:count])
                del self._results[:count]
                frame += frames.pack(kind, body)
            if frame:  # at one stroke: the agent wakes up once
                self._data.sendall(frame)
            self._flushed = monotonic_ns()

    def _send_notes(self) -> None:
        with self._sending:
            if frame := self._take_notes():
                self._data.sendall(frame)

    def _take_notes(self) -> bytes:
        """Return a frame of the notes there are, if there are any."""
        notes = self._notes.take()
        while self._used:  # one by one: the main thread may add to it just now
            notes.append(self._used.pop())
        return frames.pack(frames.NOTES, self._encoder.encode(notes)) if notes else b""

    # --- stopping -----------------------------------------------------------------------------------
    def _listen(self, control: socket.socket) -> None:
        while (frame := frames.read_frame(control)) is not None:
            kind, body = frame
            if kind == frames.FLUSH:
                self.flush(frames.RESULTS)
                continue
            if kind == frames.LOOK:
                self._look(*msgspec.msgpack.decode(body))
                continue
            job, attempt, stop_kind = msgspec.msgpack.decode(body)
            key = (job, attempt)
            if key in self._tokens:
                context.asked_to_end.add(key)
            if kind == frames.STOP and self._tokens.pop(key, None) is not None:
                self._send_stop(key, stop_kind)

    def _look(self, number: int, job: int, attempt: int) -> None:
        """In the control thread: say where the job's code is, or nothing if it does not run."""
        stack = show_threads(self._main, SyncChild._call.__code__)
        runs = context.find_alone() == (job, attempt)
        self._speech.send(frames.SEEN, number, stack if runs else "")

    def _send_stop(self, key: Key, kind: str) -> None:
        """In the control thread: the token is ours, so the main thread waits for what we send."""
        self._stop_kind = kind
        self._due = stop_for(kind)
        signal.pthread_kill(self._main, STOP_SIGNAL)
        self._stop_sent = key

    def _on_stop_signal(self, number: int, frame: Any) -> None:
        if not self._speech.shielded:
            self._raise_due()

    def _raise_due(self) -> None:
        due, self._due = self._due, None
        if due is not None:
            raise due

    def _wait_for_the_stop(self, key: Key) -> None:
        while self._stop_sent != key or self._due is not None:
            time.sleep(0.0005)

    def _judge_stop(self, key: Key, outcome: Outcome) -> Outcome:
        """A task that finished all the same has its value; one that raised something was stopped."""
        context.asked_to_end.clear()  # no other job runs here
        if self._stop_sent != key or outcome[0] == "ok":
            return outcome
        return self._stop_kind, outcome[1], 0.0


def stop_for(kind: str) -> context.Stopped:
    """Return what to raise in a task that is to end as *kind*."""
    if kind == "timeout":
        return context.TimeLimitReached("the attempt has used up its time")
    return context.CancelRequested(f"the attempt is to end: {kind}")


def wait_until_read() -> None:
    """Wait a moment while something stands in our pipes: it is the output of the job that has just ended."""
    with contextlib.suppress(OSError):
        deadline = None
        while has_unread(1) or has_unread(2):
            deadline = deadline or time.monotonic() + READ_SECONDS
            if time.monotonic() > deadline:
                return
            time.sleep(0.001)


def has_unread(fd: int) -> bool:
    """Whether a pipe holds something that its reader has not taken."""
    return any(fcntl.ioctl(fd, termios.FIONREAD, bytes(4)))
