"""Stochastic fair queueing: flows take turns, so that nobody's flood makes another wait.

`charge: jobs` is deficit round robin. Flows with due jobs stand in a ring; the one whose turn it is begins
jobs while it has credit, then goes to the end and gets its quantum, by its weight. A flow that has nothing
left leaves, its credit and its debt forgotten; one that comes joins at the end with one quantum.

`charge: seconds` shares slot-seconds: each flow has an account, and those with due jobs compete, just as the
members of a queue do (`core/account.py`, `core/contest.py`). The one with the least standing is next; ties go
to the one served longest ago.

For each kind of worker that asks there is a heap of the flows that have a job for it, by their standing: a
flow none of whose jobs fit is not looked at, and a turn costs O(log flows). Standings are soft: a new leader
starts them anew. The order of turns to come is read elsewhere (`foreseen.py`), and changes nothing here.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence, Set
from hashlib import blake2b
from heapq import heapify, heappop, heappush
from itertools import chain, islice
from math import ceil
from typing import Any, NamedTuple

from fairway.core.contest import Contest
from fairway.core.discipline import Offer, Pace, Served, Still
from fairway.core.disciplines.bounds import Bounds
from fairway.core.disciplines.flow import Flow, FlowAccount, arrival_of, key_of
from fairway.core.disciplines.foreseen import NOTHING, FlowRing, Foresight, foreseen
from fairway.core.disciplines.fronts import Fits, Fronts, Standing
from fairway.core.disciplines.rack import FEW, Key, Rack
from fairway.core.model import Alike, Arrival, QueueSettings, Shape

MICRO = 1_000_000
LEAST_WEIGHT = 0.01
MOST_AWAY = 10_000  # flows without waiting jobs whose accounts are kept

#: Jobs, their places and their flows.
Columns = tuple[list[int], list[int], list[str | None]]


class Turn(NamedTuple):
    """What a flow began with in its turn. Hashed together, flows keep their names."""

    flow: Flow
    jobs: list[int]
    places: list[int]
    names: list[str | None]


class Sfq:
    """Flows take turns."""

    name = "sfq"

    def __init__(self, settings: QueueSettings) -> None:
        self.by_seconds = settings.charge == "seconds"
        self._made_of = _made_of(settings)
        self._quantum = settings.quantum
        self._weights = settings.flow_weights or {}
        self._divisor = settings.divisor
        self._perturb = int((settings.perturb or 0.0) * MICRO) if settings.divisor else 0
        self._hash_key = settings.hash_key[:32]
        self._seed = 0  # the period of the perturbation we are in
        self._flows: dict[Hashable, Flow] = {}
        self._fronts = Fronts(self._flows_here, self._rank, self._suits, rises=self.by_seconds)
        self._longest: Fronts[Flow] | None = None  # flows by how many jobs wait, once somebody asked for it
        self._asker: Fits = _anything  # who asked last
        self._active: dict[Shape, dict[Flow, None]] = {}  # the flows that have such a job due
        self._waits: list[tuple[int, int, Flow]] = []  # when a flow has to be looked at again
        self._accounts: dict[Hashable, FlowAccount] = {}  # by seconds: also of flows that have no job waiting
        self._most_accounts = MOST_AWAY  # before those of flows that are gone are looked through
        self._contest = Contest()
        self._held: dict[str | None, int] = {}  # units of slots by flow, where flows are hashed together
        self._ahead = 0.0  # with which standings were noted
        self.pace: Pace = Still()  # the time, and for how long a slot is held: the tree's, as it goes on
        self._nobody = FlowAccount(1.0, 0.0)  # of all flows, where seconds do not count
        self.seconds_of: Callable[[Shape], float] = _one_second  # what is estimated, if somebody knows
        self._bounds = Bounds.of(settings)
        self._version = 0  # rises with every change
        self._foresight = Foresight()
        self._count = 0
        self._turns = 0
        self._made = 0
        self._seen = 0

    # --- jobs come and go ----------------------------------------------------------------------------
    def __len__(self) -> int:
        return self._count

    def put(self, arrival: Arrival) -> None:
        flow = self._grow(arrival.flow)
        flow.pass_time(self._seen)
        is_new = arrival.shape not in flow.ready
        flow.put(key_of(arrival), arrival.place, arrival.job)
        self._came(flow, 1)
        if arrival.place > self._seen:
            self._arm(flow, arrival.place)
        elif is_new:
            self._look(flow, arrival.shape)

    def put_alike(self, groups: Sequence[Alike]) -> bool:
        if len(groups) > 1:
            return False  # each has a line of its own
        [alike] = groups
        flow = self._grow(alike.flow)
        flow.pass_time(self._seen)
        is_new = alike.shape not in flow.ready
        if not flow.put_many(Key(alike.shape, alike.priority, alike.flow), alike.places, alike.jobs):
            return False
        self._came(flow, len(alike.jobs))
        due = bisect_right(alike.places, self._seen)
        if due and is_new:
            self._look(flow, alike.shape)
        if due < len(alike.places):
            self._arm(flow, alike.places[due])
        return True

    def remove(self, arrival: Arrival) -> bool:
        flow = self._flows.get(self._name(arrival.flow))
        if flow is None or not flow.remove(key_of(arrival), arrival.place, arrival.job):
            return False
        self._came(flow, -1)
        self._look(flow)
        self._leave(arrival.flow, flow)
        return True

    def _came(self, flow: Flow, jobs: int) -> None:
        """So many jobs of a flow have come, or gone."""
        self._count += jobs
        self._version += 1
        if self._longest is not None:
            self._longest.changed(flow)

    def offer(self, fits: Callable[[Shape], bool], now: int) -> Offer | None:
        self._pass_time(now)
        self._asker = fits
        flow = self._next(fits)
        found = flow.first(fits, now) if flow is not None else None
        if found is None:
            return None
        (shape, priority, name), place, job = found
        return Offer(job, shape, priority, name, place, flow)

    def take(self, offer: Offer, most: int, now: int) -> Served:
        flow, key = offer.line, Key(offer.shape, offer.priority, offer.flow)
        assert isinstance(flow, Flow)
        quantum = self._jobs(most, len(self._active.get(offer.shape, ())) or 1)
        jobs, places = self._serve(flow, key, most, quantum, now)
        flows: list[str | None] | None = None
        if len(jobs) < most and not self.by_seconds and len(self._active) == 1:
            # One shape is due: whoever has the next turn would be offered next, so it may begin with them.
            turns = [Turn(flow, jobs, places, [offer.flow] * len(jobs))]
            left = most - len(jobs)
            while left and (following := self._following(key, now)) is not None:
                flow, key = following
                jobs, places = self._serve(flow, key, left, quantum, now)
                turns.append(Turn(flow, jobs, places, [key.flow] * len(jobs)))
                left -= len(jobs)
            jobs, places, flows = _mixed(turns) if self._quantum is None else _joined(turns)
        return Served(jobs, places, offer.shape in self._active, flows)

    def _serve(
        self, flow: Flow, key: Key, most: int, quantum: float, now: int
    ) -> tuple[list[int], list[int]]:
        """Give a flow its turn, or what is left of it."""
        allowed = most if self.by_seconds else min(most, ceil(flow.credit * quantum - NOTHING))
        jobs, places, _ = flow.pop(key, max(allowed, 1), now)
        self._came(flow, -len(jobs))
        self._turns += 1
        flow.served = self._turns
        if self.by_seconds:
            flow.account.begun += len(jobs)
        else:
            flow.credit -= len(jobs) / quantum
            if flow.credit <= NOTHING:
                self._to_the_end(flow)
        if flow.is_still_due(self._seen):
            self._fronts.changed(flow)
        else:
            self._look(flow)
        self._leave(key.flow, flow)
        return jobs, places

    def _following(self, key: Key, now: int) -> tuple[Flow, Key] | None:
        """Return who is next, if its job is of the same shape and priority."""
        flow = self._next(self._asker)
        found = flow.first(self._asker, now) if flow is not None else None
        if flow is None or found is None or found[0][:2] != key[:2]:
            return None
        return flow, found[0]

    # --- what flows hold -----------------------------------------------------------------------------
    def hold(self, flow: str | None, units: int) -> None:
        if not units:
            return
        if self._divisor:
            self._held[flow] = self._held.get(flow, 0) + units
        line = self._name(flow)
        self._account(line, flow).hold(units, self.pace.mono)
        self._changed(line)

    def release(self, flow: str | None, units: int, seconds: float) -> None:
        line = self._name(flow)
        account = self._accounts.get(line)
        if account is None:
            return
        if self._divisor and flow in self._held:
            left = self._held[flow] - units
            if left > 0:
                self._held[flow] = left
            else:
                del self._held[flow]
        # No more than it holds: what runs may have begun under the discipline before this one.
        mono, ahead, here = self.pace.mono, self.pace.ahead, self._flows.get(line)
        account.end(min(units, account.held), seconds, mono)
        if account.contest is not None and here is not None and self._contest.is_off(account, mono, ahead):
            first = self._least_beside(here)
            self._contest.bound(account, mono, ahead, None if first is None else first.account)
        self._changed(line)

    def wait(self, flow: str | None, units: int, seconds: float) -> None:
        line = self._name(flow)
        account = self._accounts.get(line)
        if account is not None:
            account.wait(units, seconds, self.pace.mono)
            if seconds:
                self._changed(line)

    def _changed(self, line: Hashable) -> None:
        """The account of a flow is not as it was."""
        self._version += 1
        flow = self._flows.get(line)
        if flow is not None:
            self._fronts.changed(flow)
        elif len(self._accounts) > self._most_accounts:
            self._forget_some()

    def _account(self, line: Hashable, name: str | None) -> FlowAccount:
        if not self.by_seconds:
            return self._nobody
        account = self._accounts.get(line)
        if account is None:
            account = self._accounts[line] = FlowAccount(self._weight(name), self.pace.mono)
        return account

    def _forget_some(self) -> None:
        """Forget flows that neither wait, run nor owe anything; of many that owe, those that owe least."""
        level = self._contest.level(self.pace.mono)
        away = {
            line: account.used / account.weight
            for line, account in self._accounts.items()
            if line not in self._flows and not account.held
        }
        owing = sorted((line for line in away if away[line] > level), key=lambda line: away[line])
        for line in away.keys() - set(owing[-MOST_AWAY // 2 :]):
            del self._accounts[line]
        self._most_accounts = len(self._accounts) + MOST_AWAY // 2

    def _note_anew(self) -> None:
        """For how long slots are held has changed: so have the standings of flows that hold some."""
        self._ahead = self.pace.ahead
        self._version += 1
        for flow in self._flows.values():
            if flow.account.held:
                self._fronts.changed(flow)

    def adapt(self, settings: QueueSettings) -> bool:
        if _made_of(settings) != self._made_of:
            return False
        self._quantum, self._bounds = settings.quantum, Bounds.of(settings)
        weights, self._weights = self._weights, settings.flow_weights or {}
        self._version += 1
        if not self._divisor:
            for name in {*weights, *self._weights}:
                flow, account = self._flows.get(name), self._accounts.get(name)
                if flow is not None:
                    flow.weight = self._weight(name)
                if account is not None:
                    account.reweigh(self._weight(name), self.pace.mono)
                    self._changed(name)
        return True

    def drain(self) -> Iterator[Arrival]:
        flows = self._start_anew()
        self._contest = Contest()
        self._count = 0
        for flow in flows:
            yield from flow.arrivals()

    # --- too many ------------------------------------------------------------------------------------
    def refusal(self, coming: Mapping[str | None, int]) -> str | None:
        flows = ((name, self._flows.get(self._name(name))) for name in coming)
        waiting = {name: flow.count if flow is not None else 0 for name, flow in flows}
        return self._bounds.refusal(self._count, waiting, coming)

    def surplus(self, arrival: Arrival) -> Arrival | None:
        """A flow that is too deep gives up its own; a queue that is too full, one of the longest flow's."""
        bounds, own = self._bounds, self._flows[self._name(arrival.flow)]
        if bounds.depth is not None and own.count > bounds.depth:
            flow = own
        elif bounds.capacity is not None and self._count > bounds.capacity:
            flow = own if bounds.rejects else self._longest_flow()
        else:
            return None
        if bounds.rejects:
            return arrival
        return arrival_of(*(flow.oldest_job() if bounds.drops_oldest else flow.newest_job()))

    def _longest_flow(self) -> Flow:
        if self._longest is None:
            self._longest = Fronts(self._flows_here, self._length, lambda flow, fits: True)
        found = self._longest.best(_anything)
        assert found is not None
        return found

    def _length(self, flow: Flow) -> Standing | None:
        return (-flow.count, flow.number, 0) if flow.count else None

    # --- what is due, for who decides --------------------------------------------------------------------
    def shapes(self, now: int) -> Collection[Shape]:
        self._pass_time(now)
        return self._active.keys()

    def next_due(self, now: int) -> int | None:
        self._pass_time(now)
        due = self._waits[0][0] if self._waits else None
        if self._perturb and self._flows:
            again = (now // self._perturb + 1) * self._perturb
            due = again if due is None else min(due, again)
        return due

    # --- looking: changes nothing, whatever `now` is -----------------------------------------------------
    def due_count(self, now: int) -> int:
        return sum(flow.due_count(now) for flow in self._flows.values())

    def due_by_shape(self, now: int) -> dict[Shape, int]:
        counted = Counter[Shape]()
        for flow in self._flows.values():
            counted.update(flow.due_by_shape(now))
        return dict(+counted)

    def holds(self, arrival: Arrival) -> bool:
        flow = self._flows.get(self._name(arrival.flow))
        return flow is not None and flow.holds(key_of(arrival), arrival.place, arrival.job)

    def ahead(self, arrival: Arrival, now: int, fits: Callable[[Shape], bool] | None = None) -> int:
        own = self._flows.get(self._name(arrival.flow))
        return self._foresight.ahead(self._ring(), own, key_of(arrival), arrival, now, fits)

    def ahead_in_flow(self, arrival: Arrival, now: int) -> int:
        """Count the due jobs of a job's own flow that come before it, as `ahead` does."""
        flow = self._flows.get(self._name(arrival.flow))
        return flow.ahead(key_of(arrival), arrival.place, arrival.job, now) if flow is not None else 0

    def order(self, now: int, most: int, fits: Callable[[Shape], bool] | None = None) -> Iterator[int]:
        return foreseen(self._ring(), now, most, fits)

    def _ring(self) -> FlowRing:
        """Return all of this that readers see."""
        next_due = self._waits[0][0] if self._waits else None
        return FlowRing(
            self._flows, self.by_seconds, self.pace.mono, self.pace.ahead,
            self._contest.level(self.pace.mono), self._turns,
            1.0 / self._jobs(1, 1), self.seconds_of, self._count, next_due, self._version,
        )  # fmt: skip

    def oldest(self) -> int | None:
        places = (flow.oldest() for flow in self._flows.values())
        return min((place for place in places if place is not None), default=None)

    # --- turns -----------------------------------------------------------------------------------------
    def _next(self, fits: Fits) -> Flow | None:
        """Return the flow whose turn it is among those with a due job that fits."""
        while (flow := self._first(fits)) is not None:
            if self.by_seconds or flow.credit > NOTHING:
                break
            self._to_the_end(flow)  # a light flow may have to pass several times
            self._fronts.changed(flow)
        return flow

    def _first(self, fits: Fits) -> Flow | None:
        """Return the flow that stands first. Of few shapes each has a heap, for all kinds of workers."""
        if self.by_seconds and self.pace.ahead != self._ahead:
            self._note_anew()
        if len(self._active) > FEW:
            return self._fronts.best(fits)
        best = self._fronts.best
        found = [best(shape.is_like, flows) for shape, flows in self._active.items() if fits(shape)]
        if len(found) == 1:
            return found[0]
        return min((flow for flow in found if flow is not None), key=self._rank_here, default=None)

    def _rank_here(self, flow: Flow) -> Standing:
        rank = self._rank(flow)
        assert rank is not None
        return rank

    def _flows_here(self) -> Collection[Flow]:
        return self._flows.values()

    def _rank(self, flow: Flow) -> Standing | None:
        if not flow.is_in:
            return None
        if not self.by_seconds:
            return flow.turn, 0, flow.number
        return flow.account.standing(self.pace.mono, self.pace.ahead), flow.served, flow.number

    def _suits(self, flow: Flow, fits: Fits) -> bool:
        return flow.suits(fits)

    def _to_the_end(self, flow: Flow) -> None:
        self._turns += 1
        flow.turn = self._turns
        flow.credit += flow.weight

    def _jobs(self, most: int, flows: int) -> float:
        """Return how many jobs make a quantum: as many as was set, else a flow's part of what a slot takes.

        So a slot of short jobs has some of every flow, rather than all that one of them has.
        """
        return float(self._quantum or -(-most // flows))

    # --- who is due ------------------------------------------------------------------------------------
    def _look(self, flow: Flow, new: Shape | None = None) -> None:
        """See what of a flow is due; let it join or leave the ring. *new*: a shape that has become so."""
        known = {*flow.ready} - {new} if self.by_seconds and flow.is_in else None
        flow.pass_time(self._seen)
        upcoming = flow.next_due()
        if upcoming is not None:
            self._arm(flow, upcoming)
        if flow.ready and not flow.is_in:
            self._join(flow)
        elif flow.is_in and not flow.ready and self.by_seconds:
            self._contest.leave(flow.account, self.pace.mono)
        elif known is not None and not flow.ready.keys() <= known:
            self._lift(flow, flow.ready.keys() - known)
        flow.is_in = bool(flow.ready)
        self._fronts.changed(flow)

    def _lift(self, flow: Flow, shapes: Collection[Shape]) -> None:
        """A flow that competes comes to want what other flows want: it has saved up no claim on that."""
        flow.is_in = False  # so that the first is another one
        for shape in shapes:
            first = self._first(shape.is_like)
            if first is not None:
                self._contest.lift(flow.account, self.pace.mono, first.account)

    def _hear(self, flow: Rack, shape: Shape, due: int) -> None:
        """A flow has a job of a shape due, or has none any more."""
        assert isinstance(flow, Flow)
        if due > 0:
            self._active.setdefault(shape, {})[flow] = None
        else:
            flows = self._active[shape]
            del flows[flow]
            if not flows:
                del self._active[shape]

    def _arm(self, flow: Flow, when: int) -> None:
        if flow.armed is None or when < flow.armed:
            flow.armed = when
            heappush(self._waits, (when, flow.number, flow))
            if len(self._waits) > 4 * len(self._flows) + 64:
                here = [flow for flow in self._flows.values() if flow.armed is not None]
                self._waits = [(flow.armed or 0, flow.number, flow) for flow in here]
                heapify(self._waits)

    def _join(self, flow: Flow) -> None:
        if self.by_seconds:
            first = self._least_beside(flow)
            beside = None if first is None else first.account
            self._contest.join(flow.account, self.pace.mono, self.pace.ahead, beside)
        else:
            flow.credit = 0.0
            self._to_the_end(flow)

    def _least_beside(self, flow: Flow) -> Flow | None:
        """Return the first of the other flows that want the same workers; what nobody can run stands still.

        The flow has to be noted anew.
        """
        shapes = list(islice(flow.ready, FEW))
        is_in, flow.is_in = flow.is_in, False  # so that the first is another one
        try:
            for fits in [self._asker, *self._fronts.askers()]:
                if any(map(fits, shapes)) and (first := self._first(fits)) is not None:
                    return first
        finally:
            flow.is_in = is_in
        return None

    def _pass_time(self, now: int) -> None:
        """Let in what has become due; look at everything if the clock was set back."""
        if now < self._seen:
            self._seen, self._waits = now, []
            self._version += 1
            for flow in self._flows.values():
                flow.armed = None
                self._look(flow)
        self._seen = now
        if self._perturb and now // self._perturb != self._seed:
            self._hash_anew(now // self._perturb)
        waits = self._waits
        while waits and waits[0][0] <= now:
            when, _, flow = heappop(waits)
            if flow.armed == when:
                flow.armed = None
                self._version += 1
                self._look(flow)

    # --- which flow --------------------------------------------------------------------------------------
    def _name(self, flow: str | None) -> Hashable:
        if not self._divisor:
            return flow
        key = self._hash_key + self._seed.to_bytes(8, "big", signed=True)
        keyed = blake2b((flow or "").encode(), digest_size=8, key=key)
        return int.from_bytes(keyed.digest(), "big") % self._divisor

    def _weight(self, flow: str | None) -> float:
        return 1.0 if self._divisor else max(float(self._weights.get(flow or "", 1.0)), LEAST_WEIGHT)

    def _grow(self, name: str | None) -> Flow:
        line = self._name(name)
        flow = self._flows.get(line)
        if flow is None:
            self._made += 1
            account = self._account(line, name)
            flow = self._flows[line] = Flow(self._made, self._weight(name), self._hear, account)
        return flow

    def _leave(self, name: str | None, flow: Flow) -> None:
        """Forget a flow without jobs; where seconds count, its account stays."""
        if not flow.count:
            line = self._name(name)
            self._flows.pop(line, None)
            if self.by_seconds:
                self._changed(line)

    def _hash_anew(self, seed: int) -> None:
        """Put the lines of all flows together by a new seed; their order inside a flow stays."""
        order = {id(flow): self._rank(flow) or (0.0, 0, flow.number) for flow in self._flows.values()}
        competing = {flow.account for flow in self._flows.values() if flow.is_in and self.by_seconds}
        before = self._accounts_by_name()
        flows = self._start_anew()
        self._seed = seed
        self._version += 1
        for name, units in self._held.items():
            self._account(self._name(name), name).hold(units, self.pace.mono)
        for old in sorted(flows, key=lambda flow: order[id(flow)]):
            for key, line in old.lines.items():
                line.is_due = False
                self._grow(key.flow).adopt(key, line)
        self._carry_over(before, competing)
        for flow in self._flows.values():
            self._look(flow)

    def _accounts_by_name(self) -> dict[str | None, FlowAccount]:
        """Return the accounts of flows that wait or hold something, which compete no more."""
        for account in self._accounts.values():
            if account.contest is not None:
                self._contest.leave(account, self.pace.mono)
        names = {key.flow for flow in self._flows.values() for key in flow.lines} | self._held.keys()
        found = {name: self._accounts.get(self._name(name)) for name in names}
        return {name: account for name, account in found.items() if account is not None}

    def _carry_over(self, before: Mapping[str | None, FlowAccount], competing: Set[FlowAccount]) -> None:
        """Flows that are hashed together now have had what each of them had before, on average.

        Else a new seed would let those go free that hold slots for long. Those that competed go on to; who
        did not says nothing of those, and joins as ever.
        """
        together: dict[Hashable, list[FlowAccount]] = {}
        for name, account in before.items():
            together.setdefault(self._name(name), []).append(account)
        for line, accounts in together.items():
            own, flow = self._accounts[line], self._flows.get(line)
            competed = [account for account in accounts if account in competing]
            had = [account.used_until(self.pace.mono) for account in competed or accounts]
            own.used = sum(had) / len(had)
            own.longest = max(account.longest for account in accounts)
            own.era = max(account.era for account in competed or accounts)
            if competed and flow is not None:
                flow.pass_time(self._seen)
                if flow.ready:
                    flow.is_in = True
                    self._contest.enter(own, self.pace.mono)

    def _start_anew(self) -> list[Flow]:
        """Give up all flows, and what was noted of them."""
        flows = list(self._flows.values())
        self._flows.clear()
        self._accounts.clear()
        self._active.clear()
        self._waits.clear()
        self._fronts.forget()
        self._longest = None
        self._foresight.forget()
        return flows

    # --- flows as people see them: core/flows.py ---------------------------------------------------------
    def due_by_flow(self, now: int) -> dict[str | None, int]:
        """Count the jobs that are due, flow by flow."""
        counted: dict[str | None, int] = {}
        for flow in self._flows.values():
            for key, line in flow.lines.items():
                if due := line.count_until(now):
                    counted[key.flow] = counted.get(key.flow, 0) + due
        return counted

    def oldest_in_flow(self, name: str | None) -> int | None:
        """Return the least place of a job of this flow."""
        flow = self._flows.get(self._name(name))
        lines = flow.lines.items() if flow is not None else ()
        return min((line.first_place() for key, line in lines if key.flow == name), default=None)

    def weight_of(self, name: str | None) -> float:
        """Return what a flow's turn counts for."""
        return self._weight(name)


def _made_of(settings: QueueSettings) -> tuple[object, ...]:
    """Return what cannot change while jobs stand in their lines."""
    return settings.charge or "jobs", settings.divisor, settings.perturb


def _joined(turns: Sequence[Turn]) -> Columns:
    """Return jobs, places and flows of turns, one turn after the other."""
    jobs, places, flows = (list(chain.from_iterable(column)) for column in _columns(turns))
    return jobs, places, flows


def _mixed(turns: Sequence[Turn]) -> Columns:
    """Return the same, but one job of each flow at a time: the last one need not wait for all the first has.

    Mostly that is also the order in which they were submitted, so whoever reads them goes straight ahead.
    """
    flows: dict[int, Turn] = {}
    for turn in turns:
        found = flows.setdefault(turn.flow.number, turn)
        if found is not turn:  # its second one, with what was left of the slot
            found.jobs.extend(turn.jobs)
            found.places.extend(turn.places)
            found.names.extend(turn.names)
    jobs, places, names = (_in_turns(column) for column in _columns(flows.values()))
    return jobs, places, names


def _columns(turns: Collection[Turn]) -> tuple[list[list[Any]], list[list[Any]], list[list[Any]]]:
    return [turn.jobs for turn in turns], [turn.places for turn in turns], [turn.names for turn in turns]


def _in_turns(columns: Sequence[list[Any]]) -> list[Any]:
    """Return the first of each, then the second of each, and so on to the end of the longest."""
    taken: list[Any] = []
    while columns:
        shortest = min(map(len, columns))
        taken += chain.from_iterable(zip(*columns, strict=False))
        columns = [rest for column in columns if (rest := column[shortest:])]
    return taken


def _anything(shape: Shape) -> bool:
    return True


def _one_second(shape: Shape) -> float:
    return 1.0
