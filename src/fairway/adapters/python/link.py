"""A link to one child process: its sockets, its page, its life from spawn to end.

What kind of jobs it runs is the business of the two kinds of links made from this one. Frames for a child
that is still importing its apps wait here until it is ready.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import signal
import socket
import sys
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import msgspec

from fairway.adapters.command import name_signal
from fairway.adapters.python import child, frames
from fairway.adapters.python.hearing import Hearing
from fairway.adapters.python.page import Page, make_page
from fairway.adapters.python.stacks import DUMP_SIGNAL
from fairway.wire.messages import Assignment, LogPiece, Note, Result, Task
from fairway.worker.warden import Ended, Halted, Happening, NotSpawned, Swept, Warden

Key = tuple[int, int]
GRACE_SECONDS = 2.0
#: Between `current().cancelled` and the exception, for tasks that look for themselves.
ASK_SECONDS = 0.25
#: How long results of a child that ended may take to be read.
LAST_WORDS_SECONDS = 0.2
RETIRE_SECONDS = 10.0

_results = msgspec.msgpack.Decoder(list[Result])
_notes = msgspec.msgpack.Decoder(list[Note])
_tasks = msgspec.msgpack.Decoder(list[Task])
_encoder = msgspec.msgpack.Encoder()


class Owner(Protocol):
    """Whom a link reports to: the adapter."""

    def take_results(self, results: Sequence[Result]) -> None:
        """These came from a child, or are said in its place."""

    def take_notes(self, notes: Sequence[Note]) -> None:
        """These attempts said something of themselves."""

    def give_back(self, keys: Sequence[Key]) -> None:
        """These will not run here."""

    def holds(self, key: Key) -> bool:
        """Whether this attempt has not ended yet."""

    def wrote(self, pieces: Sequence[LogPiece]) -> None:
        """Attempts wrote this."""

    def became_fit(self, link: Any) -> None:
        """This child has imported its apps."""

    def has_done(self, link: Any, count: int) -> None:
        """So many attempts more have ended in this child."""

    def became_idle(self, link: Any) -> None:
        """This sync child can take the next bundle."""

    def went_on(self, keys: Sequence[Key]) -> None:
        """A sync child has begun the bundle that stood behind another."""

    def unlink(self, link: Link) -> None:
        """This child is gone."""


class Link(asyncio.Protocol):
    """One child process as the agent sees it. Owned by the agent's loop."""

    kind = ""
    pipes: tuple[str, ...] = ()  # its descriptors 1 and 2, if we read them
    has_loop = False  # which is watched

    def __init__(self, warden: Warden, apps: Sequence[str], owner: Owner) -> None:
        self.owner = owner
        self.page: Page
        self.tasks: list[Task] = []
        self.ready: asyncio.Future[list[Task]] = asyncio.get_running_loop().create_future()
        self.ready.add_done_callback(lambda future: future.cancelled() or future.exception())
        self.failure = ""
        self.gone = False
        self.ended_as = "ExitCode"  # the type of error, once it is gone
        self.guardian_lost = self.lease_over = False  # it ended through no fault of its own
        self._loop = asyncio.get_running_loop()
        self._reader = frames.FrameReader()
        self._transport: asyncio.WriteTransport | None = None
        self._ending: Happening | None = None
        self._stopped_as: dict[Key, str] = {}
        self._killed = False  # by us
        self.done = 0  # attempts that ended here
        self.heir: Link | None = None  # started to take its place
        self.heir_at = -math.inf
        self.born_at = self._loop.time()
        self._told: set[Key] = set()  # those that were told to end: a word said again changes nothing
        self._spawn(warden, apps)

    def _spawn(self, warden: Warden, apps: Sequence[str]) -> None:
        with contextlib.ExitStack() as ours, contextlib.ExitStack() as theirs:
            data, theirs_data = _open_pair(ours, theirs)
            self._control, theirs_control = _open_pair(ours, theirs)
            page_fd, self.page = make_page()
            theirs.callback(os.close, page_fd)
            ours.callback(self.page.release)
            stacks, theirs_stacks = _open_pipe(ours, theirs)
            places = {
                child.DATA: theirs_data.fileno(),
                child.CONTROL: theirs_control.fileno(),
                child.PAGE: page_fd,
                child.STACKS: theirs_stacks,
                child.WORKER: 2,
            }
            blocked: int | None = None
            if self.has_loop:
                blocked, places[child.BLOCKED] = _open_pipe(ours, theirs)
            pipes: dict[str, int] = {}
            for place, name in enumerate(self.pipes, 1):
                pipes[name], places[place] = _open_pipe(ours, theirs)
            argv = [sys.executable, "-m", child.__name__, self.kind, *apps]
            self.process = warden.spawn(argv, self._on_happening, fds=places)
            ours.pop_all()  # all went well: these stay open
        try:
            self.hearing = Hearing(self, self._control, pipes, stacks, blocked)
        except OSError:  # the loop cannot watch one more
            self.kill()
            raise
        self._opening = self._loop.create_task(self._open(data))

    async def _open(self, data: socket.socket) -> None:
        try:
            self._transport, _ = await self._loop.create_unix_connection(lambda: self, sock=data)
        except OSError:  # the child cannot be heard: let it end, and its jobs with it
            data.close()
            self.kill()

    # --- to the child -------------------------------------------------------------------------------
    @property
    def is_ready(self) -> bool:
        """Whether it has imported its apps and can be given jobs."""
        return self.ready.done() and not self.gone

    def send_jobs(self, base: int, assignments: Sequence[Assignment]) -> None:
        """Send jobs as one frame; *base* is the first one's number on the page."""
        if self._transport is not None:
            self._transport.write(frames.pack(frames.JOBS, _encoder.encode((base, assignments))))

    def send_control(self, kind: bytes, *values: int | str) -> None:
        """Send a word beside the jobs; one that cannot be sent is no loss, SIGKILL stands behind it."""
        with contextlib.suppress(OSError):
            self._control.send(frames.pack(kind, _encoder.encode(values)))

    def stop_running(self, key: Key, kind: str, force: bool, grace: float | None = None) -> None:
        """End an attempt whose code runs: ask, raise, kill when the *grace* is over."""
        self._stopped_as.setdefault(key, kind)
        if force:
            self.kill()
        elif key not in self._told:
            self._told.add(key)
            grace = GRACE_SECONDS if grace is None else grace
            if kind == "timeout":
                self._raise(key, grace)
            else:
                self.send_control(frames.ASK, *key, kind)
                self._loop.call_later(ASK_SECONDS, self._raise, key, grace)

    def _raise(self, key: Key, grace: float) -> None:
        if self.owner.holds(key) and not self.gone:
            self.send_control(frames.STOP, *key, self._stopped_as[key])
            self._loop.call_later(grace, self._insist, key)

    def _insist(self, key: Key) -> None:
        if self.owner.holds(key):
            self.kill()

    def kill(self) -> None:
        """Kill it and all it started."""
        self._killed = True
        self.process.signal(signal.SIGKILL)

    def close(self) -> None:
        """Let an idle child end by itself; the guardian's end is behind it."""
        if self._transport is not None:
            self._transport.close()
        with contextlib.suppress(OSError):
            self._control.shutdown(socket.SHUT_WR)  # its last words are still heard

    def retire(self) -> None:
        """Let it end by itself; threads that its code has left get a while, then it is killed."""
        self.close()
        self._loop.call_later(RETIRE_SECONDS, self.kill)

    # --- what it says beside its results ----------------------------------------------------------------
    async def look(self, key: Key) -> str | None:
        """Return where the code of an attempt is, for people; None if it runs no more."""
        return await self.hearing.look(
            lambda number: self.send_control(frames.LOOK, number, *key),
            lambda: self.process.signal(DUMP_SIGNAL, group=False),
        )

    def wrote(self, pieces: Sequence[LogPiece]) -> None:
        """Pass output on."""
        self.owner.wrote(pieces)

    def runs(self, key: Key) -> bool:
        """Whether this attempt has not ended."""
        return self.owner.holds(key)

    def current_key(self) -> Key | None:
        """Return the attempt that has the process to itself just now."""
        return None

    def running_keys(self) -> Iterable[Key]:
        """Return all attempts whose code has begun."""
        return ()

    # --- from the child -----------------------------------------------------------------------------
    def data_received(self, data: bytes) -> None:
        """Take in what the child says."""
        for kind, body in self._reader.feed(data):
            if kind == frames.READY:
                self.tasks = _tasks.decode(body)
                self.ready.set_result(self.tasks)
                self.became_ready()
                self.owner.became_fit(self)
            elif kind == frames.FAILED:
                self.failure = body.decode(errors="replace")
            elif kind == frames.NOTES:
                self.owner.take_notes(_notes.decode(body))
            else:
                self.hear(ended=kind == frames.LAST)
                results = _results.decode(body)
                self.owner.take_results(self.took_results(results))
                self.hearing.forget_ended(results)
                self.owner.has_done(self, len(results))
                if kind == frames.LAST:
                    self.became_idle()

    def hear(self, ended: bool) -> None:
        """Read what was written before results that have come; *ended*: a bundle's last ones."""
        self.hearing.catch_up(ended)

    def took_results(self, results: list[Result]) -> list[Result]:
        """Look at results before they are passed on."""
        if self._stopped_as:
            for result in results:
                self._stopped_as.pop(result[:2], None)
                self._told.discard(result[:2])
        return results

    def connection_lost(self, exc: Exception | None) -> None:
        """The child's end is closed: it is dying or dead."""
        self._transport = None
        if self._ending is not None:
            self._conclude()

    def _on_happening(self, happening: Happening) -> None:
        if isinstance(happening, Halted):
            self.was_halted()
        elif isinstance(happening, Swept):
            self.was_swept()
        elif isinstance(happening, Ended | NotSpawned):
            self._ending = happening
            # Its last results may still stand in the socket; the end of that is the end.
            if self._transport is None and self._opening.done():
                self._conclude()
            else:
                self._loop.call_later(LAST_WORDS_SECONDS, self._conclude)

    def _conclude(self) -> None:
        if self.gone:
            return
        self.gone = True
        self.close()
        self.hearing.close()
        self._control.close()
        assert self._ending is not None
        was_ready = self.ready.done()
        if not was_ready:
            why = self.failure or f"the child ended before it was ready: {describe_ending(self._ending)}"
            self.ready.set_exception(CannotImport(why))
        self.owner.unlink(self)
        if isinstance(self._ending, Ended | NotSpawned):
            self.guardian_lost, self.lease_over = self._ending.guardian_lost, self._ending.lease_over
        self.ended_as = name_ending(self._ending)
        self.has_ended(was_ready, "so it was killed" if self._killed else describe_ending(self._ending))
        self.page.release()  # with it goes a descriptor, which must not wait for the garbage collector

    @property
    def most_bytes(self) -> int:
        """The most memory the process had, once it has ended."""
        return self._ending.most_kilobytes * 1024 if isinstance(self._ending, Ended) else 0

    # --- what the two kinds do differently ------------------------------------------------------------
    def became_ready(self) -> None:
        """Send what has waited."""

    def became_idle(self) -> None:
        """A bundle has ended."""

    def was_halted(self) -> None:
        """The process has been stopped by SIGSTOP."""

    def was_swept(self) -> None:
        """What a stopped attempt had left is killed."""

    def has_ended(self, was_ready: bool, how: str) -> None:
        """Say what became of the attempts it had."""


