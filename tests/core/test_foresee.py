"""What begins next below a queue: the same order in which the tree then really lets them begin."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from fairway.core.foresee import foresee
from fairway.core.model import SLOT, Arrival, Moment, QueueSettings, Shape
from fairway.core.tree import Tree
from tests.drawing import drawn

from .stage import COMMAND, Stage
from .workshop import SHAPE, Everybody

PATHS = ("a", "a/x", "a/y", "a/y/z", "b", "b/x", "c")
some_settings = st.builds(
    lambda limit, assured, priority, weight, paused, discipline: QueueSettings(
        limit=limit,
        assured=assured,
        priority=priority,
        weight=weight,
        paused=paused,
        discipline=discipline,
    ),
    limit=st.sampled_from([None, None, 1, 3]),
    assured=st.sampled_from([None, None, 1, 2]),
    priority=st.sampled_from([0, 0, 1]),
    weight=st.sampled_from([1.0, 2.0, 0.5]),
    paused=st.sampled_from([False, False, False, True]),
    discipline=st.sampled_from([None, "fifo", "sfq", "deadline"]),
)
jobs = st.lists(
    st.tuples(
        st.sampled_from(PATHS),
        st.sampled_from([None, "ann", "bob"]),
        st.integers(0, 2),
        st.sampled_from([SHAPE, SHAPE, SHAPE, Shape("nobody's")]),
    ),
    max_size=40,
)


class Somebody(Everybody):
    """A kind of worker that cannot run everything."""

    def fits(self, shape: Shape) -> bool:
        return shape == SHAPE


def begin_all(tree: Tree, kind: Everybody) -> list[int]:
    """Let everything begin that can, one slot each, and name it in order."""
    begun = []
    while (found := tree.choose(kind, 0)) is not None:
        begun += tree.take(*found, 1, SLOT, 0).jobs
    return begun


@given(
    tree=st.dictionaries(st.sampled_from(PATHS), some_settings, max_size=6),
    drawn=jobs,
    before=st.integers(0, 8),
)
@drawn(300)
def test_what_is_foreseen_is_what_begins(
    tree: dict[str, QueueSettings], drawn: list[tuple[str, str | None, int, Shape]], before: int
) -> None:
    real, kind = Tree(), Somebody()
    real.welcome(kind)
    for path, wanted in tree.items():
        real.set(real.grow(path), wanted, 0)
    for number, (path, flow, priority, shape) in enumerate(drawn):
        real.put(Arrival(number, path, flow, priority, shape, number - 100), 0)
    for _ in range(before):  # some have run for a while
        real.mono += 0.3
        if (found := real.choose(kind, 0)) is not None:
            real.take(*found, 1, SLOT, 0)
    foreseen = foresee(real, real.root, 1000, Moment(0, real.mono))
    begun = begin_all(real, kind)
    assert foreseen[: len(begun)] == begun
    assert len(set(foreseen)) == len(foreseen) == len(begun) + real.root.waiting


def check(stage: Stage, path: str, most: int, jobs: list[int]) -> None:
    """Below *path* these are next, and looking changes nothing."""
    tree = stage.core.world.tree
    for _ in range(2):
        assert foresee(tree, tree.grow(path), most, stage.now) == jobs


def branch(**settings: Any) -> Stage:
    """Two queues of one tenant with three jobs each, beside a stranger."""
    stage = Stage()
    stage.join("w", 0)
    stage.set("acme/a", **settings)
    stage.submit(1, 2, 3, queue="acme/a")
    stage.submit(4, 5, 6, queue="acme/b")
    stage.submit(7, queue="beta")
    return stage


def test_the_queues_of_a_branch_take_turns() -> None:
    check(branch(), "acme", 100, [1, 4, 2, 5, 3, 6])
    check(branch(), "acme", 3, [1, 4, 2])
    check(branch(), "acme/a", 100, [1, 2, 3])
    check(branch(weight=3), "acme", 100, [1, 4, 2, 3, 5, 6])


def test_what_may_not_begin_comes_after_all_that_may() -> None:
    check(branch(paused=True), "acme", 100, [4, 5, 6, 1, 2, 3])
    check(branch(limit=1), "acme", 100, [1, 4, 5, 6, 2, 3])
    stage = branch()
    stage.submit(8, queue="acme/c", shape=Shape("rails"))
    check(stage, "acme", 100, [1, 4, 2, 5, 3, 6, 8])


def test_what_is_not_due_is_not_next() -> None:
    stage = branch()
    stage.submit(9, queue="acme/b", shape=COMMAND, delay=60)
    check(stage, "acme", 100, [1, 4, 2, 5, 3, 6])
