"""Standing for election: watch the beat, win the term, keep it by renewing, give it back when leaving.

On one machine the leader also holds an OS lock beside the file, so that a successor of a dead process need
not wait for the TTL: whoever gets the lock may stand at once. A frozen leader keeps its lock, and loses its
term to whoever has watched its beat stand still for a whole TTL.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Protocol

from fairway.clock import moment
from fairway.errors import WorldError
from fairway.leadership.term import Reign, Watch, begin_reign
from fairway.store import Leadership, Store

log = logging.getLogger("fairway.elector")


class Lock(Protocol):
    """An OS lock that the system releases when its holder dies."""

    def try_lock(self, patience: float = 0.0) -> bool:
        """Take it if nobody has it."""

    def release(self) -> None:
        """Let go of it."""


class Elector:
    """One node's candidacy."""

    def __init__(self, store: Store, holder: str, name: str, url: str, ttl: float, lock: Lock | None) -> None:
        self._store = store
        self._holder, self._name, self.url = holder, name, url
        self._ttl = ttl
        self._lock = lock
        self._watch = Watch(ttl)
        self._trouble: tuple[str, str] | None = None  # and said so
        self.seen: Leadership | None = None  # who led when we last looked, or were elected
        #: How to wait between two looks: four times a second, unless somebody knows better.
        self.pause: Callable[[Leadership | None], Awaitable[None]] = self._pause_briefly

    async def win(self) -> Reign:
        """Return when this node has been elected; looks again and again until then."""
        while True:
            try:
                reign = await self._stand()
                self._mended()
            except (WorldError, OSError) as error:
                self._complain("cannot stand for election", error)
                reign = None
            if reign is not None:
                return reign
            await self.pause(self.seen)

    async def watch(self, seconds: float | None = None) -> None:
        """Look who leads, for so long or for ever, and do not stand."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while True:
                    await self.pause(await self._look())

    async def _look(self) -> Leadership | None:
        try:
            self.seen = await self._store.find_leadership()
            self._mended()
        except (WorldError, OSError) as error:
            self._complain("cannot see who leads", error)
        return self.seen

    async def keep(self, reign: Reign) -> None:
        """Renew until the term is over; then return.

        A leader that cannot reach its store for a while is late, not deposed: it says nothing meanwhile
        (`Reign.trusts_itself`), can commit nothing, and goes on if nobody took the term.
        """
        while True:
            sent = moment().mono
            try:
                if not await self._store.renew(reign.term, reign.holder, asleep=True):
                    return
                reign.renewed(sent)
                if self._lock is not None:  # one that won by the silence of a frozen leader has no lock yet
                    self._lock.try_lock(0.0)
                self._mended()
            except (WorldError, OSError) as error:
                self._complain("the beat was not written", error)
            await asyncio.sleep(self._ttl / 5)

    async def wait_a_turn(self) -> None:
        """After a lost term: give the new leader the time to take the lock, or we would depose it at once."""
        await self.watch(2 * self._ttl / 5)

    async def resign(self, reign: Reign) -> None:
        """Give the seat back, so that a successor need not wait."""
        try:
            await self._store.resign(reign.term, reign.holder)
        except WorldError as error:
            log.warning("could not resign; the successor waits", extra={"why": str(error)})
        finally:
            self.let_go()

    def let_go(self) -> None:
        """Release the OS lock."""
        if self._lock is not None:
            self._lock.release()

    def _complain(self, what: str, error: Exception) -> None:
        """Say what is wrong, once until it is mended or something else is: we try several times a second."""
        trouble = what, str(error)
        if trouble != self._trouble:
            log.warning(what, extra={"why": str(error)})
        self._trouble = trouble

    def _mended(self) -> None:
        if self._trouble is not None:
            log.info("the trouble is over", extra={"was": self._trouble[0]})
        self._trouble = None

    async def _pause_briefly(self, seen: Leadership | None) -> None:
        await asyncio.sleep(self._ttl / 20)

    async def _stand(self) -> Reign | None:
        now = moment()
        leadership = self.seen = await self._store.find_leadership()
        free = self._watch.may_stand(leadership, now.mono)
        # Without a lock file (a store for many machines) the beat alone decides.
        locked = self._lock is not None and self._lock.try_lock(0.0)
        if not (free or locked):
            return None
        seen = leadership.term if leadership else 0
        elected = await self._store.elect(seen, self._holder, self._name, self.url, now.wall)
        if elected is None:
            self.let_go()
            return None
        # After our reign the store may be silent for a while: who led before us must not be named then.
        self.seen = elected
        return begin_reign(elected, now.mono, self._ttl)
