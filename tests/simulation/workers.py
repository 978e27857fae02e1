"""Model workers: they obey the protocol's rules and run code that is nothing but a span of time.

One worker starts one (job, attempt) at most once in its life, names in each beat what it holds, keeps
results and hand-backs until they are acknowledged, says again on each connection what it holds, and drops
what an older term sent. What is begun ahead it starts when a slot is free, or hands back after a moment. A
crash ends its life; the next one has a new incarnation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fairway.core.model import TaskInfo, WorkerSpec
from fairway.wire import messages as wire
from fairway.wire.messages import Assignment, Held, Result

from .links import Link
from .witness import value_of

if TYPE_CHECKING:
    from .run import Simulation

Key = tuple[int, int]

TASKS = (TaskInfo("quick"), TaskInfo("slow"), TaskInfo("many", True))
BEAT = 2.0
WELCOME = 5.0  # a leader that has not answered a hello by then is given up
SAY_AGAIN = 4.0  # unacknowledged results are sent again after so long: a relay may have lost them
ASYNC = 3
LONG = 0.1  # what waits behind a job of a bundle that takes longer is handed back


@dataclass
class Run:
    """An attempt this worker holds: waiting behind others of its bundle, or running."""

    assignment: Assignment
    behind: list[Run] = field(default_factory=list)
    started: bool = False
    disowned: bool = False

    @property
    def key(self) -> Key:
        return self.assignment.job, self.assignment.attempt


class Worker:
    """One worker through all its lives."""

    def __init__(self, simulation: Simulation, name: str, slots: int, tags: tuple[str, ...]) -> None:
        self.simulation = simulation
        self.world = simulation.world
        self.name, self.slots, self.tags = name, slots, tags
        self.life = 0
        self.alive = False
        self.paused = False
        self.start(None)

    # --- lives -------------------------------------------------------------------------------------------
    def start(self, predecessor: str | None) -> None:
        """Begin a new life."""
        if self.alive:
            return
        self.life += 1
        self.incarnation = f"{self.name}.{self.life}"
        self.alive, self.closing = True, False
        self.predecessor = predecessor
        self.link: Link | None = None
        self.term = 0
        self.seen: set[Key] = set()
        self.runs: dict[Key, Run] = {}
        self.shelf: list[list[Run]] = []  # begun ahead: to be started when a slot is free
        self.results: dict[Key, tuple[float, Result]] = {}
        self.given: dict[Key, tuple[float, Held]] = {}
        self.untold: list[Result] = []  # that wait a little, to be told together
        self._thawing: list[Callable[[], None]] = []
        self.world.note(f"worker {self.incarnation} starts")
        self._connect()
        self.later(self.world.between(0.5, BEAT) * self.world.scale, self._beat)

    def crash(self, down_for: float, known: bool) -> None:
        """Die with all code; *known*: the next life can tell that this one is over."""
        if not self.alive:
            return
        self.world.note(f"worker {self.incarnation} dies")
        self.simulation.witness.leases.died(self.incarnation)
        self._end_life(down_for, self.incarnation if known else None)

    def pause(self, seconds: float) -> None:
        """Stand still, code and all, without knowing it."""
        if self.alive and not self.paused:
            self.world.note(f"worker {self.incarnation} pauses {seconds:.2f}")
            self.paused = True
            self.world.after(seconds, self.thaw)

    def close(self) -> None:
        """Take nothing more, hand back what has not started, then stop the rest and go."""
        if not self.alive or self.closing:
            return
        self.world.note(f"worker {self.incarnation} closes")
        self.closing = True
        self.say(wire.Draining())
        for run in list(self.runs.values()):
            if not run.started:
                self._hand_back(run)
        self.later(self.world.between(0.1, 1.5), self._stop_all)

    def later(self, seconds: float, act: Callable[[], None]) -> None:
        """Do something in a while, unless this life is over by then."""
        life = self.life
        self.world.after(seconds, lambda: self._guarded(life, act))

    def _guarded(self, life: int, act: Callable[[], None]) -> None:
        if not self.alive or life != self.life:
            return
        if self.paused:
            self._thawing.append(act)
        else:
            act()

    def thaw(self) -> None:
        """Go on where it stood still."""
        self.paused = False
        life, waiting, self._thawing = self.life, self._thawing, []
        for act in waiting:
            self._guarded(life, act)

    def _end_life(self, down_for: float, predecessor: str | None) -> None:
        self.alive = self.paused = False
        self._thawing = []
        if self.link is not None:
            self.link.close()
        self.world.after(down_for, lambda: self.start(predecessor))

    def _stop_all(self) -> None:
        for run in list(self.runs.values()):
            if run.started:
                self._stopped(run)
        self.later(0.5, self._leave)

    def _leave(self) -> None:
        if self.results and self.world.chance(0.8):
            self.later(0.5, self._leave)
            return
        if not self.results and not self.runs:  # a goodbye says that all was told
            self.say(wire.Goodbye("closing"))
        self.simulation.witness.leases.died(self.incarnation)
        link, self.link = self.link, None  # the goodbye is under way on it
        self._end_life(self.world.between(0.5, 4.0), None)
        if link is not None:
            self.world.after(1.0, link.close)

    # --- the connection ------------------------------------------------------------------------------
    def _connect(self) -> None:
        leader = self.simulation.reachable_leader()
        if leader is None:
            self.later(self.world.between(0.2, 1.0), self._connect)
            return
        link = self.link = Link(self.simulation, self, leader)
        self.welcomed = False
        self.later(WELCOME * self.world.scale, lambda: None if self.welcomed else link.close())
        now, self.untold = self.world.mono, []
        self.results = {key: (now, result) for key, (_, result) in self.results.items()}
        self.link.up(
            wire.Hello(
                wire.PROTOCOL, self.name, self.incarnation, self.slots, ["python", "command"],
                holds=self._holds(unheard=False), results=[result for _, result in self.results.values()],
                predecessor=self.predecessor,
            )
        )  # fmt: skip
        if self.given:
            self.say(wire.HandBack([held for _, held in self.given.values()]))
        if self.closing:
            self.say(wire.Draining())

    def spec(self) -> WorkerSpec:
        """Say what this worker is."""
        return WorkerSpec(
            self.name, self.incarnation, self.slots, frozenset({"python", "command"}), TASKS, self.tags,
            async_per_slot=ASYNC, ahead=True,
        )  # fmt: skip

    def disconnected(self, link: Link) -> None:
        """The link broke; look for a leader again."""
        if self.link is link and self.alive:
            self.link = None
            self.later(self.world.between(0.0, 0.5), self._connect)

    def say(self, message: wire.FromWorker) -> None:
        """Send, if there is a connection."""
        if self.link is not None:
            self.link.up(message)

    def receive(self, link: Link, message: wire.ToWorker) -> None:
        """Take a message from a leader."""
        if link is not self.link:
            return
        if self.paused:
            self._thawing.append(lambda: self.receive(link, message))
            return
        if isinstance(message, wire.Refusal) or message.term < self.term:
            self.world.note(f"worker {self.incarnation} drops a message of an older term")
            return
        self.term = message.term
        match message:
            case wire.Welcome():
                self.welcomed = True
            case wire.Begin(_, assignments, ahead):
                self._begin(assignments, ahead)
            case wire.Stop(_, attempts, force, kind):
                for held in attempts:
                    self._asked_to_stop((held.job, held.attempt), force, kind)
            case wire.Acks(_, done, stale, lost):
                self._acknowledged(done, stale, lost)

    def _beat(self) -> None:
        self.say(wire.Beat(self._holds(unheard=True)))
        horizon = self.world.mono - SAY_AGAIN * self.world.scale
        if results := [result for sent, result in self.results.values() if sent < horizon]:
            self.results |= {result[:2]: (self.world.mono, result) for result in results}
            self.say(wire.Results(results))
        if given := [held for sent, held in self.given.values() if sent < horizon]:
            self.given |= {held[:2]: (self.world.mono, held) for held in given}
            self.say(wire.HandBack(given))
        self.later(BEAT * self.world.scale, self._beat)

    def _holds(self, unheard: bool) -> list[Held]:
        holds = [Held(*key, run.started) for key, run in self.runs.items() if not run.disowned]
        holds += [held._replace(started=False) for _, held in self.given.values()]
        if unheard:
            holds += [Held(*key) for key in self.results]
        return holds

    # --- attempts --------------------------------------------------------------------------------------
    def _begin(self, assignments: Sequence[Assignment], ahead: bool) -> None:
        bundles: dict[int, list[Run]] = {}
        for assignment in assignments:
            key = (assignment.job, assignment.attempt)
            self.simulation.witness.told_begin(self.incarnation, *key)
            if key in self.seen:
                continue
            self.seen.add(key)
            run = self.runs[key] = Run(assignment)
            if self.closing:
                self._hand_back(run)
            elif assignment.bundle:
                bundles.setdefault(assignment.bundle, []).append(run)
            else:
                self._take([run], ahead)
        for bundle in bundles.values():
            self._take(bundle, ahead)

    def _take(self, runs: list[Run], ahead: bool) -> None:
        """Start what one slot takes, or let it wait for a slot."""
        if ahead and (self.shelf or not self._has_room()):
            self.shelf.append(runs)
            self.later(LONG, lambda: self._give_up(runs))
        else:
            first, *first.behind = runs
            self._start(first)

    def _has_room(self) -> bool:
        running = [run.assignment.task for run in self.runs.values() if run.started]
        parts = running.count("many")
        return len(running) - parts + -(-parts // ASYNC) < self.slots

    def _give_up(self, runs: list[Run]) -> None:
        if runs in self.shelf:
            self.shelf.remove(runs)
            for run in runs:
                if self.runs.get(run.key) is run:
                    self._hand_back(run)

    def _unshelve(self) -> None:
        """Something has ended: start what waits for a slot."""
        while self.shelf and self._has_room() and not self.closing:
            waiting = [run for run in self.shelf.pop(0) if self.runs.get(run.key) is run]
            if waiting:
                first, *first.behind = waiting
                self._start(first)

    def _start(self, run: Run) -> None:
        job, attempt = run.key
        run.started = True
        self.simulation.witness.started(self.incarnation, job, attempt)
        kind, seconds = self.simulation.behaviour(run.assignment.payload, attempt)
        self.world.note(f"code {job}:{attempt} starts on {self.incarnation}")
        self.later(seconds, lambda: self._ended(run, kind, seconds))
        if run.behind and seconds > LONG:
            self.later(LONG, lambda: self._release_behind(run))

    def _ended(self, run: Run, kind: str, seconds: float) -> None:
        if self.runs.get(run.key) is not run:
            return
        del self.runs[run.key]
        self._report(run, kind, seconds)
        if kind == "crashed" or self.closing:
            self._release_behind(run)
        elif behind := [waiting for waiting in run.behind if self.runs.get(waiting.key) is waiting]:
            nearest, *rest = behind
            nearest.behind, run.behind = rest, []
            self._start(nearest)
        self._unshelve()

    def _release_behind(self, run: Run) -> None:
        for waiting in run.behind:
            if not waiting.started and waiting.key in self.runs:
                self._hand_back(waiting)
        run.behind = []

    def _report(self, run: Run, kind: str, seconds: float) -> None:
        job, attempt = run.key
        self.simulation.witness.ended(self.incarnation, job, attempt, kind)
        body = value_of(job, attempt, self.incarnation) if kind == "ok" else b'{"type":"E"}'
        result = Result(job, attempt, kind, body, seconds, 1.0 if kind == "retry_after" else 0.0)
        self.results[run.key] = (self.world.mono, result)
        self.world.note(f"code {job}:{attempt} ends {kind} on {self.incarnation}")
        self.untold.append(result)
        if not self.world.chance(self.simulation.rate("together")):
            self._tell_results()
        elif len(self.untold) == 1:
            self.later(self.world.between(0.2, 0.5) * self.world.scale, self._tell_results)

    def _tell_results(self) -> None:
        """Tell of what has ended in one message."""
        results, self.untold = self.untold, []
        if results:
            self.say(wire.Results(results))

    def _hand_back(self, run: Run) -> None:
        self.runs.pop(run.key, None)
        held = Held(*run.key, run.started)
        self.simulation.witness.handed_back(self.incarnation, held)
        self.given[run.key] = (self.world.mono, held)
        self.say(wire.HandBack([held]))

    def _stopped(self, run: Run) -> None:
        self._release_behind(run)
        self.simulation.witness.ended(self.incarnation, *run.key, "stopped")
        self._hand_back(run)
        self._unshelve()

    def _asked_to_stop(self, key: Key, force: bool, kind: str) -> None:
        run = self.runs.get(key)
        if run is not None:
            seconds = 0.0 if force else self.world.between(0.0, 1.0)
            self.later(seconds, lambda: self._recalled(run) if kind == "stopped" else self._cancelled(run))

    def _recalled(self, run: Run) -> None:
        if self.runs.get(run.key) is run:
            self._stopped(run)

    def _cancelled(self, run: Run) -> None:
        if self.runs.get(run.key) is run:
            del self.runs[run.key]
            run.started = True  # as far as the rest is concerned: it never will be
            self._report(run, "cancelled", 0.0)
            self._release_behind(run)
            self._unshelve()

    def _acknowledged(self, done: Sequence[Key], stale: Sequence[Key], lost: Sequence[Key]) -> None:
        for key in done:
            self.simulation.witness.told_done(self.incarnation, *key)
        for key in stale:
            if key in self.results:
                self.simulation.witness.told_stale(self.incarnation, *key)
        for key in (*done, *stale):
            self.results.pop(key, None)
            self.given.pop(key, None)
        for key in (*done, *stale, *lost):
            run = self.runs.get(key)
            if run is not None and run.started:
                run.disowned = True  # it runs on; its result may still resolve an unknown job
            elif run is not None:
                del self.runs[key]
