"""Bugs planted on purpose, one at a time, to show that the simulation would catch them.

Each is a small patch of the real code (core, store) or of the modelled shell (engine, workers, clients),
in force within a `with`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from fairway.core import blocked, endings, fleet, placement, recalls, retries, scheduler
from fairway.core.account import Account
from fairway.core.contest import Contest
from fairway.core.deadlines import Deadlines
from fairway.core.lifecycle import ENDED, State, Trigger
from fairway.core.matching import View
from fairway.core.model import Arrival, Held, Moment, Result
from fairway.core.plan import Batch, Plan, Resolve
from fairway.core.queue import Queue
from fairway.core.rates import Bucket
from fairway.core.retries import Judgement
from fairway.core.scheduler import Core
from fairway.core.tree import Tree
from fairway.core.world import Live, World
from fairway.node.dispatch import send_rest
from fairway.store import Receipt, Request, StoredJob, Submission
from fairway.stores.memory import MemoryStore, writing
from fairway.stores.memory.tables import Draft
from fairway.wire import messages as wire

from .clients import Clients
from .engine import Leader
from .links import Link
from .workers import Worker

Planting = Callable[[], Any]


@contextmanager
def patched(*places: tuple[Any, str, Any]) -> Iterator[None]:
    """Replace attributes for a while."""
    before = [(owner, name, getattr(owner, name)) for owner, name, _ in places]
    for owner, name, value in places:
        setattr(owner, name, value)
    try:
        yield
    finally:
        for owner, name, value in before:
            setattr(owner, name, value)


def unfenced_finish() -> Any:
    """A report ends whichever attempt of its job is live."""
    real = endings.report

    def report(world: World, incarnation: str, results: Sequence[Result], luck: float, now: Moment) -> None:
        for result in results:
            live = world.live.get(result.job)
            if live is None or not live.attempt:
                real(world, incarnation, [result], luck, now)
            else:
                real(world, live.incarnation, [result._replace(attempt=live.attempt)], luck, now)

    return patched((endings, "report", report), (fleet, "report", report))


def reap_without_guard() -> Any:
    """Leases are judged although the leader itself was late."""
    real = fleet.expire

    def expire(world: World, now: Moment) -> None:
        world.planned_at = now.mono
        real(world, now)

    return patched((fleet, "expire", expire))


def limit_from_a_stale_count() -> Any:
    """What begins in one plan is judged by the counts from before it."""
    real = Tree.take

    def take(self: Tree, queue: Queue, offer: Any, most: int, size: int, now: int) -> Any:
        before = [(above, above.settings) for above in queue.path_up()]
        for above, settings in before:
            above.settings = replace(settings, limit=None)
        taken = real(self, queue, offer, most, size, now)
        for above, settings in before:
            above.settings = settings
        return taken

    return patched((Tree, "take", take))


def double_release() -> Any:
    """An attempt that ends gives its place back twice."""
    real = Tree.release

    def release(self: Tree, queue: Queue, count: int, size: int, *more: Any) -> None:
        real(self, queue, 2 * count, size, *more)

    return patched((Tree, "release", release))


def release_forgets_ancestors() -> Any:
    """An attempt that ends gives its place back in its own queue only."""
    real = Tree.release

    def release(self: Tree, queue: Queue, count: int, size: int, *more: Any) -> None:
        real(self, queue, count, size, *more)
        for above in queue.path_up():
            if above is not queue:
                above.in_use += count

    return patched((Tree, "release", release))


def acknowledgement_before_commit() -> Any:
    """Workers are thanked while the commit is still under way."""

    def before(self: Leader, plan: Plan) -> None:
        send_rest(self._wires(), plan, self.term)

    return patched((Leader, "_before_commit", before))


def start_before_begin() -> Any:
    """Workers are told of begins while the commit is still under way."""

    def before(self: Leader, plan: Plan) -> None:
        for job, begin in [(job, one) for one in plan.batch.begins for job in one.jobs]:
            stored = self.store.tables.jobs.get(job)
            link = self.ports.get(begin.incarnation)
            if stored is not None and link is not None:
                one = wire.Assignment(
                    job, stored.attempt + 1, stored.adapter, stored.task, stored.payload, None,
                    stored.queue,
                )  # fmt: skip
                link.send(wire.Begin(self.term, [one]))

    return patched((Leader, "_before_commit", before))


def requeue_of_at_most_once() -> Any:
    """A lost worker's at-most-once job runs again."""
    real = retries.judge

    def judge(kind: str, *words: Any, once: bool, **more: Any) -> Judgement:
        return real(kind, *words, once=once and kind != "lost", **more)

    return patched((endings, "judge", judge))


