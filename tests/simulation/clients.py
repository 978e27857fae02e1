"""Model clients: they submit with an idempotency key, ask again when they hear nothing, and meddle.

A call is one key and one or a few jobs; each try draws new ids, as a real client's node would. What a
job's code does at each attempt is drawn with the job, so that a world is the same however it is replayed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from fairway.core import events as happened
from fairway.core.lifecycle import ENDED, WAITING, State
from fairway.core.model import Delivery, Extras, Rules
from fairway.core.plan import Reply
from fairway.node.engine import arrival_of_stored
from fairway.node.relocating import relocated
from fairway.store import Accepted, NewJob, Request, StoredJob, Submission

from .engine import Submit

if TYPE_CHECKING:
    from .run import Simulation

QUEUES = ("acme", "acme/a", "acme/b", "acme/b/c", "beta", "ab")
NEW_NAMES = ("gamma", "acme/z", "beta/y/x")  # that queues are renamed to
FATES = (
    ("ok",), ("ok",), ("ok",), ("ok",), ("ok",), ("ok",), ("error", "ok"), ("error", "timeout", "ok"),
    ("error",), ("crashed", "ok"), ("crashed",), ("permanent",), ("retry_after", "ok"), ("timeout",),
)  # fmt: skip
PATIENCE = 3.0
RULES = Rules(max_attempts=4, max_crashes=4)  # of plain jobs
Answer = Callable[[Reply | None], None]


@dataclass(frozen=True)
class Wish:
    """A job as its submitter wants it, and what its code will do at each attempt."""

    token: bytes
    queue: str
    flow: str | None
    priority: int = 0
    task: str = "slow"
    tags: tuple[str, ...] = ()
    once: bool = False
    delay: float = 0.0
    rules: Rules = RULES
    unique: str | None = None
    concurrency: int | None = None
    fate: tuple[str, ...] = ("ok",)
    seconds: float = 1.0
    patience: float | None = None  # seconds after its time by which it must have begun
    after: tuple[int, ...] = ()  # jobs it waits for
    after_own: int = 0  # and how many of those before it in its own call
    if_failed: str = "fail"
    replace: bool = False
    unique_for: float | None = None
    worker: str = ""  # the only one that may take it


class Clients:
    """Everybody who asks something of the cluster."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.world = simulation.world
        self.pending: set[str] = set()  # keys that have no answer yet
        self.asking = 0  # questions of the healing that have no answer yet
        self._ids = 0
        self._wishes = 0
        self._revivals = 0
        self._moves = 0

    # --- submitting ----------------------------------------------------------------------------------
    def call(self) -> None:
        """Submit one job, or a few in one call."""
        count = 1 if self.world.chance(0.8) else self.world.random.randint(2, 4)
        self._ask([self._wish(number) for number in range(count)])

    def ask_plainly(self, wanted: Sequence[tuple[str, str | None, float]]) -> None:
        """Submit jobs that any worker can take, in one call: each of a queue, of a flow, for so long."""
        wishes = []
        for queue, flow, seconds in wanted:
            self._wishes += 1
            fate = ("error", "ok") if self.world.chance(0.03) else ("ok",)
            wish = Wish(b'"t%d"' % self._wishes, queue, flow, fate=fate, seconds=seconds)
            self.simulation.wishes[wish.token] = wish
            wishes.append(wish)
        self._ask(wishes)

    def _ask(self, wishes: list[Wish]) -> None:
        key = f"k{self._wishes}"
        self.pending.add(key)
        self._try(key, wishes)

    def flood(self) -> None:
        """Ask for much of one kind at once, some of it in a queue that is assured slots."""
        leader, assured = self.simulation.reachable_leader(), self.world.random.choice(("beta", "acme"))
        if leader is not None:
            wanted = {"assured": self.world.random.randint(1, 3), "limit": None, "rate": None, "burst": None}
            leader.put(happened.QueueAsked(lambda reply: None, assured, wanted, False))
        for queue in (*["ab"] * 6, *[assured] * 4):
            wish = replace(
                self._wish(0), queue=queue, task="slow", tags=(), once=False, delay=0.0, unique=None,
                concurrency=None, fate=("ok",), patience=None, after=(), after_own=0,
                replace=False, worker="",
            )  # fmt: skip
            self.simulation.wishes[wish.token] = wish
            self._ask([wish])

    def _wish(self, before: int) -> Wish:
        random, world = self.world.random, self.world
        self._wishes += 1
        once = world.chance(0.25)
        task = random.choice(("quick", "quick", "slow", "slow", "many", ""))
        fate = random.choice(FATES)
        rules = Rules(
            max_attempts=1 if once else random.randint(2, 4),
            max_crashes=random.randint(2, 4),
            retry_first=0.5,
            retry_max=3.0,
        )
        wish = Wish(
            token=b'"t%d"' % self._wishes,
            queue=random.choice(QUEUES),
            flow=random.choice((None, None, "ann", "bob")),
            priority=random.choice((0, 0, 0, 1, 5)),
            task=task,
            tags=("gpu",) if world.chance(0.1) else (),
            once=once,
            delay=world.between(0.5, 5.0) if world.chance(0.15) else 0.0,
            rules=rules,
            unique=f"u{random.randint(0, 2)}" if world.chance(0.1) else None,
            concurrency=random.randint(1, 3) if world.chance(0.03) else None,
            fate=fate,
            seconds=world.between(0.001, 0.004) if task == "quick" else world.between(0.05, 2.0),
            patience=world.between(0.001, 8.0) if world.chance(0.15) else None,
            after=self._others() if world.chance(0.2) else (),
            after_own=random.randint(0, before) if world.chance(0.5) else 0,
            if_failed=random.choice(("fail", "run")),
        )
        if world.chance(self.simulation.rate("replacing")):
            wish = self._replacing(wish)
        if world.chance(self.simulation.rate("relocating")):
            wish = replace(wish, worker=random.choice(self.simulation.workers).name)
        self.simulation.wishes[wish.token] = wish
        return wish

    def _others(self) -> tuple[int, ...]:
        """Return a few jobs that somebody may wait for; the younger ones have often not ended yet."""
        known = list(self.simulation.store.tables.jobs)
        youngest = known[-6:] if self.world.chance(0.7) else known
        return tuple(self.world.random.sample(youngest, min(len(youngest), self.world.random.randint(1, 3))))

    def _replacing(self, wish: Wish) -> Wish:
        """Let a wish be one for the newest job of one of a few keys, or for one whose key lasts."""
        random = self.world.random
        queue, key = random.choice((("acme/a", "r0"), ("acme/a", "r1"), ("beta", "r0")))
        lasts = random.uniform(1.0, 10.0) if self.world.chance(0.3) else None
        return replace(wish, queue=queue, unique=key, replace=self.world.chance(0.8), unique_for=lasts)

    def _try(self, key: str, wishes: list[Wish]) -> None:
        """Send the call once more, by the leader or by another node, under the same key."""
        if key not in self.pending:
            return
        submission = Submission(self._new_jobs(wishes), self._request(key))
        deaf = self.world.chance(self.simulation.rate("impatience"))
        leader = self.simulation.reachable_leader()
        again = [True]  # one more try per try, whether the answer or the patience comes first

        def retry() -> None:
            if again.pop() if again else False:
                self._try(key, wishes)

        def answer(accepted: list[Accepted] | None) -> None:
            if accepted is None or deaf:
                self.world.after(self.world.between(0.1, 1.0), retry)
            else:
                self._answered(key, accepted[0])

        self.world.after(PATIENCE * self.world.scale, retry)
        asks_the_store = any(  # so it is inserted like anybody's
            job.replace or (job.extras is not None and job.extras.after) for job in submission.jobs
        )
        if leader is not None and not asks_the_store and self.world.chance(0.6):
            leader.submit(Submit([submission], answer))
        elif not self.simulation.store_down():
            answer(self.simulation.witness.submitted([submission], self.world.wall))
            self.world.after(self.world.between(0.0, 1.0), self.simulation.ring)

    def _request(self, key: str) -> Request:
        return Request(key, key.encode())

    def _answered(self, key: str, accepted: Accepted) -> None:
        self.world.note(f"client {key} has {accepted.ids}")
        self.simulation.witness.answered(key, accepted.ids)
        self.pending.discard(key)

    def _new_jobs(self, wishes: list[Wish]) -> list[NewJob]:
        jobs: list[NewJob] = []
        for wish in wishes:
            job = self._new_job(wish)
            after = (*wish.after, *(one.id for one in jobs[: wish.after_own]))
            if after:
                extras = replace(job.extras or Extras(), after=after, if_failed=wish.if_failed)
                job = job._replace(extras=extras)
            jobs.append(job)
        return jobs

    def _new_job(self, wish: Wish) -> NewJob:
        self._ids += 1
        now = self.world.wall
        run_at = now + int(wish.delay * 1e6)
        deadline = None if wish.patience is None else run_at + int(wish.patience * 1e6)
        extras = Extras(deadline=deadline, unique_for=wish.unique_for, worker=wish.worker)
        extras = None if extras == Extras() else extras
        return NewJob(
            self._ids, wish.queue, wish.flow, wish.priority, "python" if wish.task else "command", wish.task,
            wish.tags, Delivery.AT_MOST_ONCE if wish.once else Delivery.AT_LEAST_ONCE,
            run_at, now, wish.rules, wish.token, wish.unique, wish.concurrency, extras, wish.replace,
        )  # fmt: skip

    # --- meddling --------------------------------------------------------------------------------------
    def meddle(self) -> None:
        """Do one of the things people do."""
        acts = (self._cancel, self._cancel, self._revive, self._resolve, self._edit, self._set_queue,
                self._set_queue, self._set_worker, self._drop_queue, self._move_queue,
                self._move_queue)  # fmt: skip
        self.world.random.choice(acts)()

    def _cancel(self, tries: int = 5, job: int | None = None) -> None:
        found = self._pick(lambda row: row.state not in ENDED) if job is None else self._find(job)
        leader = self.simulation.reachable_leader()
        if found is None or leader is None or found.state in ENDED:
            return
        generation, number = found.generation, found.id

        def answer(reply: Reply | None) -> None:
            if reply is None:
                return
            self.world.note(f"client cancels {number}: {reply.value or reply.error}")
            if reply.error is None:
                self.simulation.witness.cancel_answered(number, generation)
            elif tries:
                self.simulation.ring()
                self.world.after(0.02, lambda: self._cancel(tries - 1, number))

        leader.put(happened.CancelAsked(answer, arrival_of_stored(found), self.world.chance(0.3)))

    def _revive(self) -> None:
        found, leader = self._pick(lambda row: row.state in ENDED), self.simulation.reachable_leader()
        if found is not None and leader is not None and self._revivals < 5:
            self._revivals += 1
            self.world.note(f"client tries {found.id} again")
            leader.ask_people(found.id, happened.ReviveAsked(found.id), lambda done: None)

    def _resolve(self) -> None:
        found = self._pick(lambda row: row.state is State.UNKNOWN)
        leader = self.simulation.reachable_leader()
        if found is not None and leader is not None:
            self.world.note(f"client resolves {found.id}")
            ask = happened.ResolveAsked(found.id, State.FAILED, b'{"reason":"resolved"}')
            leader.ask_people(found.id, ask, lambda done: None)

    def _edit(self) -> None:
        found = self._pick(lambda row: row.state in (State.QUEUED, State.BLOCKED))
        leader = self.simulation.reachable_leader()
        if found is None or leader is None:
            return
        random = self.world.random
        run_at = self.world.wall + random.choice((0, 3_000_000)) if self.world.chance(0.5) else found.run_at
        place = run_at if run_at != found.run_at else found.place
        queue = random.choice(QUEUES) if self.world.chance(0.5) else found.queue
        priority = random.randint(0, 5) if self.world.chance(0.5) else found.priority
        old = arrival_of_stored(found)
        new = old._replace(queue=queue, priority=priority, place=place)
        self.world.note(f"client edits {found.id}")
        leader.put(
            happened.EditAsked(lambda reply: None, old, new, run_at, found.rules)
        )  # fmt: skip

    def relocate(self) -> None:
        """Send a job to a worker or away from its own, to the front of its line or to its end."""
        acts = (self._send, self._send, self._send, self._prefer, self._requeue, self._cancel)
        self.world.random.choice(acts)()

    def _send(self) -> None:
        found, leader = self._pick(_is_open), self.simulation.reachable_leader()
        if found is None or leader is None:
            return
        to = self.world.random.choice(self.simulation.workers).name if self.world.chance(0.5) else None
        if to is None and found.worker is None:
            return
        self.world.note(f"client sends {found.id} to {to}")
        new = relocated(found, to)
        if found.state is not State.RUNNING:
            ask = happened.EditAsked(lambda _: None, arrival_of_stored(found), new, found.run_at, found.rules)
            leader.put(ask)
            return
        job, attempt = found.id, found.attempt

        def answer(reply: Reply | None) -> None:
            if reply is not None and reply.error is None:
                self.simulation.witness.relocation_answered(job, attempt, to)

        leader.put(happened.RecallAsked(answer, new, attempt, False))

    def _prefer(self) -> None:
        self._stand(self._pick(lambda row: row.state is State.QUEUED), "front")

    def _requeue(self) -> None:
        self._stand(self._pick(_is_open), "end")

    def _stand(self, found: StoredJob | None, stand: str) -> None:
        leader = self.simulation.reachable_leader()
        if found is None or leader is None:
            return
        self.world.note(f"client puts {found.id} to the {stand}")
        job = arrival_of_stored(found)
        if found.state is State.RUNNING:
            leader.put(happened.RecallAsked(lambda _: None, job, found.attempt, True))
        else:
            leader.put(happened.EditAsked(lambda _: None, job, job, found.run_at, found.rules, stand))

    def _set_queue(self) -> None:
        random = self.world.random
        changes = random.choice(
            ({"limit": 1}, {"limit": random.randint(1, 4)}, {"limit": None}, {"paused": True},
             {"paused": False}, {"discipline": "fifo"}, {"discipline": None}, {"discipline": "deadline"},
             {"discipline": "sfq", "charge": random.choice(("jobs", "seconds"))},
             {"assured": random.randint(0, 2), "lend": random.random() < 0.5}, {"assured": None},
             {"weight": random.choice((0.5, 1.0, 4.0))}, {"priority": random.randint(-1, 1)},
             {"rate": random.choice(("2/s", "20/s")), "burst": random.randint(1, 3)},
             {"rate": None, "burst": None})
        )  # fmt: skip
        leader = self.simulation.reachable_leader()
        if leader is not None:
            path = random.choice(QUEUES)
            self.world.note(f"client sets {path} {changes}")
            leader.put(happened.QueueAsked(lambda reply: None, path, changes, False))

    def _drop_queue(self) -> None:
        leader = self.simulation.reachable_leader()
        if leader is not None:
            leader.put(happened.QueueDropAsked(lambda reply: None, self.world.random.choice(QUEUES)))

    def _move_queue(self) -> None:
        """Rename a branch, or delete it and let its jobs go elsewhere."""
        random, leader = self.world.random, self.simulation.reachable_leader()
        if leader is not None:
            rename = self.world.chance(0.5)
            found = self._pick(lambda row: row.state not in ENDED)
            path = found.queue if found is not None else random.choice(QUEUES)
            path = path.partition("/")[0] if self.world.chance(0.3) else path
            to = random.choice(NEW_NAMES if rename else QUEUES)
            self._moves += 1
            self.world.note(f"client moves {path} to {to}")
            leader.put(happened.MoveAsked(lambda reply: None, path, to, f"o{self._moves}", rename, "client"))

    def _set_worker(self) -> None:
        random, leader = self.world.random, self.simulation.reachable_leader()
        if leader is not None:
            queues = random.choice((None, ("**",), ("acme/*", "acme"), ("beta", "ab")))
            name = random.choice(self.simulation.workers).name
            self.simulation.witness.bound.add(name)
            leader.put(
                happened.WorkerAsked(lambda reply: None, name, queues, random.choice((None, True, False)))
            )

    def _pick(self, wanted: Callable[[StoredJob], bool]) -> StoredJob | None:
        jobs = self.simulation.store.tables.jobs
        found = [job for job in jobs.values() if wanted(job)]
        return self.world.random.choice(found) if found else None

    def _find(self, job: int) -> StoredJob | None:
        return self.simulation.store.tables.jobs.get(job)

    # --- healing -----------------------------------------------------------------------------------------
    def heal(self) -> None:
        """Undo what people did, and do not rest until it is answered."""
        self._open_all()
        for path in QUEUES:
            self._insist(partial(_open_queue, path))
        for worker in self.simulation.workers:
            self._insist(partial(_free_worker, worker.name))
        self._resolve_awaited()
        self._unpin_all()

    def _unpin_all(self) -> None:
        """Let every job go anywhere, as long as one that waits may not: its worker may lack what it needs."""
        leader = self.simulation.leader()
        for job in self.simulation.store.tables.jobs.values() if leader is not None else ():
            extras = job.extras
            if extras is None or job.state not in WAITING or not (extras.worker or extras.away):
                continue
            free = replace(extras, worker="", away=())
            new = arrival_of_stored(replace(job, extras=free))
            old = arrival_of_stored(job)
            leader.put(happened.EditAsked(lambda _: None, old, new, job.run_at, job.rules))
        if self.simulation.mix.rate("relocating"):
            self.world.after(1.0 * self.world.scale, self._unpin_all)

    def _resolve_awaited(self) -> None:
        """Say how unknown jobs went for which others wait, as long as there are any."""
        jobs, leader = self.simulation.store.tables.jobs, self.simulation.reachable_leader()
        blocked = [job for job in jobs.values() if job.state is State.BLOCKED]
        for job in blocked if leader is not None else ():
            for name in job.extras.after if job.extras else ():
                if jobs[name].state is State.UNKNOWN:
                    ask = happened.ResolveAsked(name, State.SUCCEEDED, b"null")
                    leader.ask_people(name, ask, lambda done: None)
        self.world.after(2.0 * self.world.scale, self._resolve_awaited)

    def _open_all(self) -> None:
        """Open every queue there is, now and then: a rename under way may bring others with it."""
        leader = self.simulation.leader()
        for path, settings in self.simulation.store.tables.queues.items():
            if leader is not None and json.loads(settings) != {"limit": 2}:
                leader.put(_open_queue(path, lambda reply: None))
        self.world.after(2.0 * self.world.scale, self._open_all)

    def _insist(self, make: Callable[[Answer], happened.CoreEvent]) -> None:
        self.asking += 1
        answered = [False]

        def answer(reply: Reply | None) -> None:
            if reply is not None and not answered[0]:
                answered[0] = True
                self.asking -= 1

        def ask() -> None:
            leader = self.simulation.reachable_leader()
            if not answered[0]:
                if leader is not None:
                    leader.put(make(answer))
                self.world.after(1.0 * self.world.scale, ask)

        ask()


def _is_open(job: StoredJob) -> bool:
    return job.state not in ENDED


def _open_queue(path: str, answer: Answer) -> happened.CoreEvent:
    return happened.QueueAsked(answer, path, {"limit": 2}, True)


def _free_worker(name: str, answer: Answer) -> happened.CoreEvent:
    return happened.WorkerAsked(answer, name, ("**",), False)
