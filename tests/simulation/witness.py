"""What must hold, watched from outside the core: numbers are those of the invariants in the docs.

The witness keeps its own books: what clients were told, what code ran where, what each commit changed. It
looks at the store's rows after each commit and at nothing the core believes, but for `settled`, which
compares the core's counts with the rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from fairway.core.lifecycle import ENDED, WAITING, State
from fairway.core.matching import serves, why_not
from fairway.core.model import Moment, Shape
from fairway.core.plan import Drop, End, Event, Plan, Return
from fairway.errors import Deposed
from fairway.store import Accepted, Receipt, StoredJob, Submission
from fairway.stores.memory import MemoryStore
from fairway.stores.telling import ended_attempts
from fairway.wire.messages import Held

from .leases import Leases
from .promises import Promises
from .shares import Shares

if TYPE_CHECKING:
    from .engine import Leader
    from .world import World

Key = tuple[int, int]

FAILURES = {State.FAILED, State.CANCELLED}
KNOWN_ENDS = FAILURES | {State.SUCCEEDED}


class Violation(AssertionError):
    """An invariant does not hold."""


class Row(NamedTuple):
    """What the witness remembers of a job's row."""

    state: State
    attempt: int
    incarnation: str | None
    generation: int
    queue: str
    line: tuple[object, ...]
    place: int
    tries: int
    crashes: int
    losses: tuple[int, ...]
    deadline: int | None