def crashes_not_counted() -> Any:
    """A job whose child or worker died runs again, however often."""
    real = retries.judge

    def judge(kind: str, rules: Any, ledger: Any, *, once: bool, **more: Any) -> Judgement:
        if kind in ("crashed", "lost") and not once and not more["cancelling"]:
            return Judgement(Trigger.LOSE, None, ledger)
        return real(kind, rules, ledger, once=once, **more)

    return patched((endings, "judge", judge))


def wall_clock_lease() -> Any:
    """Leases are judged by a clock that people can set."""
    real_absorb, real_plan = Core.absorb, Core.plan

    def absorb(self: Core, event: Any, now: Moment) -> None:
        real_absorb(self, event, Moment(now.wall, now.wall / 1e6))

    def plan(self: Core, now: Moment) -> Plan:
        made = real_plan(self, Moment(now.wall, now.wall / 1e6))
        if made.wake_at is not None:
            made.wake_at += now.mono - now.wall / 1e6
        return made

    return patched((Core, "absorb", absorb), (Core, "plan", plan))


def duplicate_begin_starts_twice() -> Any:
    """A worker does not remember what it was told before."""
    real = Worker._begin

    def begin(self: Worker, assignments: Sequence[wire.Assignment], ahead: bool) -> None:
        self.seen.clear()
        real(self, assignments, ahead)

    return patched((Worker, "_begin", begin))


def submit_without_key() -> Any:
    """A client that heard no answer asks again as if it had never asked."""

    def request(self: Clients, key: str) -> Request | None:
        return None

    return patched((Clients, "_request", request))


def begin_that_never_expires() -> Any:
    """An attempt lives as long as its worker, named or not."""
    real = fleet.expire

    def expire(world: World, now: Moment) -> None:
        for live in world.live.values():
            live.named_at = now.mono
        real(world, now)

    return patched((fleet, "expire", expire))


def renewal_by_worker() -> Any:
    """A beat renews all that the leader believes its worker to hold."""
    real = fleet.renew

    def renew(world: World, incarnation: str, holds: Sequence[Held], about: Any, now: Moment) -> None:
        worker = world.workers.get(incarnation)
        for live in worker.live.values() if worker else ():
            live.named_at = now.mono
        real(world, incarnation, holds, about, now)

    return patched((fleet, "renew", renew))


class ByName(dict[str, Link]):
    """Links found by the name in an incarnation."""

    def get(self, key: str, default: Any = None) -> Any:
        names = {incarnation.split(".")[0]: link for incarnation, link in self.items()}
        return names.get(key.split(".")[0], default)


def message_to_a_name() -> Any:
    """A message for a worker goes to whoever has its name now."""

    def wires(self: Leader) -> Mapping[str, Link]:
        return ByName(self.ports)

    return patched((Leader, "_wires", wires))


def late_result_changes_what_has_ended() -> Any:
    """A late result overwrites any end, not only an unknown one."""
    real = writing._resolve

    def resolve(draft: Draft, one: Resolve, now: int) -> StoredJob | None:
        job = draft.find(one.job)
        if job is not None and job.state in ENDED:
            job.state = State.UNKNOWN
            one = one._replace(attempt=0)
        return real(draft, one, now)

    return patched((writing, "_resolve", resolve))


def late_result_is_ignored() -> Any:
    """An unknown job stays so although its own worker says how it went."""

    def resolve(draft: Draft, one: Resolve, now: int) -> None:
        return None

    return patched((writing, "_resolve", resolve))


def commit_without_term() -> Any:
    """The store takes commits from whoever believes to lead."""
    real = MemoryStore.apply_commit

    def commit(
        self: MemoryStore, term: int, holder: str, batch: Batch, submissions: Sequence[Submission], now: int
    ) -> Receipt:
        leader = self.tables.leadership
        assert leader is not None
        return real(self, leader.term, leader.holder, batch, submissions, now)

    return patched((MemoryStore, "apply_commit", commit))


def stranger_left_standing() -> Any:
    """A worker that was buried while it stood still beats for ever and gets no work."""
    real = fleet.renew

    def renew(world: World, *words: Any) -> None:
        real(world, *words)
        world.plan.strangers.clear()

    return patched((fleet, "renew", renew))


def cancel_forgets_the_line() -> Any:
    """A cancelled job stays in its line."""
    real = Tree.remove

    def remove(self: Tree, arrival: Any, now: int) -> bool:
        removed = real(self, arrival, now)
        if removed:
            self.put(arrival, now)
        return removed

    return patched((Tree, "remove", remove))


def deadlines_are_not_looked_at() -> Any:
    """Nobody ends what waits past its deadline, nor wakes for it."""
    return patched(
        (scheduler, "expire", lambda world, now: None), (Deadlines, "next", lambda deadlines: None)
    )


