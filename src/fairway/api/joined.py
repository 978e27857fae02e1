"""A transport that sends the head of an answer together with the body, if that comes at once.

Each write is a system call, and may wake the client for a head of which it can make nothing: a submit by one
caller took a tenth longer.
"""

from __future__ import annotations

import asyncio
from typing import Any


class JoinedTransport:
    """Holds what was written until the next write, or the loop's next round. Owned by one connection."""

    def __init__(self, plain: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self.plain = plain
        self._loop = loop
        self._held: bytes | None = None

    def write(self, data: bytes) -> None:
        """Send *data* with what was held, or hold it for a moment."""
        if self._held is None:
            self._held = data
            self._loop.call_soon(self.flush)
        else:
            self._held += data
            self.flush()

    def flush(self) -> None:
        """Send what is held, unless the client is gone."""
        held, self._held = self._held, None
        if held is not None and not self.plain.is_closing():
            self.plain.write(held)

    def close(self) -> None:
        """Send what is held, and close."""
        self.flush()
        self.plain.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.plain, name)
