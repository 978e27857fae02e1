"""The node's desk: every question the faces may ask, answered by the store or by the leader's core.

Submits and reads work on every node. What changes something goes through the engine and returns after its
commit. A question that raced with the job's own life ("moved") is asked again a few times.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from heapq import nsmallest
from typing import TYPE_CHECKING, Any, TypeVar

from fairway.action import Action, ActionProgress
from fairway.clock import moment, wall
from fairway.core import events as happened
from fairway.core import explain as explaining
from fairway.core.defaults import in_force, said
from fairway.core.demand import Demand, demand
from fairway.core.eta import eta
from fairway.core.events import ANONYMOUS
from fairway.core.flows import FlowNow, busiest
from fairway.core.foresee import foresee
from fairway.core.lifecycle import ENDED, WAITING, State
from fairway.core.look import QueueLook, TreeLook, WorldLook
from fairway.core.mishaps import Part
from fairway.core.model import DEFAULT_RULES, SLOT, Arrival, Extras, Moment, Rules, shape_of, with_pins
from fairway.core.numbers import Figures, Numbers
from fairway.core.plan import QueueChange, Reply
from fairway.core.world import Worker
from fairway.desk import (
    ClusterView,
    FlowView,
    MoveView,
    Question,
    QueueView,
    ScheduleView,
    Standing,
    Troubles,
    Tunnel,
    Waiting,
    WorkerPort,
    WorkerView,
)
from fairway.desk import Reply as LeaderReply
from fairway.errors import (
    CallerError,
    Conflict,
    Deposed,
    InvalidRequest,
    NoAdvice,
    NoLeader,
    NotFound,
    QueueFull,
    WorldError,
)
from fairway.ids import IdMaker, show
from fairway.keys import KeyedQueues, with_keys
from fairway.node import failure_book
from fairway.node.engine import ASK_SECONDS, Engine, arrival_of_stored
from fairway.node.neighbours import is_silent, without_predecessors
from fairway.node.ports import Doorstep
from fairway.node.queue_book import (
    find_over,
    find_under_way,
    moves_under_way,
    settings_before,
    strange_schedules,
    strange_workers,
)
from fairway.node.relocating import pinned_anew, relocated, why_not_there
from fairway.node.schedule_book import ScheduleBook, get_schedule
from fairway.query import Query
from fairway.schedule_spec import ScheduleSpec, check_job, preview, progress_of, spec_of
from fairway.spec import check_notified
from fairway.store import (
    Accepted,
    CauseRow,
    NewJob,
    NumberedEvent,
    Page,
    ScheduleRow,
    Store,
    StoredJob,
    StoredNote,
    Submission,
)

if TYPE_CHECKING:
    from fairway.node.actions import Operations
    from fairway.node.app import Node

T = TypeVar("T")

ASK_TRIES = 8
FLOWS_SHOWN = 100
SETTLE_SECONDS = 2.0
MAYBE_ACCEPTED = "; the jobs may be accepted all the same: ask again under the same Idempotency-Key"


CANNOT_BE_TOLD = "cannot be told: an internal error, which `fairway doctor` names; work goes on"
UNEXPLAINED = explaining.Why("", "")  # why a job waits, if that cannot be told


class NodeDesk:
    """Answers for one node."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._keys = KeyedQueues(lambda paths: self.store.find_queues(paths))

    @property
    def name(self) -> str:
        return self._node.name

    @property
    def store(self) -> Store:
        return self._node.store

    # --- the leader elsewhere --------------------------------------------------------------------
    @property
    def leads(self) -> bool:
        return self._node.engine is not None

    @property
    def linked(self) -> bool:
        return self._node.link.up

    async def pass_on(self, question: Question, timeout: float) -> LeaderReply:
        return await self._node.relay.pass_on(question, timeout)

    async def open_tunnel(self) -> Tunnel | None:
        return None if self.leads else await self._node.relay.open_tunnel()

    def ring(self) -> None:
        if self._node.engine is not None:
            self._node.engine.look_again()
        else:
            self._node.relay.ring()

    def pulse(self, node: str, stands: bool, term: int) -> AsyncIterator[bytes]:
        engine = self._leader()
        if engine.reign.term != term:
            raise NoLeader(f"node {self.name} leads in term {engine.reign.term}, not {term}")
        return self._beat(engine, node, stands)

    async def _beat(self, engine: Engine, node: str, stands: bool) -> AsyncIterator[bytes]:
        key, over = object(), self._node.reign_over
        self._node.linked[key] = node, stands
        self._node.stir()
        try:
            while self._node.engine is engine and engine.reign.trusts_itself(moment().mono):
                yield b"%d\n" % engine.reign.term
                with suppress(TimeoutError):
                    async with asyncio.timeout(engine.reign.ttl / 20):
                        await over.wait()
        finally:
            del self._node.linked[key]

    # --- jobs ------------------------------------------------------------------------------------
    async def submit(self, submissions: Sequence[Submission]) -> list[Accepted]:
        engine = self._node.engine
        self._check_notified(job for each in submissions for job in each.jobs)
        for each in submissions:
            each.jobs = await self._with_keys(engine, each.jobs)
        if engine is not None:
            engine.culprits.check(submissions)
            _check_room(engine.core.world.tree, submissions)
        if engine is not None and self._can_ride(engine, submissions):
            try:
                return await engine.submit(submissions)
            except Deposed:  # surely not written
                pass
            except TimeoutError:
                raise _late(MAYBE_ACCEPTED) from None
        accepted = await self.store.submit(submissions, wall())
        self.ring()
        return accepted

    def _check_notified(self, jobs: Iterable[NewJob]) -> None:
        """Refuse a `notify` whose address is a private one, unless this node may call those."""
        if self._node.options.allow_private:
            return
        for job in jobs:
            if job.extras is not None and job.extras.notify is not None:
                check_notified(job.extras.notify)

    async def _with_keys(self, engine: Engine | None, jobs: Sequence[NewJob]) -> Sequence[NewJob]:
        """Give jobs of queues in set mode their keys; the leader knows them best."""
        if engine is None:
            return await self._keys.give_keys(jobs)
        tree = engine.core.world.tree
        return with_keys(jobs, tree.keys_payloads)

    def _can_ride(self, engine: Engine, submissions: Sequence[Submission]) -> bool:
        """Say whether all these jobs can be in the leader's own commit.

        On a server a unique key may stand in somebody's open transaction: whoever wants it waits, and that
        must not be the leader. One that replaces another is inserted like anybody's: the leader must know
        what it replaces before it takes it in.
        """
        alone = self.store.kind != "postgres"
        jobs = [job for each in submissions for job in each.jobs]
        return all(_is_plain(engine, job) and (alone or job.unique is None) for job in jobs)

    async def get_job(self, job: int) -> StoredJob:
        found = await self.store.find_job(job)
        if found is None:
            raise NotFound(f"there is no job {show(job)}", code="no_such_job")
        return found

    async def wait_job(self, job: int, timeout: float) -> StoredJob:
        deadline = moment().mono + timeout
        while True:
            waiter = asyncio.ensure_future(self._node.feed.wait_ended(job, max(deadline - moment().mono, 0)))
            try:
                await asyncio.sleep(0)  # let it listen before we look, or an end told in between is missed
                found = await self.get_job(job)
                if found.state in ENDED or moment().mono >= deadline:
                    return found
                await waiter
            finally:
                waiter.cancel()

    async def settle_log(self) -> None:
        if self._node.engine is not None:
            await self._node.engine.settle_log(SETTLE_SECONDS)

    def follow_log(self, job: int) -> AbstractContextManager[asyncio.Event]:
        return self._node.feed.follow_log(job)

    async def look(self, job: int) -> str:
        engine, found = self._leader(), await self.get_job(job)
        where = await _ask_leader(engine.look(lambda world: _where_runs(world, job)))
        if where is None:
            raise Conflict(f"job {show(job)} does not run: it is {found.state}", code="not_running")
        attempt, incarnation, name = where
        port = engine.ports.get(incarnation)
        if port is None:
            raise Conflict(f"worker '{name}', which runs it, is not connected now", code="worker_silent")
        seen = await port.look(job, attempt)
        if seen is None:
            raise CallerError(f"worker '{name}' did not answer", code="no_answer", status=504)
        if not seen.found:
            raise CallerError(f"worker '{name}': {seen.text}", code="cannot_tell", status=501)
        return seen.text

    async def search(self, query: Query, *, sort: str, limit: int, cursor: str | None) -> Page:
        return await self.store.search(query, now=wall(), sort=sort, limit=limit, cursor=cursor)

    async def standing(self, jobs: Sequence[StoredJob]) -> list[Standing | None]:
        engine = self._node.engine
        if engine is None or not any(_is_for_leader(engine.core.world.tree, job) for job in jobs):
            return [None] * len(jobs)
        try:
            return await _ask_leader(engine.look(lambda world: [_standing(world, job) for job in jobs]))
        except WorldError:  # the leader has just ended, or cannot speak for the store: jobs are shown without
            return [None] * len(jobs)

    async def notes(self, jobs: Sequence[StoredJob]) -> dict[int, StoredNote]:
        begun = [job.id for job in jobs if job.attempt > 0]
        if not begun:
            return {}
        await self._write_notes()
        return await self.store.find_notes(begun)

    async def attempt_notes(self, job: int) -> list[StoredNote]:
        await self._write_notes()
        return await self.store.attempt_notes(job)

    async def _write_notes(self) -> None:
        if self._node.engine is not None:
            await self._node.engine.notebook.flush()

    async def cancel(self, job: int, force: bool = False) -> StoredJob:
        def make(found: StoredJob) -> Callable[[Any], happened.CoreEvent]:
            if found.state is State.CANCELLED:
                raise _Settled
            if found.state in ENDED:
                raise Conflict(
                    f"job {show(job)} has ended ({found.state}); it cannot be cancelled", code="ended"
                )
            return lambda ticket: happened.CancelAsked(ticket, arrival_of_stored(found), force)

        return await self._change(job, make)

    async def edit(self, job: int, changes: dict[str, Any]) -> StoredJob:
        holder = None
        if "queue" in changes and (unique := (await self.get_job(job)).unique) is not None:
            holder = await self.store.find_claim(changes["queue"], unique, wall())

        def make(found: StoredJob) -> Callable[[Any], happened.CoreEvent]:
            if found.state in ENDED:
                raise Conflict(f"job {show(job)} has ended ({found.state}); retry it instead", code="ended")
            if found.once and (changes.get("max_attempts") or 1) > 1:
                raise InvalidRequest(
                    "an at-most-once job has one attempt", field="max_attempts", code="invalid"
                )
            new, run_at, rules = _edited(found, changes)
            if holder is not None and holder != job and new.queue != found.queue:
                raise Conflict(
                    f"queue '{new.queue}' has a job with this unique key: {show(holder)}", code="unique_taken"
                )
            return lambda ticket: happened.EditAsked(ticket, arrival_of_stored(found), new, run_at, rules)

        return await self._change(job, make)

    async def relocate(self, job: int, to: str | None) -> StoredJob:
        if to is not None:
            await self._check_goal(await self.get_job(job), to)
        return await self._recall_or_edit(job, lambda found: relocated(found, to))

    async def prefer(self, job: int) -> StoredJob:
        return await self._recall_or_edit(job, arrival_of_stored, "front")

    async def requeue(self, job: int) -> StoredJob:
        return await self._recall_or_edit(job, arrival_of_stored, "end")

    async def _check_goal(self, job: StoredJob, to: str) -> None:
        """Refuse to send a job where it could never run."""
        problem = await _ask_leader(self._leader().look(lambda world: why_not_there(world, job, to)))
        if problem is not None:
            code, detail = problem
            raise NotFound(detail, code=code) if code == "no_such_worker" else Conflict(detail, code=code)

    async def _recall_or_edit(
        self, job: int, wanted: Callable[[StoredJob], Arrival], stand: str = ""
    ) -> StoredJob:
        """Let a job wait as is wanted; if it runs, its worker is asked to hand it back first."""

        def make(found: StoredJob) -> Callable[[Any], happened.CoreEvent]:
            if found.state in ENDED:
                raise Conflict(f"job {show(job)} has ended ({found.state}); retry it instead", code="ended")
            if found.state is State.RUNNING and stand == "front":
                raise Conflict(f"job {show(job)} is running already", code="running")
            new = wanted(found)
            if found.state is State.RUNNING:
                return lambda ticket: happened.RecallAsked(ticket, new, found.attempt, stand == "end")
            seen, run_at, rules = arrival_of_stored(found), found.run_at, found.rules
            return lambda ticket: happened.EditAsked(ticket, seen, new, run_at, rules, stand)

        # It may begin just now: then the store says so soon.
        return await self._change(job, make, again=("moved", "running"))

    async def retry(self, job: int) -> StoredJob:
        found = await self.get_job(job)
        if found.state not in ENDED:
            raise Conflict(f"job {show(job)} has not ended ({found.state})", code="not_ended")
        revived = await _ask_leader(self._leader().revive(job))
        if revived is None:
            raise Conflict(
                f"job {show(job)} cannot be tried again: its unique key is taken", code="unique_taken"
            )
        return await self.get_job(job)

    async def resolve(self, job: int, succeeded: bool, value: bytes | None) -> StoredJob:
        state = State.SUCCEEDED if succeeded else State.FAILED
        outcome = value if succeeded else b'{"reason":"resolved","type":"","message":"resolved by a person"}'
        found = await self.get_job(job)
        if not await _ask_leader(self._leader().resolve(job, state, outcome or b"null")):
            raise Conflict(f"job {show(job)} is {found.state}, not unknown", code="not_unknown")
        return await self.get_job(job)

    # --- queues ----------------------------------------------------------------------------------
    async def queues(self, after: str = "", most: int = 1000) -> list[QueueView]:
        def read(world: WorldLook) -> list[QueueView]:
            now, queues = moment(), world.tree.queues
            page = nsmallest(most, (path for path in queues if path > after))
            shown = [queues[path] for path in page]
            numbers = world.advice.ask(Part.NUMBERS, {}, world.numbers.of_branches, shown)
            return [_show_queue(world, queue, numbers.get(queue), now) for queue in shown]

        return await _ask_leader(self._leader().look(read))

    async def queue(self, path: str) -> QueueView:
        return await self._shown(self._leader(), path)

    async def _shown(self, engine: Engine, path: str, flows: bool = True) -> QueueView:
        def read(world: WorldLook) -> QueueView | None:
            queue = world.tree.find(path)
            return None if queue is None or not queue.path else _show_whole_queue(world, queue, flows)

        found = await _ask_leader(engine.look(read))
        if found is None:
            raise NotFound(f"there is no queue {path!r}; it exists from its first job or setting on")
        return await self._with_last_change(found)

    async def set_queue(
        self, path: str, changes: dict[str, Any], *, replace: bool, who: str = ANONYMOUS
    ) -> QueueView:
        engine = self._leader()
        await _ask(engine, lambda ticket: happened.QueueAsked(ticket, path, changes, replace, who))
        return await self._shown(engine, path, flows=False)

    async def set_queues(
        self, queues: Mapping[str, dict[str, Any]], *, dry: bool, who: str
    ) -> list[QueueChange]:
        reply = await _ask(self._leader(), lambda ticket: happened.QueuesAsked(ticket, queues, dry, who))
        changes: list[QueueChange] = reply.value
        return changes

    async def revert_queue(self, path: str, number: int | None, who: str) -> QueueView:
        settings = await settings_before(self.store, path, number)
        return await self.set_queue(path, settings, replace=True, who=who)

    async def delete_queue(self, path: str, who: str = ANONYMOUS) -> None:
        await _ask(self._leader(), lambda ticket: happened.QueueDropAsked(ticket, path, who))

    async def move_queue(self, path: str, to: str, *, rename: bool, who: str) -> MoveView:
        engine, operation = self._leader(), show(IdMaker().one())
        warnings = [
            *await _ask_leader(engine.look(lambda world: strange_workers(world, path, to))),
            *await strange_schedules(self.store, path),
        ]
        reply = await _ask(
            engine, lambda ticket: happened.MoveAsked(ticket, path, to, operation, rename, who)
        )
        if self._node.mover is not None:
            self._node.mover.stir()
        view = await self.find_move(reply.value)
        view.warnings = warnings
        return view

    async def find_move(self, operation: str) -> MoveView:
        view = await _ask_leader(self._leader().look(lambda world: find_under_way(world, operation)))
        view = view or await find_over(self.store, operation)
        if view is None:
            why = "it may have ended long ago, or been of a leader that is gone"
            raise NotFound(f"there is no operation {operation}; {why}", code="no_such_operation")
        return view

    async def _with_last_change(self, view: QueueView) -> QueueView:
        view.changed = next(iter(await self.store.queue_changes(view.path, 1)), None)
        return view

    async def next_jobs(self, path: str, most: int) -> list[int]:
        def read(world: WorldLook) -> list[int] | None:
            queue = world.tree.find(path)
            if queue is None or not queue.path:
                return None
            found = world.advice.ask(Part.POSITION, None, foresee, world.tree, queue, most, moment())
            if found is None:
                raise NoAdvice(f"the order in which jobs of '{path}' begin {CANNOT_BE_TOLD}")
            return found

        found = await _ask_leader(self._leader().look(read))
        if found is None:
            raise NotFound(f"there is no queue '{path}'", code="no_such_queue")
        return found

    # --- failures --------------------------------------------------------------------------------
    async def mute_failure(self, cause: CauseRow, until: int | None, who: str = ANONYMOUS) -> bool:
        return await failure_book.mute(self.store, self._leader(), cause, until, who)

    async def forget_failure(self, cause: CauseRow, most: int, who: str = ANONYMOUS) -> int:
        return await failure_book.forget(self.store, self._leader(), cause, most, who)

    # --- on many jobs ----------------------------------------------------------------------------
    async def start_action(self, action: Action) -> ActionProgress:
        return await self._operations().start(action)

    async def operations(self) -> list[ActionProgress | MoveView]:
        return [*self._operations().all(), *await _ask_leader(self._leader().look(moves_under_way))]

    async def find_operation(self, operation: str) -> ActionProgress | MoveView:
        return self._operations().find(operation) or await self.find_move(operation)

    async def abort_operation(self, operation: str) -> ActionProgress:
        aborted = self._operations().abort(operation)
        if aborted is None:
            await self.find_move(operation)
            raise Conflict("a move of a queue cannot be aborted; move it back instead", code="not_abortable")
        return aborted

    # --- schedules -------------------------------------------------------------------------------
    async def schedules(self) -> list[ScheduleView]:
        return [_show_schedule(row, wall()) for row in await self.store.schedule_rows()]

    async def get_schedule(self, name: str) -> ScheduleView:
        return _show_schedule(await get_schedule(self.store, name), wall())

    async def put_schedule(
        self, name: str, spec: ScheduleSpec, *, dry: bool = False
    ) -> tuple[ScheduleView, bool]:
        self._check_notified([check_job(spec, wall())])
        row, is_new = await _ask_leader(self._schedule_book().put(name, spec, dry=dry))
        return _show_schedule(row, wall()), is_new

    async def pause_schedule(self, name: str, paused: bool) -> ScheduleView:
        return _show_schedule(await _ask_leader(self._schedule_book().set_paused(name, paused)), wall())

    async def delete_schedule(self, name: str) -> None:
        await _ask_leader(self._schedule_book().delete(name))

    async def run_schedule(self, name: str) -> StoredJob:
        job = await _ask_leader(self._schedule_book().run(name))
        self.ring()
        return await self.get_job(job)

    # --- workers and nodes -----------------------------------------------------------------------
    async def demand(self) -> Demand:
        found = await _ask_leader(
            self._leader().look(lambda world: world.advice.ask(Part.DEMAND, None, demand, world, moment()))
        )
        if found is None:  # and not "none is wanted": whoever starts workers would stop them
            raise NoAdvice(f"which slots are wanted {CANNOT_BE_TOLD}")
        return found

    async def workers(self) -> list[WorkerView]:
        def read(world: WorldLook) -> list[WorkerView]:
            return [_show_worker(worker, moment().mono) for worker in world.workers.values()]

        views = await _ask_leader(self._leader().look(read))
        return sorted(views, key=lambda view: (view.name, view.joined_at or 0))

    async def set_worker(self, name: str, changes: dict[str, Any]) -> WorkerView:
        queues = changes.get("queues")
        globs = tuple(queues) if queues is not None else None
        draining, slots, seconds = (changes.get(key) for key in ("draining", "slots", "deadline_seconds"))
        await _ask(
            self._leader(),
            lambda ticket: happened.WorkerAsked(ticket, name, globs, draining, slots, seconds),
        )
        found = [view for view in await self.workers() if view.name == name]
        if not found:
            raise NotFound(f"worker '{name}' has just left", code="no_such_worker")
        return found[-1]

    async def cluster(self) -> ClusterView:
        leadership, nodes, history = await asyncio.gather(
            self.store.find_leadership(), self.store.nodes(), self.store.leaders()
        )
        led = leadership is not None and leadership.holder != ""
        engine = self._node.engine
        return ClusterView(
            leader=leadership if led else None,
            nodes=without_predecessors(nodes),
            this=self.name,
            leading=engine is not None,
            ready=led,
            history=history,
            link=None if engine is not None else self._node.link.up,
            linked=dict(self._node.linked.values()) if engine is not None else {},
            stands=self._node.options.lead,
            silent={node.incarnation for node in nodes if is_silent(node, wall())},
        )

    async def troubles(self) -> Troubles:
        engine = self._leader()
        world: WorldLook = engine.core.world
        return Troubles(world.advice.mishaps.all(), engine.culprits.troubles(world.aside))

    async def step_down(self) -> None:
        self._leader()
        self._node.step_down()

    def events(self, after: str | None) -> AsyncIterator[list[NumberedEvent] | None]:
        return self._node.feed.follow(after)

    def attach_worker(self) -> WorkerPort:
        engine = self._node.engine
        if engine is None:
            return Doorstep(self._node.no_leader_detail())
        port = engine.open_port()
        port.roster = self._node.roster
        return port

    def numbers(self) -> dict[str, float]:
        return self._node.numbers()

    # --- inside ----------------------------------------------------------------------------------
    def _leader(self) -> Engine:
        if self._node.engine is None:
            raise NoLeader(self._node.no_leader_detail())
        return self._node.engine

    def _operations(self) -> Operations:
        if self._node.operations is None:
            raise NoLeader(self._node.no_leader_detail())
        return self._node.operations

    def _schedule_book(self) -> ScheduleBook:
        if self._node.schedules is None:
            raise NoLeader(self._node.no_leader_detail())
        return self._node.schedules

    async def _change(
        self,
        job: int,
        make: Callable[[StoredJob], Callable[[Any], happened.CoreEvent]],
        again: tuple[str, ...] = ("moved",),
    ) -> StoredJob:
        """Ask the core to change a job where the store saw it; look again if it moved meanwhile."""
        for _ in range(ASK_TRIES):
            engine = self._leader()
            found = await self.get_job(job)
            try:
                reply = await _ask_leader(engine.ask(make(found)))
            except _Settled:
                return found
            if reply.error is None:
                return await self.get_job(job)
            if reply.error[0] not in again:
                raise _problem(reply)
            engine.look_again()
            await asyncio.sleep(0.02)
        raise Conflict(f"job {show(job)} keeps moving; try again", code="moved")