def deadline_lost_on_the_way_back() -> Any:
    """A job that comes back from its worker has no deadline any more."""
    real = Live.arrival
    return patched((Live, "arrival", lambda self, place: real(self, place)._replace(extras=None)))


def move_forgets_the_row() -> Any:
    """A job is moved in the leader's memory, but not in the store."""

    def move(draft: Draft, number: int, queue: str, now: int) -> None:
        return None

    return patched((writing, "_move", move))


def ended_before_is_not_heard() -> Any:
    """A job that waits for others is not told which of them had ended when it came."""

    def hear(world: World, ended: Any, now: Moment) -> None:
        return None

    return patched((blocked, "hear", hear))


def unknown_counts_as_ended() -> Any:
    """Whoever waits for a job of which nobody knows how it went goes on as if all were well."""
    real = blocked._over

    def over(world: World, jobs: Any, state: State | None, now: Moment) -> None:
        real(world, jobs, State.SUCCEEDED if state is State.UNKNOWN else state, now)

    return patched((blocked, "_over", over))


def doom_goes_no_further() -> Any:
    """Those who wait for a job that never began, and never will, do not hear of it."""

    def settle(world: World, now: Moment) -> None:
        for end in world.plan.batch.ends:
            blocked._over(world, end.jobs, State(end.state), now)

    return patched((blocked, "settle", settle))


def replaced_job_stays() -> Any:
    """The leader takes a newer job in and leaves the one that had its key."""

    def retire(self: Leader, jobs: Sequence[int]) -> None:
        return None

    return patched((Leader, "_retire", retire))


def replaced_job_is_tried_again() -> Any:
    """A job whose key has gone while it ran waits again after an error."""
    never = property(lambda live: False, lambda live, value: None)
    return patched((Live, "replaced", never))


def named_workers_stay_in_their_kind() -> Any:
    """A worker that jobs are kept from is asked as one of many."""
    return patched((scheduler, "single_out", lambda world, now: None))


def recall_forgets_where_to() -> Any:
    """A job that was sent elsewhere waits for any worker when it comes back."""
    real = recalls._recall

    def recall(world: World, live: Live, ask: Any, now: Moment) -> None:
        shape = live.shape
        real(world, live, ask, now)
        live.shape = shape

    return patched((recalls, "_recall", recall))


def recall_is_not_written() -> Any:
    """Where a job was sent to is known to the leader only."""
    real = recalls._recall

    def recall(world: World, live: Live, ask: Any, now: Moment) -> None:
        real(world, live, ask, now)
        world.plan.batch.recalls.pop()

    return patched((recalls, "_recall", recall))


def recall_costs_a_try() -> Any:
    """Whoever is stopped to go elsewhere pays for it."""
    real = retries.judge

    def judge(kind: str, rules: Any, ledger: Any, **more: Any) -> Judgement:
        judgement = real(kind, rules, ledger, **more)
        if kind == "stopped" and judgement.reason is None:
            return judgement._replace(ledger=ledger._replace(tries=ledger.tries + 1))
        return judgement

    return patched((endings, "judge", judge))


def bucket_is_always_full() -> Any:
    """A start takes a token, but the bucket does not get emptier."""
    return patched((Bucket, "take", lambda bucket, count, mono: None))


def assured_is_forgotten() -> Any:
    """What a queue is assured is stored, and never looked at."""
    real = Tree.set

    def forget(self: Tree, queue: Queue, settings: Any, now: int) -> None:
        real(self, queue, replace(settings, assured=None), now)
        queue.settings = settings

    return patched((Tree, "set", forget))


def priority_is_forgotten() -> Any:
    """The priority of a queue is stored, and never looked at."""
    real = Tree.set

    def forget(self: Tree, queue: Queue, settings: Any, now: int) -> None:
        real(self, queue, replace(settings, priority=0), now)
        queue.settings = settings

    return patched((Tree, "set", forget))


def one_has_nothing_so_all_rest() -> Any:
    """The first worker that nothing fits ends the filling for all."""
    real = placement._begin_next

    def begin_next(world: World, worker: Any, kept: Any, dry: set[View], now: Moment) -> bool:
        return not dry and real(world, worker, kept, dry, now)

    return patched((placement, "_begin_next", begin_next))


def credit_from_a_held_slot() -> Any:
    """Who holds a slot and wants no more saves up a claim on all that the others have meanwhile."""
    return unlevelled(lambda own, level: own < level)


def debt_from_lonely_work() -> Any:
    """What was held while nobody else wanted it is to be made up for, all of it."""
    return unlevelled(lambda own, level: own > level)


def unlevelled(stands: Callable[[float, float], bool]) -> Any:
    """Let one that holds slots keep what it has had, below the level or above it, when it competes again."""
    real = Contest.join

    def join(self: Contest, account: Account, mono: float, ahead: float, first: Account | None) -> None:
        account.pass_time(mono)
        if self.count and account.over and stands(account.used / account.weight, self.level(mono)):
            self.enter(account, mono)
        else:
            real(self, account, mono, ahead, first)

    return patched((Contest, "join", join), (Contest, "bound", lambda *_: None))


