"""The python adapter: tasks of the user's apps, run in warm child processes.

`def` tasks run one bundle at a time per sync child, `async def` tasks many at once on async children. A
child is spawned when a job finds none idle, and kept; a job never waits behind another's code. One sync child
is started at once: it says which tasks there are, and saves the first job the import.

An attempt that is reported with kind `stopped` was ended by the worker for its own reasons: the agent hands
it back instead of reporting it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from itertools import count, repeat

from fairway.adapter import Reporter
from fairway.adapters.python.async_link import AsyncLink
from fairway.adapters.python.link import CannotImport, Key, Link
from fairway.adapters.python.recycling import Bounds, Recycler
from fairway.adapters.python.sync_link import SyncLink
from fairway.wire.messages import Assignment, LogPiece, Note, Result, Task
from fairway.worker.warden import Warden

log = logging.getLogger(__name__)

IMPORT_SECONDS = 120.0
WARM_MOST = 8  # children started before they are needed


class PythonAdapter:
    """Runs tasks of the given apps (`module:app`)."""

    name = "python"

    def __init__(
        self,
        warden: Warden,
        apps: Sequence[str],
        slots: int,
        async_per_slot: int = 100,
        bounds: Bounds | None = None,
    ) -> None:
        self._warden, self._apps = warden, list(apps)
        self._recycler = Recycler(bounds, self._start_heir) if bounds else None
        self._slots, self._async_per_slot = slots, async_per_slot
        self._reporter: Reporter
        self._async_tasks: frozenset[str] = frozenset()
        self._links: set[Link] = set()
        self._idle: list[SyncLink] = []
        self._async_links: list[AsyncLink] = []
        self._where: dict[Key, tuple[Link, int]] = {}
        self._emptied = asyncio.Event()

    async def start(self, reporter: Reporter) -> list[Task]:
        """Start one child and learn from it which tasks there are; raises CannotImport.

        The others are warmed up in the background, so that the first jobs need not wait for an import.
        """
        self._reporter = reporter
        link = self._new_sync_link()
        self._idle.append(link)
        try:
            async with asyncio.timeout(IMPORT_SECONDS):
                tasks = await asyncio.shield(link.ready)
        except TimeoutError:
            raise CannotImport(f"importing {self._apps} took over {IMPORT_SECONDS:g} s") from None
        self._async_tasks = frozenset(task.name for task in tasks if task.is_async)
        if len(self._async_tasks) < len(tasks):
            self._idle += [self._new_sync_link() for _ in range(min(self._slots, WARM_MOST) - 1)]
        return tasks

    # --- running ------------------------------------------------------------------------------------
    def begin(self, assignments: Sequence[Assignment]) -> None:
        """Run one attempt, or one bundle in its order."""
        if assignments[0].task in self._async_tasks:
            self._begin_async(assignments)
            return
        keys = [assignment[:2] for assignment in assignments]
        sync_link = self._find_idle_link()
        self._note(keys, sync_link)
        sync_link.begin(assignments, keys)
        if self._recycler is not None:
            self._recycler.prepare(sync_link, len(keys))

    def begin_behind(self, assignments: Sequence[Assignment]) -> bool:
        """Let a bundle stand behind what runs in a child, the one that was begun first.

        Where children are replaced after so many jobs or at a size, each is looked at between two bundles.
        """
        if self._recycler is not None or assignments[0].task in self._async_tasks:
            return False
        links = [link for link in self._links if isinstance(link, SyncLink) and link.can_go_on]
        if not links:
            return False
        link = min(links, key=lambda link: link.bundles[0].given_at)
        keys = [assignment[:2] for assignment in assignments]
        self._note(keys, link)
        link.begin_behind(assignments, keys)
        return True

    def take_back(self) -> None:
        """Hand back what stands behind something and has not started."""
        for link in self._links:
            if isinstance(link, SyncLink) and len(link.bundles) > 1:
                link.trim()

    def _note(self, keys: Sequence[Key], link: SyncLink) -> None:
        self._where.update(zip(keys, zip(repeat(link), count(link.next_index)), strict=False))

    def _begin_async(self, assignments: Sequence[Assignment]) -> None:
        for index, assignment in enumerate(assignments):
            try:
                link = self._find_async_link(assignment)
            except OSError as error:
                log.warning("no child for async tasks, handing back: %r", error)
                self._reporter.handed_back([assignment[:2] for assignment in assignments[index:]])
                return
            self._where[assignment[:2]] = (link, 0)
            link.begin(assignment)

    def _find_idle_link(self) -> SyncLink:
        """Take an idle child, one that is ready before one that still imports."""
        for index in range(len(self._idle) - 1, -1, -1):
            if self._idle[index].is_ready:
                return self._idle.pop(index)
        return self._idle.pop() if self._idle else self._new_sync_link()

    def _new_sync_link(self) -> SyncLink:
        link = SyncLink(self._warden, self._apps, self)
        self._links.add(link)
        return link

    def _find_async_link(self, assignment: Assignment) -> AsyncLink:
        """Pack the first child that has room; what ends with the lease shares none with what runs on.

        Nor does what runs at most once with what can begin again: that may be killed at any time, and all
        that is in its child with it. A child for each would be safer, and a hundred processes a slot.
        """
        kind = assignment.kill, assignment.once
        for link in self._async_links:
            alike = (link.ends_with_lease, link.once) == kind
            if alike and len(link) < self._async_per_slot and not link.drains:
                return link
        return self._new_async_link(*kind)

    def _new_async_link(self, kill: bool, once: bool) -> AsyncLink:
        link = AsyncLink(self._warden, self._apps, self, kill, once)
        self._links.add(link)
        self._async_links.append(link)
        return link

    def stop(self, job: int, attempt: int, force: bool, kind: str = "cancelled") -> None:
        """Stop an attempt: ask it, raise in it, kill its process."""
        found = self._where.get((job, attempt))
        if found is None:
            return
        link, index = found
        if isinstance(link, SyncLink):
            link.stop((job, attempt), index, kind, force)
        elif isinstance(link, AsyncLink):
            link.stop((job, attempt), kind, force)

    def started(self, job: int, attempt: int) -> bool:
        """Say whether this attempt's code has begun, or may have."""
        found = self._where.get((job, attempt))
        if found is None:
            return False
        link, index = found
        if isinstance(link, SyncLink):
            return link.has_started(index)
        return isinstance(link, AsyncLink) and (job, attempt) in link.sent_at

    async def look(self, job: int, attempt: int) -> str | None:
        """Return its stack; None if it does not run."""
        found = self._where.get((job, attempt))
        if found is None:
            return None
        if not self.started(job, attempt):
            return "it has not begun: its process is still starting, or busy with another job\n"
        return await found[0].look((job, attempt))

    def resize(self, slots: int) -> None:
        """Keep no more children warm than there are slots."""
        self._slots = slots
        for link in self._idle[slots:]:
            link.retire()
        del self._idle[slots:]

    # --- what links report --------------------------------------------------------------------------
    def take_results(self, results: Sequence[Result]) -> None:
        """Pass on results of attempts that have not ended before."""
        pop = self._where.pop
        known = [result for result in results if pop(result[:2], None) is not None]
        if known:
            self._reporter.finished(known)
        if not self._where:
            self._emptied.set()

    def take_notes(self, notes: Sequence[Note]) -> None:
        """Pass on what attempts say of themselves that have not ended."""
        known = [note for note in notes if note[:2] in self._where]
        if known:
            self._reporter.noted(known)

    def give_back(self, keys: Sequence[Key]) -> None:
        """Hand back attempts that will not run here."""
        known = [key for key in keys if self._where.pop(key, None) is not None]
        if known:
            self._reporter.handed_back(known)
        if not self._where:
            self._emptied.set()

    def holds(self, key: Key) -> bool:
        """Whether this attempt has not ended."""
        return key in self._where

    def wrote(self, pieces: Sequence[LogPiece]) -> None:
        """Pass on output."""
        self._reporter.wrote(pieces)

    def became_idle(self, link: SyncLink) -> None:
        """Keep an idle child warm, unless there are more than slots, or it has served long enough."""
        if link.gone:
            return
        spare = 0
        if self._recycler is not None:
            if self._recycler.is_over(link):
                link.retire()
                return
            spare = link.heir is not None and not link.heir.is_ready
        if len(self._idle) < self._slots + spare:
            self._idle.append(link)
        else:
            link.retire()

    def went_on(self, keys: Sequence[Key]) -> None:
        """Pass on that a child has begun what stood behind."""
        self._reporter.began(keys)

    # --- recycling ----------------------------------------------------------------------------------
    def has_done(self, link: Link, count: int) -> None:
        """Count; an async child, which may never be idle, is looked at now."""
        link.done += count
        if self._recycler is None or not isinstance(link, AsyncLink):
            return
        link.drains = link.drains or self._recycler.is_over(link)
        if link.drains and not len(link):
            link.retire()

    def became_fit(self, heir: Link) -> None:
        """An heir is ready: whom it replaces can go, if that is over its bound."""
        if self._recycler is None:
            return
        self._recycler.look_at_new(heir)
        for link in [link for link in self._idle if link.heir is heir]:
            if self._recycler.is_over(link):
                self._idle.remove(link)
                link.retire()

    def _start_heir(self, link: Link) -> Link | None:
        try:
            if isinstance(link, AsyncLink):
                return self._new_async_link(link.ends_with_lease, link.once)
            self._idle.insert(0, heir := self._new_sync_link())  # those that are ready are taken first
        except OSError as error:
            log.warning("no child to replace one that has served long enough: %r", error)
            return None
        return heir

    def unlink(self, link: Link) -> None:
        """Forget a child that is gone."""
        self._links.discard(link)
        if isinstance(link, SyncLink) and link in self._idle:
            self._idle.remove(link)
        if isinstance(link, AsyncLink) and link in self._async_links:
            self._async_links.remove(link)

    # --- the end ------------------------------------------------------------------------------------
    async def close(self, grace_seconds: float) -> None:
        """Hand back what has not started, wait for the rest, stop what is left, end the children."""
        self._hand_back_unstarted()
        for wait_seconds, force in ((grace_seconds, None), (1.0, False), (0.5, True)):
            if force is not None:
                for key in list(self._where):
                    self.stop(*key, force, "stopped")
            if await self._is_empty_within(wait_seconds):
                break
        for link in list(self._links):
            link.close()

    def _hand_back_unstarted(self) -> None:
        for link in list(self._links):
            if isinstance(link, SyncLink):
                link.trim()
            elif isinstance(link, AsyncLink):
                link.take_back()

    async def _is_empty_within(self, seconds: float) -> bool:
        self._emptied.clear()
        if not self._where:
            return True
        try:
            async with asyncio.timeout(seconds):
                await self._emptied.wait()
        except TimeoutError:
            return False
        return True
