"""What comes, or a new leader loads, at one stroke stands as if it had been put there job by job."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairway.core import events as happened
from fairway.core import lines
from fairway.core.arriving import FEW
from fairway.core.disciplines.ordered import Ordered
from fairway.core.lifecycle import State
from fairway.core.loading import _by_flow
from fairway.core.model import Alike, Arrival, Extras, Held, TaskInfo, together
from fairway.core.plan import Begun
from fairway.stores.backlog import page_of
from tests.core.stage import COMMAND, WALL, Stage, task
from tests.drawing import drawn

SHAPES = (COMMAND, task("t"), task("t", once=True), task("u", "gpu"))
SETTINGS: dict[str, dict[str, object]] = {
    "a": {}, "a/b": {"discipline": "fifo"}, "c": {"discipline": "sfq"}, "d": {"discipline": "deadline"},
    "c/s": {"discipline": "sfq", "charge": "seconds"}, "c/h": {"discipline": "sfq", "divisor": 2},
}  # fmt: skip


def drawn_job(dice: Random, number: int) -> Arrival:
    """Return a job of some queue that is due or not; one in ten has a deadline, which may be over."""
    place = WALL + dice.choice((dice.randint(-50, 0), number, number, dice.randint(0, 3_000_000)))
    extras = Extras(deadline=WALL + dice.randint(0, 3_000_000)) if dice.random() < 0.1 else None
    flow = dice.choice((None, "u", "v"))
    queue = dice.choice((*SETTINGS, "a/new"))
    return Arrival(number, queue, flow, dice.choice((0, 0, 5)), dice.choice(SHAPES), place, None, extras)


class Drama:
    """A leader takes over, jobs arrive while it loads, and all of them run, in an order that is noted."""

    def __init__(self, seed: int, at_one_stroke: bool) -> None:
        self.dice, self.at_one_stroke, self.stage = Random(seed), at_one_stroke, Stage()
        self.seen: list[object] = []
        self.jobs = [drawn_job(self.dice, number) for number in range(1, self.dice.randint(2, 120))]

    def play(self) -> list[object]:
        for path, said in SETTINGS.items():
            self.stage.absorb(happened.QueueFound(path, said))
        for number in self.some(3):
            self.find_running(self.jobs[number])
        if self.dice.random() < 0.2:
            self.stage.absorb(happened.MoveAsked("ticket", "a", "z", "operation", False))
        size = self.dice.randint(1, len(self.jobs))
        for first in range(0, len(self.jobs), size):
            self.take_in(first + size)
            self.load(self.jobs[first : first + size])
            self.look()
            if self.dice.random() < 0.5:
                self.run(self.dice.random() / 2)
        tree = self.stage.core.world.tree
        for _ in range(400):
            self.run(0.05)
            if not tree.root.waiting and not self.stage.live:
                break
        assert (tree.moving or tree.root.waiting == 0) and not self.stage.live
        return self.seen

    def some(self, most: int) -> list[int]:
        return self.dice.sample(range(len(self.jobs)), min(self.dice.randint(0, most), len(self.jobs)))

    def find_running(self, job: Arrival) -> None:
        self.stage.attempts[job.job] = 1
        begun = Begun(job.job, 1, 0, 0, 0, (), self.stage.rules, None, b"{}")
        self.stage.absorb(happened.Found(job, begun, "w", "w", WALL, False))

    def take_in(self, until: int) -> None:
        """Let arrivals be heard of jobs that run, wait already or are loaded next; cancel one of them."""
        arrivals = [self.jobs[number] for number in sorted(self.some(20))]
        gone = [job for job in arrivals if self.stage.attempts[job.job] and job.job not in self.stage.live]
        arrivals = [job for job in arrivals[:until] if job not in gone]
        if self.at_one_stroke:
            self.stage.absorb(happened.TakenIn(arrivals, []))
        else:
            alike, others = together(arrivals)
            alone = [*self.one_by_one(alike), *others] if len(arrivals) > FEW else arrivals
            for arrival in alone:
                self.stage.absorb(happened.TakenIn([arrival], []))
        if arrivals and self.dice.random() < 0.3:
            self.stage.absorb(happened.CancelAsked("ticket", arrivals[0], False))
            self.stage.attempts[arrivals[0].job] += 1

    def load(self, jobs: list[Arrival]) -> None:
        # A store tells of no job that has ended; one that ends with the next plan is still there.
        ended = {job for job in self.stage.attempts if job not in self.stage.live}
        dropped = {drop.job for drop in self.stage.core.world.plan.batch.drops}
        page = page_of([job for job in jobs if job.job not in ended - dropped])
        if page is None:
            return
        if self.at_one_stroke:
            self.stage.absorb(happened.Loaded(page.others, alike=page.alike))
        else:
            self.stage.absorb(happened.Loaded([*self.one_by_one(page.alike), *page.others]))

    def one_by_one(self, alike: Sequence[Alike]) -> list[Arrival]:
        return [job for groups in _by_flow(alike) for one in groups for job in one.arrivals()]

    def look(self) -> None:
        """Note all that can be seen of the waiting jobs."""
        tree, now = self.stage.core.world.tree, self.stage.now.wall
        self.seen += [dict(tree.alarms._armed), [row.path for row in self.stage.core.world.plan.batch.queues]]
        for path, queue in tree.queues.items():
            own = queue.own
            self.seen.append((path, queue.order, queue.waiting, queue.known, set(queue.shapes), len(own)))
            self.seen.append((list(own.order(now, 1000)), own.due_by_shape(now), own.oldest()))

    def run(self, seconds: float) -> None:
        """Let time pass, begin what can begin, and end what runs."""
        if "w" not in self.stage.workers or not self.stage.workers["w"].connected:
            holds = tuple(Held(job, 1) for job in self.stage.live)
            self.stage.join("w", 3, holds=holds, tasks=(TaskInfo("t"), TaskInfo("u")), tags=("gpu",))
        plan = self.stage.step(seconds)
        self.seen.append([begin.jobs for begin in plan.batch.begins])
        self.seen.append(sorted(drop.job for drop in plan.batch.drops))
        self.stage.attempts.update(drop.job for drop in plan.batch.drops)
        self.stage.finish(*sorted(self.stage.live), seconds=0.01)


@given(st.integers(0, 1 << 60))
@drawn(60)
def test_at_one_stroke_is_the_same_as_one_by_one(seed: int) -> None:
    original, lines.CHUNK = lines.CHUNK, 4
    try:
        assert Drama(seed, True).play() == Drama(seed, False).play()
    finally:
        lines.CHUNK = original


# --- when it can be done at one stroke -------------------------------------------------------------------
def check(before: list[tuple[int, int]], block: list[tuple[int, int]], at_one_stroke: bool) -> None:
    """After jobs *before*, as (place, job), a block of them is put at one stroke, or cannot be."""
    stage = Stage()
    for place, job in before:
        stage.absorb(happened.Loaded([Arrival(job, "q", None, 0, COMMAND, WALL + place)]))
    places, jobs = [WALL + place for place, _ in block], [job for _, job in block]
    tree = stage.core.world.tree
    assert tree.put_alike([Alike("q", None, 0, COMMAND, jobs, places)], WALL) is at_one_stroke
    expected = sorted([*before, *block] if at_one_stroke else before)
    assert list(tree.queues["q"].own.order(WALL + 100, 100)) == [job for _, job in expected]
    assert tree.root.waiting == len(expected)


@pytest.mark.parametrize(
    ("before", "at_one_stroke"),
    [
        ([], True),
        ([(4, 9)], True),  # behind all that stand there
        ([(5, 4)], True),
        ([(4, 9), (7, 8), (9, 1)], True),  # between two of them
        ([(7, 8)], True),  # before them
        ([(6, 7)], True),
        ([(5, 5)], False),  # one is there already
        ([(6, 6)], False),
        ([(5, 7)], False),  # one stands between them
        ([(1, 1), (6, 1), (9, 9)], False),
    ],
)
def test_a_block_is_put_where_nobody_stands_between(
    before: list[tuple[int, int]], at_one_stroke: bool
) -> None:
    check(before, [(5, 5), (6, 6)], at_one_stroke)


def test_a_discipline_without_that_way_gets_them_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(Ordered, "put_alike")
    check([], [(5, 5), (6, 6)], False)
    stage = Stage()
    alike = Alike("q", None, 0, COMMAND, [1, 2], [WALL, WALL])
    stage.absorb(happened.Loaded((), alike=[alike]))
    assert stage.join("w", 2) and stage.begun() == [1, 2]


def test_flows_that_share_a_line_are_put_at_one_stroke() -> None:
    stage = Stage()
    groups = [
        Alike("q", flow, 0, COMMAND, jobs, [WALL + job for job in jobs])
        for flow, jobs in (("u", [1, 4]), (None, [2, 5]), ("v", [3]))
    ]
    tree = stage.core.world.tree
    assert tree.put_alike(groups, WALL + 3)
    assert not tree.put_alike(groups[1:2], WALL + 3)  # they are there already
    assert [(one.job, one.flow, one.place) for one in tree.queues["q"].own.drain()] == [
        (1, "u", WALL + 1), (2, None, WALL + 2), (3, "v", WALL + 3), (4, "u", WALL + 4), (5, None, WALL + 5),
    ]  # fmt: skip


def test_a_block_in_any_order_is_put_in_its_order() -> None:
    alike = Alike("q", None, 0, COMMAND, [1, 2, 3], [9, 5, 5])
    assert alike.in_order() == alike._replace(jobs=[2, 3, 1], places=[5, 5, 9])
    assert alike.in_order().in_order() == alike.in_order()


@pytest.mark.parametrize(("overflow", "left"), [("drop_oldest", range(16, 21)), ("drop_newest", range(1, 6))])
def test_a_bulk_that_is_too_much_for_a_queue_leaves_what_fits(overflow: str, left: range) -> None:
    stage = Stage()
    stage.absorb(happened.QueueFound("q", {"capacity": 5, "overflow": overflow}))
    bulk = [Arrival(job, "q", None, 0, COMMAND, WALL + job) for job in range(1, 21)]
    stage.absorb(happened.TakenIn(bulk, [1]))
    world = stage.core.world
    assert list(world.tree.queues["q"].own.order(WALL + 100, 100)) == list(left)
    assert {drop.job for drop in world.plan.batch.drops} == set(range(1, 21)) - set(left)


class Counted(list[Any]):
    """Records of a plan, and how many of them were read."""

    read = 0

    def __getitem__(self, index: Any) -> Any:
        found = super().__getitem__(index)
        self.read += len(found) if isinstance(index, slice) else 1
        return found

    def __iter__(self) -> Iterator[Any]:
        self.read += len(self)
        return super().__iter__()


@pytest.mark.parametrize("state", [State.FAILED, State.SUCCEEDED])
@pytest.mark.parametrize("kind", [happened.TakenIn, happened.Loaded])
def test_what_ends_or_is_released_as_jobs_come_one_by_one_is_read_once(kind: type, state: State) -> None:
    stage = Stage()
    batch = stage.core.world.plan.batch
    batch.drops, batch.unblocks = drops, unblocks = Counted(), Counted()
    after = Extras(after=(1,))
    for job in range(100, 200):
        coming = [Arrival(job, "q", None, 0, COMMAND, WALL, None, after, True)]
        ended = {1: state}
        stage.absorb(
            happened.Loaded(coming, ended) if kind is happened.Loaded else happened.TakenIn(coming, [], ended)
        )
    assert len(drops) + len(unblocks) == 100
    assert drops.read + unblocks.read <= 100
