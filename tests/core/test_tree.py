"""The queue tree: limits hold at every level, nobody blocks another, and the turns are as the rule says."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from fairway.core.model import SLOT, Arrival, QueueSettings, Shape
from fairway.core.tree import Tree
from tests.drawing import drawn

from .naive_tree import NaiveTree

PATHS = ("a", "ab", "a/b", "a/c", "a/b/c")
SHAPES = (Shape("cpu"), Shape("gpu"))

steps = st.lists(
    st.one_of(
        st.tuples(
            st.just("put"), st.sampled_from(PATHS), st.integers(-5, 20), st.integers(0, 2), st.integers(0, 1)
        ),
        st.tuples(st.just("take"), st.sampled_from([(0,), (1,), (0, 1)]), st.integers(1, 3)),
        st.tuples(st.just("release"), st.integers(0, 50)),
        st.tuples(st.just("remove"), st.integers(0, 50)),
        st.tuples(st.just("limit"), st.sampled_from(PATHS), st.sampled_from([None, 0, 1, 2, 3])),
        st.tuples(st.just("assured"), st.sampled_from(PATHS), st.sampled_from([None, 1, 2, 3])),
        st.tuples(st.just("weight"), st.sampled_from(PATHS), st.sampled_from([0.5, 1.0, 2.0, 5.0])),
        st.tuples(st.just("priority"), st.sampled_from(PATHS), st.integers(-1, 1)),
        st.tuples(st.just("wait"), st.floats(0.0, 5.0)),
        st.tuples(st.just("learn"), st.sampled_from([0.001, 0.05, 2.0, 60.0, 4000.0]), st.integers(1, 100)),
        st.tuples(st.just("lose"), st.integers(0, 50), st.floats(0.0, 20.0)),
        st.tuples(st.just("worker"), st.sampled_from([(0,), (1,), (0, 1)])),
        st.tuples(st.just("pause"), st.sampled_from(PATHS), st.booleans()),
        st.tuples(st.just("discipline"), st.sampled_from(PATHS), st.sampled_from([None, "fifo", "priority"])),
        st.tuples(st.just("time"), st.integers(-10, 10)),
    ),
    max_size=120,
)


class Kind:
    """A kind of worker that fits some shapes and serves some queues."""

    def __init__(self, shapes: tuple[int, ...] = (0, 1), queue: str | None = None) -> None:
        self._shapes, self._queue = {SHAPES[number] for number in shapes}, queue

    def fits(self, shape: Shape) -> bool:
        return shape in self._shapes

    def attached(self, path: str) -> bool:
        return self._queue in (None, path)


ANY = Kind()


def planted(*takers: Kind) -> Tree:
    """Return a tree that knows kinds of workers."""
    tree = Tree()
    for taker in takers or (ANY,):
        tree.welcome(taker)
    return tree


class Comparison:
    """The tree and its naive model, side by side."""

    def __init__(self) -> None:
        self.tree, self.naive = Tree(), NaiveTree()
        self.now, self.count = 100, 0
        self.kinds = {shapes: Kind(shapes) for shapes in ((0,), (1,), (0, 1))}
        self.there = {(0,)}
        self.tree.welcome(self.kinds[0,])

    def do(self, step: tuple[Any, ...]) -> None:
        """Take one step on both sides and compare them."""
        getattr(self, step[0])(*step[1:])
        self.tree.pass_time(self.now)
        self.compare()

    def put(self, path: str, delay: int, priority: int, shape: int) -> None:
        self.count += 1
        job = Arrival(self.count, path, None, priority, SHAPES[shape], self.now + delay)
        self.tree.put(job, self.now)
        self.naive.jobs[job.job] = job

    def take(self, shapes: tuple[int, ...], most: int) -> None:
        found = self.tree.choose(self.kinds[shapes], self.now)
        if found is None:
            return
        queue, offer = found
        size = SLOT // most
        jobs, places, *_ = self.tree.take(queue, offer, most, size, self.now)
        assert jobs[0] == offer.job and len(jobs) <= most
        for job, place in zip(jobs, places, strict=True):
            candidates = self.naive.candidates([SHAPES[number] for number in shapes], self.now)
            first = candidates[queue.path][0]
            assert (job, place) == (first.job, first.place)
            self.naive.running[job] = (self.naive.jobs.pop(job).queue, size)

    def release(self, number: int) -> None:
        if self.naive.running:
            job = sorted(self.naive.running)[number % len(self.naive.running)]
            path, size = self.naive.running.pop(job)
            self.tree.release(self.tree.queues[path], 1, size, 1.0, None)

    def worker(self, shapes: tuple[int, ...]) -> None:
        """The last worker of a kind leaves, or the first one comes."""
        if shapes in self.there:
            self.tree.dismiss(self.kinds[shapes])
        else:
            self.tree.welcome(self.kinds[shapes])
        self.there ^= {shapes}

    def wait(self, seconds: float) -> None:
        self.tree.mono += seconds

    def lose(self, number: int, seconds: float) -> None:
        """A worker was gone for so long."""
        if self.naive.running:
            job = sorted(self.naive.running)[number % len(self.naive.running)]
            path, size = self.naive.running[job]
            self.tree.write_off(self.tree.queues[path], size, seconds)
            self.release(number)

    def learn(self, seconds: float, turns: int) -> None:
        """Turns take so long for a while: what is held now counts for more, or for less, from then on."""
        for _ in range(turns):
            self.tree.learn(seconds)

    def assured(self, path: str, assured: int | None) -> None:
        self.change(path, assured=assured)

    def weight(self, path: str, weight: float) -> None:
        self.change(path, weight=weight)

    def priority(self, path: str, priority: int) -> None:
        self.change(path, priority=priority)

    def remove(self, number: int) -> None:
        if self.naive.jobs:
            job = sorted(self.naive.jobs)[number % len(self.naive.jobs)]
            assert self.tree.remove(self.naive.jobs[job], self.now)
            assert not self.tree.remove(self.naive.jobs.pop(job), self.now)

    def limit(self, path: str, limit: int | None) -> None:
        self.change(path, limit=limit)

    def pause(self, path: str, paused: bool) -> None:
        self.change(path, paused=paused)

    def discipline(self, path: str, name: str | None) -> None:
        self.change(path, discipline=name)

    def time(self, seconds: int) -> None:
        self.now += seconds

    def change(self, path: str, **changes: Any) -> None:
        new = replace(self.naive.settings.get(path, QueueSettings()), **changes)
        self.naive.settings[path] = new
        self.tree.set(self.tree.grow(path), new, self.now)

    def compare(self) -> None:
        """Whoever asks gets what the naive tree says, and the counts are the same."""
        for shapes in self.there:
            wanted = [SHAPES[number] for number in shapes]
            found, expected = self.tree.choose(self.kinds[shapes], self.now), None
            if self._assured_fit():
                expected = self.naive.next_queue(self.tree, wanted, self.now)
                assert (found and found[0].path) == expected
            candidates = self.naive.candidates(wanted, self.now)
            assert (found is None) == (not candidates)
            if found is not None:
                queue, offer = found
                first = candidates[queue.path][0]
                assert (offer.job, offer.place, offer.shape) == (first.job, first.place, first.shape)
        used, waiting, held = self.naive.in_use(), self.naive.waiting(), self.naive.held()
        for path, queue in self.tree.queues.items():
            assert (queue.in_use, queue.waiting, queue.held) == (used[path], waiting[path], held[path])
        due, expected_due = self.tree.alarms.next_due(), self.naive.next_due(self.now)
        assert expected_due is None or (due is not None and due <= expected_due), "a job would be overslept"

    def _assured_fit(self) -> bool:
        """Children are not assured more than their parent, as the API sees to."""
        for path, queue in self.tree.queues.items():
            total = sum(child.assured for child in queue.children.values())
            if path and total > queue.assured:
                return False
        return True


@given(steps)
@drawn(400)
def test_the_tree_is_a_scan_over_all_jobs(script: list[tuple[Any, ...]]) -> None:
    comparison = Comparison()
    for step in script:
        comparison.do(step)


def check(limits: dict[str, int | None], waiting: str, served: str, slots: int = 99) -> None:
    """Jobs are named by their queue, `waiting` in order of arrival: `slots` workers begin `served`."""
    tree = planted()
    for path, limit in limits.items():
        tree.set(tree.grow(path), QueueSettings(limit=limit), 0)
    for number, path in enumerate(waiting.split()):
        tree.put(Arrival(number, path, None, 0, SHAPES[0], number), 0)
    assert " ".join(take(tree, slots)) == served


def take(tree: Tree, most: int = 99, now: int = 1000) -> list[str]:
    """Begin what can begin; return the queues in order."""
    served: list[str] = []
    tree.pass_time(now)
    while len(served) < most and (found := tree.choose(ANY, now)):
        tree.take(*found, 1, SLOT, now)
        served.append(found[0].path)
    return served


def test_queues_take_turns_however_long_their_lines_are() -> None:
    check({}, waiting="a a a a b b c", served="a b c a b a a")


def test_a_parent_is_one_member_whatever_the_number_of_its_queues() -> None:
    check({}, waiting="a/x a/y a/z a/x b b b", served="a/x b a/y b a/z b a/x")


def test_a_full_queue_never_blocks_another() -> None:
    check({"a": 1}, waiting="a a a b b", served="a b b")


def test_a_limit_holds_for_the_whole_branch() -> None:
    check({"a": 2, "a/x": 1}, waiting="a/x a/x a/y a/y a/y b", served="a/x b a/y")


def test_a_name_that_begins_alike_is_a_stranger() -> None:
    check({"a": 1}, waiting="a a/b ab ab", served="a ab ab")


def test_limit_nothing_begins_nothing() -> None:
    check({"a": 0}, waiting="a a/b b", served="b")


def test_raising_a_limit_admits_at_once_and_lowering_kills_nothing() -> None:
    tree = planted()
    queue = tree.grow("a")
    tree.set(queue, QueueSettings(limit=1), 0)
    for number in range(6):
        tree.put(Arrival(number, "a", None, 0, SHAPES[0], number), 0)
    assert take(tree) == ["a"]
    tree.set(queue, QueueSettings(limit=3), 0)
    assert take(tree) == ["a", "a"]
    tree.set(queue, QueueSettings(limit=1), 0)
    assert (take(tree), queue.in_use) == ([], 3)
    tree.release(queue, 1, SLOT, 1.0, None)
    tree.release(queue, 1, SLOT, 1.0, None)
    assert (take(tree), queue.in_use) == ([], 1)
    tree.release(queue, 1, SLOT, 1.0, None)
    assert take(tree) == ["a"]


def test_nothing_begins_below_a_paused_branch_until_it_is_resumed() -> None:
    tree = planted()
    tree.set(tree.grow("a"), QueueSettings(paused=True), 0)
    for number, path in enumerate(("a/b/c", "a", "b")):
        tree.put(Arrival(number, path, None, 0, SHAPES[0], number), 0)
    assert take(tree) == ["b"]
    tree.set(tree.grow("a"), QueueSettings(), 0)
    assert sorted(take(tree)) == ["a", "a/b/c"]


def test_a_delayed_job_opens_in_time() -> None:
    tree = planted()
    tree.put(Arrival(1, "a", None, 0, SHAPES[0], 500), 0)
    assert (take(tree, now=499), tree.alarms.next_due()) == ([], 500)
    assert take(tree, now=500) == ["a"]
    assert tree.alarms.next_due() is None


def test_a_delayed_job_behind_one_that_left_is_not_overslept() -> None:
    """While a job that no worker fits keeps its queue open, another line's timer must still be set."""
    cpu = Kind((0,))
    tree = planted(cpu)
    tree.put(Arrival(1, "a", None, 0, SHAPES[1], 0), 0)
    tree.put(Arrival(2, "a", None, 0, SHAPES[0], 0), 0)
    tree.put(Arrival(3, "a", None, 1, SHAPES[0], 50), 0)
    tree.put(Arrival(4, "a", None, 0, SHAPES[0], 100), 0)
    tree.pass_time(60)
    for _ in range(2):
        found = tree.choose(cpu, 60)
        assert found is not None
        tree.take(*found, 1, SLOT, 60)
    assert tree.alarms.next_due() == 100