def look_lets_time_pass() -> Any:
    """Whoever asks where a job stands is answered by what decides: time passes for its queue."""
    real = Queue.ahead_of

    def ahead_of(self: Queue, job: Arrival, now: int) -> int:
        self.own.shapes(now)
        return real(self, job, now)

    return patched((Queue, "ahead_of", ahead_of))


def ended_together_began_together() -> Any:
    """Attempts that end in one report count as if all of them had begun with the first."""
    real = endings._are_alike

    def are_alike(first: Live, live: Live) -> bool:
        begun_at, live.begun_at = live.begun_at, first.begun_at
        alike = real(first, live)
        if not alike:
            live.begun_at = begun_at
        return alike

    return patched((endings, "_are_alike", are_alike))


#: Each bug with the words one of which must stand in the violation.
BUGS: dict[str, tuple[Planting, tuple[str, ...]]] = {
    "unfenced finish": (unfenced_finish, ("invariant 4", "guard of lose")),
    "reap without guard": (reap_without_guard, ("guard of lose",)),
    "limit from a stale count": (limit_from_a_stale_count, ("invariant 3",)),
    "double release": (double_release, ("invariant 18", "invariant 3")),
    "release forgets ancestors": (release_forgets_ancestors, ("invariant 18",)),
    "acknowledgement before commit": (acknowledgement_before_commit, ("invariant 19",)),
    "start before begin": (start_before_begin, ("invariant 19",)),
    "requeue of at-most-once": (requeue_of_at_most_once, ("invariant 5",)),
    "crashes not counted": (crashes_not_counted, ("invariant 10",)),
    "wall-clock lease": (wall_clock_lease, ("guard of lose", "guard of slot-seconds")),
    "duplicate begin starts twice": (duplicate_begin_starts_twice, ("invariant 2", "invariant 5")),
    "submit retried without key": (submit_without_key, ("invariant 12",)),
    "begin that never expires": (begin_that_never_expires, ("invariant 8",)),
    "renewal by worker instead of attempt": (renewal_by_worker, ("invariant 8",)),
    "message to a name instead of an incarnation": (message_to_a_name, ("invariant 4", "invariant 19")),
    "late result changes what has ended": (late_result_changes_what_has_ended, ("invariant 9",)),
    "late result is ignored": (late_result_is_ignored, ("guard of resolve", "invariant 8")),
    "commit without term": (commit_without_term, ("invariant 16", "invariant 4")),
    "stranger left standing": (stranger_left_standing, ("invariant 8",)),
    "move forgets the row": (move_forgets_the_row, ("invariant 18", "invariant 4")),
    "ended before is not heard": (ended_before_is_not_heard, ("invariant 8",)),
    "unknown counts as ended": (unknown_counts_as_ended, ("invariant 21",)),
    "doom goes no further": (doom_goes_no_further, ("invariant 8",)),
    "replaced job stays": (replaced_job_stays, ("invariant 22",)),
    "replaced job is tried again": (replaced_job_is_tried_again, ("invariant 22",)),
    "cancel forgets the line": (cancel_forgets_the_line, ("invariant 4", "invariant 17", "invariant 18")),
    "deadlines are not looked at": (deadlines_are_not_looked_at, ("guard of deadline",)),
    "named workers stay in their kind": (named_workers_stay_in_their_kind, ("invariant 23", "guard of work")),
    "recall forgets where to": (recall_forgets_where_to, ("invariant 23",)),
    "recall is not written": (recall_is_not_written, ("invariant 19",)),
    "recall costs a try": (recall_costs_a_try, ("invariant 10",)),
    "bucket is always full": (bucket_is_always_full, ("guard of rate",)),
    "assured is forgotten": (assured_is_forgotten, ("guard of assured",)),
    "priority is forgotten": (priority_is_forgotten, ("guard of priority",)),
    "one has nothing so all rest": (one_has_nothing_so_all_rest, ("guard of work",)),
    "deadline lost on the way back": (deadline_lost_on_the_way_back, ("guard of deadline",)),
}

#: The same of bugs that only show in worlds that last.
LASTING_BUGS: dict[str, tuple[Planting, tuple[str, ...]]] = {
    "credit from a held slot": (credit_from_a_held_slot, ("guard of turns", "guard of shares")),
    "debt from lonely work": (debt_from_lonely_work, ("guard of turns", "guard of shares")),
    "look lets time pass": (look_lets_time_pass, ("guard of looks",)),
    "ended together, began together": (ended_together_began_together, ("guard of slot-seconds",)),
}
