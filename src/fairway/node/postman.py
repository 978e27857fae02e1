"""Tells of ended jobs by calls (`notify`) as long as this node leads; what is left, the next leader tells.

A call is a row of the store, made in the commit that ended the job; it goes when the receiver has said 2xx.
So each is made at least once, maybe twice if a leader dies in between: its number tells the receiver. What
fails for now (no answer, 429, 5xx) is tried again with longer and longer pauses for a day; what is refused
for good is given up with an event. At most so many calls are out at once, few of them at one host, and those
of a host that has as many as it may are not even looked at: one that does not answer keeps nobody else
waiting, however many calls stand before theirs.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from contextlib import suppress

from fairway.clock import wall
from fairway.core.plan import News
from fairway.errors import FairwayError, PrivateAddress
from fairway.node.engine import Engine
from fairway.node.webhook import Mailbag, NotTaken
from fairway.store import Call, Store
from fairway.times import MICRO

log = logging.getLogger("fairway.postman")

AT_ONCE, AT_ONE_HOST = 32, 8
GIVE_UP_SECONDS = 86_400.0
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 1.0, 3600.0
#: The longest that others of a host wait because a call to it had no answer: they may go elsewhere in it.
HOST_PAUSE_SECONDS = 60.0
IDLE_SECONDS = 60.0
TROUBLE_SECONDS = 1.0


class Postman:
    """Makes the calls of one reign."""

    def __init__(self, store: Store, engine: Engine, bag: Mailbag) -> None:
        self._store, self._engine, self._bag = store, engine, bag
        self._out: dict[int, asyncio.Task[None]] = {}
        self._hosts: Counter[str] = Counter()
        self._stirred = engine.noticed
        self._settled: set[int] = set()  # since the store was last asked: its answer may be older than that

    async def run(self) -> None:
        """Go on until cancelled."""
        try:
            while True:
                self._stirred.clear()
                await self._wait(await self._round())
        finally:
            for task in self._out.values():
                task.cancel()
            await asyncio.gather(*self._out.values(), return_exceptions=True)
            await self._bag.close()

    async def _round(self) -> float:
        """Send out what is due; return how long nothing else will be."""
        try:
            if await self._send_due():
                return TROUBLE_SECONDS  # the end of a call stirs, too
            next_at = await self._store.next_call()
        except FairwayError as error:
            log.warning("calls were put off", extra={"why": str(error)})
            return TROUBLE_SECONDS
        return IDLE_SECONDS if next_at is None else min(max((next_at - wall()) / MICRO, 0.0), IDLE_SECONDS)

    async def _send_due(self) -> bool:
        """Send out what may go; say whether anything is due."""
        while len(self._out) < AT_ONCE:
            full = self._full_hosts()
            self._settled.clear()
            due = await self._store.due_calls(wall(), without=full)
            for call in due:
                self._send(call)
            if full == self._full_hosts():  # else others may stand behind those that have to wait now
                return bool(due or self._out)
        return True

    def _full_hosts(self) -> set[str]:
        return {host for host, count in self._hosts.items() if count >= AT_ONE_HOST}

    async def _wait(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stirred.wait()

    def _send(self, call: Call) -> None:
        host = call.host
        if call.number in self._out or call.number in self._settled:
            return
        if len(self._out) >= AT_ONCE or self._hosts[host] >= AT_ONE_HOST:
            return
        self._hosts[host] += 1
        self._out[call.number] = asyncio.create_task(self._deliver(call))

    async def _deliver(self, call: Call) -> None:
        """Make one call, and write down what came of it."""
        try:
            await self._settle(call, await self._try(call))
        except FairwayError as error:  # the store: the call stays as it is, and is made again
            log.warning("the end of a call was not written", extra={"why": str(error), "call": call.number})
            await asyncio.sleep(TROUBLE_SECONDS)
        finally:
            del self._out[call.number]
            self._settled.add(call.number)
            self._hosts[call.host] -= 1
            if not self._hosts[call.host]:
                del self._hosts[call.host]
            self._stirred.set()

    async def _try(self, call: Call) -> NotTaken | None:
        try:
            await self._bag.post(call, int(time.time()))
        except NotTaken as error:
            return error
        except PrivateAddress as error:
            return NotTaken(str(error), for_good=True)
        return None

    async def _settle(self, call: Call, error: NotTaken | None) -> None:
        now, tries = wall(), call.tries + 1
        if error is None:
            await self._store.settle_calls([call.number], [])
        elif error.for_good or now - call.made_at > GIVE_UP_SECONDS * MICRO:
            await self._store.settle_calls([call.number], [])
            self._engine.note([_given_up(call, str(error), now)])
        else:
            pause = pause_after(tries)
            if not error.answered:  # those behind it wait as well: the host answers nobody now
                host_pause = min(pause, HOST_PAUSE_SECONDS)
                await self._store.put_calls_off(call.host, now, now + round(host_pause * MICRO))
            await self._store.settle_calls([], [(call.number, tries, now + round(pause * MICRO))])


def pause_after(tries: int) -> float:
    """Return the seconds before a call is made again."""
    return min(FIRST_PAUSE_SECONDS * 2.0 ** min(tries - 1, 30), LONGEST_PAUSE_SECONDS)


def _given_up(call: Call, why: str, now: int) -> News:
    # Without its path and query: they may hold a secret of the receiver's.
    detail = {"delivery": call.number, "host": call.host, "tries": call.tries + 1, "why": why[:500]}
    return News("notify.failed", now, (call.job,), detail=detail)