class _Settled(Exception):
    """Nothing is left to do."""


async def _ask(engine: Engine, make: Callable[[Any], happened.CoreEvent]) -> Reply:
    reply = await _ask_leader(engine.ask(make))
    if reply.error is not None:
        raise _problem(reply)
    return reply


def _late(remark: str = "") -> NoLeader:
    return NoLeader(f"the leader did not answer within {ASK_SECONDS:g} s{remark}")


async def _ask_leader(awaitable: Awaitable[T]) -> T:
    try:
        async with asyncio.timeout(ASK_SECONDS):
            return await awaitable
    except TimeoutError:
        raise _late() from None
    except Deposed as error:
        raise NoLeader(str(error)) from None


def _is_plain(engine: Engine, job: NewJob) -> bool:
    """Say whether a job can ride in the leader's own commit.

    One that makes a queue or sets its limit must not do so before it is known to be accepted, and one that
    waits for others needs the store's word on them: it is inserted like anybody's and taken in from the
    arrivals.
    """
    world: WorldLook = engine.core.world
    queue = world.tree.find(job.queue)
    if job.extras is not None and job.extras.after:
        return False
    if queue is None or not queue.known or job.id in world.live:  # an id that was drawn twice is the store's
        return False
    return not job.replace and job.concurrency in (None, queue.settings.limit)


