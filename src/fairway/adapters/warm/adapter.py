"""The warm adapter: runs tasks in children that speak the warm protocol, whatever they are written in.

One child is started at once: it says which tasks there are, and saves the first job its start. Others are
started when a job finds none with room, and kept for the next ones, as many as there are slots. A child runs
one job at a time unless it announces more.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence

from fairway.adapter import Reporter
from fairway.adapters.warm.child import READY_SECONDS, CannotStart
from fairway.adapters.warm.link import Link
from fairway.adapters.warm.program import Program
from fairway.adapters.warm.turn import Key
from fairway.errors import InvalidRequest
from fairway.names import check_task
from fairway.wire.messages import Assignment, LogPiece, Note, Result, Task
from fairway.worker.warden import Warden

log = logging.getLogger(__name__)

FAREWELL_SECONDS = 0.5


class WarmAdapter:
    """Runs attempts in warm children. Owned by the agent's loop."""

    def __init__(
        self,
        name: str,
        argv: Sequence[str],
        warden: Warden,
        slots: int,
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        recycle_jobs: int = 0,
    ) -> None:
        """*recycle_jobs*: how many jobs a child runs before a new one takes its place; 0: any number."""
        self.name = name
        self._program = Program(name, tuple(argv), cwd, dict(env or {}))
        self._warden, self._slots, self._recycle_jobs = warden, slots, recycle_jobs
        self._reporter: Reporter
        self._concurrency = 1
        self._links: set[Link] = set()
        self._roomy: list[Link] = []  # can take one more, the last used last
        self._where: dict[Key, Link] = {}
        self._closing = False
        self._changed = asyncio.Event()

    async def start(self, reporter: Reporter) -> list[Task]:
        """Start one child and learn from it which tasks there are; raises CannotStart."""
        self._reporter = reporter
        link = self._new_link()
        self._roomy.append(link)
        try:
            async with asyncio.timeout(READY_SECONDS + 10):
                ready = await asyncio.shield(link.ready)
        except TimeoutError:
            raise CannotStart(f"adapter {self.name}: the guardian does not answer") from None
        self._concurrency = ready.concurrency
        try:
            return [
                Task(check_task(task.name, "tasks"), False, task.signature[:1000]) for task in ready.tasks
            ]
        except InvalidRequest as error:
            raise CannotStart(f"adapter {self.name}: {error}") from None

    # --- running ------------------------------------------------------------------------------------
    def begin(self, assignments: Sequence[Assignment]) -> None:
        """Run one attempt, or one bundle in its order."""
        link = self._find_link(assignments[0])
        self._where.update(dict.fromkeys([assignment[:2] for assignment in assignments], link))
        if len(link.lanes) + 1 < self._concurrency and not assignments[0].once:
            self._roomy.append(link)
        link.begin(assignments)

    def _find_link(self, asked: Assignment) -> Link:
        """Take a child with room, a ready one first; what ends with the lease shares none with others.

        What runs at most once shares none with anybody: killed with another it could not begin again.
        """
        found = None
        for index in range(len(self._roomy) - 1, -1, -1):
            link = self._roomy[index]
            if not link.lanes or (link.ends_with_lease == asked.kill and not asked.once):
                found = index
                if link.is_ready:
                    break
        return self._new_link() if found is None else self._roomy.pop(found)

    def _new_link(self) -> Link:
        link = Link(self._warden, self._program, self)
        self._links.add(link)
        return link

    def begin_behind(self, assignments: Sequence[Assignment]) -> bool:
        """Nothing stands behind anything here."""
        return False

    def take_back(self) -> None:
        """Nothing stands behind anything here."""

    def stop(self, job: int, attempt: int, force: bool, kind: str = "cancelled") -> None:
        """Stop an attempt: ask it, terminate its process, kill it."""
        if link := self._where.get((job, attempt)):
            link.stop((job, attempt), kind, force)

    def started(self, job: int, attempt: int) -> bool:
        """Say whether this attempt's code has begun, or may have."""
        link = self._where.get((job, attempt))
        return link is not None and (job, attempt) in link.turns

    async def look(self, job: int, attempt: int) -> str | None:
        """The protocol does not ask a child where its code is."""
        return None

    def resize(self, slots: int) -> None:
        """Keep as many idle children as there are slots."""
        self._slots = slots
        for link in [link for link in self._roomy if not link.lanes][slots:]:
            self._retire(link)

    # --- what links report --------------------------------------------------------------------------
    def finished(self, result: Result) -> None:
        """Pass on a result."""
        del self._where[result[:2]]
        self._reporter.finished([result])
        self._changed.set()

    def give_back(self, keys: Sequence[Key]) -> None:
        """Hand back attempts that will not run here."""
        if keys:
            for key in keys:
                del self._where[key]
            self._reporter.handed_back(keys)
            self._changed.set()

    def wrote(self, pieces: Sequence[LogPiece]) -> None:
        """Pass on output."""
        self._reporter.wrote(pieces)

    def noted(self, notes: Sequence[Note]) -> None:
        """Pass on what an attempt said of itself."""
        self._reporter.noted(notes)

    def has_room(self, link: Link) -> None:
        """Keep a child for the next job, unless it is one too many or has served its time."""
        is_worn = link.worn or 0 < self._recycle_jobs <= link.served
        if link not in self._roomy and not is_worn:
            self._roomy.append(link)
        if link.lanes:
            return
        if is_worn or sum(not other.lanes for other in self._roomy) > self._slots:
            self._retire(link)
        if is_worn and not self._roomy and not self._closing:
            self._replace()

    def _retire(self, link: Link) -> None:
        if link in self._roomy:
            self._roomy.remove(link)
        link.retire()

    def _replace(self) -> None:
        """Start the child that the next job will need; if that cannot be, the job's begin will say so."""
        try:
            self._roomy.append(self._new_link())
        except OSError as error:
            log.warning("no new child for adapter %s yet: %r", self.name, error)

    def unlink(self, link: Link) -> None:
        """Forget a child that is gone."""
        self._links.discard(link)
        if link in self._roomy:
            self._roomy.remove(link)
        self._changed.set()

    # --- the end ------------------------------------------------------------------------------------
    async def close(self, grace_seconds: float) -> None:
        """Hand back what has not started, wait for the rest, stop what is left, end the children."""
        self._closing = True
        for link in list(self._links):
            link.take_back_unsent()
        for wait_seconds, force in ((grace_seconds, None), (1.0, False), (0.5, True)):
            if force is not None:
                for key in list(self._where):
                    self.stop(*key, force, "stopped")
            if await self._is_empty_within(wait_seconds, self._where):
                break
        for link in list(self._links):
            self._retire(link)
        await self._is_empty_within(FAREWELL_SECONDS, self._links)

    async def _is_empty_within(self, seconds: float, what: dict[Key, Link] | set[Link]) -> bool:
        try:
            async with asyncio.timeout(seconds):
                while what:
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            return False
        return True
