"""The App: the tasks of a program and its way to the scheduler.

Made at import time by every program that submits and by every worker, so making one opens nothing and
imports little.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar, Unpack, overload

from fairway.client.group import Group, grouped
from fairway.client.handle import Handle
from fairway.client.options import TaskOptions, checked
from fairway.client.request import JobRequest
from fairway.client.task import AsyncTask, Task, name_of
from fairway.client.together import Together
from fairway.errors import Conflict, InvalidRequest
from fairway.names import check_task, check_token
from fairway.places import database_given, node_address, without_password

if TYPE_CHECKING:
    from fairway.client.channel import Channel
    from fairway.client.operation import Operation
    from fairway.client.schedules import DeclaredSchedule, ScheduleOptions

P = ParamSpec("P")
R = TypeVar("R")
AnyTask = TypeVar("AnyTask", bound=Task[..., Any])

#: Where `fairway up` listens unless told otherwise.
DEFAULT_URL = "http://127.0.0.1:8899"
MOST_BATCH = 10_000


class Registers(Protocol):
    """What `@app.task(...)` returns: a decorator that keeps the function's type."""

    @overload
    def __call__(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> AsyncTask[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> Task[P, R]: ...


class App:
    """A program's tasks. Reaches a node at *url*, or *database* directly: a file or PostgreSQL.

    Given neither: FAIRWAY_URL, then FAIRWAY_DATABASE, then http://127.0.0.1:8899. *queue* is where jobs of
    tasks go that name none.
    """

    def __init__(
        self,
        url: str | None = None,
        database: str | None = None,
        token: str | None = None,
        queue: str | None = None,
    ) -> None:
        if url and database:
            raise InvalidRequest("give url or database, not both", field="database")
        if database is not None:
            database_given(database)
        if url:
            node_address(url)
        check_token(token or None)
        self._url, self._database, self._token = url, database, token
        self._defaults = {} if queue is None else checked({"queue": queue}, TaskOptions)
        self._channel: Channel | None = None
        self._pid = os.getpid()
        self.tasks: dict[str, Task[..., Any]] = {}
        self.schedules: dict[str, DeclaredSchedule] = {}

    @overload
    def task(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> AsyncTask[P, R]: ...
    @overload
    def task(self, function: Callable[P, R], /) -> Task[P, R]: ...
    @overload
    def task(self, /, *, name: str | None = None, **options: Unpack[TaskOptions]) -> Registers: ...
    def task(self, function: Any = None, /, *, name: str | None = None, **options: Any) -> Any:
        """Register a function as a task: `@app.task`, or `@app.task(queue="acme/emails", timeout=30)`."""
        given = {**self._defaults, **checked(options, TaskOptions)}
        if function is not None:
            return self._register(function, name, given)
        return lambda decorated: self._register(decorated, name, given)

    def schedule(
        self, cron: str | None = None, /, **options: Unpack[ScheduleOptions]
    ) -> Callable[[AnyTask], AnyTask]:
        """Say when a task runs: `@app.schedule("0 6 * * *", zone="Europe/Berlin")` above `@app.task`.

        Nothing is sent before `apply_schedules()`.
        """
        from fairway.client.schedules import declare

        def decorate(task: AnyTask) -> AnyTask:
            if not isinstance(task, Task):
                raise InvalidRequest("@app.schedule stands above @app.task, not below it", field="schedule")
            declared = declare(task, cron, options)
            if declared.name in self.schedules:
                raise Conflict(f"two schedules are named {declared.name!r}; give one of them a name=")
            self.schedules[declared.name] = declared
            return task

        return decorate

    def apply_schedules(self) -> list[dict[str, Any]]:
        """Make or replace the schedules that the code has, and return them; call it when you deploy.

        One that the code no longer has stays until it is deleted, for another program may have made it.
        """
        return [self.channel.put_schedule(one.name, one.body) for one in self.schedules.values()]

    async def aapply_schedules(self) -> list[dict[str, Any]]:
        """Do the same without blocking the event loop."""
        return [await self.channel.aput_schedule(one.name, one.body) for one in self.schedules.values()]

    def submit(self, request: JobRequest[R], *, connection: Any = None) -> Handle[R]:
        """Submit one job that `task.job(...)` made; with *connection* in the caller's own transaction."""
        if connection is not None:
            from fairway.client.transaction import submit_inside

            job = submit_inside(connection, Together().name([request]), self._database_given())[0]
        else:
            job = self.channel.submit(Together().name([request]))[0]
        return Handle(self, job, request.task)

    async def asubmit(self, request: JobRequest[R], *, connection: Any = None) -> Handle[R]:
        """Do the same without blocking the event loop."""
        if connection is not None:
            from fairway.client.transaction import asubmit_inside

            named = Together().name([request])
            job = (await asubmit_inside(connection, named, self._database_given()))[0]
        else:
            job = (await self.channel.asubmit(Together().name([request])))[0]
        return Handle(self, job, request.task)

    def submit_many(self, requests: Iterable[JobRequest[R]], *, batch: int = 5000) -> list[Handle[R]]:
        """Submit many jobs, one round trip per *batch*; each batch is accepted whole or not at all.

        A request may wait for others of the same batch, or of an earlier one: `options(after=[request])`.
        """
        handles: list[Handle[R]] = []
        together = Together()
        for several in _batches(requests, batch):
            handles += self._handles(several, self.channel.submit(together.name(several)))
            together.sent(several, handles)
        return handles

    async def asubmit_many(self, requests: Iterable[JobRequest[R]], *, batch: int = 5000) -> list[Handle[R]]:
        """Do the same without blocking the event loop."""
        handles: list[Handle[R]] = []
        together = Together()
        for several in _batches(requests, batch):
            handles += self._handles(several, await self.channel.asubmit(together.name(several)))
            together.sent(several, handles)
        return handles

    @overload
    def group(
        self, requests: Iterable[JobRequest[R]], then: None = None, *, name: str | None = None
    ) -> Group[list[R]]: ...
    @overload
    def group(
        self, requests: Iterable[JobRequest[Any]], then: JobRequest[R], *, name: str | None = None
    ) -> Group[R]: ...
    def group(
        self, requests: Iterable[JobRequest[Any]], then: Any = None, *, name: str | None = None
    ) -> Group[Any]:
        """Submit jobs that belong together, all or none, and *then* one that begins when all have ended.

        It begins however they ended, unless its own options say `if_failed="fail"`. *name* is what the group
        is searched by: `group:night-7`.
        """
        several = grouped(requests, then, name)
        return Group(self._handles(several, self.channel.submit(several)), then is not None, name)

    @overload
    async def agroup(
        self, requests: Iterable[JobRequest[R]], then: None = None, *, name: str | None = None
    ) -> Group[list[R]]: ...
    @overload
    async def agroup(
        self, requests: Iterable[JobRequest[Any]], then: JobRequest[R], *, name: str | None = None
    ) -> Group[R]: ...
    async def agroup(
        self, requests: Iterable[JobRequest[Any]], then: Any = None, *, name: str | None = None
    ) -> Group[Any]:
        """Do the same without blocking the event loop."""
        several = grouped(requests, then, name)
        return Group(self._handles(several, await self.channel.asubmit(several)), then is not None, name)

    def get(self, job: str) -> Handle[Any]:
        """Return a handle on a job by its id; raises NotFound."""
        return Handle(self, self.channel.get(_checked_id(job), 0))

    async def aget(self, job: str) -> Handle[Any]:
        """Do the same without blocking the event loop."""
        return Handle(self, await self.channel.aget(_checked_id(job), 0))

    def act(self, query: str, action: str, **arguments: Any) -> Operation:
        """Do something to all jobs that match: `app.act("state:failed task:send", "retry", canary=5)`.

        It is done in the background; *action* and *arguments* are those of `POST /v1/jobs/actions`.
        """
        from fairway.client.operation import Operation, body_of

        return Operation(self, self.channel.call("POST", "/jobs/actions", body_of(query, action, arguments)))

    async def aact(self, query: str, action: str, **arguments: Any) -> Operation:
        """Do the same without blocking the event loop."""
        from fairway.client.operation import Operation, body_of

        body = body_of(query, action, arguments)
        return Operation(self, await self.channel.acall("POST", "/jobs/actions", body))

    def events(self, query: str = "", after: str | None = None) -> Iterator[dict[str, Any]]:
        """Yield events as they happen, for ever; resumes behind the last one when a connection breaks."""
        return self.channel.events(query, after)

    def aevents(self, query: str = "", after: str | None = None) -> AsyncIterator[dict[str, Any]]:
        """Do the same without blocking the event loop."""
        return self.channel.aevents(query, after)

    @property
    def channel(self) -> Channel:
        """The way to the scheduler, opened by its first call."""
        if self._channel is None or self._pid != os.getpid():
            # A forked child must not speak on its parent's sockets, nor touch its open database.
            self._channel, self._pid = self._open_channel(), os.getpid()
        return self._channel

    def close(self) -> None:
        """Let go of connections and files; the next call opens them again."""
        channel, self._channel = self._channel, None
        if channel is not None:
            channel.close()

    def _open_channel(self) -> Channel:
        database = self._database_given()
        if database is not None:
            from fairway.client.direct import DirectChannel

            return DirectChannel(database, self._token_given())
        from fairway.client.remote import RemoteChannel

        url = self._url or os.environ.get("FAIRWAY_URL") or DEFAULT_URL
        return RemoteChannel(url, self._token_given())

    def _database_given(self) -> str | None:
        if self._database or self._url or os.environ.get("FAIRWAY_URL"):
            return self._database
        return database_given(None)

    def _token_given(self) -> str | None:
        return self._token or os.environ.get("FAIRWAY_TOKEN") or None

    def _register(
        self, function: Callable[..., Any], name: str | None, options: dict[str, Any]
    ) -> Task[..., Any]:
        name = check_task(name or name_of(function), "name")
        if name in self.tasks:
            raise Conflict(
                f"two tasks are named {name!r}: {_where(self.tasks[name].function)} and {_where(function)}; "
                "give one of them another name=",
                code="duplicate_task",
                field="name",
            )
        kind = AsyncTask if inspect.iscoroutinefunction(function) else Task
        self.tasks[name] = kind(self, function, name, options)
        return self.tasks[name]

    def _handles(self, requests: Sequence[JobRequest[R]], jobs: Sequence[dict[str, Any]]) -> list[Handle[R]]:
        return [Handle(self, job, request.task) for job, request in zip(jobs, requests, strict=True)]

    def __repr__(self) -> str:
        given = os.environ.get("FAIRWAY_URL") or os.environ.get("FAIRWAY_DATABASE")
        place = without_password(self._database or self._url or given or DEFAULT_URL)
        return f"<App {place}: {len(self.tasks)} tasks>"


def _batches(requests: Iterable[JobRequest[R]], size: int) -> Iterator[list[JobRequest[R]]]:
    if not 1 <= size <= MOST_BATCH:
        raise InvalidRequest(f"batch must be between 1 and {MOST_BATCH}", field="batch")
    rest = iter(requests)
    while several := list(islice(rest, size)):
        yield several


def _checked_id(job: str) -> str:
    from fairway.errors import NotFound
    from fairway.ids import find_id

    if find_id(job) is None:
        raise NotFound(f"{job[:40]!r} is not the id of a job")
    return job


def _where(function: Callable[..., Any]) -> str:
    code = getattr(function, "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code else repr(function)
