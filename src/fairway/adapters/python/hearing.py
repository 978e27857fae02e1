"""What the agent hears from a child beside its results: output, and where its code is.

Python's own output comes in frames on the control socket, each piece with its attempt. What is written to
the descriptors 1 and 2 of a child for `def` tasks (by programs a task starts, by code in C) comes through
pipes and belongs to the attempt that the page names. What is nobody's goes to the worker's own stderr.

All that an attempt wrote was sent before its result, so it stands in the sockets and pipes when the result is
read: `catch_up` reads it first, and the log of a job that has ended is complete.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import select
import socket
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

import msgspec

from fairway.adapters.output import READ_BYTES, Output, Stream
from fairway.adapters.python import frames
from fairway.adapters.python.dumps import LOOK_SECONDS, Dump
from fairway.wire.messages import LogPiece, Result

log = logging.getLogger(__name__)

Key = tuple[int, int]
#: A loop that is often blocked is reported at most once in so long.
SILENCE_SECONDS = 30.0
MOST_NOTICES = 100
#: Other attempts of the child may write all the while.
MOST_READS = 64

_pieces = msgspec.msgpack.Decoder(list[tuple[int, int, str, bytes]])
_seen = msgspec.msgpack.Decoder(tuple[int, str])


class Speaker(Protocol):
    """The child that is heard, as its link knows it."""

    def wrote(self, pieces: Sequence[LogPiece]) -> None:
        """Attempts wrote this."""

    def runs(self, key: Key) -> bool:
        """Whether this attempt has not ended."""

    def current_key(self) -> Key | None:
        """Return the attempt that has the process to itself just now."""

    def running_keys(self) -> Iterable[Key]:
        """Return all attempts whose code has begun."""


class Hearing:
    """Listens to one child. Owned by its link."""

    def __init__(
        self,
        speaker: Speaker,
        control: socket.socket,
        pipes: dict[str, int],
        stacks: int,
        blocked: int | None,
    ) -> None:
        self._speaker, self._control = speaker, control
        self._outputs: dict[Key, Output] = {}
        self._reader = frames.FrameReader()
        self._loop = asyncio.get_running_loop()
        self._looks: dict[int, asyncio.Future[str]] = {}
        self._number = 0
        self._dump = Dump(stacks)
        self._watch = None if blocked is None else Dump(blocked, self._on_blocked)
        self._told_at = -SILENCE_SECONDS
        self._ready = select.poll()
        self._streams: dict[int, Stream] = {}
        self._loop.add_reader(control.fileno(), self._on_control)
        self._ready.register(control.fileno(), select.POLLIN)
        for name, fd in pipes.items():
            self._streams[fd] = Stream(self, name, fd)
            self._ready.register(fd, select.POLLIN)

    # --- output ----------------------------------------------------------------------------------------
    def catch_up(self, ended: bool) -> None:
        """Read what was written before the results at hand; *ended*: nothing runs in the child any more."""
        for fd, _ in self._ready.poll(0):
            if fd in self._streams:
                self._streams[fd].catch_up()
            else:
                for _ in range(MOST_READS):
                    if not self._on_control():
                        break
        if ended:
            self.end_lines()

    def end_lines(self) -> None:
        """What was begun on a line is all of it."""
        for stream in self._streams.values():
            stream.end_line()

    def forget_ended(self, results: Sequence[Result]) -> None:
        """These attempts write no more."""
        if self._outputs:
            for result in results:
                self._outputs.pop(result[:2], None)

    def _on_control(self) -> bool:
        """Read once; say whether there may be more."""
        try:
            received = self._control.recv(READ_BYTES)
        except OSError as error:
            if not isinstance(error, BlockingIOError):
                self._loop.remove_reader(self._control.fileno())
            return False
        if not received:
            self._loop.remove_reader(self._control.fileno())
            return False
        for kind, body in self._reader.feed(received):
            if kind == frames.LOG:
                for job, attempt, name, text in _pieces.decode(body):
                    self._pass_on((job, attempt), name, text)
            elif kind == frames.SEEN:
                self._on_seen(*_seen.decode(body))
        return True

    def _pass_on(self, key: Key, name: str, lines: bytes) -> None:
        if self._speaker.runs(key):
            self._output_of(key).pass_on(name, lines)

    def _output_of(self, key: Key) -> Output:
        output = self._outputs.get(key)
        if output is None:
            output = self._outputs[key] = Output(*key, self._speaker.wrote)
        return output

    # --- what the pipes' streams ask --------------------------------------------------------------------
    @property
    def full(self) -> bool:
        """Whether what the process writes now is dropped."""
        key = self._speaker.current_key()
        return key is not None and key in self._outputs and self._outputs[key].full

    def take(self, name: str, chunk: bytes) -> None:
        """No tail is kept: the traceback says why a task failed."""

    def pass_on(self, name: str, lines: bytes) -> None:
        """Give lines to whom they belong."""
        key = self._speaker.current_key()
        if key is not None:
            self._pass_on(key, name, lines)
        else:
            with contextlib.suppress(OSError):
                os.write(2, lines)

    def forget(self, stream: Stream) -> None:
        """A pipe has ended."""
        for fd, known in list(self._streams.items()):
            if known is stream:
                self._ready.unregister(fd)
                del self._streams[fd]

    # --- where its code is ------------------------------------------------------------------------------
    async def look(self, send: Callable[[int], None], insist: Callable[[], None]) -> str | None:
        """Ask the child where an attempt is; if it does not answer, have it told by a signal."""
        self._number = number = self._number + 1
        answer = self._looks[number] = self._loop.create_future()
        try:
            send(number)
            async with asyncio.timeout(LOOK_SECONDS):
                return await answer or None
        except TimeoutError:
            insist()
            dump = await self._dump.next()
        finally:
            self._looks.pop(number, None)
        return f"seen from outside: its interpreter does not answer\n{dump}" if dump else None

    def _on_seen(self, number: int, text: str) -> None:
        answer = self._looks.get(number)
        if answer is not None and not answer.done():
            answer.set_result(text)

    def _on_blocked(self, dump: str) -> None:
        """The child's loop does not turn: say so in the logs of those who wait for it."""
        now = self._loop.time()
        if now - self._told_at < SILENCE_SECONDS:
            return
        self._told_at = now
        keys = list(self._speaker.running_keys())
        log.warning("the loop of a child has not turned for a second; %d attempts wait:\n%s", len(keys), dump)
        for key in keys[:MOST_NOTICES]:
            self._output_of(key).notice(f"[the event loop has not turned for a second; it is here:]\n{dump}")

    def close(self) -> None:
        """Read what is left, and stop."""
        if self._control.fileno() < 0:
            return
        self.catch_up(ended=True)
        for stream in list(self._streams.values()):
            stream.close()
        self._loop.remove_reader(self._control.fileno())
        self._dump.close()
        if self._watch is not None:
            self._watch.close()
        for answer in self._looks.values():
            if not answer.done():
                answer.set_result("")
