"""What a program says of itself while it runs: JSON lines written to a descriptor of its own.

`{"progress": 0.4, "text": "page 4 of 10"}` and `{"checkpoint": {...}}`. The descriptor's number is in
FAIRWAY_NOTES; what is printed stays the log. Reading is bounded in size and pace: a program that says
more than it can have to say is slowed down by the full pipe, and by nothing else.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence

import msgspec

from fairway.adapters.lines import read_now
from fairway.errors import InvalidRequest
from fairway.notes import MOST_CHECKPOINT_BYTES, MOST_TEXT, check_checkpoint
from fairway.wire.messages import Note

#: The program's descriptor.
PLACE = 3
MOST_LINE_BYTES = MOST_CHECKPOINT_BYTES + 4096
READ_BYTES = 64 * 1024
MOST_LEFT_BYTES = 1024 * 1024
#: Much at once is followed by a pause: a megabyte a second is the most that is read.
MUCH_BYTES, BYTES_PER_SECOND = 4096, 1024 * 1024


class Said(msgspec.Struct, frozen=True):
    """One line."""

    progress: float | None = None
    text: str = ""
    checkpoint: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class Notes:
    """The notes of one attempt, over all its steps; what is not understood is complained of, once."""

    def __init__(
        self,
        key: tuple[int, int],
        noted: Callable[[Sequence[Note]], None],
        complain: Callable[[str], None],
    ) -> None:
        self._key, self._noted, self._complain = key, noted, complain
        self._complained = False
        self._fd = -1
        self._line = b""
        self._cut = False
        self._timer: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()

    def open(self) -> int:
        """Return a descriptor for a process to write to; the caller closes its copy."""
        self._fd, writer = os.pipe()
        os.set_blocking(self._fd, False)
        try:
            self._loop.add_reader(self._fd, self._on_readable)
        except OSError:  # the loop cannot watch one more
            os.close(writer)
            self.close()
            raise
        return writer

    def finish(self) -> None:
        """The process has ended: take what is left, and close."""
        left = MOST_LEFT_BYTES
        while self._fd >= 0 and left > 0 and (count := self._read()):
            left -= count
        self.close()

    def close(self) -> None:
        """Stop reading."""
        if self._timer is not None:
            self._timer.cancel()
        if self._fd >= 0:
            self._loop.remove_reader(self._fd)
            os.close(self._fd)
        self._fd, self._line, self._cut = -1, b"", False

    def _on_readable(self) -> None:
        count = self._read()
        if count >= MUCH_BYTES and self._fd >= 0:
            self._loop.remove_reader(self._fd)
            self._timer = self._loop.call_later(count / BYTES_PER_SECOND, self._go_on, self._fd)

    def _go_on(self, fd: int) -> None:
        if fd == self._fd:
            self._loop.add_reader(fd, self._on_readable)

    def _read(self) -> int:
        """Take what is there; return how much it was. At the end, close."""
        chunk = read_now(self._fd, READ_BYTES)
        if chunk is None:
            return 0
        if chunk:
            self._take(chunk)
        else:
            self._take_line(self._line)
            self.close()
        return len(chunk)

    def _take(self, chunk: bytes) -> None:
        *whole, rest = (self._line + chunk).split(b"\n")
        for line in whole:
            self._take_line(line)
        self._line = rest
        if len(rest) > MOST_LINE_BYTES:
            self._line, self._cut = b"", True
            self._object("a note is longer than 68 KB")

    def _take_line(self, line: bytes) -> None:
        if self._cut:  # the end of a line whose beginning was dropped
            self._cut = False
            return
        if not line.strip():
            return
        try:
            self._noted([self._read_note(line)])
        except (ValueError, RecursionError, InvalidRequest) as error:
            self._object(f"a note was not understood: {str(error)[:200]}")

    def _read_note(self, line: bytes) -> Note:
        said = _decode(line)
        if said.progress is not None and not 0 <= said.progress <= 1:
            raise ValueError(f"progress {said.progress} is not between 0 and 1")
        checkpoint = None if isinstance(said.checkpoint, msgspec.UnsetType) else bytes(said.checkpoint)
        if checkpoint is not None:
            check_checkpoint(checkpoint)  # it was only cut out, not read
        return Note(*self._key, said.progress, said.text[:MOST_TEXT], checkpoint)

    def _object(self, what: str) -> None:
        if not self._complained:
            self._complained = True
            self._complain(what)


_decode = msgspec.json.Decoder(Said).decode