def _check_room(tree: TreeLook, submissions: Sequence[Submission]) -> None:
    """Refuse what a queue has no room for. At a node that does not lead nobody knows; there it is dropped.

    A blocked job stands in no line yet, and is taken whatever stands there when it is released.
    """
    if not tree.bounded:
        return
    asked: dict[str, Counter[str | None]] = {}
    for job in (job for each in submissions for job in each.jobs if not (job.extras and job.extras.after)):
        asked.setdefault(job.queue, Counter())[job.flow] += 1
    for path, coming in asked.items():
        refusal = tree.discipline_at(path).refusal(coming)
        if refusal is not None:
            raise QueueFull(f"queue '{path}' takes no more jobs now: {refusal}; try again later")


def _problem(reply: Reply) -> Exception:
    code, detail = reply.error or ("conflict", "")
    if code == "invalid":
        return InvalidRequest(detail, field=reply.field)
    return NotFound(detail, code=code) if code == "not_found" else Conflict(detail, code=code)


def _show_schedule(row: ScheduleRow, now: int) -> ScheduleView:
    spec, progress = spec_of(row), progress_of(row)
    return ScheduleView(
        row.name, spec, progress, preview(spec, progress, now), row.created_at, row.changed_at
    )


def _where_runs(world: WorldLook, job: int) -> tuple[int, str, str] | None:
    """Return a running job's attempt, its worker's incarnation and name; None if it does not run."""
    live = world.live.get(job)
    if live is None or not live.attempt:
        return None
    return live.attempt, live.incarnation, live.worker.spec.name