class Witness:
    """The books of one world."""

    def __init__(self, world: World, store: MemoryStore, lease: float, beat: float) -> None:
        self.world, self.store = world, store
        self.leases = Leases(lease, beat)
        self.promises = Promises(lambda: store.tables.queues)
        self.bound: set[str] = set()  # workers that people may have bound to some queues
        self.rows: dict[int, Row] = {}
        self.open = 0  # jobs that have not ended
        self.running: Counter[str] = Counter()  # live attempts by queue, subtree counted
        self.own_running: Counter[str] = Counter()  # and without it
        self.holding: Counter[str] = Counter()  # live attempts by incarnation
        self.waiting: Counter[str] = Counter()
        self.lines: dict[tuple[object, ...], dict[int, int]] = {}
        self.deadlines: dict[int, int] = {}  # of jobs that wait
        self.untaken: set[int] = set()
        self.begun: dict[Key, str] = {}  # committed begins → incarnation
        self.generations: dict[Key, int] = {}  # committed begins → generation
        self.over: set[Key] = set()  # attempts whose end is committed
        self.starts: Counter[tuple[int, int]] = Counter()  # (job, generation) of at-most-once jobs
        self.code: set[Key] = set()
        self.verdicts: dict[Key, str] = {}
        self.too_late: set[Key] = set()  # results that were refused
        self.crashed: Counter[tuple[int, int]] = Counter()  # (job, generation) → children that died
        self.relocations: Counter[Key] = Counter()
        self.term = 0
        self.number = 0
        self.untold: set[Key] = set()  # begun ahead of a free slot by this leader, and not told of yet
        self.keys: dict[str, list[int]] = {}
        self.tokens: dict[bytes, int] = {}
        self.cancelled: set[tuple[int, int]] = set()  # (job, generation) whose cancel was answered
        self.accepted: set[int] = set()
        self.replaced: set[tuple[int, int]] = set()  # (job, generation) that lost its key while it ran
        self.newer: set[int] = set()  # jobs that replace one, and that the leader knows
        self.told_events: Counter[tuple[str, int]] = Counter()
        self.ended_as: dict[int, set[State]] = {}  # all the ways in which a job has ended so far
        self.shares = Shares(self) if world.scale > 1.0 else None

    # --- 1, 12, 19: clients -----------------------------------------------------------------------------
    def answered(self, key: str, ids: Sequence[int]) -> None:
        """A client was told that these are its jobs."""
        for job in ids:
            self.require(job in self.store.tables.jobs, 19, f"job {job} was promised but is not stored")
        self.require(self.keys.setdefault(key, list(ids)) == list(ids), 12, f"key {key} has two answers")
        self.accepted.update(ids)

    def cancel_answered(self, job: int, generation: int) -> None:
        """A client was told that its job is cancelled, or being so."""
        row = self.store.tables.jobs[job]
        if row.generation != generation:
            return  # somebody tried it again before the answer came
        fine = row.state in ENDED or row.cancelling
        self.require(fine, 19, f"cancel of {job} was answered, the store has it {row.state}")
        self.cancelled.add((job, row.generation))

    # --- 2, 5, 19: code -----------------------------------------------------------------------------------
    def told_begin(self, incarnation: str, job: int, attempt: int) -> None:
        """A worker hears of an attempt."""
        whose = self.begun.get((job, attempt))
        self.require(whose is not None, 19, f"{incarnation} was told of {job}:{attempt} before its commit")
        self.require(
            whose == incarnation, 4, f"{incarnation} was told of {job}:{attempt}, which is {whose}'s"
        )

    def started(self, incarnation: str, job: int, attempt: int) -> None:
        """Code starts."""
        self.require((job, attempt) not in self.code, 2, f"code of {job}:{attempt} starts twice")
        self.code.add((job, attempt))
        if self.store.tables.jobs[job].once:
            generation = (job, self.generations[job, attempt])
            self.starts[generation] += 1
            self.require(self.starts[generation] == 1, 5, f"at-most-once job {job} starts twice")

    def ended(self, incarnation: str, job: int, attempt: int, kind: str) -> None:
        """Code ended in some way."""
        self.verdicts[job, attempt] = kind
        if kind == "crashed":
            generation = (job, self.generations[job, attempt])
            self.crashed[generation] += 1
            most = self.store.tables.jobs[job].rules.max_crashes
            fine = most is None or self.crashed[generation] <= most
            self.require(fine, 10, f"job {job} crashed more than {most} times")

    def handed_back(self, incarnation: str, held: Held) -> None:
        """A worker gives an attempt back."""
        self.verdicts[held.job, held.attempt] = "stopped" if held.started else "handed_back"

    def told_done(self, incarnation: str, job: int, attempt: int) -> None:
        """A worker is thanked for a report."""
        self.require(
            (job, attempt) in self.over, 19, f"report on {job}:{attempt} acknowledged before its commit"
        )

    def told_stale(self, incarnation: str, job: int, attempt: int) -> None:
        """A worker is told that its result came too late."""
        self.too_late.add((job, attempt))

    # --- 16: terms ----------------------------------------------------------------------------------------
    def elected(self, term: int, mono: float) -> None:
        """A node won an election."""
        self.untold.clear()  # the new one does not know of them
        self.require(term > self.term, 16, f"term {term} after {self.term}")
        self.term = term
        self.leases.elected(term, mono)
        if self.shares is not None:
            self.shares.elected(mono)

    # --- commits ------------------------------------------------------------------------------------------
    def commit(self, leader: Leader, plan: Plan, submissions: Sequence[Submission], now: Moment) -> Receipt:
        """Apply a commit and look at what it changed."""
        if leader.term == self.term:
            self._check_fences(plan)
        receipt = self.store.apply_commit(leader.term, leader.reign.holder, plan.batch, submissions, now.wall)
        self.require(
            leader.term == self.term, 16, f"term {leader.term} commits after {self.term} was elected"
        )
        before = self._look(self._touched(plan, submissions))
        self._check_ends(leader.term, plan, before, now.mono)
        self._check_begins(leader.term, plan, receipt, now)
        self._check_promises(leader, plan, receipt, now)
        for drop in plan.batch.drops:
            self._check_doomed(drop)
        self._check_events(plan, receipt)
        for job in receipt.revived:
            self.require(
                before[job.id].state in ENDED, 9, f"job {job.id} revived while {before[job.id].state}"
            )
        self.untaken &= self._arriving()
        self._check_deadlines(now)
        self._check_keys(receipt)
        if self.shares is not None:
            ended = [(job, one.attempt) for job, one in _endings(plan)]
            grew = any(one.losses != before[one.job].losses for one in plan.batch.returns)
            lost = grew or any(key not in self.verdicts for key in ended)
            self.shares.committed(leader, plan, receipt, ended, lost, now)
        self.world.note(
            f"commit term={leader.term} begins={[b[:2] for b in receipt.begun]} "
            f"ends={[(job, e.attempt, str(e.state)) for e in plan.batch.ends for job in e.jobs]} "
            f"returns={[r[:2] for r in plan.batch.returns]} number={receipt.number}"
        )
        return receipt

    def _check_keys(self, receipt: Receipt) -> None:
        """Of each key one job waits that the leader knows, and none begins that was replaced."""
        waiting: Counter[tuple[str, str]] = Counter()
        doubtful = self.untaken | self._replaced_by_untaken()
        for job in self.store.tables.jobs.values():
            if job.unique is not None and job.state in WAITING and job.id not in doubtful:
                waiting[job.queue, job.unique] += 1
        for key, count in waiting.items():
            self.require(count == 1, 22, f"{count} jobs wait with the key {key}")
        for one in receipt.begun:
            fine = (one.job, self.rows[one.job].generation) not in self.replaced
            self.require(fine, 22, f"job {one.job} begins after it was replaced")
        for job in self.store.tables.jobs.values():
            if job.extras is not None and job.extras.replaces is not None and job.id not in self.untaken:
                if job.id not in self.newer:
                    old = self.store.tables.jobs[job.extras.replaces]
                    self.replaced |= {(old.id, old.generation) for _ in self.store.read_replaced([old.id])}
                self.newer.add(job.id)

    def _replaced_by_untaken(self) -> set[int]:
        """Return the jobs whose key has gone to newer ones that the leader does not know yet."""
        extras = [job.extras for job in self.store.tables.jobs.values() if job.id in self.untaken]
        return {one.replaces for one in extras if one is not None and one.replaces is not None}

    def submitted(self, submissions: Sequence[Submission], wall: int) -> list[Accepted]:
        """Somebody else inserts jobs."""
        answers = self.store.apply_submit(submissions, wall)
        fresh = [job.id for one in submissions for job in one.jobs if job.id in self.store.tables.jobs]
        self._look(fresh)
        self.untaken |= self._arriving().intersection(fresh)
        return answers

    def _arriving(self) -> set[int]:
        return {row.job.job for row in self.store.read_arrivals(0)}

    def deposed(self, leader: Leader, error: Deposed) -> None:
        """A commit was refused; by the term only, else the core was wrong about the world."""
        current = self.store.tables.leadership
        mine = current is not None and (current.term, current.holder) == (leader.term, leader.reign.holder)
        self.require(not mine, 4, f"the core planned what cannot be: {error}")

    def _check_fences(self, plan: Plan) -> None:
        """Every end names the attempt that is live."""
        for job, one in _endings(plan):
            row = self.rows.get(job)
            live = row is not None and row.state is State.RUNNING
            fits = row is not None and (row.attempt, row.incarnation) == (one.attempt, one.incarnation)
            self.require(live and fits, 4, f"{job}:{one.attempt} of {one.incarnation} is ended but not live")

    def _touched(self, plan: Plan, submissions: Sequence[Submission]) -> list[int]:
        batch = plan.batch
        records = (
            batch.returns, batch.drops, batch.edits, batch.unblocks, batch.revives, batch.resolves,
            batch.flags, batch.recalls,
        )  # fmt: skip
        touched = {one.job for kind in records for one in kind}
        touched.update(_ended(plan), (job for begin in batch.begins for job in begin.jobs))
        touched.update(job.id for one in submissions for job in one.jobs)
        touched.update(job for move in batch.moves for job in move.jobs)
        return sorted(job for job in touched if job in self.store.tables.jobs)

    def _look(self, jobs: Sequence[int]) -> dict[int, Row]:
        """Read rows that changed; return what they were before."""
        before = {}
        for job in jobs:
            stored = self.store.tables.jobs[job]
            old, new = self.rows.get(job), _row_of(stored)
            if old is None:
                self._check_new(stored)
            else:
                before[job] = old
                self._uncount(job, old)
                self._check_change(job, old, new)
            self._count(job, new)
            self._check_ledger(stored)
        return before

    def _check_new(self, job: StoredJob) -> None:
        first = self.tokens.setdefault(job.payload, job.id)
        self.require(first == job.id, 12, f"jobs {first} and {job.id} were made of one request")

    def _check_change(self, job: int, old: Row, new: Row) -> None:
        """Attempts and generations only rise; what has ended stays as it is."""
        self.require(new.attempt >= old.attempt, 2, f"attempt of {job} falls")
        if old.state in ENDED and new.generation == old.generation:
            unknown = old.state is State.UNKNOWN and new.state in (State.SUCCEEDED, State.FAILED)
            self.require(unknown or new.state is old.state, 9, f"ended job {job}: {old.state} to {new.state}")
            self.require(new.attempt == old.attempt, 9, f"ended job {job} begins")
        if new.generation != old.generation:
            self.require(old.state in ENDED, 9, f"job {job} is tried again while {old.state}")

    def _check_ledger(self, job: StoredJob) -> None:
        most = job.rules.max_attempts
        self.require(most is None or job.tries <= most, 10, f"job {job.id} has {job.tries} tries of {most}")
        most = job.rules.max_crashes
        crashes = job.crashes + (0 if job.state in ENDED else len(job.losses))
        fine = most is None or job.once or crashes <= most
        self.require(fine, 10, f"job {job.id} has {crashes} crashes of {most}")

    def _check_ends(self, term: int, plan: Plan, before: dict[int, Row], mono: float) -> None:
        ended = Counter([*_ended(plan), *(drop.job for drop in plan.batch.drops)])
        for job, times in ended.items():
            self.require(times == 1, 11, f"job {job} gets {times} verdicts in one commit")
        for job, one in _endings(plan):
            key = (job, one.attempt)
            self.require(key not in self.over, 11, f"{job}:{one.attempt} ends twice")
            self.over.add(key)
            verdict = self.verdicts.get(key)
            grew = isinstance(one, Return) and one.losses != before[job].losses
            if isinstance(one, Return) and not grew and verdict in ("stopped", "handed_back"):
                free = (one.tries, one.crashes) == (before[job].tries, before[job].crashes)
                self.require(free, 10, f"{key} was handed back, which cost it something")
            if verdict is None or grew:
                fault = self.leases.find_fault(term, job, one, mono)
                self.require(fault is None, "lose", fault or "")
            if verdict is None and not grew and isinstance(one, Return):
                self.require(key not in self.code, 5, f"{key} is taken back as not started, but it was")
            if isinstance(one, End) and one.state == State.SUCCEEDED:
                value = value_of(job, one.attempt, one.incarnation)
                self.require(
                    verdict == "ok" and one.outcome == value, 4, f"{key} succeeded by another's word"
                )

    def _check_begins(self, term: int, plan: Plan, receipt: Receipt, now: Moment) -> None:
        revived = {job.id for job in receipt.revived}
        paths = set()
        for one in receipt.begun:
            row = self.rows[one.job]
            self.require(row.attempt == one.attempt, 2, f"begin of {one.job} says {one.attempt}")
            self.begun[one.job, one.attempt] = row.incarnation or ""
            self.generations[one.job, one.attempt] = row.generation
            self.leases.named(term, one.job, one.attempt, now.mono)
            fine = (one.job, row.generation) not in self.cancelled
            self.require(fine, 17, f"job {one.job} begins after its cancel was answered")
            fine = row.deadline is None or now.wall < row.deadline
            self.require(fine, "deadline", f"job {one.job} begins after its deadline")
            self._check_awaited(one.job)
            self._check_pins(one.job)
            paths.update(above(row.queue))
            for other, place in self.lines.get(row.line, {}).items():
                known = other not in self.untaken and other not in revived
                overtaken = known and place < row.place and place <= now.wall
                self.require(not overtaken, 6, f"job {one.job} overtakes {other} in its line")
        for path in paths:
            limit = self.promises.settings(path).get("limit")
            fine = limit is None or self.running[path] <= limit
            self.require(fine, 3, f"{self.running[path]} live attempts in '{path}', limit {limit}")

    # --- what queues are promised ---------------------------------------------------------------------------
    def _check_promises(self, leader: Leader, plan: Plan, receipt: Receipt, now: Moment) -> None:
        """No queue starts more than its rate allows, no borrower before those that come first."""
        self.promises.changed(one.path for one in plan.batch.queues)
        held_up = self._held_up({one.id for one in receipt.revived}, now)
        for one in receipt.begun:
            row, worker = self.rows[one.job], self.store.tables.jobs[one.job].worker
            for path in above(row.queue)[:-1]:
                self.require(
                    self.promises.start(path, now.mono), "rate", f"{one.job} is one too many in '{path}'"
                )
            alike = [] if worker in self.bound else held_up.get(_shape_of(row.line), [])
            for queue in alike:
                why = self.promises.precedence(queue, row.queue, self.running)
                self.require(why is None, why or "", f"{one.job} of '{row.queue}' begins before '{queue}'")
        if not receipt.refused:  # a slot was taken for each of those
            self._check_idle(leader, held_up)

    def rested(self, leader: Leader, now: Moment) -> None:
        """A leader had nothing to begin."""
        if leader.term == self.term:
            self._check_idle(leader, self._held_up(set(), now))

    def _held_up(self, revived: set[int], now: Moment) -> dict[Shape, list[str]]:
        """Return the queues in which such jobs waited when the plan was made, and that nothing holds back."""
        found: dict[Shape, list[str]] = {}
        for line, jobs in self.lines.items():
            known = (job for job, place in jobs.items() if place <= now.wall and job not in self.untaken)
            if any(job not in revived for job in known):
                queue = str(line[0])
                if self.promises.is_open(queue, self.running):
                    found.setdefault(_shape_of(line), []).append(queue)
        return found

    def _check_idle(self, leader: Leader, held_up: Mapping[Shape, Sequence[str]]) -> None:
        """No slot is left free on a worker that could take what waits, unless it is kept for somebody."""
        if not held_up or self.promises.some_keep():
            return
        for incarnation, worker in leader.core.world.workers.items():
            able = worker.connected and not worker.draining and not worker.refusing
            if able and self.holding[incarnation] < worker.spec.slots:
                queues = worker.attached or worker.spec.queues
                for shape, waiting in held_up.items():
                    fits = why_not(worker.spec, shape) is None
                    idle = next((queue for queue in waiting if fits and serves(queues, queue)), None)
                    self.require(idle is None, "work", f"'{idle}' waits while {incarnation} has a free slot")

    def _check_deadlines(self, now: Moment) -> None:
        """What the leader knew when it planned has begun in time, or ended with this very commit."""
        late = (job for job, deadline in self.deadlines.items() if deadline <= now.wall)
        overdue = next((job for job in late if job not in self.untaken), None)
        self.require(overdue is None, "deadline", f"job {overdue} still waits after its deadline")

    # --- 23: where a job may begin ------------------------------------------------------------------------
    def _check_pins(self, job: int) -> None:
        stored = self.store.tables.jobs[job]
        if stored.extras is not None:
            pinned, away = stored.extras.worker, stored.extras.away
            self.require(
                pinned in ("", stored.worker), 23, f"job {job}, pinned to {pinned}, begins elsewhere"
            )
            self.require(stored.worker not in away, 23, f"job {job} begins on {stored.worker}, away from it")

    def relocation_answered(self, job: int, attempt: int, to: str | None) -> None:
        """A client was told that an attempt goes elsewhere: that is durable."""
        row = self.store.tables.jobs[job]
        if row.attempt == attempt and row.state is State.RUNNING and not self.relocations[job, attempt]:
            kept = row.extras is not None and (to is None or row.extras.worker == to)
            self.require(kept, 19, f"job {job} was promised to go to {to}, the store has {row.extras}")
        self.relocations[job, attempt] += 1  # of several at once the last counts

    # --- 21: a job begins after all that it waits for, and fails if one of those did ----------------------
    def _check_awaited(self, job: int) -> None:
        stored = self.store.tables.jobs[job]
        if stored.extras is None or stored.generation:  # whoever tries it again does not wait again
            return
        for name in stored.extras.after:
            ways = self.ended_as[name]
            fine = State.SUCCEEDED in ways or (ways and stored.extras.if_failed == "run")
            self.require(bool(fine), 21, f"job {job} begins, but {name}, its dependency, is {ways or None}")

    def _check_doomed(self, drop: Drop) -> None:
        if b'"reason":"dependency"' not in (drop.outcome or b""):
            return
        extras = self.store.tables.jobs[drop.job].extras
        self.require(extras is not None and extras.if_failed == "fail", 21, f"job {drop.job} should not fail")
        ways = set().union(*(self.ended_as[name] for name in extras.after)) if extras else set()
        self.require(bool(ways & FAILURES), 21, f"job {drop.job} fails, but all it waits for went well")

    def _check_events(self, plan: Plan, receipt: Receipt) -> None:
        """Each commit that tells has the next number, and tells just what it did."""
        if receipt.number is not None:
            self.require(receipt.number == self.number + 1, 20, f"event {receipt.number} after {self.number}")
            self.number = receipt.number
        refused = set(receipt.refused)
        told = [event for news in receipt.told for event in news.events()]
        batch = plan.batch
        self._check_begun(plan, receipt, told)
        self._told_just("job.returned job.retrying", [one.job for one in batch.returns], told)
        self._told_just("job.revived", [job.id for job in receipt.revived], told)
        dropped = [one.job for one in batch.drops if one.job not in refused]
        resolved = [job.id for job in receipt.resolved]
        self._told_just("job.ended", [*_ended(plan), *dropped, *resolved], told)

    def _check_begun(self, plan: Plan, receipt: Receipt, told: Sequence[Event]) -> None:
        """Begins are told with their commit; of those ahead of a free slot before they end well, and once."""
        batch = plan.batch
        ahead = {job for begin in batch.begins if begin.ahead for job in begin.jobs}
        begun = {(one.job, one.attempt) for one in receipt.begun}
        waiting = {key for key in begun if key[0] in ahead}
        said = [(event.job or 0, event.attempt or 0) for event in told if event.kind == "job.begun"]
        fine = len(said) == len(set(said)) and begun - waiting <= set(said) <= begun - waiting | self.untold
        self.require(fine, 20, f"events job.begun tell of {said}, done was {begun}, untold {self.untold}")
        self.untold.difference_update(said)
        well = {(job, end.attempt) for end in batch.ends if end.state == "succeeded" for job in end.jobs}
        self.require(not well & self.untold, 20, f"attempts {well & self.untold} ended, but did not begin")
        self.untold -= ended_attempts(batch)
        self.untold |= waiting

    def _told_just(self, kinds: str, did: Sequence[int], told: Sequence[Event]) -> None:
        said = sorted(event.job or 0 for event in told if event.kind in kinds.split())
        self.require(said == sorted(did), 20, f"events {kinds} tell of {said}, done was {sorted(did)}")

    # --- 18: counts ---------------------------------------------------------------------------------------
    def settled(self, leader: Leader) -> None:
        """After a commit was taken in, the core's counts are those of the rows."""
        if leader.term != self.term:
            return
        untaken: Counter[str] = Counter()
        for job in self.untaken:
            if self.rows[job].state is State.QUEUED:
                untaken.update(above(self.rows[job].queue))
        sizes: Counter[str] = Counter()
        for attempt in leader.core.world.live.values():
            for path in above(attempt.queue.path):
                sizes[path] += attempt.size
        for path, queue in leader.core.world.tree.queues.items():
            live = self.running[path]
            self.require(
                queue.in_use == live, 18, f"'{path}' has {live} live, the core counts {queue.in_use}"
            )
            self.require(
                queue.held == sizes[path],
                18,
                f"'{path}' holds {queue.held} units, its attempts {sizes[path]}",
            )
            most = self.waiting[path]
            fine = most - untaken[path] <= queue.waiting <= most
            self.require(fine, 18, f"'{path}' has {most} waiting, the core counts {queue.waiting}")
        if self.shares is not None:
            self.shares.settled(leader)

    def _count(self, job: int, row: Row) -> None:
        self.rows[job] = row
        if row.state is State.RUNNING:
            self.running.update(above(row.queue))
            self.own_running[row.queue] += 1
            self.holding[row.incarnation or ""] += 1
        elif row.state is State.QUEUED:
            self.waiting.update(above(row.queue))
            self.lines.setdefault(row.line, {})[job] = row.place
        if row.state in (State.QUEUED, State.BLOCKED) and row.deadline is not None:
            self.deadlines[job] = row.deadline
        self.open += row.state not in ENDED
        self.ended_as.setdefault(job, set()).update({row.state} & KNOWN_ENDS)

    def _uncount(self, job: int, row: Row) -> None:
        if row.state is State.RUNNING:
            self.running.subtract(above(row.queue))
            self.own_running[row.queue] -= 1
            self.holding[row.incarnation or ""] -= 1
        elif row.state is State.QUEUED:
            self.waiting.subtract(above(row.queue))
            del self.lines[row.line][job]
        self.deadlines.pop(job, None)
        self.open -= row.state not in ENDED

    # --- the end ------------------------------------------------------------------------------------------
    def finish(self) -> None:
        """Look at everything once more when all is over."""
        jobs = self.store.tables.jobs
        for job in self.accepted:
            self.require(
                job in jobs and jobs[job].state in ENDED, 1, f"job {job} was accepted and did not end"
            )
        for job, stored in jobs.items():
            self.require(_row_of(stored) == self.rows[job], 4, f"row of {job} changed without a commit")
            unheard = stored.state is State.UNKNOWN and (job, stored.attempt) in self.too_late
            self.require(not unheard, "resolve", f"the late word on unknown job {job} was not taken")
        numbers = sorted(self.store.tables.events)
        self.require(numbers == list(range(1, len(numbers) + 1)), 20, "event numbers have gaps")
        self.require(not +self.running and not +self.waiting, 18, "something still counts as live or waiting")

    def require(self, holds: bool, number: int | str, text: str) -> None:
        """Raise a violation unless something holds."""
        if not holds:
            name = f"invariant {number}" if isinstance(number, int) else f"guard of {number}"
            raise Violation(f"{name}: {text}")


