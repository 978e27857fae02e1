"""The doorbell: how a process that inserted jobs wakes the leader at once.

The leader binds a datagram socket beside the file; whoever has committed a submit sends one byte to it
and does not care whether that arrives. Behind it the leader asks `PRAGMA data_version` once a second,
which changes when another connection commits: that also hears those who cannot ring, such as a user's
own transaction. Where a socket cannot be bound, the question is asked 20 times a second instead.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

LISTENING_SECONDS = 1.0
POLLING_SECONDS = 0.05
#: The system's limit on a socket's path, with the terminating zero; 104 on macOS and the BSDs.
MOST_PATH_BYTES = 104


def bell_path(database: Path) -> Path:
    """Return where the leader of this file listens."""
    return database.with_name(database.name + ".bell")


def ring(database: Path) -> None:
    """Tell the leader that something was committed; never waits and never fails."""
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as caller:
        caller.setblocking(False)
        caller.sendto(b"!", str(bell_path(database)))


class Bell:
    """The leader's end. Belongs to one event loop."""

    def __init__(self, database: Path) -> None:
        self._path = bell_path(database)
        self._socket: socket.socket | None = None
        self._file = 0
        self._rung = asyncio.Event()

    def listen(self) -> bool:
        """Bind the socket, in place of a dead leader's; False if that cannot be: then we poll."""
        if self._socket is not None:
            return True
        if len(os.fsencode(self._path)) >= MOST_PATH_BYTES:
            return False
        own = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            own.setblocking(False)
            self._path.unlink(missing_ok=True)
            own.bind(str(self._path))
            self._file = self._path.stat().st_ino
            asyncio.get_running_loop().add_reader(own, self._hear, own)
        except OSError:
            own.close()
            return False
        self._socket = own
        return True

    def stop(self) -> None:
        """Stop listening, and remove the socket unless a new leader has put its own there."""
        if self._socket is None:
            return
        with suppress(RuntimeError):
            asyncio.get_running_loop().remove_reader(self._socket)
        self._socket.close()
        self._socket = None
        with suppress(OSError):
            if self._path.stat().st_ino == self._file:
                self._path.unlink()

    def ring(self) -> None:
        """Wake whoever waits in this process."""
        self._rung.set()

    async def wait(self, foreign_commit: Callable[[], Awaitable[bool]], timeout: float) -> bool:
        """Wait until it rings or another connection has committed, or the time is over."""
        loop = asyncio.get_running_loop()
        over = loop.time() + timeout
        while True:
            if await foreign_commit() or self._rung.is_set():
                self._rung.clear()
                return True
            period = POLLING_SECONDS if self._socket is None else LISTENING_SECONDS
            left = over - loop.time()
            if left <= 0:
                return False
            # Not wait_for: before Python 3.12 it forgets a cancel that comes together with the ring.
            with suppress(TimeoutError):
                async with asyncio.timeout(min(period, left)):
                    await self._rung.wait()

    def _hear(self, own: socket.socket) -> None:
        with suppress(OSError):
            while own.recv(64):
                self._rung.set()
