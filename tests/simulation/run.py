"""One seed is one world: it is set up, troubled, healed and drained, and watched all the time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from fairway.core import estimates
from fairway.core.lifecycle import ENDED
from fairway.core.model import Timers
from fairway.leadership.term import Watch, begin_reign
from fairway.stores.memory import MemoryStore

from .clients import Clients, Wish
from .engine import Leader
from .faults import Faults
from .lookers import Lookers
from .mix import Mix, mix_of
from .tenants import Tenants
from .witness import Violation, Witness
from .workers import Worker
from .world import World

TTL = 5.0


class Simulation:
    """A cluster in a bottle."""

    def __init__(self, seed: int, mix: Mix) -> None:
        self.mix = mix
        self._rates = dict(mix.rates)
        beat, lease = Timers().beat * mix.scale, Timers().lease * mix.scale
        self.timers = Timers(beat=beat, lease=lease, kill_lease=lease, ahead_most=0.05)
        self.world = World(seed, mix.scale)
        self.store = MemoryStore()
        self.witness = Witness(self.world, self.store, lease, beat)
        self.wishes: dict[bytes, Wish] = {}
        self.healed = False
        self.down_until = 0.0
        self.leaders: list[Leader] = []
        self.lookers = Lookers(self)
        self._watch = Watch(TTL * mix.scale)
        self.elect()
        self.clients = Clients(self)
        self.workers = [
            Worker(self, f"w{number}", self.world.random.randint(1, 3), ("gpu",) if number == 0 else ())
            for number in range(mix.workers)
        ]
        self.faults = Faults(self)
        self.tenants = Tenants(self)
        self.world.after(0.5 * mix.scale, self._watch_leader)
        come = self.tenants.pass_by if mix.stories else self.clients.call
        for _ in range(mix.jobs):
            self.world.after(self.world.between(0.0, mix.horizon * 0.9), come)

    # --- what the others ask ---------------------------------------------------------------------------
    def rate(self, kind: str) -> float:
        """Return how often a fault happens, now."""
        return 0.0 if self.healed else self._rates.get(kind, 0.0)

    def store_down(self) -> bool:
        """Say whether the store answers nobody just now."""
        return self.world.mono < self.down_until

    def leader(self) -> Leader | None:
        """Return the newest leader that lives."""
        alive = [leader for leader in self.leaders if leader.alive]
        return alive[-1] if alive else None

    def reachable_leader(self) -> Leader | None:
        """Return whom a client or worker finds: the leader, now and then one that was deposed."""
        alive = [leader for leader in self.leaders if leader.alive]
        if len(alive) > 1 and self.world.chance(0.2):
            return alive[0]
        return alive[-1] if alive else None

    def ring(self) -> None:
        """Ring the leader's doorbell."""
        if leader := self.leader():
            leader.ring()

    def behaviour(self, payload: bytes, attempt: int) -> tuple[str, float]:
        """Return how an attempt's code will end, and when."""
        wish = self.wishes[payload]
        return wish.fate[min(attempt, len(wish.fate)) - 1], wish.seconds

    # --- leadership ------------------------------------------------------------------------------------
    def elect(self) -> None:
        """Let a node raise the term, whether or not somebody leads."""
        if self.store_down():
            return
        now = self.world.now()
        seen = self.store.tables.leadership.term if self.store.tables.leadership else 0
        elected = self.store.apply_elect(seen, f"node{seen + 1}", "node", "", now.wall)
        if elected is not None:
            self.witness.elected(elected.term, now.mono)
            self.world.note(f"leader {elected.term} is elected")
            self.leaders = [leader for leader in self.leaders if leader.alive]
            self.leaders.append(Leader(self, begin_reign(elected, now.mono, TTL * self.mix.scale)))

    def _watch_leader(self) -> None:
        """A candidate looks at the beat, and knocks at the leader's door once a second."""
        if not self.store_down() and self._watch.may_stand(self.store.tables.leadership, self.world.mono):
            self.elect()
        self.ring()
        self.world.after(0.5 * self.mix.scale, self._watch_leader)

    # --- the play --------------------------------------------------------------------------------------
    def play(self) -> None:
        """Trouble, heal, drain; raises Violation."""
        self.world.run(self.world.mono + self.mix.horizon, lambda: False)
        self._heal()
        drained = self.world.run(self.world.mono + self._patience(), self._is_over)
        self.witness.require(drained, 8, f"not drained: {self._what_is_left()}")
        self.world.run(self.world.mono + 12.0 * self.mix.scale, lambda: False)
        self._check_rest()
        self.witness.finish()

    def _heal(self) -> None:
        self.world.note("everything heals")
        self.healed, self.down_until = True, 0.0
        for worker in self.workers:
            worker.thaw()
        for leader in self.leaders:
            leader.thaw()
        self.clients.heal()

    def _patience(self) -> float:
        work = sum(wish.seconds for wish in self.wishes.values())
        slots = 2  # every queue has this limit once healed
        until_due = (self.faults.foremost - self.world.skew) / 1e6  # places were given by a clock ahead
        return 2 * work / slots + self.timers.lease + 30.0 * self.mix.scale + until_due

    def _is_over(self) -> bool:
        return self.witness.open == 0 and not self.clients.pending and not self.clients.asking

    def _what_is_left(self) -> str:
        left = [f"{job}:{row.state}" for job, row in self.witness.rows.items() if row.state not in ENDED]
        return f"jobs {left[:10]}, calls {sorted(self.clients.pending)[:5]}, asks {self.clients.asking}"

    def _check_rest(self) -> None:
        """After healing every worker is served again and nobody waits for an acknowledgement."""
        leader = self.leader()
        served = leader.core.world.workers if leader else {}
        for worker in self.workers:
            known = served.get(worker.incarnation)
            fine = not worker.alive or (known is not None and known.connected)
            self.witness.require(fine, 8, f"worker {worker.incarnation} is up but not served")
            fine = not worker.results and not worker.given
            self.witness.require(fine, 8, f"worker {worker.incarnation} was never acknowledged")
        moving = [path for path, settings in self.store.tables.queues.items() if b"moving" in settings]
        self.witness.require(not moving, 8, f"the moves of {moving} never end")


