"""Actions on everything that a query finds, in the background, as long as this node leads.

An operation goes through the jobs in the order of their ids, so each is acted upon once, even if what was
done lets it match again: nothing has to be remembered but where the last batch ended. Jobs that were created,
or ended, after it began are not touched. A batch is as many jobs as share commits well; an abort is heard
between batches, and what is done stays done.

Operations live in the leader's memory only. With the leader they are gone, what they did is not: the next one
answers 404, and whoever still wants the rest asks again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from fairway.action import Action, ActionProgress, CanaryProgress
from fairway.clock import wall
from fairway.core.plan import News
from fairway.desk import Desk
from fairway.errors import Busy, Deposed, FairwayError, NoLeader, WorldError
from fairway.ids import EPOCH_MILLISECONDS, LOW_BITS, IdMaker, show
from fairway.leadership.term import Reign
from fairway.node.canary import watch
from fairway.node.deeds import Deed, deed_of
from fairway.store import Page, Store, StoredJob

log = logging.getLogger("fairway.actions")

MOST_AT_ONCE = 10
MOST_KEPT = 100  # that have ended
PAGE = 200
SEARCH_TRIES = 5
SEARCH_PAUSE_SECONDS = 0.5
OVER = "the reign of this leader has ended; ask again"

Tell = Callable[[Sequence[News]], None]


class Operations:
    """The operations of one reign; *tasks* is its group."""

    def __init__(self, store: Store, reign: Reign, desk: Desk, tell: Tell, tasks: asyncio.TaskGroup) -> None:
        self._store, self._reign, self._desk, self._tell, self._tasks = store, reign, desk, tell, tasks
        self._ids = IdMaker()
        self._runs: dict[str, Run] = {}  # in the order in which they began
        self._running: set[asyncio.Task[None]] = set()
        self._starting = 0
        self._is_over = False

    async def start(self, action: Action) -> ActionProgress:
        """Begin an operation; Busy if there are as many as there may be."""
        if len(self._running) + self._starting >= MOST_AT_ONCE:
            raise Busy(f"{MOST_AT_ONCE} operations are under way; wait for one to end, or abort one")
        self._starting += 1
        try:
            started_at = wall()
            found = await self._store.count(action.query, started_at)
            progress = ActionProgress(show(self._ids.one()), action, started_at, found)
            self._begin(Run(progress, self._store, deed_of(action, self._desk, self._store, self._reign)))
        finally:
            self._starting -= 1
        return progress

    def _begin(self, run: Run) -> None:
        self._forget_old()
        task = self._start_task(run)
        self._runs[run.progress.operation] = run
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    def _start_task(self, run: Run) -> asyncio.Task[None]:
        """Start it, unless the reign has ended since it was asked for, or just does."""
        if self._is_over:
            raise NoLeader(OVER)
        work = self._carry_out(run)
        try:
            return self._tasks.create_task(work)
        except RuntimeError:  # a group that is shutting down takes no more
            work.close()
            raise NoLeader(OVER) from None

    async def _carry_out(self, run: Run) -> None:
        self._tell([_started(run.progress)])
        await run.go()
        self._tell([_ended(run.progress)])

    def find(self, operation: str) -> ActionProgress | None:
        """Return how far an operation is, if it is one of this reign."""
        run = self._runs.get(operation)
        return None if run is None else run.progress

    def all(self) -> list[ActionProgress]:
        """Return all of them, the newest first."""
        return [run.progress for run in reversed(self._runs.values())]

    def abort(self, operation: str) -> ActionProgress | None:
        """Let an operation stop after its batch; one that is over stays as it is."""
        run = self._runs.get(operation)
        if run is None:
            return None
        run.abort()
        return run.progress

    def close(self) -> None:
        """The reign is over."""
        self._is_over = True
        for task in self._running:
            task.cancel()

    def numbers(self) -> dict[str, float]:
        """Return gauges for /metrics."""
        return {"operations_running": float(len(self._running))}

    def _forget_old(self) -> None:
        over = [name for name, run in self._runs.items() if not run.progress.under_way]
        for name in over[: max(len(over) - MOST_KEPT + 1, 0)]:
            del self._runs[name]


class Run:
    """One operation. Owned by its task."""

    def __init__(self, progress: ActionProgress, store: Store, deed: Deed, page: int = PAGE) -> None:
        self.progress = progress
        self._store, self._deed, self._page = store, deed, page
        self._aborted = asyncio.Event()
        self._cursor: str | None = None
        self._exhausted = False
        milliseconds = progress.started_at // 1000 + 1 - EPOCH_MILLISECONDS
        self._ids_end = max(milliseconds, 1) << LOW_BITS  # ids begin with the time they were drawn at

    def abort(self) -> None:
        """Stop after the batch under way."""
        if self.progress.state == "running":
            self.progress.state = "aborting"
            self._aborted.set()

    async def go(self) -> None:
        """Do it all; however it ends is in its progress."""
        progress = self.progress
        try:
            progress.reason = await self._try_first()
            if progress.reason is None:
                await self._go_on()
            state = "aborted" if self._stopped_early() else "done" if progress.reason is None else "stopped"
        except (FairwayError, TimeoutError) as error:
            if isinstance(error, Deposed):  # the reign ends, and with it this
                raise
            state, progress.reason = "failed", str(error) or type(error).__name__
        except Exception as error:
            log.exception("an operation failed", extra={"operation": progress.operation})
            state, progress.reason = "failed", f"{type(error).__name__}: see the node's log"
        progress.state, progress.ended_at = state, wall()

    def _stopped_early(self) -> bool:
        return self._aborted.is_set() and not self._exhausted

    async def _go_on(self) -> None:
        while not self._aborted.is_set() and not self._exhausted:
            await self._act(await self._next_jobs(self._page))
            await asyncio.sleep(0)

    async def _try_first(self) -> str | None:
        """Let the canary go first; return why the rest must stay."""
        canary = self.progress.action.canary
        if canary is None:
            return None
        wanted, sent = canary.size(self.progress.found), list[int]()
        while len(sent) < wanted and not self._exhausted and not self._aborted.is_set():
            sent += await self._act(await self._next_jobs(min(wanted - len(sent), self._page)))
        self.progress.canary = told = CanaryProgress(len(sent))
        return await watch(self._store, sent, canary, told, self._aborted) if sent else None

    async def _act(self, jobs: Sequence[StoredJob]) -> list[int]:
        """Act on a batch; return those that were not refused."""
        refusals = await self._deed(jobs) if jobs else []
        self.progress.count(len(jobs), refusals)
        refused = {refusal.job for refusal in refusals}
        return [job.id for job in jobs if job.id not in refused]

    async def _next_jobs(self, most: int) -> list[StoredJob]:
        """Return the next jobs that match, by id, as far as they did when this began."""
        page = await self._search(most)
        self._cursor = page.next
        self._exhausted = page.next is None or page.jobs[-1].id >= self._ids_end
        began = self.progress.started_at
        return [job for job in page.jobs if job.created_at <= began and (job.ended_at or 0) <= began]

    async def _search(self, most: int) -> Page:
        for tries_left in reversed(range(SEARCH_TRIES)):
            try:
                return await self._store.search(
                    self.progress.action.query,
                    now=self.progress.started_at,
                    sort="created_at",
                    limit=most,
                    cursor=self._cursor,
                )
            except WorldError:
                if not tries_left:
                    raise
                await asyncio.sleep(SEARCH_PAUSE_SECONDS)
        raise AssertionError("unreachable")


def _started(progress: ActionProgress) -> News:
    return News("operation.started", progress.started_at, detail=_facts(progress) | {"found": progress.found})


def _ended(progress: ActionProgress) -> News:
    more = {"state": progress.state, "done": progress.done, "refused": progress.refused}
    if progress.reason is not None:
        more["reason"] = progress.reason
    return News("operation.ended", progress.ended_at or 0, detail=_facts(progress) | more)


def _facts(progress: ActionProgress) -> dict[str, object]:
    action = progress.action
    return {"operation": progress.operation, "action": action.verb, "q": action.text, "by": action.by}
