"""Bytes out of a pipe, and lines cut out of them, each bounded: what one has beyond 64 KB is dropped."""

from __future__ import annotations

import os

MOST_LINE_BYTES = 64 * 1024
CUT = b" [line cut]\n"
#: The most that is kept of an attempt's output; whoever passes it on sees to that.
MOST_BYTES = 1024 * 1024


class Lines:
    """One stream on its way. Chunks of up to 64 KB go in, whole lines come out."""

    __slots__ = ("_cut", "_line")

    def __init__(self) -> None:
        self._line = b""  # the beginning of a line whose end has not come
        self._cut = False  # that line is over its bound

    def feed(self, chunk: bytes) -> bytes:
        """Return the lines that are whole now; keep the rest, up to a line's bound."""
        first, newline, rest = chunk.partition(b"\n")
        if not newline:
            return self._keep(chunk)
        line = self._line + first
        whole_line = line + newline if len(line) <= MOST_LINE_BYTES else line[:MOST_LINE_BYTES] + CUT
        head = b"" if self._cut else whole_line
        whole, newline, self._line = rest.rpartition(b"\n")
        self._cut = False
        return head + whole + newline

    def take_rest(self) -> bytes:
        """Return the line whose end has not come, and forget it."""
        rest, self._line, self._cut = self._line, b"", False
        return rest

    def _keep(self, part: bytes) -> bytes:
        if self._cut:
            return b""
        self._line += part
        if len(self._line) <= MOST_LINE_BYTES:
            return b""
        head, self._line, self._cut = self._line[:MOST_LINE_BYTES] + CUT, b"", True
        return head


def read_now(fd: int, most: int) -> bytes | None:
    """Return what stands in a pipe; None if there is nothing yet, empty at its end."""
    try:
        return os.read(fd, most)
    except BlockingIOError:
        return None
    except OSError:
        return b""