def _is_for_leader(tree: TreeLook, job: StoredJob) -> bool:
    """Say whether the leader knows more of a job than its row has."""
    return job.state in WAITING or (bool(job.rules.unsaid) and tree.rules_at(job.queue) is not DEFAULT_RULES)


def _standing(world: WorldLook, job: StoredJob) -> Standing | None:
    rules = in_force(job.rules, world.tree.rules_at(job.queue))
    if job.state not in WAITING:
        return Standing(None, None, rules=rules)
    arrival, now = arrival_of_stored(job), moment()
    ask = world.advice.ask
    why = ask(Part.EXPLANATION, UNEXPLAINED, explaining.explain, world, arrival, now.wall)
    if why is None:
        return Standing(None, None, rules=rules)
    waiting = None if why is UNEXPLAINED else Waiting(why.reason, why.detail, why.on)
    position = ask(Part.POSITION, None, explaining.position, world, arrival, now.wall)
    return Standing(waiting, position, ask(Part.FORECAST, None, eta, world, arrival, now, position), rules)


def _edited(found: StoredJob, changes: dict[str, Any]) -> tuple[Arrival, int, Rules]:
    tags = tuple(changes["tags"]) if "tags" in changes else found.tags
    if "adapter" in changes and not found.task:
        raise InvalidRequest(
            "only a job with a task can go to another adapter; its work is of this one", field="adapter"
        )
    adapter = changes.get("adapter", found.adapter)
    run_at = changes.get("run_at", found.run_at)
    place = run_at if "run_at" in changes else found.place
    extras, rules = _edited_extras(found, changes, run_at), found.rules
    new = Arrival(
        found.id,
        changes.get("queue", found.queue),
        changes.get("flow", found.flow),
        changes.get("priority", found.priority),
        with_pins(shape_of(adapter, found.task, tags, found.once), extras),
        place,
        None,
        extras,
    )
    changed = {name: changes[name] for name in ("max_attempts", "timeout", "grace") if name in changes}
    return new, run_at, said(rules, **changed)