def test_a_clock_that_was_set_back_loses_no_job() -> None:
    tree = planted()
    tree.put(Arrival(1, "a", None, 0, SHAPES[0], 900), 1000)
    tree.pass_time(1000)
    assert take(tree, now=500) == []
    assert tree.alarms.next_due() == 900
    assert take(tree, now=900) == ["a"]


def test_a_worker_gets_only_queues_it_is_attached_to() -> None:
    only_b = Kind(queue="b")
    tree = planted(only_b)
    for number, path in enumerate(("a", "b")):
        tree.put(Arrival(number, path, None, 0, SHAPES[0], 0), 0)
    found = tree.choose(only_b, 0)
    assert found is not None
    assert found[0].path == "b"


def test_a_queue_takes_its_parents_discipline_unless_it_has_its_own() -> None:
    tree = planted()
    tree.set(tree.grow("a"), QueueSettings(discipline="fifo"), 0)
    tree.set(tree.grow("a/c"), QueueSettings(discipline="priority"), 0)
    assert [tree.grow(path).own.name for path in ("a/b", "a/c", "b")] == ["fifo", "priority", "priority"]
    tree.set(tree.grow("a"), QueueSettings(discipline=None), 0)
    assert tree.grow("a/b").own.name == "priority"


def test_a_pruned_queue_leaves_nothing_behind() -> None:
    tree = planted()
    tree.put(Arrival(1, "a", None, 0, SHAPES[0], 500), 0)
    assert tree.remove(Arrival(1, "a", None, 0, SHAPES[0], 500), 0)
    tree.prune(tree.queues["a"])
    assert (take(tree), list(tree.queues)) == ([], [""])
    tree.put(Arrival(2, "a", None, 0, SHAPES[0], 2000), 1000)
    assert take(tree, now=2000) == ["a"]


def test_flows_are_hashed_by_a_key_that_only_the_leader_knows() -> None:
    """Else anybody could find a name that shares a line, and its turns, with somebody else's flow."""

    def order(key: bytes) -> list[int]:
        tree = Tree(key)
        tree.set(tree.root, QueueSettings(limit=9), 0)
        tree.set(tree.grow("q"), QueueSettings(discipline="sfq", divisor=4), 0)
        for number in range(40):
            tree.put(Arrival(number, "q", f"f{number}", 0, Shape("command"), number), 99)
        return list(tree.queues["q"].own.order(99, 40))

    assert order(b"one") == order(b"one") != order(b"another")
