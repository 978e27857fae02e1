"""Events for those who listen, and the ends that somebody waits for. Told only what is committed.

Nothing is kept here: a listener reads the store, which has every event in the commit it tells of, and sleeps
until the next commit. So a listener that falls behind holds no memory, and none is told what is not stored.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import contextmanager

from fairway.core.plan import Event, News
from fairway.errors import InvalidRequest
from fairway.store import NumberedEvent, Store

QUIET_SECONDS = 15.0


class Feed:
    """The live end of the event stream. Owned by a node; told by the engine after each commit."""

    def __init__(self, store: Store, poll_seconds: float = 0.25) -> None:
        self._store = store
        self._poll_seconds = poll_seconds
        self._told = asyncio.Event()
        self._waiters: dict[int, list[asyncio.Future[None]]] = {}
        self._live = False
        self._log_followers: dict[int, set[asyncio.Event]] = {}

    @property
    def live(self) -> bool:
        """Whether an engine of this node tells us; else we poll."""
        return self._live

    @live.setter
    def live(self, live: bool) -> None:
        self._live = live
        self._wake()

    def tell(self, news: Sequence[News]) -> None:
        """Wake those for whom one commit made something true."""
        self._wake()
        if self._waiters:
            for one in news:
                if one.kind == "job.ended":
                    for job in one.jobs:
                        self._release(job)

    async def wait_ended(self, job: int, timeout: float) -> bool:
        """Return True as soon as the job's end was told, False when the time is over (look anyway)."""
        if not self.live:
            await asyncio.sleep(min(timeout, self._poll_seconds))
            return False
        future = asyncio.get_running_loop().create_future()
        self._waiters.setdefault(job, []).append(future)
        try:
            # Bounded, so that a change of leader while we wait is noticed.
            async with asyncio.timeout(min(timeout, 2.0)):
                await future
            return True
        except TimeoutError:
            return False
        finally:
            waiters = self._waiters.get(job, [])
            if future in waiters:
                waiters.remove(future)
            if not waiters:
                self._waiters.pop(job, None)

    @contextmanager
    def follow_log(self, job: int) -> Iterator[asyncio.Event]:
        """Give an event that is set whenever a job has something new in its log, as far as we hear."""
        wake = asyncio.Event()
        self._log_followers.setdefault(job, set()).add(wake)
        try:
            yield wake
        finally:
            followers = self._log_followers[job]
            followers.discard(wake)
            if not followers:
                del self._log_followers[job]

    def wrote(self, jobs: Iterable[int]) -> None:
        """Wake those who follow the logs of these jobs."""
        if self._log_followers:
            for job in jobs:
                for wake in self._log_followers.get(job, ()):
                    wake.set()

    async def follow(self, after: str | None) -> AsyncIterator[list[NumberedEvent] | None]:
        """Yield events behind *after*; None whenever nothing came for a while."""
        oldest, newest = await self._store.event_span()
        number, index = parse_event_id(after) if after else (newest, 1 << 31)
        if after and oldest and number < oldest - 1:
            yield [NumberedEvent(oldest - 1, 0, Event("gap", 0, detail={"after": after}))]
            number, index = oldest - 1, 1 << 31
        while True:
            told = self._told
            found = await self._store.events_after(number, index)
            if found:
                number, index = found[-1].number, found[-1].offset
                yield found
            elif not await self._wait(told, number):
                yield None

    async def _wait(self, told: asyncio.Event, number: int) -> bool:
        """Wait until there may be events behind *number*; False after a quiet time."""
        deadline = asyncio.get_running_loop().time() + QUIET_SECONDS
        while asyncio.get_running_loop().time() < deadline:
            try:
                async with asyncio.timeout(QUIET_SECONDS if self._live else self._poll_seconds):
                    await told.wait()
                return True
            except TimeoutError:
                if not self._live and (await self._store.event_span())[1] > number:
                    return True
        return False

    def _wake(self) -> None:
        told, self._told = self._told, asyncio.Event()
        told.set()

    def _release(self, job: int) -> None:
        for future in self._waiters.pop(job, ()):
            if not future.done():
                future.set_result(None)


def parse_event_id(text: str) -> tuple[int, int]:
    """Read a public event id `number.index`."""
    number, _, index = text.partition(".")
    if not (number.isascii() and number.isdigit() and len(number) < 19):
        raise InvalidRequest(f"event id {text[:40]!r} is not of the form number.index", field="after")
    if index and not (index.isascii() and index.isdigit() and len(index) < 10):
        raise InvalidRequest(f"event id {text[:40]!r} is not of the form number.index", field="after")
    return int(number), int(index or 0)
