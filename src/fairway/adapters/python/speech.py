"""What a child's code prints and logs, sent to the agent as output of the attempt that wrote it.

Whose output it is, is known when it is written: a `def` task is alone in its process, an `async
def` task has a context variable. A thread speaks for the attempt that started it, a pool's thread in a child
for `def` tasks for the one that runs; what belongs to no running attempt goes to the worker's stderr.

The first line after a silence is sent at once, what follows within 20 ms together, all before the results.
Beyond its bound an attempt's output is dropped here, for the price of a look into a dict. A task that prints
nothing pays for one question whether anybody spoke.

A stop is raised in the main thread, wherever that is. Not in here: half a frame would ruin the socket. So the
main thread is shielded while it speaks, and takes the stop when it has finished.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from fairway import context
from fairway.adapters.lines import MOST_BYTES, Lines
from fairway.adapters.python import frames

Key = tuple[int, int]

TOGETHER_SECONDS = 0.02
MOST_PENDING_BYTES = 32 * 1024
SEND_SECONDS = 60.0  # a frozen agent may come back
MARK = "fairway_attempt"
NOTICE = "notice"

_encoder = msgspec.msgpack.Encoder()


class Voice:
    """One attempt that has written something."""

    __slots__ = ("left", "lines")

    def __init__(self) -> None:
        self.left = MOST_BYTES
        self.lines: dict[str, Lines] = {}


class Speech:
    """Owned by a child; any of its threads may speak."""

    def __init__(self, control: socket.socket) -> None:
        self.voices: dict[Key, Voice] = {}
        self.pending: list[tuple[int, int, str, bytes]] = []
        self.shielded = False  # the main thread is in here: it must not be interrupted
        self.raise_due: Callable[[], None] = lambda: None
        self.is_running: Callable[[Key], bool] = is_alone
        self._control = control
        self._pending_bytes = 0
        self._lock = threading.RLock()
        self._sending = False
        self._sent_at = 0.0
        self.away = False  # this is a fork of the child, which has no business with its sockets
        self._main = threading.get_ident()
        self._wake = threading.Event()
        self._flusher: threading.Thread | None = None

    def follow_threads_and_forks(self) -> None:
        """Know which attempt started a thread, and keep forks of this process out."""
        os.register_at_fork(after_in_child=self._leave)
        mark_threads(self.find_key)

    def _leave(self) -> None:
        self.away = True

    # --- whose -----------------------------------------------------------------------------------------
    def find_key(self) -> Key | None:
        """Return the running attempt on whose behalf this code runs."""
        if self.away:
            return None
        key = context.find_key()
        if threading.get_ident() != self._main:
            starter = getattr(threading.current_thread(), MARK, None)
            if key is None:
                key = starter
            elif starter is not None and starter != key and not context.is_shared():
                return None  # it has outlived its attempt
        return key if key is not None and self.is_running(key) else None

    # --- saying ----------------------------------------------------------------------------------------
    def say(self, key: Key, name: str, chunks: Iterable[bytes]) -> None:
        """Take in output of an attempt, in chunks of up to 64 KB."""
        with self._shield():
            voice = self.voices.get(key)
            if voice is None:
                if not self.is_running(key):
                    return
                voice = self.voices[key] = Voice()
            lines = voice.lines.setdefault(name, Lines())
            for chunk in chunks:
                if voice.left <= 0:
                    break
                self._add(key, voice, name, lines.feed(chunk))
            self._send_soon()

    def end_line(self, key: Key, name: str) -> None:
        """Send a line that is not whole: whoever wrote it wants it to be seen."""
        if (voice := self.voices.get(key)) is None:
            return
        with self._shield():
            if name in voice.lines:
                self._add(key, voice, name, voice.lines[name].take_rest())
                self._send_soon()

    def finish(self, key: Key) -> None:
        """An attempt has ended: nothing can be added to what it wrote."""
        with self._shield():
            voice = self.voices.pop(key, None)
            if voice is not None:
                for name, lines in voice.lines.items():
                    self._add(key, voice, name, lines.take_rest())

    def notice(self, keys: Iterable[Key], text: str) -> None:
        """Put a word of our own into the logs of attempts, at once."""
        with self._shield():
            self.pending += [(*key, NOTICE, text.encode(errors="replace")) for key in keys]
            self._send_pending()

    def send(self, kind: bytes, *values: Any) -> None:
        """Send something else on the same socket."""
        with self._shield():
            self._send_frame(frames.pack(kind, _encoder.encode(values)))

    @property
    def has_unsent(self) -> bool:
        """Whether something that was said may not have been sent."""
        return bool(self.pending) or self._sending

    def flush(self) -> None:
        """Send all that was said, before results are sent."""
        with self._shield():
            self._send_pending()

    def _add(self, key: Key, voice: Voice, name: str, lines: bytes) -> None:
        kept = lines[: voice.left]
        if kept:
            voice.left -= len(kept)
            self.pending.append((*key, name, kept))
            self._pending_bytes += len(kept)
            if self._pending_bytes >= MOST_PENDING_BYTES:
                self._send_pending()

    # --- sending ---------------------------------------------------------------------------------------
    @contextlib.contextmanager
    def _shield(self) -> Iterator[None]:
        """Be alone in here, and let no stop interrupt the main thread meanwhile."""
        is_main = threading.get_ident() == self._main and not self.shielded
        if is_main:
            self.shielded = True
        try:
            with self._lock:
                yield
        finally:
            if is_main:
                self.shielded = False
                self.raise_due()

    def _send_soon(self) -> None:
        if not self.pending:
            return
        if time.monotonic() - self._sent_at > TOGETHER_SECONDS:
            self._send_pending()
            return
        if self._flusher is None:
            self._flusher = threading.Thread(target=self._keep_flushing, daemon=True, name="fairway-output")
            self._flusher.start()
        self._wake.set()

    def _keep_flushing(self) -> None:
        while True:
            if self._wake.wait(60):
                self._wake.clear()
                time.sleep(TOGETHER_SECONDS)
                self.flush()

    def _send_pending(self) -> None:
        if not self.pending or self._sending:  # a print in the midst of this waits for the next time
            return
        self._sending = True  # before there is nothing pending: `has_unsent` is read without the lock
        pending, self.pending, self._pending_bytes = self.pending, [], 0
        self._send_frame(frames.pack(frames.LOG, _encoder.encode(pending)))
        self._sent_at = time.monotonic()

    def _send_frame(self, frame: bytes) -> None:
        left = memoryview(frame)
        self._sending = True
        try:
            while left:
                try:
                    left = left[self._control.send(left, socket.MSG_DONTWAIT) :]
                except BlockingIOError:
                    if not select.select([], [self._control], [], SEND_SECONDS)[1]:
                        raise TimeoutError("the agent does not read") from None
        except OSError:  # the agent is gone, and this process soon
            self.away = True
        finally:
            self._sending = False


def is_alone(key: Key) -> bool:
    """Whether this process runs that attempt, and nothing else."""
    return context.find_alone() == key


def mark_threads(find_key: Callable[[], Key | None]) -> None:
    """Let every thread know which attempt started it; those of pools serve one after the other."""
    plain_start = threading.Thread.start

    def start(thread: threading.Thread) -> None:
        target = getattr(thread, "_target", None)
        if getattr(target, "__module__", None) != "concurrent.futures.thread":
            setattr(thread, MARK, find_key())
        plain_start(thread)

    threading.Thread.start = start  # type: ignore[method-assign, assignment]
