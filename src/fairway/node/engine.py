"""The engine: one leader's loop for one term. Write, act, tell, in this order, always.

1. Take in what has gathered: events, submissions, other people's arrivals, a page of the old backlog.
2. Ask the core for a plan.
3. **Write** it, with the submissions, in one fenced commit. What gathers meanwhile is the next batch.
4. **Act**: send the begins that the store confirmed, acknowledgements, stops.
5. **Tell**: answer those who asked, publish the events.

While a commit is under way that only ends attempts and begins others, a second one of that kind may already
be written beside it, on a store that can do so; it is kept, acted upon and told after the first.

If a commit fails after bounded retries, or the term is over, the engine ends; its core is thrown away and
the next leader, maybe this very node, builds a new one from the store. Memory is never patched back.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import msgspec

from fairway.clock import moment
from fairway.core import events as happened
from fairway.core.lifecycle import State
from fairway.core.look import WorldLook
from fairway.core.model import Arrival, Moment, Timers, shape_of, with_pins
from fairway.core.plan import Begun, News, Plan, Reply
from fairway.core.scheduler import Core
from fairway.core.world import Counts
from fairway.errors import Busy, Deposed, FairwayError, NoLeader, StoreUnavailable, Unsure
from fairway.leadership.term import Reign
from fairway.node.culprits import Culprits, one_by_one
from fairway.node.dispatch import send_begins, send_rest, send_steers
from fairway.node.feed import Feed
from fairway.node.inbox import Inbox, Submit
from fairway.node.logbook import Logbook
from fairway.node.notebook import Notebook
from fairway.node.ports import Hosting, Port
from fairway.node.progress_news import ProgressNews
from fairway.node.promises import Promises
from fairway.node.work import Work
from fairway.store import Accepted, NewJob, Receipt, Store, StoredJob, Submission, Taken, WaitingPage

log = logging.getLogger("fairway.engine")

T = TypeVar("T")

COMMIT_TRIES = 4
SUBMIT_PATIENCE_SECONDS = 5.0
#: How long somebody waits for a leader to answer.
ASK_SECONDS = 10.0


class Engine:
    """A leader at work. Owns the core; everything else reaches it through the inbox."""

    def __init__(self, store: Store, feed: Feed, reign: Reign, node: str, timers: Timers) -> None:
        self.core = Core(timers, secrets.token_bytes(16))
        self.ports: dict[str, Port] = {}
        self.reign = reign
        self.culprits = Culprits(store)
        self._store = store
        self._feed = feed
        self._inbox = Inbox()
        self._hosting = Hosting(
            reign.term, node, timers.beat, timers.lease, timers.kill_lease,
            trusts=lambda: reign.trusts_itself(moment().mono),
        )  # fmt: skip
        self._arrivals_seen = 0
        self._rung = True
        self._revivals: dict[int, list[asyncio.Future[StoredJob | None]]] = {}
        self._resolutions: dict[int, list[asyncio.Future[bool]]] = {}
        self._promises = Promises()
        self._logbook = Logbook(store, feed.wrote)
        self._progress = ProgressNews(self.core.world, self.note)
        self.notebook = Notebook(store, self._progress.add)
        self._stopping = False
        self._over: FairwayError | None = None
        self._stepping = False
        self._steps = 0
        #: With the step after which each is answered.
        self._looks: list[tuple[int, Callable[[WorldLook], Any], asyncio.Future[Any]]] = []
        self.counts = Counts()  # as of the last commit
        self._backlog = store.waiting_jobs()
        self.loading = True
        self.commits = 0
        self.noticed = asyncio.Event()  # somebody is to be told of a job's end

    # --- asked from the loop, by the desk --------------------------------------------------------
    async def submit(self, submissions: Sequence[Submission]) -> list[Accepted]:
        """Insert jobs in the next commit; one that can begin at once is inserted as begun.

        TimeoutError: whether they were inserted nobody knows.
        """
        answer: asyncio.Future[list[Accepted]] = self._promise(ASK_SECONDS)
        arrivals = [arrival_of(job) for submission in submissions for job in submission.jobs]
        try:
            await self._inbox.submit(Submit(submissions, arrivals, answer), SUBMIT_PATIENCE_SECONDS)
            return await answer
        finally:
            answer.cancel()  # if there was no room for it, nobody will give it

    async def ask(self, make: Callable[[Any], happened.CoreEvent]) -> Reply:
        """Put a question to the core and return its reply, after the commit."""
        self.culprits.check_event(make)
        answer: asyncio.Future[Reply] = self._promise()
        self._inbox.put(make(answer))
        return await answer

    async def revive(self, job: int) -> StoredJob | None:
        """Bring an ended job back; None if the store would not."""
        self.culprits.check_event(lambda _: happened.ReviveAsked(job))
        answer: asyncio.Future[StoredJob | None] = self._promise()
        self._revivals.setdefault(job, []).append(answer)
        self._inbox.put(happened.ReviveAsked(job))
        return await answer

    async def resolve(self, job: int, state: str, outcome: bytes | None) -> bool:
        """Say how an unknown job went; False if it is not unknown."""
        self.culprits.check_event(lambda _: happened.ResolveAsked(job, state, outcome))
        answer: asyncio.Future[bool] = self._promise()
        self._resolutions.setdefault(job, []).append(answer)
        self._inbox.put(happened.ResolveAsked(job, state, outcome))
        return await answer

    async def look(self, read: Callable[[WorldLook], T]) -> T:
        """Read the core when all it knows is committed: nobody is told before. A look changes nothing."""
        if not self.reign.trusts_itself(moment().mono):
            raise NoLeader("this leader has not heard from the database for too long to speak for it")
        if not self._stepping and not self._rung:
            return read(self.core.world)
        answer: asyncio.Future[T] = self._promise()
        # Whoever inserted a job and then looks sees it: it is taken in by the next step, not by this one.
        self._looks.append((self._steps + self._rung, read, answer))
        return await answer

    async def settle_log(self, timeout: float) -> None:
        """Wait until the output that has come so far is in the store."""
        await self._logbook.settle(timeout)

    def look_again(self) -> None:
        """Somebody else may have inserted jobs."""
        self._rung = True
        self._inbox.ring()

    def note(self, news: Sequence[News]) -> None:
        """Tell with the next commit of something that the store keeps already."""
        self._inbox.put(happened.Noted(news), len(news))

    def open_port(self) -> Port:
        """Make a port for a worker that connected."""
        return Port(self._hosting, self._inbox, self.ports, self._logbook.keep, self.notebook.keep)

    def bury(self, incarnation: str) -> None:
        """A worker is dead for sure."""
        self._inbox.put(happened.Gone(incarnation))

    def stop(self) -> None:
        """End after what has gathered so far was committed."""
        self._stopping = True
        self._inbox.ring()

    # --- the loop --------------------------------------------------------------------------------
    async def run(self) -> None:
        """Lead until told to stop, deposed, or without a store."""
        try:
            async with asyncio.TaskGroup() as tasks:
                helpers = [
                    tasks.create_task(self._listen()),
                    tasks.create_task(self._logbook.write_forever()),
                    tasks.create_task(self.notebook.write_forever()),
                    tasks.create_task(self._progress.tell_forever()),
                ]
                try:
                    await self._lead()
                finally:
                    for task in helpers:
                        task.cancel()
        except BaseException as error:
            self._give_up(error)
            await self.culprits.note()  # before this node resigns: the next leader reads it
            raise
        self._give_up(None)
        await self._logbook.flush()
        await self.notebook.flush()

    async def recover(self) -> None:
        """Rebuild the core from the store: settings, running attempts; the backlog follows while leading."""
        now = moment()
        for path, settings in sorted((await self._store.queue_rows()).items()):
            self.core.absorb(happened.QueueFound(path, msgspec.json.decode(settings)), now)
        lives = await self._store.live_attempts()
        self.core.world.aside = await self.culprits.read({live.arrival.job for live in lives})
        for live in lives:
            self.core.absorb(happened.Found(*live), now)
        await self._retire([live.arrival.job for live in lives if live.begun.unique is not None])

    async def _lead(self) -> None:
        wake_at: float | None = 0.0
        while not self._stopping:
            if wake_at is not None:
                await self._inbox.wait(max(wake_at - moment().mono, 0.0))
            else:
                await self._inbox.wait(5.0)
            wake_at = await self._step()
        await self._step()

    async def _step(self) -> float | None:
        """Take in, plan, write, act, tell: once."""
        self._steps += 1
        self._stepping = True
        wake_at = await self._write_act_tell()
        self._stepping = False
        due = [look for look in self._looks if look[0] <= self._steps]
        self._looks = [look for look in self._looks if look[0] > self._steps]
        for _, read, answer in due:
            if not answer.done():
                _settle(answer, read, self.core.world)
        self.counts = replace(self.core.world.counts)
        self._log_mishaps()
        return wake_at

    def _log_mishaps(self) -> None:
        """Log what failed of what is advisory, each place once."""
        for mishap in self.core.world.advice.mishaps.take_untold():
            facts = {"part": str(mishap.part), "error": mishap.error, "at": mishap.place}
            log.error("advice failed; nothing else is touched by it", extra=facts)

    def _absorb(
        self, event: happened.CoreEvent, now: Moment, submissions: Sequence[Submission] | None = None
    ) -> None:
        """Let the core take in what somebody asked for; if it fails on that, remember what it was."""
        try:
            self.core.absorb(event, now)
        except Exception as error:
            self.culprits.accuse(event, submissions, error)
            raise

    async def _write_act_tell(self) -> float | None:
        page = await self._read_backlog()
        taken = await self._read_arrivals()
        if page is not None or taken:
            await self._take_in(taken, page)
        work = self._plan()
        work.begin(self._commit(work, None))
        changed = False  # by what the store found: something may begin that was not planned
        while True:
            following: Work | None = None
            try:
                await asyncio.sleep(0)  # its first statement goes out before we look what else there is to do
                following = await self._plan_ahead(work)
                changed |= await self._finish(work)
            except BaseException:
                for one in (work, following):
                    if one is not None:
                        await one.abandon()
                raise
            if following is None:
                break
            work = following
            work.begin(self._commit(work, None))
        if changed or self.loading or self._rung or _has_news(self.core.world.plan):
            return 0.0
        return work.plan.wake_at

    def _plan(self) -> Work:
        """Take in what has gathered, and plan."""
        events, submits = self._inbox.take()
        now = moment()
        for event in events:
            self._absorb(event, now)
        for submit in submits:
            self._absorb(happened.Submitted(submit.arrivals), now, submit.submissions)
        return Work(self.core.plan(now), submits, now.wall)

    async def _plan_ahead(self, work: Work) -> Work | None:
        """While a commit is under way, plan the next one and begin to write it, if nothing can hinder that.

        Two commits may overlap if both only end attempts and begin others: they touch different jobs. The
        second is kept after the first, or not at all. Whoever wants to look, or asks for anything else,
        goes first.
        """
        while self._store.overlaps and work.overlaps and not work.is_done:
            await work.or_until(self._inbox.until_filled())
            if self._looks or self._rung or self._stopping or self.loading or work.is_done:
                return None
            if not self._inbox.has_only_reports:
                return None
            following = self._plan()
            if following.overlaps:
                following.begin(self._commit(following, work.commit))
            return following
        return None

    async def _finish(self, work: Work) -> bool:
        """Wait for the commit, then act and tell; say whether the store found what was not planned."""
        receipt = await work.receipt()
        if receipt is None:
            self._act_without_commit(work.plan)
        else:
            self._act(work.plan, receipt, work.submits, await self._find_checkpoints(receipt.begun))
            self._tell(work.plan, receipt, work.submits)
            if receipt.redrawn:
                # The id of a new job was another's already: the core takes one for the other. Build it anew.
                raise Deposed("two jobs drew the same id")
        await self._resend(work.plan)
        return receipt is not None and bool(receipt.refused or receipt.revived)

    async def _commit(self, work: Work, after: asyncio.Task[Receipt] | None) -> Receipt:
        """Commit, with a few tries while the store says that nothing was written."""
        self.commits += 1
        if work.plan.batch.returns:  # once their next attempts have begun, these have no say any more
            await self.notebook.flush()
        term, holder = self.reign.term, self.reign.holder
        for attempt in range(COMMIT_TRIES):
            try:
                return await self._store.commit(
                    term, holder, work.plan.batch, work.submissions, work.wall, after
                )
            except (StoreUnavailable, Busy):
                if attempt == COMMIT_TRIES - 1:
                    raise
                if after is not None:  # it may have waited too long for the one before it
                    await asyncio.shield(after)
                    after = None
                await asyncio.sleep(0.05 * 4**attempt)
        raise StoreUnavailable("unreachable")

    def _act(
        self, plan: Plan, receipt: Receipt, submits: Sequence[Submit], checkpoints: Mapping[int, bytes]
    ) -> None:
        now = moment()
        if receipt.redrawn:
            return
        if receipt.refused:
            arrivals = {arrival.job: arrival for submit in submits for arrival in submit.arrivals}
            self.core.absorb(happened.Refused([arrivals[job] for job in receipt.refused]), now)
        if plan.steers:
            send_steers(self.ports, plan, self.reign.term)
        if receipt.begun:
            self.core.absorb(happened.Started(receipt.begun), now)
            send_begins(
                self.ports, self.core.world, receipt.begun, plan.bundles, self.reign.term, checkpoints
            )
        for job in receipt.revived:
            self.core.absorb(happened.Revived(arrival_of_stored(job)), now)
        for job in receipt.resolved:  # heard behind what is taken in next: see `_find_endings`
            self._inbox.put(happened.Resolved(job.id, job.state))
        send_rest(self.ports, plan, self.reign.term)

    def _act_without_commit(self, plan: Plan) -> None:
        send_steers(self.ports, plan, self.reign.term)
        send_rest(self.ports, plan, self.reign.term)
        _answer(plan.replies)

    def _tell(self, plan: Plan, receipt: Receipt, submits: Sequence[Submit]) -> None:
        position = 0
        for submit in submits:
            answers = receipt.accepted[position : position + len(submit.submissions)]
            position += len(submit.submissions)
            if not submit.answer.done():
                submit.answer.set_result(answers)
        _answer(plan.replies)
        if plan.batch.notices or receipt.resolved:
            self.noticed.set()
        self._tell_people(plan, receipt)
        if receipt.number is not None:
            self._feed.tell(receipt.told)

    def _tell_people(self, plan: Plan, receipt: Receipt) -> None:
        if plan.batch.revives:
            revived = {job.id: job for job in receipt.revived}
            for record in plan.batch.revives:
                for future in self._revivals.pop(record.job, ()):
                    if not future.done():
                        future.set_result(revived.get(record.job))
        for word in plan.batch.resolves:
            done = any(job.id == word.job for job in receipt.resolved)
            for answer in self._resolutions.pop(word.job, ()):
                if not answer.done():
                    answer.set_result(done)

    # --- what comes from elsewhere ---------------------------------------------------------------
    async def _read_arrivals(self) -> list[Taken]:
        if not self._rung:
            return []
        self._rung = False
        # While the backlog is loaded, a job we were told of may be in a page that was read before: see below.
        taken = await self._store.take_arrivals(self._arrivals_seen, by_words=not self.loading)
        if taken:
            self._arrivals_seen = taken[-1].number
            self._rung = True  # there may be more
        return taken

    async def _take_in(self, taken: Sequence[Taken], page: WaitingPage | None) -> None:
        """Let jobs wait that came, or waited before. What they replace goes in the same commit.

        No commit is under way here, so the core and the store agree on what waits and what runs.
        """
        arrivals = [row.job for row in taken]
        others = page.others if page is not None else ()  # only those have extras
        await self._retire(replaced_by([*arrivals, *others]))
        if taken:
            numbers = list(dict.fromkeys(row.number for row in taken))
            ended = await self._find_endings(arrivals)
            self._absorb_stored(happened.TakenIn(arrivals, numbers, ended))
        if page is not None:
            ended = await self._find_endings(others)
            self._absorb_stored(happened.Loaded(others, ended, page.alike))

    def _absorb_stored(self, event: happened.TakenIn | happened.Loaded) -> None:
        for part in one_by_one(event) if self.culprits.is_careful else (event,):
            self._absorb(part, moment())

    async def _retire(self, jobs: Sequence[int]) -> None:
        """Let those of *jobs* begin no more whose unique key has gone to a newer job."""
        replaced = await self._store.find_replaced(jobs) if jobs else []
        if replaced:
            self.core.absorb(happened.Replaced(replaced), moment())

    async def _find_endings(self, arrivals: Sequence[Arrival]) -> dict[int, State | None]:
        """Ask how those jobs ended, if they have, that blocked ones of these wait for.

        No commit is under way when jobs are taken in, so the store knows of all the ends the core has made
        so far; of those to come the core knows itself.
        """
        named = {job for one in arrivals if one.blocked and one.extras for job in one.extras.after}
        return await self._store.ended_states(sorted(named)) if named else {}

    async def _read_backlog(self) -> WaitingPage | None:
        """Return a page of what waited before this leader did.

        Read before the arrivals and taken in after them: what somebody inserts just now is in both or in
        neither, and a job must not begin before the limit that came with its arrival holds.
        """
        page = await anext(self._backlog, None) if self.loading else None
        self.loading = page is not None
        self._rung |= self.loading
        return page

    async def _listen(self) -> None:
        while True:
            if await self._store.wait_for_ring(1.0, self.look_again):
                self.look_again()

    async def _resend(self, plan: Plan) -> None:
        for resend in plan.resends:
            begun = await self._store.begun_again(resend.jobs)
            self.core.absorb(happened.Started(begun), moment())  # its lease starts anew as well
            checkpoints = await self._find_checkpoints(begun)
            send_begins(self.ports, self.core.world, begun, {}, self.reign.term, checkpoints)

    async def _find_checkpoints(self, begun: Sequence[Begun]) -> Mapping[int, bytes]:
        """Read where attempts go on that earlier ones began. First attempts, nearly all, need no look.

        What those said was written before they came back: see `_commit`.
        """
        again = [one[0] for one in begun if one[1] > 1]
        if not again:
            return {}
        for tries_left in reversed(range(COMMIT_TRIES)):
            try:
                return await self._store.checkpoints(again)
            except (StoreUnavailable, Busy):
                if not tries_left:  # begun all the same: the next leader finds them, and sends them with it
                    raise
                await asyncio.sleep(0.1)
        raise StoreUnavailable("unreachable")

    # --- promises ----------------------------------------------------------------------------------
    def _promise(self, seconds: float = float("inf")) -> asyncio.Future[Any]:
        """Make an answer that will be given, at the latest when this reign ends."""
        if self._over is not None:
            raise self._over
        return self._promises.make(seconds)

    def _give_up(self, cause: BaseException | None) -> None:
        """The reign is over: close every port, and answer everybody who still waits."""
        self._over = _why_over(cause, self._stepping)
        self._inbox.close()
        for port in list(self.ports.values()):
            port.close()
        self._promises.break_all(self._over)


def _why_over(cause: BaseException | None, stepping: bool) -> FairwayError:
    """Say why a question was not answered. Deposed: it surely changed nothing; else nobody knows."""
    causes = cause.exceptions if isinstance(cause, BaseExceptionGroup) else [cause]
    if all(one is None or isinstance(one, Deposed) for one in causes):
        return Deposed("the leader resigned before it looked at this")
    if isinstance(cause, asyncio.CancelledError):
        # A commit that was under way is finished by the store although nobody waits for its answer.
        return Unsure("the leader was stopped at its work") if stepping else _why_over(None, False)
    if all(isinstance(one, StoreUnavailable | Busy) for one in causes):  # the last commit was not kept
        return StoreUnavailable(f"the leader ended: {causes[0]}")
    return Unsure(f"the leader ended: {causes[0]}")


def _settle(answer: asyncio.Future[Any], read: Callable[[WorldLook], Any], world: WorldLook) -> None:
    """Answer who looks; a read that fails is the asker's trouble, not the leader's."""
    try:
        answer.set_result(read(world))
    except Exception as error:
        answer.set_exception(error)


def replaced_by(arrivals: Sequence[Arrival]) -> list[int]:
    """Return the jobs that had the keys of these before them."""
    return sorted(
        {
            job.extras.replaces
            for job in arrivals
            if job.extras is not None and job.extras.replaces is not None
        }
    )


def arrival_of(job: NewJob) -> Arrival:
    """Return a new job as the core sees it."""
    shape = shape_of(job.adapter, job.task, job.tags, job.delivery == "at_most_once")
    if job.extras is not None:
        shape = with_pins(shape, job.extras)
    return Arrival(job.id, job.queue, job.flow, job.priority, shape, job.run_at, job.concurrency, job.extras)


def arrival_of_stored(job: StoredJob) -> Arrival:
    """Return a stored job as the core sees it."""
    shape = with_pins(shape_of(job.adapter, job.task, job.tags, job.once), job.extras)
    blocked = job.state is State.BLOCKED
    return Arrival(job.id, job.queue, job.flow, job.priority, shape, job.place, None, job.extras, blocked)


def _has_news(plan: Plan) -> bool:
    return bool(plan.batch or plan.kills or plan.acks or plan.replies or plan.resends)


def _answer(replies: Sequence[Reply]) -> None:
    for reply in replies:
        if not reply.ticket.done():
            reply.ticket.set_result(reply)
