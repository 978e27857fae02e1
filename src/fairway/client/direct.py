"""The channel on the database itself: submits and reads without a node in between.

For programs on the scheduler's own machine, or with its PostgreSQL in reach. The store is asynchronous: for
callers that block it lives on the event loop of one background thread. So it does for callers that await, if
it is a file; PostgreSQL they ask from their own loop once they ask often, since the way to another thread and
back takes a tenth of the time in which an idle scheduler begins a job. What only the leader can do (cancel,
live events) goes to the leader over HTTP, at the address the database names.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Coroutine,
    Iterator,
    Mapping,
    Sequence,
)
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import msgspec

from fairway.client.channel import Job
from fairway.client.new_jobs import Likenesses, new_jobs, shown
from fairway.client.remote import RemoteChannel
from fairway.client.request import JobRequest
from fairway.client.sqlite_transaction import claim, path_of
from fairway.core.lifecycle import ENDED
from fairway.errors import Conflict, NoLeader, NotFound, WorldError
from fairway.ids import find_id, show
from fairway.keys import CLIENT_SECONDS, KeyedQueues
from fairway.places import PostgresAddress, is_postgres, postgres_address, postgres_missing
from fairway.store import Request, Store, StoredJob, Submission
from fairway.views import job_view

T = TypeVar("T")

CALL_SECONDS = 30.0
#: A loop that asks so often gets connections of its own; one of a short script would pay for them in vain.
OFTEN = 10
#: A job that has not ended is looked at again after 2 ms, then ever later, up to 100 ms.
FIRST_LOOK, LAST_LOOK = 0.002, 0.1
#: What tells submissions with one key apart: nothing, for the key of each is drawn.
DRAWN = b""
PAUSES = (0.1, 0.2, 0.4, 0.8)
#: A database that was there before is waited for: it may be failing over.
PATIENCE_SECONDS, LONGEST_PAUSE = 20.0, 1.0


class Home:
    """A store on one event loop, opened by the first question."""

    def __init__(self, place: Path | PostgresAddress) -> None:
        self.keys = KeyedQueues(self._find_queues, CLIENT_SECONDS)
        self.likenesses = Likenesses()
        self._place, self._opening = place, asyncio.Lock()
        self._store: Store | None = None

    async def store(self) -> Store:
        if self._store is not None:
            return self._store
        async with self._opening:  # two questions may come first at once
            if self._store is None:
                store = _store_at(self._place)
                await _with_few_tries(store.open)
                self._store = store
            return self._store

    async def close(self) -> None:
        async with self._opening:
            store, self._store = self._store, None
            if store is not None:
                await store.close()

    def cut(self) -> None:
        """Let go of it without waiting: its loop may be about to end."""
        from fairway.stores.postgres.store import PostgresStore

        store, self._store = self._store, None
        if isinstance(store, PostgresStore):
            store.cut()

    async def _find_queues(self, paths: Sequence[str]) -> Mapping[str, bytes]:
        return await (await self.store()).find_queues(paths)


class DirectChannel:
    """Uses one database, a file or PostgreSQL; its thread starts with the first call that needs it."""

    def __init__(self, database: str, token: str | None = None) -> None:
        self._place = postgres_address(database) if is_postgres(database) else path_of(database)
        self._token = token
        self._start = threading.Lock()
        self._thread: asyncio.AbstractEventLoop | None = None  # the background thread's
        self._homes: dict[asyncio.AbstractEventLoop, Home] = {}
        self._asked: WeakKeyDictionary[asyncio.AbstractEventLoop, int] = WeakKeyDictionary()
        self._known_leader: tuple[str, RemoteChannel] | None = None
        self._newest: tuple[Collection[int], float] = (), 0.0  # submitted last, and when

    def submit(self, requests: Sequence[JobRequest[Any]]) -> list[Job]:
        return self._ask(self._submit(requests)).result(CALL_SECONDS)

    async def asubmit(self, requests: Sequence[JobRequest[Any]]) -> list[Job]:
        return await self._aask(self._submit(requests), CALL_SECONDS)

    def get(self, job: str, wait: float) -> Job:
        return self._ask(self._get(job, wait)).result(wait + CALL_SECONDS)

    async def aget(self, job: str, wait: float) -> Job:
        return await self._aask(self._get(job, wait), wait + CALL_SECONDS)

    def cancel(self, job: str) -> Job:
        return self._leader().cancel(job)

    async def acancel(self, job: str) -> Job:
        return await (await self._aleader()).acancel(job)

    def act(self, job: str, verb: str, body: dict[str, Any]) -> Job:
        return self._leader().act(job, verb, body)

    async def aact(self, job: str, verb: str, body: dict[str, Any]) -> Job:
        return await (await self._aleader()).aact(job, verb, body)

    def stack(self, job: str) -> str:
        return self._leader().stack(job)

    async def astack(self, job: str) -> str:
        return await (await self._aleader()).astack(job)

    def put_schedule(self, name: str, body: dict[str, Any]) -> dict[str, Any]:
        return self._leader().put_schedule(name, body)

    async def aput_schedule(self, name: str, body: dict[str, Any]) -> dict[str, Any]:
        return await (await self._aleader()).aput_schedule(name, body)

    def call(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        return self._leader().call(method, path, body)

    async def acall(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        return await (await self._aleader()).acall(method, path, body)

    def events(self, query: str, after: str | None) -> Iterator[dict[str, Any]]:
        return self._leader().events(query, after)

    async def aevents(self, query: str, after: str | None) -> AsyncIterator[dict[str, Any]]:
        async for event in (await self._aleader()).aevents(query, after):
            yield event

    def close(self) -> None:
        with self._start:
            thread, self._thread = self._thread, None
            homes, self._homes = self._homes, {}
            leader, self._known_leader = self._known_leader, None
        if leader is not None:
            leader[1].close()
        for loop, home in homes.items():
            if loop is thread:
                asyncio.run_coroutine_threadsafe(home.close(), loop).result(CALL_SECONDS)
                loop.call_soon_threadsafe(loop.stop)
            elif loop is asyncio._get_running_loop():
                home.cut()
            else:
                with suppress(RuntimeError):  # it has ended
                    loop.call_soon_threadsafe(home.cut)

    async def _submit(self, requests: Sequence[JobRequest[Any]]) -> list[Job]:
        home, now = self._home(), _now()
        store = await home.store()
        jobs = await _patiently(partial(home.keys.give_keys, new_jobs(requests, now, home.likenesses)))
        submission = Submission(jobs, Request(os.urandom(16).hex(), DRAWN))
        accepted = (await _patiently(lambda: store.submit([submission], now)))[0]
        if accepted.problem:
            raise Conflict(f"the submission was refused: {accepted.problem}", code=accepted.problem)
        self._newest = accepted.ids, time.monotonic()
        views = shown(requests, accepted.ids)
        for index, existed in enumerate(accepted.existed):
            if existed:  # an equal unique key had it already: show that job, not ours
                views[index] = await self._existing(show(accepted.ids[index]))
        return views

    async def _existing(self, job: str) -> Job:
        try:
            return await self._get(job, 0)
        except NotFound:
            raise Conflict(
                f"job {job} has this key; it ended and is no longer kept, the key is taken for longer",
                code="unique_taken",
            ) from None

    async def _get(self, job: str, wait: float) -> Job:
        """Look at the job until it has ended or the time is over."""
        until, pause = time.monotonic() + wait, FIRST_LOOK
        if wait:
            await self._let_begin(job)
        found = await self._find(job)
        while found.state not in ENDED and time.monotonic() < until:
            await asyncio.sleep(min(pause, max(until - time.monotonic(), 0)))
            pause = min(pause * 1.5, LAST_LOOK)
            found = await self._find(job)
        notes = await _patiently(partial((await self._home().store()).find_notes, [found.id]))
        # Through JSON once: the view passes payload and value on as raw JSON.
        shown_as = job_view(found, _now(), note=notes.get(found.id))
        view: Job = msgspec.json.decode(msgspec.json.encode(shown_as))
        return view

    async def _let_begin(self, job: str) -> None:
        """Give a job that was submitted just now the time to begin: a look would be in its way."""
        ids, since = self._newest
        pause = since + FIRST_LOOK - time.monotonic()
        if pause > 0 and find_id(job) in ids:
            await asyncio.sleep(pause)

    async def _find(self, job: str) -> StoredJob:
        store, number = await self._home().store(), find_id(job)
        found = None if number is None else await _patiently(lambda: store.find_job(number))
        if found is None:
            raise NotFound(f"there is no job {job[:40]!r}")
        return found

    async def _leader_url(self) -> str:
        store = await self._home().store()
        leadership = await _patiently(store.find_leadership)
        if leadership is None or not leadership.url:
            raise NoLeader("nobody leads this scheduler now; start a node with `fairway up`")
        return leadership.url

    def _leader(self) -> RemoteChannel:
        return self._at(self._ask(self._leader_url()).result(CALL_SECONDS))

    async def _aleader(self) -> RemoteChannel:
        return self._at(await self._aask(self._leader_url(), CALL_SECONDS))

    def _at(self, url: str) -> RemoteChannel:
        """Return the way to the leader: the same as last time, with its connections, unless it has moved."""
        with self._start:
            known = self._known_leader
            if known is not None and known[0] == url:
                return known[1]
            channel = RemoteChannel(url, self._token)
            self._known_leader = url, channel
        if known is not None:
            known[1].close()
        return channel

    def _home(self) -> Home:
        """Return what belongs to the running loop."""
        loop = asyncio.get_running_loop()
        home = self._homes.get(loop)
        if home is None:
            with self._start:
                self._homes = {other: its for other, its in self._homes.items() if not other.is_closed()}
                home = self._homes.setdefault(loop, Home(self._place))
        return home

    def _ask(self, question: Coroutine[Any, Any, T]) -> Future[T]:
        """Let a question be asked by the background thread."""
        try:
            return asyncio.run_coroutine_threadsafe(question, self._running_loop())
        except BaseException:
            question.close()
            raise

    async def _aask(self, question: Coroutine[Any, Any, T], timeout: float) -> T:
        """Ask a question from the caller's loop, or by the background thread."""
        if not self._asks_itself():
            return await asyncio.wait_for(asyncio.wrap_future(self._ask(question)), timeout)
        async with asyncio.timeout(timeout):
            return await question

    def _asks_itself(self) -> bool:
        """Say whether the running loop has connections of its own, or has asked often enough to get them."""
        if isinstance(self._place, Path):
            return False
        loop = asyncio.get_running_loop()
        if loop in self._homes:
            return True
        with self._start:
            count = self._asked[loop] = self._asked.get(loop, 0) + 1
        return count > OFTEN

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        with self._start:  # two threads may come first at once
            if self._thread is None:
                if isinstance(self._place, Path):
                    claim(self._place, "apsw")
                self._thread = asyncio.new_event_loop()
                thread = threading.Thread(
                    target=_serve, args=(self._thread,), name="fairway-direct", daemon=True
                )
                thread.start()
            return self._thread


def _store_at(place: Path | PostgresAddress) -> Store:
    if isinstance(place, Path):
        from fairway.stores.sqlite.store import SqliteStore

        return SqliteStore(place)
    try:
        from fairway.stores.postgres.store import PostgresStore
    except ImportError as error:
        raise postgres_missing(error) from None
    return PostgresStore(place.dsn, place.scheduler)


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    try:
        loop.run_forever()
    finally:
        loop.close()


async def _with_few_tries(ask: Callable[[], Awaitable[T]]) -> T:
    """Ask again while the world is at fault, some times."""
    for pause in PAUSES:
        try:
            return await ask()
        except WorldError:
            await asyncio.sleep(pause)
    return await ask()


async def _patiently(ask: Callable[[], Awaitable[T]]) -> T:
    """Ask again while the world is at fault, for a while."""
    until, pause = time.monotonic() + PATIENCE_SECONDS, PAUSES[0]
    while True:
        try:
            return await ask()
        except WorldError:
            if time.monotonic() + pause > until:
                raise
        await asyncio.sleep(pause)
        pause = min(pause * 2, LONGEST_PAUSE)


def _now() -> int:
    return time.time_ns() // 1000
