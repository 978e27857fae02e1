"""What the attempts of one child say of themselves, on its way to the agent.

Progress is kept until it is sent, only the last of each attempt, and sent at most five times a second; a
checkpoint is sent at once. A thread does it, started by the first word: code of tasks in the main thread may
be interrupted by a stop at any point, and a frame that was sent by half would be the end of the child.
Whoever sends results takes what still waits here first, so that notes come before their results.

A child whose tasks say nothing pays nothing. Every step here is one operation on a dict or a queue, which no
other thread can tear apart.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from time import monotonic

from fairway.wire.messages import Note

Key = tuple[int, int]

PAUSE_SECONDS = 0.2
#: How long a task waits until its checkpoint is handed over.
PATIENCE_SECONDS = 10.0


class Notes:
    """The speaker of a child. *send* takes what waits and sends it; called in a thread of its own.

    *at_once* does the same for a checkpoint, where the thread that calls may do so itself: it says whether.
    """

    def __init__(self, send: Callable[[], None], at_once: Callable[[], bool] = lambda: False) -> None:
        self._send, self._at_once = send, at_once
        self._progress: dict[Key, Note] = {}
        self._checkpoints: dict[Key, Note] = {}
        self._words: SimpleQueue[threading.Event | None] = SimpleQueue()  # None: progress, which may wait
        self._is_told = False  # the thread knows that progress waits
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None
        self._process = os.getpid()

    def progress(self, key: Key, fraction: float, text: str) -> None:
        """Take an attempt's progress in; it is sent soon."""
        self._progress[key] = Note(*key, fraction, text)
        if not self._is_told:
            self._is_told = True
            self._start()
            self._words.put(None)

    def checkpoint(self, key: Key, body: bytes) -> None:
        """Send a checkpoint and return when it is on its way."""
        self._checkpoints[key] = Note(*key, checkpoint=body)
        if self._at_once():
            return
        self._start()
        done = threading.Event()
        self._words.put(done)
        done.wait(PATIENCE_SECONDS)

    def take(self) -> list[Note]:
        """Take out what waits."""
        self._is_told = False  # first: what comes from now on is told again
        taken: list[Note] = []
        for waiting in (self._progress, self._checkpoints):
            while waiting:
                try:
                    taken.append(waiting.popitem()[1])
                except KeyError:  # another thread was faster
                    break
        return taken

    @property
    def are_waiting(self) -> bool:
        """Whether something is to be sent."""
        return bool(self._progress or self._checkpoints)

    def _start(self) -> None:
        if os.getpid() != self._process:
            raise RuntimeError(
                "progress and checkpoints are told by the task's own process, not by a fork of it"
            )
        if self._thread is None:
            with self._starting:
                if self._thread is None:
                    thread = threading.Thread(target=self._serve, daemon=True, name="fairway-notes")
                    thread.start()
                    self._thread = thread

    def _serve(self) -> None:
        """Send what there is when told to: progress after a pause, anything else at once."""
        due, owes = 0.0, False
        while True:
            try:
                done = self._words.get(timeout=max(due - monotonic(), 0.0) if owes else None)
            except Empty:
                done = None
            if done is None and monotonic() < due:
                owes = True
                continue
            owes = False
            try:
                self._send()
            except OSError:  # the agent is gone, and this process will be
                return
            due = monotonic() + PAUSE_SECONDS
            if done is not None:
                done.set()
