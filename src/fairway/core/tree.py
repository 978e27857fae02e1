"""The queue tree: whose turn it is, from the root down, child by child (HTB in slots).

Queues are nodes by path. A queue's members are its children and, unnamed among them, its own jobs (its
`line`). For each kind of worker a queue keeps a ring of the members below which something can begin on such
a worker now. What is paused, full, out of tokens, not due or of a shape that no such worker fits is not in
the ring at all: it is taken out when that becomes so and put back by the event that ends it. So a choice
costs the same whatever stands in the way elsewhere, and every choice goes straight down to a job.

A limit counts attempts. Assured slots and shares count sizes: a hundred short jobs in one slot hold one slot.

Choosing changes nothing; only `take` does. Owned by the core.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from math import exp, log

from fairway.core.alarms import Alarms
from fairway.core.contest import Contest
from fairway.core.deadlines import Deadlines
from fairway.core.defaults import rules_below
from fairway.core.discipline import Look, Offer, Served
from fairway.core.disciplines import make_discipline
from fairway.core.member import Member
from fairway.core.model import DEFAULT_RULES, NO_SETTINGS, SLOT, Alike, Arrival, QueueSettings, Rules, Shape
from fairway.core.queue import Queue, Taker, is_member, moved_path, owes_below, room_in
from fairway.core.rates import Bucket, default_burst, parse_rate
from fairway.core.ring import Ring

#: h in seconds: before anything was learnt, and its bounds.
FIRST_H, LEAST_H, MOST_H = 1.0, 0.002, 7 * 86_400.0
#: How many times longer, or shorter, turns must be before h changes.
NOTICED = 1.5
#: h is learnt over so many turns of that length, no more than this part of it from one event, and of a turn
#: that is many times longer than those before as if it were so many times as long.
MEMORY, MOST_LEARNT, OUTLIER = 20.0, 0.25, 16.0
#: Due shapes of a queue that are looked at one by one; of more its discipline knows which fit.
FEW_SHAPES = 8

#: What runs, by queue: its flow, and the units that it holds.
Running = dict[Queue, list[tuple[str | None, int]]]


class Tree:
    """All queues, and the choice among them. `mono` is the time of the last event or plan."""

    def __init__(self, hash_key: bytes = b"") -> None:
        self._made = 0
        self._base = replace(NO_SETTINGS, hash_key=hash_key)
        self.root = Queue("", None, 0)
        self.root.made_of = self._base
        self.queues: dict[str, Queue] = {"": self.root}
        self.takers: dict[Taker, int] = {}  # → how many workers of this kind there are
        self.keeping: set[Queue] = set()  # that do not lend their assured slots
        self.retaining: set[Queue] = set()  # that say how long ended jobs are kept
        self.deadlines = Deadlines()
        self.named: dict[str, int] = {}  # workers that waiting jobs name → how many do
        self.newly_named: set[str] = set()  # since somebody looked: see core/pins.py
        self.moving: dict[str, str] = {}  # branches whose jobs go elsewhere, and where to
        self.mono = 0.0
        self.ahead = FIRST_H  # h: for how long the slots that are held now are counted beforehand
        self._slot_seconds = self.ahead  # how long a slot that is held is held altogether, as last learnt
        self._turn_log = 0.0  # the logarithm of the seconds for which a slot is held, on average
        self._turns_learnt = 0.0
        self.bounded = False  # some queue takes no more than so many jobs
        self.keyed = False  # in some queue jobs without a unique key have their payload as one
        self.seconds_of: Callable[[str, Shape], float] = lambda path, shape: 1.0  # what jobs should take
        self.running: Callable[[], Iterable[tuple[Queue, str | None, int]]] = tuple  # queue, flow, units held
        self.fresh = True  # until a leader has taken in what its predecessor left: buckets start empty
        self.turns = 0
        self.alarms = Alarms()
        self._holding: dict[Queue, None] = {}  # whose own jobs hold slots
        self._seen = 0  # the wall time at the last plan

    # --- finding ---------------------------------------------------------------------------------
    def find(self, path: str) -> Queue | None:
        """Return the queue at *path*, if there is one."""
        return self.queues.get(path)

    def discipline_at(self, path: str) -> Look:
        """Return the discipline of a queue, or the one that it would be given if it were made now."""
        queue = self.queues.get(path)
        if queue is not None:
            return queue.own
        while queue is None:
            path = path.rpartition("/")[0]
            queue = self.queues.get(path)
        return make_discipline(queue.made_of)

    def rules_at(self, path: str) -> Rules:
        """Return what a queue says for its jobs, or would say if it were made now."""
        while (queue := self.queues.get(path)) is None:
            path = path.rpartition("/")[0]
        return queue.rules

    def grow(self, path: str) -> Queue:
        """Return the queue at *path*, making it and its parents where they are missing."""
        queue = self.queues.get(path)
        if queue is None:
            above, _, name = path.rpartition("/")
            parent = self.grow(above) if above else self.root
            self._made += 1
            queue = self.queues[path] = parent.children[name] = Queue(path, parent, self._made)
            self._estimate(queue)
        return queue

    def way_of(self, path: str) -> str:
        """Return where a job for this queue shall wait: elsewhere, if its branch is being moved there."""
        for source, target in self.moving.items():
            if path == source or path.startswith(source + "/"):
                return moved_path(path, source, target)
        return path

    def prune(self, queue: Queue) -> None:
        """Take an empty queue without children out of the tree."""
        if queue.parent is not None:
            self._withdraw(queue)
            queue.busy = False
            queue.parent.active.pop(queue, None)
            self.keeping.discard(queue)
            self.retaining.discard(queue)
            self.moving.pop(queue.path, None)
            del queue.parent.children[queue.path.rpartition("/")[2]]
            del self.queues[queue.path]

    def ungrow(self, queue: Queue) -> None:
        """Take a queue out again that was only looked at, and those above it that were made for it."""
        for above in list(queue.path_up()):
            is_there = self.queues.get(above.path) is above  # it may have gone with one below it
            if not is_there or above.known or above.children or above.waiting or above.in_use:
                return
            self.prune(above)

    def kills(self, queue: Queue) -> bool:
        """Say whether code of this queue is to be ended when its worker loses the lease."""
        for above in queue.path_up():
            if above.settings.on_lease_lost is not None:
                return above.settings.on_lease_lost == "kill"
        return False

    def keys_payloads(self, path: str) -> bool:
        """Say whether jobs without a unique key have their payload as one in this queue, made yet or not."""
        queue = self.queues.get(path) if self.keyed else self.root
        while queue is None:
            path = path.rpartition("/")[0]
            queue = self.queues.get(path)
        for above in queue.path_up():
            if above.settings.unique is not None:
                return above.settings.unique
        return False

    def is_rated(self, queue: Queue) -> bool:
        """Say whether starts of this queue are counted by a bucket: such jobs begin one by one."""
        return any(above.bucket is not None for above in queue.path_up())

    # --- kinds of workers --------------------------------------------------------------------------
    def welcome(self, taker: Taker) -> None:
        """A worker of this kind is there from now on."""
        count = self.takers.get(taker, 0)
        self.takers[taker] = count + 1
        if not count:
            for queue in self.queues.values():
                if queue.shapes and self._can_begin(queue, taker):
                    queue.takers |= {taker}
                    self._refresh(queue)

    def dismiss(self, taker: Taker) -> None:
        """A worker of this kind is gone."""
        self.takers[taker] -= 1
        if not self.takers[taker]:
            del self.takers[taker]
            for queue in self.queues.values():
                queue.rings.pop(taker, None)
            for queue in self.queues.values():
                if taker in queue.takers:
                    queue.takers -= {taker}
                    self._refresh(queue)

    # --- waiting jobs ----------------------------------------------------------------------------
    def put(self, arrival: Arrival, now: int) -> Queue:
        """Let a job wait in its queue."""
        queue = self.queues.get(arrival.queue) or self.grow(arrival.queue)
        is_new = arrival.place <= now and arrival.shape not in queue.shapes
        queue.own.put(arrival)
        above: Queue | None = queue
        while above is not None:
            above.waiting += 1
            above = above.parent
        if arrival.extras is not None:
            self.deadlines.put(arrival)
        if arrival.shape.names:
            self._name(arrival.shape, 1)
        if arrival.place > now:
            self.alarms.arm(queue.path, arrival.place)
        elif is_new:
            self._add(queue, arrival.shape, now)
        return queue

    def put_alike(self, groups: Sequence[Alike], now: int) -> bool:
        """Let jobs wait at one stroke that differ in id, place and flow only; False if that cannot be done.

        Each group is one flow's, in the order of its line.
        """
        path, shape = groups[0].queue, groups[0].shape
        queue = self.queues.get(path) or self.grow(path)
        put_alike = getattr(queue.own, "put_alike", None)
        is_new = shape not in queue.shapes
        if put_alike is None or not put_alike(groups):
            return False
        count = sum(len(group.jobs) for group in groups)
        for above in queue.path_up():
            above.waiting += count
        for group in groups:
            due = bisect_right(group.places, now)
            if due and is_new:
                self._add(queue, shape, now)
                is_new = False
            if due < len(group.places):
                self.alarms.arm(path, group.places[due])
        return True

    def remove(self, arrival: Arrival, now: int) -> bool:
        """Take a waiting job out; False if it does not stand where *arrival* says."""
        queue = self.queues.get(arrival.queue)
        if queue is None or not queue.own.remove(arrival):
            return False
        for above in queue.path_up():
            above.waiting -= 1
        if self.deadlines:
            self.deadlines.remove(arrival.job)
        if arrival.shape.names:
            self._name(arrival.shape, -1)
        self._less(queue, arrival.shape, now)
        return True

    def give_up(self, arrivals: Iterable[Arrival], now: int) -> None:
        """Take many waiting jobs out at once; one that stands in no line is left alone."""
        touched: dict[Queue, int] = {}
        for arrival in arrivals:
            queue = self.queues.get(arrival.queue)
            if queue is not None and queue.own.remove(arrival):
                touched[queue] = touched.get(queue, 0) + 1
                self._name(arrival.shape, -1)
        for queue, count in touched.items():
            for above in queue.path_up():
                above.waiting -= count
            self._rest(queue, now)

    def choose(self, taker: Taker, now: int) -> tuple[Queue, Offer] | None:
        """Name the next job for a worker of this kind, or None; changes nothing."""
        return self._descend(self.root, taker, now)

    def choose_kept(self, taker: Taker, now: int) -> tuple[Queue, Offer] | None:
        """Name the next job among those for which slots are kept (`lend: false`), or None."""
        owed = [
            queue
            for queue in self.keeping
            if queue.held < queue.assured and all(is_member(node, taker) for node in queue.path_up())
        ]
        if not owed:
            return None
        first = min(owed, key=lambda queue: (queue.held / queue.assured, queue.served, queue.order))
        return self._descend(first, taker, now)

    def take(self, queue: Queue, offer: Offer, most: int, size: int, now: int) -> Served:
        """Begin the offered job: it leaves its line and counts against every limit above it.

        Those behind it that would be its queue's next may begin with it, up to *most* in all: a turn is what
        one slot takes at a time. Each holds *size* units.
        """
        if most > 1:
            most = room_in(queue, most)
        served = queue.own.take(offer, most, now)
        count = len(served.jobs)
        if offer.shape.names:
            self._name(offer.shape, -count)
        self.turns += 1
        if queue.own.by_seconds:
            queue.own.hold(offer.flow, count * size)
        mono, units, line = self.mono, count * size, queue.line
        line.hold(units, mono)
        line.served = self.turns
        line.version += 1
        above: Queue | None = queue
        while above is not None:
            above.waiting -= count
            above.in_use += count
            if above.bucket is not None:
                above.bucket.take(count, mono)
                self.alarms.await_token(above, mono)
            above.hold(units, mono)
            above.served = self.turns
            above.version += 1
            above = above.parent
        self._holding[queue] = None
        if not served.more:
            self._less(queue, offer.shape, now, refresh=False)
        self._refresh(queue)
        return served

    # --- slots -----------------------------------------------------------------------------------
    def hold(self, queue: Queue, count: int, size: int, flow: str | None) -> None:
        """Count attempts that run in a queue from now on (or no more, below 0), and the units they hold."""
        if queue.own.by_seconds:
            if size > 0:
                queue.own.hold(flow, size)
            elif size < 0:
                queue.own.release(flow, -size, 0.0)
        for member in (queue.line, *queue.path_up()):
            member.hold(size, self.mono)
            member.version += 1
        for above in queue.path_up():
            above.in_use += count
        self._settle(queue)

    def release(self, queue: Queue, count: int, size: int, seconds: float, flow: str | None = None) -> None:
        """Attempts ended that held *size* units for *seconds*: their places under every limit are free."""
        if queue.own.by_seconds:
            queue.own.release(flow, size, seconds)
        mono, ahead = self.mono, self.ahead
        member: Member = queue.line
        while True:
            member.end(size, seconds, mono)
            member.version += 1
            contest, above = member.contest, member.parent
            if above is None:
                break
            if contest is not None and contest.count > 1 and contest.is_off(member, mono, ahead):
                contest.bound(member, mono, ahead, self._first_beside(above, member, above.rings))
            above.in_use -= count
            member = above
        self._settle(queue)

    def wait(self, queue: Queue, size: int, flow: str | None, seconds: float = 0.0) -> None:
        """Attempts that hold *size* units wait for their slots; below 0: no more, for *seconds* already."""
        if queue.own.by_seconds:
            queue.own.wait(flow, size, seconds)
        for member in (queue.line, *queue.path_up()):
            member.wait(size, seconds, self.mono)

    def write_off(self, queue: Queue, size: int, seconds: float) -> None:
        """Units of slots that are still held were of no use for so long: their worker was gone.

        Judged by what a queue holds above its assured slots now: what it held meanwhile is not known.
        """
        for member in (queue.line, *queue.path_up()):
            over = min(size, member.over)
            if over and member.parent is not None:
                member.parent.contest_of(member).forgive(member, over / SLOT * seconds, self.mono)

    def learn(self, seconds: float, turns: float = 1.0) -> None:
        """A turn was over after so long: what others hold now may be expected to take about as long.

        There may have been several *turns*, or a part of one: what a slot takes may end bit by bit.

        If much more were counted beforehand, those with a small weight would be given too much at first; if
        much less, one that is a turn behind would be given all slots freed together, and then none for long.
        """
        if turns <= 0.0:
            return
        seconds = min(max(seconds, LEAST_H), MOST_H)
        known, self._turns_learnt = self._turns_learnt, self._turns_learnt + turns
        share = max(turns / self._turns_learnt, 1.0 - 0.95**turns)
        # By the logarithm: one turn of an hour among short ones is not to change everything.
        self._turn_log += (log(seconds) - self._turn_log) * share
        if not known:
            self._slot_seconds = seconds
        # By the time they take: of the slots that are held at some moment most are held by long ones.
        seconds = min(seconds, OUTLIER * self._slot_seconds)
        share = min(turns * seconds / (MEMORY * self._slot_seconds), MOST_LEARNT)
        self._slot_seconds += (seconds - self._slot_seconds) * share
        if not 1 / NOTICED < self._slot_seconds / self.ahead < NOTICED:
            self.ahead = self._slot_seconds
            self._note_anew()

    @property
    def turn_seconds(self) -> float | None:
        """For how long a slot is held, mostly; None before anything is known."""
        return exp(self._turn_log) if self._turns_learnt else None

    def _note_anew(self) -> None:
        """The measure has changed: what was noted of those that hold slots is void, and of no others."""
        for member in dict.fromkeys(one for queue in self._holding for one in (queue.line, *queue.path_up())):
            member.version += 1
            if member.parent is not None:
                for ring in member.parent.rings.values():
                    ring.note_anew(member, self.mono, self.ahead)

    def _settle(self, queue: Queue) -> None:
        """What a queue's jobs hold has changed."""
        if queue.line.held:
            self._holding[queue] = None
        else:
            self._holding.pop(queue, None)
        self._refresh(queue)

    # --- settings and time -----------------------------------------------------------------------
    def set(self, queue: Queue, settings: QueueSettings, now: int) -> None:
        """Change a queue's settings; they hold from the next choice on."""
        before, queue.settings = queue.settings, settings
        queue.reweigh(settings.weight, self.mono)
        queue.assure((settings.assured or 0) * SLOT, self.mono)
        if settings.priority != queue.priority:
            self._withdraw(queue)  # it competes with others from now on
            queue.priority = settings.priority
        queue.version += 1
        self.keyed |= settings.unique is True
        if settings.lend or not settings.assured:
            self.keeping.discard(queue)
        else:
            self.keeping.add(queue)
        if settings.retention is None:
            self.retaining.discard(queue)
        else:
            self.retaining.add(queue)
        if settings.moving is not None:
            self.moving[queue.path] = settings.moving["to"]
        if (settings.rate, settings.burst) != (before.rate, before.burst):
            self._set_rate(queue)
        self._adopt(queue, now, {})
        self._rule(queue)
        self._refresh(queue)

    def pass_time(self, now: int) -> None:
        """Open the queues whose jobs have become due, or that have a token again."""
        set_back, self._seen = now < self._seen, now
        if set_back:  # the wall clock: what was due may not be so any more
            for known in list(self.queues.values()):
                self._rest(known, now)
        for path in self.alarms.due(now):
            queue = self.queues.get(path)
            if queue is not None:
                self._rest(queue, now)
        for queue in self.alarms.open(self.mono):
            if queue.bucket is not None:
                self._refresh(queue)
                self.alarms.await_token(queue, self.mono)

    def _name(self, shape: Shape, count: int) -> None:
        """So many more waiting jobs, or fewer, name these workers."""
        for name in shape.names:
            named = self.named.get(name, 0) + count
            if named:
                self.named[name] = named
                if named == count:
                    self.newly_named.add(name)
            else:
                del self.named[name]

    # --- inside: choosing ------------------------------------------------------------------------
    def _descend(self, top: Queue, taker: Taker, now: int) -> tuple[Queue, Offer] | None:
        mono, queue, looked = self.mono, top, 0
        while True:
            ring = queue.rings.get(taker)
            member = ring.best(mono, self.ahead) if ring is not None else None
            if member is None:
                return None
            if isinstance(member, Queue):
                queue = member
                continue
            offer = queue.own.offer(taker.fits, now)
            if offer is not None:
                return queue, offer
            if taker not in queue.takers or looked > len(self.queues):
                raise AssertionError(f"queue {queue.path!r} has nothing to offer, but stands in the ring")
            self._rest(queue, now)  # the wall clock was set back since we looked
            queue, looked = top, looked + 1

    # --- inside: who can begin something -----------------------------------------------------------
    def _add(self, queue: Queue, shape: Shape, now: int) -> None:
        """A job of another shape is due: who could begin nothing of the queue's own may be able to now."""
        self._look(queue, now)
        able = [taker for taker in self.takers if taker not in queue.takers and taker.fits(shape)]
        new = {taker for taker in able if taker.attached(queue.path)}
        if new:
            queue.takers |= new
            self._refresh(queue)

    def _less(self, queue: Queue, shape: Shape, now: int, refresh: bool = True) -> None:
        """A job of this shape has gone: who could begin something of the queue's own may not be able to."""
        self._look(queue, now)
        if shape not in queue.shapes:
            could = [taker for taker in queue.takers if taker.fits(shape)]
            gone = [taker for taker in could if not self._can_begin(queue, taker)]
            if gone:
                queue.takers = queue.takers.difference(gone)
                if refresh:
                    self._refresh(queue)

    def _rest(self, queue: Queue, now: int) -> None:
        """Look again which of a queue's own jobs are due, and which kinds of workers could begin one."""
        self._look(queue, now)
        takers = frozenset(taker for taker in self.takers if self._can_begin(queue, taker))
        if takers != queue.takers:
            queue.takers = takers
            self._refresh(queue)

    def _look(self, queue: Queue, now: int) -> None:
        """See which shapes of a queue's own jobs are due; arm its timer for what is not."""
        self._seen = max(self._seen, now)
        queue.shapes = queue.own.shapes(now)
        upcoming = queue.own.next_due(now)
        if upcoming is not None:
            self.alarms.arm(queue.path, upcoming)

    def _can_begin(self, queue: Queue, taker: Taker) -> bool:
        """Say whether such workers could begin one of a queue's own jobs."""
        if not taker.attached(queue.path):
            return False
        if len(queue.shapes) <= FEW_SHAPES:
            return any(map(taker.fits, queue.shapes))
        return queue.own.offer(taker.fits, self._seen) is not None

    def _refresh(self, queue: Queue) -> None:
        """See to it that a queue's line, and each queue above, stands in its parent's rings as it should."""
        below: Member = queue.line
        able: Collection[Taker] = queue.takers
        mono = self.mono
        while (above := below.parent) is not None:
            contest = below.contest
            if able:
                if contest is None:
                    self._compete(above, below, able)
                elif len(self.takers) > 1:
                    self._lift(contest, above, below, able)
            elif contest is not None:
                contest.leave(below, mono)
            if below.busy is not bool(able or below.held):
                self._turn_busy(above, below)
            owes = below.held < below.assured
            for taker in self.takers:
                ring = above.rings.get(taker)
                if taker in able:
                    if ring is None:
                        ring = above.rings[taker] = Ring()
                    ring.put(below, owes or owes_below(below, taker), mono, self.ahead)
                elif ring is not None:
                    ring.drop(below)
            able = (
                [taker for taker, ring in above.rings.items() if ring.members] if above.is_open(mono) else ()
            )
            below = above

    def _compete(self, above: Queue, member: Member, able: Collection[Taker]) -> None:
        """Something of a member could begin: it competes with its siblings, as one that comes now."""
        first = self._first_beside(above, member, able)
        above.contest_of(member).join(member, self.mono, self.ahead, first)
        member.version += 1

    def _lift(self, contest: Contest, above: Queue, member: Member, able: Collection[Taker]) -> None:
        """A member that competes may come to stand in more rings; done before it is noted in any."""
        for taker in able:
            ring = above.rings.get(taker)
            if ring is not None and ring.members and member not in ring.members:
                first = ring.first(member.priority, self.mono, self.ahead)
                if first is not None:
                    contest.lift(member, self.mono, first)
                    member.version += 1

    def _first_beside(self, above: Queue, member: Member, takers: Iterable[Taker]) -> Member | None:
        """Return who is next on one of these kinds of workers, or would be but for *member*.

        On several kinds there may be several: the one that has had most. What waits for a rare kind has had
        little, and says nothing of the others.
        """
        found, most = None, 0.0
        for taker in takers:
            ring = above.rings.get(taker)
            first = ring.first(member.priority, self.mono, self.ahead) if ring is not None else None
            if first is None or first is member:
                continue
            if found is None or first.level(self.mono) > most:
                found, most = first, first.level(self.mono)
        return found

    def _withdraw(self, queue: Queue) -> None:
        """Take a queue out of its parent's contest and rings; if it still competes it comes back anew."""
        if queue.parent is not None:
            for ring in queue.parent.rings.values():
                ring.drop(queue)
        if queue.contest is not None:
            queue.contest.leave(queue, self.mono)
        queue.era = -1  # of no other contest

    def _turn_busy(self, above: Queue, member: Member) -> None:
        member.busy = not member.busy
        if member.busy:
            above.active[member] = None
        else:
            above.active.pop(member, None)

    # --- inside: settings ------------------------------------------------------------------------
    def _set_rate(self, queue: Queue) -> None:
        """Give a queue a bucket, full unless this leader is new; one that had tokens keeps them."""
        settings, old = queue.settings, queue.bucket
        queue.bucket = None
        if settings.rate is not None:
            rate = parse_rate(settings.rate)
            burst = settings.burst or default_burst(rate)
            tokens = min(old.level(self.mono), burst) if old is not None else 0.0 if self.fresh else burst
            queue.bucket = Bucket(rate, burst, tokens, self.mono)
            self.alarms.await_token(queue, self.mono)

    def _adopt(self, queue: Queue, now: int, running: Running) -> None:
        """Give *queue*, and those below it that inherit, the discipline that the settings name."""
        above = queue.parent.made_of if queue.parent is not None else self._base
        wanted = queue.settings.below(above)
        if wanted == queue.made_of:
            return
        before, queue.made_of = queue.made_of, wanted
        self.bounded |= wanted.depth is not None or wanted.capacity is not None
        if wanted.discipline != before.discipline or not queue.own.adapt(wanted):
            self._rebuild(queue, now, running)
        for child in queue.children.values():
            self._adopt(child, now, running)

    def _rebuild(self, queue: Queue, now: int, running: Running) -> None:
        """Give a queue a new discipline, and that one all its jobs. *running* is filled when it is needed."""
        old = queue.own
        queue.adopt(make_discipline(queue.made_of))
        self._estimate(queue)
        if queue.own.by_seconds and queue.line.held:
            if not running:
                for where, flow, units in self.running():
                    running.setdefault(where, []).append((flow, units))
            for flow, units in running.get(queue, ()):
                queue.own.hold(flow, units)
        for arrival in old.drain():
            whole = self.deadlines.find(arrival.job) if self.deadlines else None
            queue.own.put(whole or arrival._replace(queue=queue.path))
        self._rest(queue, now)

    def _estimate(self, queue: Queue) -> None:
        """Let a discipline that shares seconds know the time, and how long jobs are expected to take."""
        if queue.own.by_seconds:
            queue.own.pace = self  # type: ignore[attr-defined]
            queue.own.seconds_of = lambda shape: self.seconds_of(queue.path, shape)  # type: ignore[attr-defined]

    def _rule(self, queue: Queue) -> None:
        """Let *queue*, and those below it that inherit, say what the settings say for its jobs."""
        above = queue.parent.rules if queue.parent is not None else DEFAULT_RULES
        wanted = rules_below(above, queue.settings)
        if wanted != queue.rules:
            queue.rules = wanted
            for child in queue.children.values():
                self._rule(child)
