"""The two pipes to a child: lines come in whole and bounded, lines go out at once if the pipe takes them.

Two pipes and not a socket: a child may make its reading end non-blocking (Node does) and still write to the
other one plainly.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable

from fairway.adapters.lines import read_now
from fairway.adapters.warm.lines import MOST_LINE_BYTES

READ_BYTES = 64 * 1024
#: How much is read at most of what a child that ended has left in its pipe; twice what fits into one.
LAST_BYTES = 4 * 1024 * 1024


class Channel:
    """Our ends of the pipes. Owned by the agent's loop."""

    def __init__(self, took: Callable[[bytes], None], closed: Callable[[str], None]) -> None:
        """*took* gets each line; *closed* is told why no more will come, "" if the child closed its end."""
        self._took, self._closed = took, closed
        self._loop = asyncio.get_running_loop()
        self._line = bytearray()
        self._due = bytearray()
        self._reader = self._writer = -1

    def open(self, opened: contextlib.ExitStack) -> tuple[int, int]:
        """Open both pipes; return what the child reads and writes, which the caller closes."""
        theirs_read, self._writer = os.pipe()
        opened.callback(os.close, theirs_read)
        try:
            self._reader, theirs_write = os.pipe()
        except OSError:
            self.close()
            raise
        opened.callback(os.close, theirs_write)
        os.set_blocking(self._reader, False)
        os.set_blocking(self._writer, False)
        try:
            self._loop.add_reader(self._reader, self._on_readable)
        except OSError:  # the loop cannot watch one more
            self.close()
            raise
        return theirs_read, theirs_write

    def close(self) -> None:
        """Close both; the child reads the end of its lines."""
        self.close_writer()
        if self._reader >= 0:
            self._loop.remove_reader(self._reader)
            os.close(self._reader)
            self._reader = -1

    def close_writer(self) -> None:
        """Say nothing more."""
        if self._writer >= 0:
            self._loop.remove_writer(self._writer)
            os.close(self._writer)
            self._writer = -1

    # --- to the child ---------------------------------------------------------------------------------
    def send(self, line: bytes) -> None:
        """Write a line; what the pipe does not take at once follows when it does."""
        if self._writer < 0:
            return
        self._due += line
        if len(self._due) == len(line):
            self._flush()

    def _flush(self) -> None:
        try:
            while self._due:
                del self._due[: os.write(self._writer, self._due)]
        except BlockingIOError:
            self._loop.add_writer(self._writer, self._flush)
            return
        except OSError:  # it is dying; the guardian says how
            self.close_writer()
            return
        self._loop.remove_writer(self._writer)

    # --- from the child -------------------------------------------------------------------------------
    def read_to_the_end(self) -> None:
        """Take in what a child that ended has left."""
        left = LAST_BYTES
        while self._reader >= 0 and left > 0 and (count := self._on_readable()):
            left -= count

    def _on_readable(self) -> int:
        chunk = read_now(self._reader, READ_BYTES)
        if chunk is None:
            return 0
        if chunk:
            self._take(chunk)
        else:
            self._stop_reading("")
        return len(chunk)

    def _take(self, chunk: bytes) -> None:
        self._line += chunk
        if b"\n" in chunk:
            *lines, rest = self._line.split(b"\n")
            self._line = rest
            for line in lines:
                if line and self._reader >= 0:
                    self._took(bytes(line))
        if len(self._line) > MOST_LINE_BYTES:
            self._stop_reading(f"a line is longer than {MOST_LINE_BYTES} bytes")

    def _stop_reading(self, why: str) -> None:
        self._line.clear()
        self._loop.remove_reader(self._reader)
        os.close(self._reader)
        self._reader = -1
        self._closed(why)
