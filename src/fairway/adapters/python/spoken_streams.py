"""`sys.stdout`, `sys.stderr` and `logging` of a child: what is written there is said by its attempt.

They are replaced before the apps are imported, so that every handler the apps make writes here.
"""

from __future__ import annotations

import io
import logging
import sys
from collections.abc import Iterator
from typing import Any, TextIO

from fairway.adapters.python.speech import Speech

#: So many characters are at most 64 KB.
SLICE = 16 * 1024


def replace_streams(speech: Speech, elsewhere: TextIO) -> None:
    """Take the place of stdout and stderr in this process; what is no attempt's goes *elsewhere*."""
    sys.stdout = SpokenStream(speech, "stdout", sys.stdout, elsewhere)
    sys.stderr = SpokenStream(speech, "stderr", sys.stderr, elsewhere)
    speech.follow_threads_and_forks()


def listen_to_logging() -> None:
    """Let `logging` be seen in an app that has not set it up."""
    root = logging.getLogger()
    if not root.handlers:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
        root.addHandler(handler)
        if root.level == logging.WARNING:  # as it is from the start
            root.setLevel(logging.INFO)


class SpokenStream(io.TextIOBase):
    """`sys.stdout` or `sys.stderr` of a child."""

    encoding = "utf-8"
    errors = "backslashreplace"

    def __init__(self, speech: Speech, name: str, descriptor: TextIO, elsewhere: TextIO) -> None:
        self._speech, self._name = speech, name
        self._descriptor, self._elsewhere = descriptor, elsewhere
        self.buffer = SpokenBytes(self, speech, name)

    @property
    def other(self) -> TextIO:
        """Where it goes when it is no attempt's, as far as we know; a fork has our descriptors."""
        return self._descriptor if self._speech.away else self._elsewhere

    def write(self, text: str) -> int:
        """Take in text."""
        speech = self._speech
        key = speech.find_key()
        if key is None:
            return self.other.write(text)
        voice = speech.voices.get(key)
        if voice is None or voice.left > 0:
            speech.say(key, self._name, encode(text))
        return len(text)

    def flush(self) -> None:
        """Let the beginning of a line be seen."""
        key = self._speech.find_key()
        if key is None:
            self.other.flush()
        else:
            self._speech.end_line(key, self._name)

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._descriptor.fileno()


class SpokenBytes(io.RawIOBase):
    """`sys.stdout.buffer`."""

    def __init__(self, text: SpokenStream, speech: Speech, name: str) -> None:
        self._text, self._speech, self._name = text, speech, name

    def write(self, data: Any) -> int:
        """Take in bytes."""
        view = memoryview(data).cast("B")
        key = self._speech.find_key()
        if key is None:
            self._text.other.flush()
            return self._text.other.buffer.write(view)
        size = 4 * SLICE
        self._speech.say(
            key, self._name, (bytes(view[start : start + size]) for start in range(0, len(view), size))
        )
        return len(view)

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._text.fileno()


def encode(text: str) -> Iterator[bytes]:
    """Yield a text as bytes, a slice at a time: it may be a gigabyte of which little is kept."""
    for start in range(0, len(text), SLICE):
        yield text[start : start + SLICE].encode(errors="backslashreplace")