def _edited_extras(found: StoredJob, changes: dict[str, Any], run_at: int) -> Extras | None:
    before = found.extras.deadline if found.extras is not None else None
    deadline = changes.get("deadline", before)
    if deadline is not None and deadline <= run_at and ("run_at" in changes or "deadline" in changes):
        field = "deadline" if "deadline" in changes else "run_at"
        raise InvalidRequest("deadline is not after run_at: the job could never begin", field=field)
    new = pinned_anew(replace(found.extras or Extras(), deadline=deadline), changes)
    return found.extras if new == (found.extras or Extras()) else new


def _show_whole_queue(world: WorldLook, queue: QueueLook, flows: bool = True) -> QueueView:
    now = moment()
    ask = world.advice.ask
    shown = _show_queue(world, queue, ask(Part.NUMBERS, None, world.numbers.of_branch, queue), now)
    if flows:
        found = ask(Part.NUMBERS, [], busiest, world, queue, FLOWS_SHOWN, now)
        shown.flows = [_show_flow(world, flow, shown.limited_by, now) for flow in found]
    return shown


def _show_flow(world: WorldLook, found: FlowNow, limited_by: str | None, now: Moment) -> FlowView:
    return FlowView(
        flow=found.flow,
        waiting=found.waiting,
        running=found.running,
        oldest_wait=_seconds_since(found.oldest, now.wall),
        limited_by=limited_by if found.waiting else None,
        weight=found.weight,
        share=None if found.share is None else round(found.share, 4),
        figures=_figures(world, found.numbers, now.mono),
        slot_seconds=round(found.slot_seconds, 3),
    )


