"""What an attempt writes: read as it comes, passed on in whole lines, bounded.

A line keeps its first 64 KB and an attempt its first 1 MB; then one notice says so. Reading never stops,
because a full pipe would block the job; but what is dropped is read at a measured pace, so that a job that
writes without end costs the agent a few hundredths of a core. The tail of the errors is kept throughout,
for it usually says why a command failed.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from fairway.adapters.lines import MOST_BYTES, MOST_LINE_BYTES, Lines, read_now
from fairway.wire.messages import LogPiece

TAIL_BYTES = 4096
READ_BYTES = 64 * 1024
DRAIN_BYTES = 1024 * 1024
CATCH_UP_READS = 32  # 2 MB: twice what a pipe holds at most
DRAIN_SECONDS = 0.005
NOTICE = "[output beyond 1 MB is dropped]\n"


class Output:
    """The output of one attempt, over all its steps and streams."""

    def __init__(self, job: int, attempt: int, wrote: Callable[[Sequence[LogPiece]], None]) -> None:
        self._job, self._attempt, self._wrote = job, attempt, wrote
        self._number = 0
        self._bytes = 0
        self._streams: set[Stream] = set()
        self._tail = b""
        self._last = b""  # the end of stdout, kept if a result is to be found there
        self.keeps_last = False
        self.ended = asyncio.Event()
        self.ended.set()

    @property
    def full(self) -> bool:
        """Whether all that comes now is dropped."""
        return self._bytes >= MOST_BYTES

    @property
    def tail(self) -> str:
        """The last that was written to stderr."""
        return self._tail.decode(errors="replace")

    @property
    def last_line(self) -> str:
        """The last line of stdout that is not empty, or its last 64 KB."""
        return self._last.rstrip().rpartition(b"\n")[2].strip().decode(errors="replace")

    def open(self, name: str) -> int:
        """Return a descriptor for a process to write to; the caller closes its copy."""
        reader, writer = os.pipe()
        try:
            self._streams.add(Stream(self, name, reader))
        except OSError:  # the loop cannot watch one more
            os.close(reader)
            os.close(writer)
            raise
        self.ended.clear()
        return writer

    def close(self) -> None:
        """Stop reading, whatever is still open."""
        for stream in list(self._streams):
            stream.close()

    def settle(self) -> None:
        """Pass on all that was written until now, also a line that has no end yet."""
        for stream in list(self._streams):
            stream.settle()

    def take(self, name: str, chunk: bytes) -> None:
        """Keep the tail of what came on a stream."""
        if self.keeps_last and name == "stdout":
            self._last = (self._last + chunk)[-MOST_LINE_BYTES:]
        if name == "stderr":
            self._tail = (self._tail + chunk)[-TAIL_BYTES:]

    def pass_on(self, name: str, lines: bytes) -> None:
        """Pass whole lines on, up to the bound."""
        room = MOST_BYTES - self._bytes
        if room <= 0 or not lines:
            return
        kept = lines[:room]
        self._bytes += len(kept)
        self._report(name, kept.decode(errors="replace"))
        if len(kept) == room:
            self.notice(NOTICE)

    def notice(self, text: str) -> None:
        """Put a word of our own between what the attempt wrote."""
        self._report("notice", text)

    def forget(self, stream: Stream) -> None:
        """A stream has ended."""
        self._streams.discard(stream)
        if not self._streams:
            self.ended.set()

    def _report(self, stream: str, text: str) -> None:
        self._number += 1
        at = time.time_ns() // 1000
        self._wrote([LogPiece(self._job, self._attempt, self._number, at, stream, text)])


class Sink(Protocol):
    """Where the lines of a pipe go."""

    @property
    def full(self) -> bool:
        """Whether all that comes now is dropped."""

    def take(self, name: str, chunk: bytes) -> None:
        """See what comes, line or not."""

    def pass_on(self, name: str, lines: bytes) -> None:
        """Keep whole lines."""

    def forget(self, stream: Stream) -> None:
        """This pipe has ended."""


class Stream:
    """One pipe that is being read."""

    def __init__(self, output: Sink, name: str, fd: int) -> None:
        self._output, self._name, self._fd = output, name, fd
        self._lines = Lines()
        self._timer: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()
        os.set_blocking(fd, False)
        self._loop.add_reader(fd, self._on_readable)

    def close(self) -> None:
        """Pass on what is left and stop."""
        if self._fd < 0:
            return
        self.end_line()
        self._loop.remove_reader(self._fd)
        if self._timer:
            self._timer.cancel()
        os.close(self._fd)
        self._fd = -1
        self._output.forget(self)

    def settle(self) -> None:
        """Take in what stands in the pipe, so that what comes next is somebody else's; begin a new line."""
        self.catch_up()
        if self._fd < 0:  # it has ended, and said its last
            return
        self.end_line()
        if self._timer:
            self._timer.cancel()
            self._timer = None
            self._loop.add_reader(self._fd, self._on_readable)

    def catch_up(self) -> None:
        """Read what stands in the pipe now."""
        for _ in range(CATCH_UP_READS):
            if self._fd < 0 or not (chunk := self._read(READ_BYTES)):
                return
            if not self._output.full:
                self._take(chunk)

    def end_line(self) -> None:
        """Pass on a line whose end has not come: nothing will be added to it."""
        if rest := self._lines.take_rest():
            self._output.pass_on(self._name, rest)

    def _on_readable(self) -> None:
        chunk = self._read(READ_BYTES)
        if chunk:
            self._take(chunk)
        if self._output.full and self._fd >= 0:
            self._slow_down()

    def _read(self, most: int) -> bytes:
        chunk = read_now(self._fd, most)
        if chunk is None:
            return b""
        if not chunk:
            self.close()
        self._output.take(self._name, chunk)
        return chunk

    def _take(self, chunk: bytes) -> None:
        if lines := self._lines.feed(chunk):
            self._output.pass_on(self._name, lines)

    def _slow_down(self) -> None:
        """From now on read much at a time, some hundred times a second."""
        self._loop.remove_reader(self._fd)
        self._lines.take_rest()
        with contextlib.suppress(OSError, AttributeError):
            fcntl.fcntl(self._fd, fcntl.F_SETPIPE_SZ, DRAIN_BYTES)
        self._drain()

    def _drain(self) -> None:
        if not self._output.full:  # what comes is another attempt's by now
            self._loop.add_reader(self._fd, self._on_readable)
            return
        self._read(DRAIN_BYTES)
        if self._fd >= 0:
            self._timer = self._loop.call_later(DRAIN_SECONDS, self._drain)
