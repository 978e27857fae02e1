"""The http adapter: a request is the job.

No user code runs, so there is no process: requests live in the agent's loop, one a slot, and are bounded in
time and size. To stop one is to drop its connection. Where it may go and what is read of the answer is in
http_exchange.py, what the answer means in http_judge.py. Both are loaded with the first request, beside the
loop: that takes a quarter of a second, which no worker shall need to start.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from importlib import import_module, metadata
from typing import TYPE_CHECKING

import msgspec

from fairway import ids
from fairway.adapter import Reporter
from fairway.adapters.outcome import Outcome, describe
from fairway.times import parse_duration
from fairway.wire.messages import Assignment, Result, Task

if TYPE_CHECKING:
    from fairway.adapters.http_exchange import Exchange, Request

log = logging.getLogger(__name__)

DEFAULT_SECONDS = 30.0


class HttpAdapter:
    """Sends requests. *allow_private*: also into networks that are not public."""

    name = "http"

    def __init__(self, allow_private: bool = False) -> None:
        self.version = f"httpx {metadata.version('httpx')}"
        self._allow_private = allow_private
        self._exchange: Exchange | None = None
        self._reporter: Reporter
        self._live: dict[tuple[int, int], Call] = {}
        self._idle = asyncio.Event()
        self._idle.set()

    async def start(self, reporter: Reporter) -> list[Task]:
        """Nothing to prepare; requests have no registry."""
        self._reporter = reporter
        return []

    def begin(self, assignments: Sequence[Assignment]) -> None:
        """Send each of them."""
        for assignment in assignments:
            call = Call(assignment, self._get_exchange)
            self._live[call.key] = call
            self._idle.clear()
            call.task = asyncio.get_running_loop().create_task(call.run())
            # Not at the end of its own code: a task that is cancelled before it began runs none of it.
            call.task.add_done_callback(partial(self._ended, call))

    async def _get_exchange(self) -> Exchange:
        if self._exchange is None:
            opened = await asyncio.to_thread(open_exchange, self._allow_private)
            self._exchange = self._exchange or opened
        return self._exchange

    def _ended(self, call: Call, task: asyncio.Task[Result | None]) -> None:
        del self._live[call.key]
        if not self._live:
            self._idle.set()
        if task.cancelled():
            self._end_stopped(call)
        elif (error := task.exception()) is not None:
            log.error("a request could not be made: %r", error, exc_info=error)
            self._reporter.finished([call.describe_crash(error)])
        elif (result := task.result()) is None:
            self._reporter.handed_back([call.key])
        else:
            self._reporter.finished([result])

    def _end_stopped(self, call: Call) -> None:
        if call.was_not_begun:
            self._reporter.handed_back([call.key])
        else:
            self._reporter.finished([call.describe_stop()])

    def begin_behind(self, assignments: Sequence[Assignment]) -> bool:
        """Nothing stands behind anything here."""
        return False

    def take_back(self) -> None:
        """Nothing stands behind anything here."""

    def stop(self, job: int, attempt: int, force: bool, kind: str = "cancelled") -> None:
        """Drop the connection."""
        if call := self._live.get((job, attempt)):
            call.stop(kind)

    def started(self, job: int, attempt: int) -> bool:
        """A request has started when its first byte is sent: until then nobody has seen it."""
        call = self._live.get((job, attempt))
        return call is not None and call.is_sent

    async def look(self, job: int, attempt: int) -> str | None:
        """Say how long the answer is waited for, and from whom."""
        call = self._live.get((job, attempt))
        return None if call is None else call.look()

    def resize(self, slots: int) -> None:
        """Requests share nothing: nothing is kept for slots."""

    async def close(self, grace_seconds: float) -> None:
        """Give what runs the grace, then drop it."""
        for wait_seconds, drop in ((grace_seconds, False), (1.0, True)):
            if drop:
                for call in list(self._live.values()):
                    call.stop("stopped")
            try:
                async with asyncio.timeout(wait_seconds):
                    await self._idle.wait()
                break
            except TimeoutError:
                continue
        if self._exchange is not None:
            await self._exchange.close()


def open_exchange(allow_private: bool) -> Exchange:
    """Load what requests need."""
    import_module("fairway.adapters.http_judge")
    from fairway.adapters.http_exchange import Exchange

    return Exchange(allow_private)


class Call:
    """One attempt at a request."""

    def __init__(self, assignment: Assignment, exchange: Callable[[], Awaitable[Exchange]]) -> None:
        self.key = assignment[:2]
        self.task: asyncio.Task[Result | None] | None = None
        self.is_sent = False
        self._assignment, self._get_exchange = assignment, exchange
        self._request: Request | None = None
        self._stopped_as: str | None = None
        self._started = time.monotonic()

    async def run(self) -> Result | None:
        """Carry the attempt from its payload to its result; None: this worker could not even try."""
        try:
            async with asyncio.timeout(DEFAULT_SECONDS):
                exchange = await self._get_exchange()
        except OSError as error:  # it cannot open the files that it loads, or not in time
            log.warning("a request could not be made, handing back: %r", error)
            return None
        from fairway.adapters.http_exchange import read_request

        try:
            self._request = read_request(self._assignment.payload, self._own_headers())
        except (ValueError, RecursionError) as error:
            return self._result(("permanent", describe("BadPayload", f"not a request: {error}"), 0.0))
        return await self._send(exchange, self._request)

    async def _send(self, exchange: Exchange, request: Request) -> Result | None:
        from fairway.adapters.http_judge import judge_answer, judge_error

        seconds = self._seconds(request)
        try:
            async with asyncio.timeout(seconds):
                answer = await exchange.send(request, self._note_sending)
        except TimeoutError:
            message = f"{request.shown} had no whole answer after {seconds:g} s"
            return self._result(("timeout", describe("TimeLimitReached", message), 0.0))
        except Exception as error:
            if not self.is_sent and has_no_descriptors(error):
                return None
            return self._result(judge_error(request, error))
        return self._result(judge_answer(request, answer, time.time()))

    def stop(self, kind: str) -> None:
        """End the attempt as *kind*; the first kind given stays."""
        self._stopped_as = self._stopped_as or kind
        if self.task is not None:
            self.task.cancel()

    @property
    def was_not_begun(self) -> bool:
        """Whether it was stopped for the worker's own reasons, and before anybody has seen it."""
        return not self.is_sent and self._stopped_as in (None, "stopped")

    def _note_sending(self) -> None:
        self.is_sent = True

    def look(self) -> str:
        """Say what it waits for."""
        where = self._request.shown if self._request else "a request"
        return f"{where}: waiting for {time.monotonic() - self._started:.1f} s"

    def describe_stop(self) -> Result:
        """Say that it was stopped."""
        kind = self._stopped_as or "stopped"
        where = self._request.shown if self._request else "the request"
        return self._result((kind, describe("Stopped", f"{where} was stopped: {kind}"), 0.0))

    def describe_crash(self, error: BaseException) -> Result:
        """Say that the worker itself failed, not the server."""
        message = f"the worker could not send it: {type(error).__name__}: {error}"
        return self._result(("crashed", describe("WorkerFailed", message), 0.0))

    def _seconds(self, request: Request) -> float:
        own = None if request.work.timeout is None else parse_duration(request.work.timeout)
        limits = [limit for limit in (own, self._assignment.timeout) if limit is not None]
        return min(limits, default=DEFAULT_SECONDS)

    def _own_headers(self) -> dict[str, str]:
        """Return what lets a server tell a repeated request from a new one."""
        job = f"{ids.show(self._assignment.job)}.{self._assignment.generation}"
        return {"Idempotency-Key": job, "Fairway-Attempt": str(self._assignment.attempt)}

    def _result(self, outcome: Outcome) -> Result:
        kind, body, retry_after = outcome
        seconds = time.monotonic() - self._started
        return Result(*self.key, kind, msgspec.json.encode(body), seconds, retry_after)


def has_no_descriptors(error: BaseException | None) -> bool:
    """Say whether a connection was never opened because this process may not open one more."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
            return True
        if isinstance(error, BaseExceptionGroup):
            return any(has_no_descriptors(one) for one in error.exceptions)
        error = error.__cause__ or error.__context__
    return False