def check_seed(seed: int, mix: Mix | None = None) -> str:
    """Play one world; raises Violation with the seed and the last lines of its trace."""
    mix = mix or mix_of(seed)
    with short_estimates():
        simulation = Simulation(seed, mix)
        try:
            simulation.play()
        except Violation as violation:
            trace = "\n".join(simulation.world.trace)
            raise Violation(f"seed {seed}: {violation}\n{mix}\n{trace}") from None
        except Exception as error:
            trace = "\n".join(simulation.world.trace)
            raise Violation(f"seed {seed}: {type(error).__name__}: {error}\n{mix}\n{trace}") from error
    return simulation.world.trace_hash()


def shrink(seed: int, mix: Mix) -> Mix:
    """Return the smallest variant of a failing world that still fails: fewer faults, jobs, seconds."""
    changed = True
    while changed:
        changed = False
        smaller = [mix.without(kind) for kind, _ in mix.rates]
        smaller += [replace(mix, horizon=mix.horizon * 0.7)] if mix.horizon > 3 else []
        smaller += [replace(mix, jobs=mix.jobs * 2 // 3)] if mix.jobs > 1 else []
        for candidate in smaller:
            if _fails(seed, candidate):
                mix, changed = candidate, True
                break
    return mix


def _fails(seed: int, mix: Mix) -> bool:
    try:
        check_seed(seed, mix)
    except Violation:
        return True
    return False


@contextmanager
def short_estimates() -> Iterator[None]:
    """Trust estimates after three runs: a world of fifty jobs must meet bundles too."""
    before, estimates.ENOUGH = estimates.ENOUGH, 3
    try:
        yield
    finally:
        estimates.ENOUGH = before
