"""Threads that own a connection each, so that the event loop never waits for a disk.

One hop there and one back per call, whatever the call does: callers put whole batches into one call.
A call that was begun is finished even if nobody waits for its answer any more.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any, TypeVar

import apsw

from fairway.errors import Busy, StoreUnavailable
from fairway.stores.sqlite.connection import plain_errors

T = TypeVar("T")
Work = Callable[[apsw.Connection], Any]

MOST_PENDING = 10_000


class ConnectionThreads:
    """A few threads that take calls from one queue, each with a connection of its own."""

    def __init__(self, path: Path, open_connection: Callable[[Path], apsw.Connection], count: int) -> None:
        self._path = path
        self._calls: SimpleQueue[tuple[Work, Callable[[Any, BaseException | None], None]] | None]
        self._calls = SimpleQueue()
        self._pending = 0
        self._closed = False
        connections = [open_connection(path) for _ in range(count)]
        self._threads = [
            threading.Thread(target=self._serve, args=(connection,), name=f"fairway-sqlite-{n}", daemon=True)
            for n, connection in enumerate(connections)
        ]
        for thread in self._threads:
            thread.start()

    async def run(self, work: Callable[[apsw.Connection], T]) -> T:
        """Do *work* with a connection and return what it returned."""
        if self._closed:
            raise StoreUnavailable(f"{self._path} is closed")
        if self._pending >= MOST_PENDING:
            raise Busy(f"{MOST_PENDING} calls wait for {self._path} already")
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()
        self._pending += 1
        self._calls.put((work, partial(_send_back, loop, answer)))
        try:
            return await answer
        finally:
            self._pending -= 1

    def close(self) -> None:
        """Finish what was asked for, then close the connections."""
        self._closed = True
        for _ in self._threads:
            self._calls.put(None)
        for thread in self._threads:
            thread.join(30)

    def _serve(self, connection: apsw.Connection) -> None:
        while (call := self._calls.get()) is not None:
            work, tell = call
            try:
                with plain_errors(self._path):
                    result = work(connection)
            except BaseException as error:
                tell(None, error)
            else:
                tell(result, None)
            del call, work, tell
        connection.close()


def _send_back(
    loop: asyncio.AbstractEventLoop, answer: asyncio.Future[Any], result: Any, error: BaseException | None
) -> None:
    with suppress(RuntimeError):  # the loop is closed: nobody is left to hear it
        loop.call_soon_threadsafe(_settle, answer, result, error)


def _settle(answer: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    if answer.cancelled():
        return
    if error is None:
        answer.set_result(result)
    else:
        answer.set_exception(error)
