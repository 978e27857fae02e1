"""A synchronous mirror of the node's engine: the same order, with every wait an entry on the world's heap.

absorb → plan → commit → absorb what the store said → send → tell. The leader's submissions ride in the
commit of the plan that places them. Between any two of these the leader may crash or freeze, another may
be elected, and the store may fail or lose its answer.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fairway.core import events as happened
from fairway.core.lifecycle import State
from fairway.core.model import Arrival, Moment
from fairway.core.plan import Plan, Reply
from fairway.errors import Deposed
from fairway.leadership.term import Reign
from fairway.node.dispatch import send_begins, send_rest
from fairway.node.engine import arrival_of, arrival_of_stored, replaced_by
from fairway.store import Accepted, Receipt, Submission, Taken, WaitingPage
from fairway.wire import messages as wire

from .links import Link

if TYPE_CHECKING:
    from .run import Simulation

COMMIT_TRIES = 4
PAGE = 8


@dataclass(frozen=True)
class Submit:
    """One call of a client on its way into the next commit; None answers: nobody knows."""

    submissions: Sequence[Submission]
    answer: Callable[[list[Accepted] | None], None]


class Leader:
    """A node that leads, or believes so."""

    def __init__(self, simulation: Simulation, reign: Reign) -> None:
        self.simulation = simulation
        self.world = simulation.world
        self.store = simulation.store
        self.reign = reign
        self.term = reign.term
        self.core = simulation.lookers.core_of(simulation.timers)
        self.ports: dict[str, Link] = {}
        self.links: list[Link] = []  # all connections, also those that have not said hello yet
        self.alive = True
        self.frozen = False
        self._thawing: list[Callable[[], None]] = []
        self._events: list[happened.CoreEvent] = []
        self._submits: list[Submit] = []
        self._arrivals_seen = 0
        self._rung = True
        self._loading = True
        self._busy = False  # a commit is under way
        self._alarm = 0  # the number of the alarm that counts
        self._people: dict[int, list[Callable[[bool | None], None]]] = {}
        self._recover()
        self._wake(0.0)
        self._later(1.0 * self.world.scale, self._renew)
        self._later(0.2 * self.world.scale, self._drive_moves)

    # --- what reaches it -----------------------------------------------------------------------------
    def put(self, event: happened.CoreEvent) -> None:
        """Take in an event for the next plan."""
        if self.alive:
            self._events.append(event)
            self._wake(0.001)

    def submit(self, submit: Submit) -> None:
        """Take in submissions for the next commit."""
        if self.alive:
            self._submits.append(submit)
            self._wake(0.001)

    def ask_people(self, job: int, event: happened.CoreEvent, answer: Callable[[bool | None], None]) -> None:
        """Revive or resolve a job; the store says whether it could be."""
        self._people.setdefault(job, []).append(answer)
        self.put(event)

    def ring(self) -> None:
        """Somebody else may have inserted jobs."""
        self._rung = True
        self._wake(0.001)

    def receive(self, link: Link, message: wire.FromWorker) -> None:
        """Turn a worker's message into an event, as a port does."""
        if not self.alive:
            return None
        if self.frozen:
            self._thawing.append(lambda: self.receive(link, message) if link.open else None)
            return None
        if not isinstance(message, wire.Hello) and self.ports.get(link.incarnation) is not link:
            return link.close()  # the first message must be hello
        luck = self.world.random.random()
        match message:
            case wire.Hello():
                self._hello(link, message, luck)
            case wire.Results(results):
                self.put(happened.Reported(link.incarnation, results, luck))
            case wire.Beat(holds):
                self.put(happened.Renewed(link.incarnation, holds, {}))
            case wire.HandBack(attempts):
                self.put(happened.HandedBack(link.incarnation, attempts))
            case wire.Draining():
                self.put(happened.Drained(link.incarnation))
            case wire.Goodbye():
                self.put(happened.Parted(link.incarnation))
                link.close()
        return None

    def disconnected(self, link: Link) -> None:
        """A link broke; only the newest one of a worker counts."""
        if self.alive and self.ports.get(link.incarnation) is link:
            del self.ports[link.incarnation]
            self.put(happened.Left(link.incarnation))

    # --- trouble ---------------------------------------------------------------------------------------
    def crash(self) -> None:
        """Die without a word."""
        self._give_up("crashes")

    def freeze(self, seconds: float) -> None:
        """Stand still for a while, without knowing it."""
        if self.alive and not self.frozen:
            self.world.note(f"leader {self.term} freezes {seconds:.2f}")
            self.frozen = True
            self.world.after(seconds, self.thaw)

    def thaw(self) -> None:
        """Go on where it stood still."""
        self.frozen = False
        waiting, self._thawing = self._thawing, []
        for act in waiting:
            self._guarded(act)

    def _later(self, seconds: float, act: Callable[[], None]) -> None:
        self.world.after(seconds, lambda: self._guarded(act))

    def _guarded(self, act: Callable[[], None]) -> None:
        if not self.alive:
            return
        if self.frozen:
            self._thawing.append(act)
        else:
            act()

    def _give_up(self, why: str) -> None:
        if not self.alive:
            return
        self.world.note(f"leader {self.term} {why}")
        self.alive = False
        submits, self._submits = self._submits, []
        events, self._events = self._events, []
        tickets = [getattr(event, "ticket", None) for event in events]
        _fail(submits, [Reply(ticket) for ticket in tickets if ticket is not None])
        for answers in self._people.values():
            for answer in answers:
                answer(None)
        for link in self.links:
            link.close()
        self.ports.clear()

    def _resign(self, why: str) -> None:
        self._give_up(why)
        if not self.simulation.store_down():
            self.store.apply_resign(self.term, self.reign.holder)

    # --- the loop ----------------------------------------------------------------------------------------
    def _recover(self) -> None:
        """Rebuild the core from the store, after the term was committed."""
        now = self.world.now()
        for path, settings in sorted(self.store.tables.queues.items()):
            self.core.absorb(happened.QueueFound(path, json.loads(settings)), now)
        for live in self.store.read_live():
            self.core.absorb(happened.Found(*live), now)
            self.simulation.witness.leases.named(self.term, live.arrival.job, live.begun.attempt, now.mono)
        self._retire(list(self.core.world.live))

    def _renew(self) -> None:
        """Beat; whoever cannot for too long no longer trusts itself."""
        now = self.world.mono
        if not self.simulation.store_down():
            if not self.store.apply_renew(self.term, self.reign.holder, asleep=False):
                return self._give_up("is told that its term is over")
            self.reign.renewed(now)
        if not self.reign.trusts_itself(now):
            return self._resign("no longer trusts itself")
        self._later(1.0 * self.world.scale, self._renew)
        return None

    def _wake(self, seconds: float) -> None:
        """Set the alarm for the next step; an earlier one replaces it."""
        if self._busy:
            return
        self._alarm += 1
        number = self._alarm
        self._later(seconds, lambda: self._step() if number == self._alarm else None)

    def _step(self) -> None:
        if self._busy:
            return None
        if self.simulation.store_down() and (self._rung or self._loading):
            return self._resign("cannot read")
        self._take_in(self._read_arrivals(), self._read_backlog())
        events, self._events = self._events, []
        submits, self._submits = self._submits, []
        now = self.world.now()
        leases = self.simulation.witness.leases
        for event in events:
            leases.absorbed(self.term, event, now.mono)
            self.core.absorb(event, now)
        for submit in submits:
            arrivals = [arrival_of(job) for one in submit.submissions for job in one.jobs]
            self.core.absorb(happened.Submitted(arrivals), now)
        plan = self.core.plan(now)
        leases.planned(self.term, now.mono)
        if submits or plan.batch:
            self._busy = True
            self._before_commit(plan)
            self._later(self._commit_seconds(), lambda: self._commit(plan, submits, now, 1))
        else:
            self.simulation.witness.rested(self, now)
            send_rest(self._wires(), plan, self.term)
            _answer(plan.replies)
            self._rest(plan)
        return None

    def _before_commit(self, plan: Plan) -> None:
        """Nothing may be done here: a planted bug sends from this place."""

    def _commit_seconds(self) -> float:
        slow = self.world.chance(self.simulation.rate("slow_commit"))
        return self.world.between(0.0002, 3.0 if slow else 0.004)

    def _commit(self, plan: Plan, submits: Sequence[Submit], now: Moment, number: int) -> None:
        simulation, world = self.simulation, self.world
        if simulation.store_down() or world.chance(simulation.rate("commit_fails")):
            if number == COMMIT_TRIES:
                _fail(submits, plan.replies)
                return self._resign("cannot commit")
            world.note(f"leader {self.term} commit fails {number}")
            self._later(0.05 * 4**number, lambda: self._commit(plan, submits, now, number + 1))
            return None
        submissions = [one for submit in submits for one in submit.submissions]
        try:
            receipt = simulation.witness.commit(self, plan, submissions, now)
        except Deposed as error:
            simulation.witness.deposed(self, error)
            _fail(submits, plan.replies)
            return self._give_up("is deposed")
        if world.chance(simulation.rate("answer_lost")):
            _fail(submits, plan.replies)
            return self._resign("lost the answer to a commit")
        self._later(self._commit_seconds() / 4, lambda: self._committed(plan, submits, receipt))
        return None

    def _committed(self, plan: Plan, submits: Sequence[Submit], receipt: Receipt) -> None:
        self._busy = False
        self._act(plan, submits, receipt)
        self._tell(plan, submits, receipt)
        self.simulation.witness.settled(self)
        self._rest(plan)

    def _act(self, plan: Plan, submits: Sequence[Submit], receipt: Receipt) -> None:
        now = self.world.now()
        if receipt.refused:
            submitted = [job for submit in submits for one in submit.submissions for job in one.jobs]
            arrivals = {job.id: arrival_of(job) for job in submitted}
            self.core.absorb(happened.Refused([arrivals[job] for job in receipt.refused]), now)
            self._rung = True
        if receipt.begun:
            self.core.absorb(happened.Started(receipt.begun), now)
            send_begins(self._wires(), self.core.world, receipt.begun, plan.bundles, self.term)
        for job in receipt.revived:
            self.core.absorb(happened.Revived(arrival_of_stored(job)), now)
        for job in receipt.resolved:
            self.put(happened.Resolved(job.id, job.state))
        send_rest(self._wires(), plan, self.term)

    def _tell(self, plan: Plan, submits: Sequence[Submit], receipt: Receipt) -> None:
        position = 0
        for submit in submits:
            submit.answer(receipt.accepted[position : position + len(submit.submissions)])
            position += len(submit.submissions)
        _answer(plan.replies)
        revived = {job.id for job in receipt.revived}
        for record in plan.batch.revives:
            for answer in self._people.pop(record.job, ()):
                answer(record.job in revived)
        for resolve in plan.batch.resolves:
            done = any(job.id == resolve.job for job in receipt.resolved)
            for answer in self._people.pop(resolve.job, ()):
                answer(done)

    def _rest(self, plan: Plan) -> None:
        """Send begins again where asked, then sleep as long as the plan says."""
        for resend in plan.resends:
            begun = self.store.read_begun(resend.jobs)
            send_begins(self._wires(), self.core.world, begun, {}, self.term)
        noted = self.core.world.plan
        news = noted.batch or noted.kills or noted.acks or noted.replies or noted.resends
        if news or self._loading or self._events or self._submits or self._rung:
            self._wake(0.001)
        elif plan.wake_at is not None:
            self._wake(max(plan.wake_at - self.world.mono, 0.0))
        else:
            self._wake(5.0 * self.world.scale)

    def _wires(self) -> Any:
        """Return the links where the node's dispatch looks for ports."""
        return self.ports

    # --- reads -------------------------------------------------------------------------------------------
    def _read_arrivals(self) -> list[Taken]:
        if not self._rung:
            return []
        self._rung = False
        taken = self.store.read_arrivals(self._arrivals_seen)
        if taken:
            self._arrivals_seen = taken[-1].number
        return taken

    def _read_backlog(self) -> list[WaitingPage]:
        if not self._loading:
            return []
        self._loading = False
        return list(self.store.read_waiting(100))

    def _take_in(self, taken: Sequence[Taken], pages: Sequence[WaitingPage]) -> None:
        """Let jobs wait that came, or waited before; what they replace goes in the same commit."""
        others = [job for page in pages for job in page.others]
        self._retire(replaced_by([*(row.job for row in taken), *others]))
        if taken:
            jobs = [row.job for row in taken]
            event = happened.TakenIn(jobs, [row.number for row in taken], self._endings(jobs))
            self.core.absorb(event, self.world.now())
        for page in pages:
            event = happened.Loaded(page.others, self._endings(page.others), page.alike)
            self.core.absorb(event, self.world.now())

    def _retire(self, jobs: Sequence[int]) -> None:
        replaced = self.store.read_replaced(jobs)
        if replaced:
            self.core.absorb(happened.Replaced(replaced), self.world.now())

    def _endings(self, jobs: Sequence[Arrival]) -> dict[int, State | None]:
        named = {name for job in jobs if job.blocked and job.extras for name in job.extras.after}
        return self.store.read_endings(sorted(named))

    def _drive_moves(self) -> None:
        """Move branches as the node's mover does: page by page, one after the other."""
        moving = list(self.core.world.tree.moving)
        if moving and not self._busy and not self._loading:
            self._read_page(self.world.random.choice(moving), -1)
        else:
            self._later(0.2 * self.world.scale, self._drive_moves)

    def _read_page(self, path: str, after: int) -> None:
        if self.simulation.store_down():
            return self._later(0.2 * self.world.scale, self._drive_moves)
        jobs, last = self.store.read_below(path, after, PAGE)

        def answer(reply: Reply | None) -> None:
            if reply is not None and last is not None:
                self._later(self.world.between(0.0, 0.1), lambda: self._read_page(path, last))
            else:
                self._later(0.2 * self.world.scale, self._drive_moves)

        asked: happened.CoreEvent = happened.PageAsked(answer, path, jobs)
        self.put(asked if last is not None else happened.MoveOverAsked(answer, path))
        return None

    def _hello(self, link: Link, hello: wire.Hello, luck: float) -> None:
        older = self.ports.get(link.incarnation)
        if older is not None and older is not link:
            older.close()
        self.ports[link.incarnation] = link
        link.send(wire.Welcome(wire.PROTOCOL, self.term, "node", 2.0, 10.0))
        self.put(
            happened.Joined(
                link.worker.spec(), hello.holds, hello.results, hello.predecessor, luck, {}
            )
        )  # fmt: skip


def _answer(replies: Sequence[Reply]) -> None:
    for reply in replies:
        reply.ticket(reply)


def _fail(submits: Sequence[Submit], replies: Sequence[Reply]) -> None:
    """Tell those who wait that nothing is known of their fate."""
    for submit in submits:
        submit.answer(None)
    for reply in replies:
        reply.ticket(None)
