"""A bounded number of open connections, lent one at a time.

The driver has a pool of its own; lending and taking back cost it a fifth of a millisecond, in every commit,
for things we do not need: whoever borrows a connection here leaves nothing behind on it, or ends it.

A server may have no connection left for us though we may open more. Then those that are open must do: whoever
wants one waits for the next that comes back, and only where there is none does it hear of the refusal.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import asyncpg

IDLE_SECONDS = 60.0
#: After a refusal so long nobody asks the server for more: each asking costs it a process.
CROWDED_SECONDS = 0.5

Connection = Any  # asyncpg's


class Pool:
    """Connections that are opened when they are needed and closed when nobody needed them for a minute."""

    def __init__(
        self, connect: Callable[[], Awaitable[Connection]], most: int, beg: Callable[[], bool] | None = None
    ) -> None:
        self._connect, self._most = connect, most
        self._beg = beg  # asks others of ours to give up a connection; False if they have none to spare
        self._free: deque[tuple[Connection, float]] = deque()  # the one used last stands last
        self._lent: set[Connection] = set()
        self._opening = 0
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._stale: set[Connection] = set()  # not to be lent again
        self._closing: set[asyncio.Task[None]] = set()
        self._all_back = asyncio.Event()
        self._refusal: asyncpg.TooManyConnectionsError | None = None
        self._begged = False
        self._crowded_until = 0.0

    async def acquire(self, timeout: float) -> Connection:
        """Lend a connection: the one used last, else a new one, else the next that comes back."""
        if (connection := self._take()) is not None:  # nearly always
            return connection
        try:
            async with asyncio.timeout(timeout):
                while (connection := self._take()) is None:
                    if not self._may_open():
                        self._check_hope()
                        await self._turn()
                    elif (connection := await self._open()) is not None:
                        break
                return connection
        except TimeoutError:
            if self._refusal is not None:
                raise self._refusal from None
            raise

    @property
    def is_alone(self) -> bool:
        """Whether one connection must do, for the server had no second one."""
        return self._refusal is not None and self._size < 2

    def give_one_up(self) -> bool:
        """Close a connection for others who need one more, now or as it comes back; never the last one."""
        if self._size - len(self._stale) < 2:
            return False
        if self._free:
            self._close_later(self._free.popleft()[0])
        else:
            self._stale.add(next(iter(self._lent - self._stale)))
        self._crowded_until = asyncio.get_running_loop().time() + CROWDED_SECONDS
        return True

    @property
    def _size(self) -> int:
        return len(self._lent) + len(self._free)

    @property
    def _is_crowded(self) -> bool:
        return asyncio.get_running_loop().time() < self._crowded_until

    def _may_open(self) -> bool:
        return len(self._lent) + self._opening < self._most and not self._is_crowded

    def _check_hope(self) -> None:
        """Raise the refusal where none of ours will come back; else have the server asked again."""
        if not self._is_crowded:
            return
        if self._refusal is not None and not (self._lent or self._opening or self._begged):
            raise self._refusal
        asyncio.get_running_loop().call_at(self._crowded_until, self._call_next)

    def _take(self) -> Connection | None:
        while self._free:
            connection, _ = self._free.pop()
            if not connection.is_closed():
                self._lent.add(connection)
                return connection
        return None

    def release(self, connection: Connection) -> None:
        """Take a connection back."""
        self._lent.discard(connection)
        if not self._lent:
            self._all_back.set()
        now = asyncio.get_running_loop().time()
        if connection in self._stale:
            self._stale.discard(connection)
            self._close_later(connection)
        elif not connection.is_closed():
            self._free.append((connection, now))
        while self._free and self._free[0][1] < now - IDLE_SECONDS:
            self._close_later(self._free.popleft()[0])
        self._call_next()

    def expire(self) -> None:
        """Lend none of the connections again that are open now."""
        self._stale |= self._lent
        while self._free:
            self._close_later(self._free.pop()[0])

    def cut(self) -> None:
        """End all, also those that are lent."""
        self._most = 0
        for waiter in self._waiters:
            waiter.cancel()
        for connection in (*self._lent, *(free for free, _ in self._free)):
            connection.terminate()
        self._free.clear()

    async def close(self, timeout: float) -> None:
        """Close all, waiting a moment for those that are lent; what is lent then is cut."""
        self._most = 0
        self.expire()
        for waiter in self._waiters:
            waiter.cancel()
        self._all_back.clear()
        if self._lent:
            with suppress(TimeoutError):
                async with asyncio.timeout(timeout):
                    await self._all_back.wait()
        for connection in self._lent:
            connection.terminate()
        if self._closing:
            await asyncio.wait(self._closing, timeout=timeout)

    async def _open(self) -> Connection | None:
        """Open one more; None if the server has none left."""
        self._opening += 1
        try:
            connection = await self._connect()
        except asyncpg.TooManyConnectionsError as refusal:
            self._opening -= 1
            self._refused(refusal)
            return None
        except BaseException:
            self._opening -= 1
            self._call_next()
            raise
        self._opening -= 1
        self._refusal, self._begged = None, False
        self._lent.add(connection)
        return connection

    def _refused(self, refusal: asyncpg.TooManyConnectionsError) -> None:
        self._refusal = refusal
        self._crowded_until = asyncio.get_running_loop().time() + CROWDED_SECONDS
        self._begged = not self._size and self._beg is not None and self._beg()
        self._call_next()

    async def _turn(self) -> None:
        """Wait until something may have become free."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        try:
            await waiter
        except BaseException:
            if waiter.done() and not waiter.cancelled():
                self._call_next()  # it was our turn, but we are gone
            raise
        finally:
            with suppress(ValueError):
                self._waiters.remove(waiter)

    def _call_next(self) -> None:
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return

    def _close_later(self, connection: Connection) -> None:
        task = asyncio.get_running_loop().create_task(_close(connection))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)


async def _close(connection: Connection) -> None:
    try:
        await connection.close(timeout=1.0)
    except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError):
        connection.terminate()
