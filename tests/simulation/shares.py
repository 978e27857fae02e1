"""What tenants have of the slots, judged by rows and settings alone, in the worlds that last.

A member is backlogged while a job of it is due that every worker could take. Judged are calm stretches: one
leader, the same workers and settings, nothing lost, and no settings but weights and disciplines.

- **Turns.** Nobody is locked out: while one that is backlogged holds nothing, a sibling begins a job only as
  long as it has had no more since then than two of the longest attempts that ran and two turns of its own,
  by weight. Slot-seconds are counted and not seconds: while all others hold on nobody can begin.
- **Shares.** Of two siblings that are backlogged for ten mean job times and more, the slot-seconds by weight
  differ by no more than the longest attempts of each meanwhile, one for each slot, and the longest before.
- **Slot-seconds.** What the core has counted is what the rows say (`slot_seconds.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

from fairway.core.model import Moment
from fairway.core.plan import Plan
from fairway.store import Receipt

from .holdings import Holdings, Key, Run, members_of, parent_of
from .promises import read
from .slot_seconds import SlotSeconds

if TYPE_CHECKING:
    from .engine import Leader
    from .witness import Witness

#: Settings beside which shares are judged.
PLAIN = {"weight", "discipline", "charge"}
#: For how many mean job times two siblings are backlogged before they are compared, and by how many attempts.
MEAN_TIMES, FEWEST_RUNS = 10.0, 10
NOTHING = 1e-6


class Stretch(NamedTuple):
    """The time since when something is so, what each member had had by then, and the longest attempt."""

    begin: float
    had: Mapping[str, float]
    longest: float


class Shares:
    """The judge of shares. Owned by the witness."""

    def __init__(self, witness: Witness) -> None:
        self.witness = witness
        self.holdings = Holdings(witness, 0.0)
        self._slot_seconds = SlotSeconds(witness)
        self._state: object = None  # which must not change
        self._unserved: dict[str, Stretch] = {}  # members that are backlogged and hold nothing
        self._rivals: dict[tuple[str, str], Stretch] = {}  # siblings that are both backlogged

    # --- what the witness sees ---------------------------------------------------------------------------
    def elected(self, mono: float) -> None:
        """A leader's time begins: it knows nothing of what was had before."""
        self.holdings = Holdings(self.witness, mono)
        self._slot_seconds.forget()
        self._disturb()

    def committed(
        self, leader: Leader, plan: Plan, receipt: Receipt, ended: Sequence[Key], lost: bool, now: Moment
    ) -> None:
        """A plan was made at *now* and is written."""
        if receipt.refused or plan.batch.moves:
            self._slot_seconds.forget()
            lost = True
        self._slot_seconds.ended(ended)
        self.holdings.change(ended, ((one.job, one.attempt) for one in receipt.begun), now.mono)
        if lost:
            self._disturb()
        if self._is_calm(leader):
            backlogged = self._backlogged(now)
            self._judge_turns([self.witness.rows[one.job].queue for one in receipt.begun], backlogged)
            slots = sum(one.spec.slots for one in leader.core.world.workers.values())
            self._judge_shares(backlogged, slots)

    def settled(self, leader: Leader) -> None:
        """A commit was taken in."""
        self._slot_seconds.compare(leader, self.holdings)

    # --- calm ----------------------------------------------------------------------------------------------
    def _is_calm(self, leader: Leader) -> bool:
        """Say whether shares can be judged; what was noted before something changed is void."""
        settings = {path: raw for path, raw in self.witness.store.tables.queues.items() if raw != b"{}"}
        workers = {
            name: (one.connected, one.draining, one.refusing, one.spec.slots, one.attached)
            for name, one in leader.core.world.workers.items()
        }
        state = (settings, workers, self.witness.world.skew)
        if state != self._state:
            self._state = state
            self._disturb()
        return not self.witness.bound and all(_is_plain(raw) for raw in settings.values())

    def _disturb(self) -> None:
        self._unserved.clear()
        self._rivals.clear()

    def _backlogged(self, now: Moment) -> set[str]:
        found: set[str] = set()
        for line, jobs in self.witness.lines.items():
            _, _, _, _, tags, _, _, _, pins = line
            if not tags and pins == ("", ()):
                due = (job for job, place in jobs.items() if place <= now.wall)
                if any(job not in self.witness.untaken for job in due):
                    found.update(members_of(str(line[0])))
        return found

    # --- judging -----------------------------------------------------------------------------------------
    def _judge_turns(self, begun: Iterable[str], backlogged: set[str]) -> None:
        unserved = {one for one in backlogged if not self.holdings.held.get(one)}
        self._unserved = {one: since for one, since in self._unserved.items() if one in unserved}
        for member in {member for queue in begun for member in members_of(queue)}:
            for one, since in self._unserved.items():
                if parent_of(one) == parent_of(member):
                    self._judge_turn(member, one, since)
        for one in unserved - self._unserved.keys():
            self._unserved[one] = self._stretch()

    def _judge_turn(self, member: str, unserved: str, since: Stretch) -> None:
        had, turn = self._had(member, since), self.holdings.turns[member] / self._weight(member)
        most = 2 * self.holdings.longest / self._weight(unserved) + 2 * turn
        text = f"'{member}' begins after {had:.1f} slot-seconds by weight, {most:.1f} are allowed"
        text = f"{text}, while '{unserved}' waited and had none"
        self.witness.require(had <= most + NOTHING, "turns", text)

    def _judge_shares(self, backlogged: set[str], slots: int) -> None:
        pairs = set(combinations(sorted(backlogged), 2))
        pairs = {(one, other) for one, other in pairs if parent_of(one) == parent_of(other)}
        self._rivals = {pair: since for pair, since in self._rivals.items() if pair in pairs}
        for pair, since in self._rivals.items():
            self._judge_pair(*pair, since, slots)
        for pair in pairs - self._rivals.keys():
            self._rivals[pair] = self._stretch()

    def _judge_pair(self, one: str, other: str, since: Stretch, slots: int) -> None:
        runs = {member: self.holdings.runs_of(member, since.begin) for member in (one, other)}
        ended = [run.end - run.begin for of in runs.values() for run in of if run.end is not None]
        passed = self.holdings.at - since.begin
        if len(ended) < FEWEST_RUNS or passed < MEAN_TIMES * sum(ended) / len(ended):
            return
        most = sum(
            (since.longest + self._longest(of, since.begin, slots)) / self._weight(member)
            for member, of in runs.items()
        )
        had, its = self._had(one, since), self._had(other, since)
        text = f"'{one}' and '{other}' had {had:.1f} and {its:.1f} slot-seconds by weight in {passed:.1f} s"
        self.witness.require(abs(had - its) <= most + NOTHING, "shares", f"{text}; {most:.1f} is allowed")

    def _stretch(self) -> Stretch:
        return Stretch(self.holdings.at, dict(self.holdings.had), self.holdings.longest)

    def _had(self, member: str, since: Stretch) -> float:
        """Return what a member has had since then, by its weight."""
        return (self.holdings.had[member] - since.had.get(member, 0.0)) / self._weight(member)

    def _longest(self, runs: Iterable[Run], since: float, slots: int) -> float:
        """Return what the longest of some attempts took together, one for each slot, from *since* on."""
        ends = ((run, self.holdings.at if run.end is None else run.end) for run in runs)
        return sum(sorted(end - max(run.begin, since) for run, end in ends)[-slots:])

    def _weight(self, member: str) -> float:
        return float(self.witness.promises.settings(member).get("weight") or 1.0)


def _is_plain(settings: bytes) -> bool:
    return all(value is None or name in PLAIN for name, value in read(settings).items())
