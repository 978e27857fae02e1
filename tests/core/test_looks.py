"""A look changes nothing: what begins, and when, is the same whether or not anybody asks about it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from fairway.core import events as happened
from fairway.core.demand import demand
from fairway.core.eta import eta, expect
from fairway.core.explain import explain, limited_by, position
from fairway.core.flows import busiest
from fairway.core.foresee import foresee
from fairway.core.model import Arrival, Extras, Moment, Shape, TaskInfo, Timers
from fairway.core.plan import Plan
from fairway.core.scheduler import Core
from fairway.node.metrics import tenant_numbers
from tests.drawing import drawn

from .stage import COMMAND, WALL, Stage, task

SFQ: dict[str, Any] = {"discipline": "sfq"}
QUEUES: dict[str, dict[str, Any]] = {
    "prio": {"discipline": "priority"},
    "prio/below": {"assured": 1, "weight": 2.0},
    "fifo": {"discipline": "fifo", "limit": 3},
    "edf": {"discipline": "deadline"},
    "jobs": SFQ,
    "jobs/rated": {"rate": "2/s"},
    "seconds": {**SFQ, "charge": "seconds"},
    "hashed": {**SFQ, "divisor": 3, "perturb": 4.0},
    "hashed-seconds": {**SFQ, "charge": "seconds", "divisor": 3, "perturb": 4.0},
}
CHANGES: list[dict[str, Any]] = [
    {"paused": True}, {"paused": False}, {"limit": 1}, {"limit": None}, {"weight": 3.0}, {"quantum": 2},
    {"flow_weights": {"a": 3.0}}, {"discipline": "fifo"}, {"discipline": "sfq", "charge": "seconds"},
    {"discipline": "sfq", "charge": "jobs"}, {"discipline": "deadline"},
    {"capacity": 5, "overflow": "drop_oldest"},
]  # fmt: skip
SHAPES = [
    COMMAND, COMMAND, task("t"), task("shared"), Shape("command", tags=("red",)),
    Shape("command", tags=("blue",)),
    *[Shape("command", tags=(f"nobody-{number}",)) for number in range(12)],
]  # fmt: skip
FLOWS = (None, "a", "b", "c", "d")
#: Seconds from now at which somebody looks, now being the time of the next plan.
TIMES = (0.0, 0.7, 30.0, -2.0)

Step = tuple[str, int, int, int]
SEEDS = st.integers(0, 1 << 16)
KINDS = [
    "submit", "submit", "submit", "submit", "bulk", "time", "time", "finish", "finish", "fail", "beat", "set",
    "back", "worker", "cancel", "edit",
]  # fmt: skip
SCRIPTS = st.lists(st.tuples(st.sampled_from(KINDS), SEEDS, SEEDS, SEEDS), min_size=5, max_size=40)


@dataclass
class Scene(Stage):
    """A stage whose wall clock may be set back, played by a script."""

    core: Core = field(default_factory=lambda: Core(Timers(beat=5.0, lease=60.0), b"key"))
    set_back: int = 0  # microseconds
    jobs: int = 0

    @property
    def now(self) -> Moment:
        return Moment(WALL + self.micros - self.set_back, 1000.0 + self.micros / 1e6)

    def open(self) -> Scene:
        """Let there be queues and workers of several kinds."""
        for path, settings in QUEUES.items():
            self.set(path, **settings)
        self.join("w1", 2, tags=("red",), tasks=(TaskInfo("t"), TaskInfo("shared", is_async=True)))
        self.join("w2", 1, tags=("blue",), queues=("seconds", "hashed*", "prio/**"))
        return self

    def play(self, step: Step) -> None:
        """Let one thing happen."""
        kind, *numbers = step
        verbs: dict[str, Callable[[int, int, int], None]] = {
            "submit": self._submit, "bulk": self._bulk, "time": self._pass, "finish": self._finish,
            "fail": self._fail, "beat": self._beat, "set": self._change, "back": self._back,
            "worker": self._worker, "cancel": self._cancel, "edit": self._edit,
        }  # fmt: skip
        verbs[kind](*numbers)

    def _submit(self, one: int, two: int, three: int) -> None:
        self.micros += 1
        self.jobs += 1
        place = self.now.wall + (0, 0, 0, 500_000, 3_000_000)[three % 5]
        extras = Extras(deadline=place + 5_000_000 + three % 3) if three % 2 else None
        queue, flow = list(QUEUES)[one % len(QUEUES)], FLOWS[two % len(FLOWS)]
        shape, priority = SHAPES[two // 7 % len(SHAPES)], one // 16 % 3
        new = Arrival(self.jobs, queue, flow, priority, shape, place, None, extras)
        self.arrivals[self.jobs] = new
        self.absorb(happened.Submitted([new]))

    def _bulk(self, one: int, two: int, three: int) -> None:
        for number in range(10):
            self._submit(one, two + number * (1 + three % 3), 2 * three + 2)

    def _pass(self, one: int, two: int, three: int) -> None:
        self.micros += (1, 300_000, 1_000_000, 1_500_000, 7_000_000)[one % 5]

    def _finish(self, one: int, two: int, three: int) -> None:
        for job in [*self.live][one % 3 :: 3][: two % 4 + 1]:
            self.finish(job, seconds=(0.0001, 0.5, 3.0)[three % 3])

    def _fail(self, one: int, two: int, three: int) -> None:
        for job in [*self.live][one % 3 :: 3][:1]:
            self.finish(job, kind=("error", "crashed", "cancelled")[two % 3], seconds=1.0)

    def _beat(self, one: int, two: int, three: int) -> None:
        for name, worker in self.workers.items():
            self.beat(name, *worker.live)

    def _change(self, one: int, two: int, three: int) -> None:
        self.set(list(QUEUES)[one % len(QUEUES)], **CHANGES[two % len(CHANGES)])

    def _back(self, one: int, two: int, three: int) -> None:
        self.set_back += (0, 400_000, 2_000_000)[one % 3]

    def _worker(self, one: int, two: int, three: int) -> None:
        if one % 3:
            self.join(f"x{one % 2}", one % 3, tags=("red", "blue")[: two % 3])
        else:
            self.absorb(happened.Gone(f"x{two % 2}"))

    def _cancel(self, one: int, two: int, three: int) -> None:
        if job := self._waiting(one):
            self.absorb(happened.CancelAsked("ticket", job, False))

    def _edit(self, one: int, two: int, three: int) -> None:
        if job := self._waiting(one):
            new = job._replace(priority=two % 5, flow=FLOWS[three % len(FLOWS)])
            self.arrivals[job.job] = new
            self.absorb(happened.EditAsked("ticket", job, new, job.place, self.rules))

    def _waiting(self, number: int) -> Arrival | None:
        waiting = [job for job in self.arrivals.values() if job.job not in self.attempts]
        return waiting[number % len(waiting)] if waiting else None


def look_at_everything(scene: Scene) -> None:
    """Ask all that can be asked, as of now and of other times."""
    world = scene.core.world
    for seconds in TIMES:
        wall, mono = scene.now
        now = Moment(wall + int(seconds * 1e6), mono + max(seconds, 0.0))
        for job in list(scene.arrivals.values())[-12:]:
            explain(world, job, now.wall)
            eta(world, job, now, position(world, job, now.wall))
            expect(world, job, now)
        for path, queue in list(world.tree.queues.items()):
            foresee(world.tree, queue, 20, now)
            busiest(world, queue, 5, now)
            limited_by(queue, now.mono)
            list(queue.own.order(now.wall, 5))
            queue.own.due_count(now.wall), queue.own.due_by_shape(now.wall), queue.own.oldest()
            world.tree.discipline_at(path + "/new").refusal({"a": 1})
            world.numbers.figures(world.numbers.of_branch(queue), now.mono)
        world.numbers.of_branches(list(world.tree.queues.values()))
        demand(world, now)
        tenant_numbers(world, now)


@drawn(60)
@given(SCRIPTS)
def test_what_begins_is_the_same_however_much_is_asked(script: list[Step]) -> None:
    alone, looked_at = Scene().open(), Scene().open()
    alone.core.world.forecasts.sample = lambda *_: None  # type: ignore[method-assign]
    for step in script:
        plans: list[Plan] = []
        for scene, look in ((alone, False), (looked_at, True)):
            if look:
                look_at_everything(scene)
            scene.play(step)
            if look:
                look_at_everything(scene)
            plans.append(scene.step())
        assert plans[0] == plans[1]
