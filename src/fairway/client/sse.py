"""Server-sent events, read from bytes as they come: no IO in here.

Lines are cut at CR and LF only, as the format says; `str.splitlines` would also cut inside a JSON text
that holds U+2028.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

#: An event larger than this is refused: nobody sends one, and a buffer needs a bound.
MOST_BYTES = 16 * 1024 * 1024


class SentEvent(NamedTuple):
    """One event of a stream: its id (resume behind it), its kind and its text."""

    id: str
    event: str
    data: str

    def json(self) -> Any:
        """Return the data, read as JSON."""
        return msgspec.json.decode(self.data)


class Decoder:
    """Cuts a stream of bytes into events; one per connection."""

    def __init__(self, last_id: str = "") -> None:
        self.last_id = last_id
        self._rest = b""
        self._event = ""
        self._data: list[str] = []

    def feed(self, piece: bytes) -> Iterator[SentEvent]:
        """Take the next bytes; yield the events that are complete with them."""
        text = self._rest + piece
        # A CR at the end may be half of CRLF: it waits for the next byte.
        held = b"\r" if text.endswith(b"\r") else b""
        lines = text.removesuffix(held).replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        self._rest = lines.pop() + held
        if len(self._rest) > MOST_BYTES:
            raise ValueError(f"an event of more than {MOST_BYTES} bytes")
        for line in lines:
            event = self._line(line.decode("utf-8", "replace"))
            if event is not None:
                yield event

    def _line(self, line: str) -> SentEvent | None:
        if not line:
            return self._complete()
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        elif name == "event":
            self._event = value
        elif name == "id" and "\0" not in value:
            self.last_id = value
        return None  # comments, `retry` and unknown fields say nothing

    def _complete(self) -> SentEvent | None:
        event, data = self._event or "message", self._data
        self._event, self._data = "", []
        return SentEvent(self.last_id, event, "\n".join(data)) if data else None