def above(path: str) -> list[str]:
    """Return a queue's path and all paths above it, the root included."""
    paths = [path]
    while path:
        path = path.rpartition("/")[0]
        paths.append(path)
    return paths


def _row_of(job: StoredJob) -> Row:
    state = State.QUEUED if job.state is State.SCHEDULED else job.state
    deadline = job.extras.deadline if job.extras is not None else None
    pins = (job.extras.worker, job.extras.away) if job.extras is not None else ("", ())
    line = (job.queue, job.flow, job.adapter, job.task, job.tags, job.delivery, job.priority, deadline, pins)
    return Row(
        state, job.attempt, job.incarnation, job.generation, job.queue, line, job.place, job.tries,
        job.crashes, job.losses, deadline,
    )  # fmt: skip


def _shape_of(line: tuple[Any, ...]) -> Shape:
    """Return what the jobs of a line need of a worker."""
    _, _, adapter, task, tags, _, _, _, (worker, away) = line
    return Shape(adapter, task, tags, worker=worker, away=away)


def value_of(job: int, attempt: int, incarnation: str) -> bytes:
    """Return what an attempt's code returns: its own name, or for some jobs what others return too."""
    return b'"%d:%d:%s"' % (job, attempt, incarnation.encode()) if job % 3 else b"null"


def _endings(plan: Plan) -> list[tuple[int, End | Return]]:
    ends: list[tuple[int, End | Return]] = [(job, end) for end in plan.batch.ends for job in end.jobs]
    return [*ends, *((one.job, one) for one in plan.batch.returns)]


def _ended(plan: Plan) -> list[int]:
    return [job for end in plan.batch.ends for job in end.jobs]