def _seconds_since(place: int | None, now: int) -> float | None:
    """Return how long a job has waited that stands at this place, if it is due."""
    return max(now - place, 0) / 1e6 if place is not None and place <= now else None


def _show_queue(world: WorldLook, queue: QueueLook, numbers: Numbers | None, moment: Moment) -> QueueView:
    (now, mono), ask = moment, world.advice.ask
    below = list(queue.subtree())
    due = sum(node.own.due_count(now) for node in below)
    oldest = min((at for node in below if (at := node.own.oldest()) is not None), default=None)
    return QueueView(
        path=queue.path,
        settings=queue.settings,
        waiting=due,
        scheduled=queue.waiting - due,
        running=queue.in_use,
        oldest_wait=_seconds_since(oldest, now),
        limited_by=ask(Part.EXPLANATION, None, explaining.limited_by, queue, mono) if queue.waiting else None,
        figures=_figures(world, numbers, mono),
        slot_seconds=round(queue.slot_seconds_until(mono), 3),
    )


def _figures(world: WorldLook, numbers: Numbers | None, mono: float) -> Figures | None:
    if numbers is None:
        return None
    return world.advice.ask(Part.NUMBERS, None, world.numbers.figures, numbers, mono)


def _show_worker(worker: Worker, mono: float) -> WorkerView:
    spec = worker.spec
    if worker.joined_at is None:  # only its hello says what it has; people may have given it some since
        queues = None if worker.attached is None else list(worker.attached)
        slots, running = worker.given_slots, len(worker.live)
        return WorkerView(spec.name, spec.incarnation, "silent", slots=slots, running=running, queues=queues)
    state = "silent" if not worker.connected else "draining" if worker.draining else "up"
    facts, signatures = worker.about.get("facts"), worker.about.get("signatures")
    return WorkerView(
        name=spec.name,
        incarnation=spec.incarnation,
        state=state,
        slots=spec.slots,
        busy=round(spec.slots - max(worker.free, 0) / SLOT, 3),
        running=len(worker.live),
        tags=list(spec.tags),
        adapters=sorted(spec.adapters),
        tasks=[task.name for task in spec.tasks],
        queues=list(spec.queues),
        facts=dict(facts) if isinstance(facts, dict) else {},
        joined_at=worker.joined_at,
        last_beat_seconds=round(max(mono - worker.heard_at, 0.0), 3),
        version=str(worker.about.get("version", "")),
        signatures=dict(signatures) if isinstance(signatures, dict) else {},
        async_tasks=[task.name for task in spec.tasks if task.is_async],
    )