class CannotImport(Exception):
    """A child could not import its apps; the message is the traceback."""


def _open_pair(
    ours: contextlib.ExitStack, theirs: contextlib.ExitStack
) -> tuple[socket.socket, socket.socket]:
    """Open a pair of sockets; each end is closed with its stack."""
    one, other = socket.socketpair()
    ours.callback(one.close)
    theirs.callback(other.close)
    one.setblocking(False)
    return one, other


def _open_pipe(ours: contextlib.ExitStack, theirs: contextlib.ExitStack) -> tuple[int, int]:
    """Open a pipe for them to write to and for us to read."""
    reader, writer = os.pipe()
    ours.callback(os.close, reader)
    theirs.callback(os.close, writer)
    return reader, writer


def describe_ending(ending: Happening) -> str:
    """Say in words how a child ended."""
    if isinstance(ending, NotSpawned):
        return f"it could not be started: {ending.message}"
    assert isinstance(ending, Ended)
    if ending.guardian_lost:
        return "the worker's guardian is gone"
    if ending.lease_over:
        return "killed because the worker's lease was over"
    if ending.out_of_memory:
        return "killed by SIGKILL because memory ran out"
    if ending.code == -signal.SIGKILL:
        return "killed by SIGKILL, possibly because the machine ran out of memory"
    if ending.code < 0:
        return f"killed by {name_signal(-ending.code)}"
    return f"exited with {ending.code}"


def name_ending(ending: Happening) -> str:
    """Return the type of error that the end of a child is, so that each is a cause of its own."""
    if not isinstance(ending, Ended):
        return "NotStarted"
    if ending.guardian_lost:
        return "WorkerLost"
    if ending.out_of_memory:
        return "OutOfMemory"
    return "KilledBySignal" if ending.code < 0 else "ExitCode"
