"""A call that ended two leaders is refused by the third; a stored job that did is set aside. Others go on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest

from fairway.clock import wall
from fairway.core import events as happened
from fairway.core.lifecycle import State
from fairway.core.model import Alike, Arrival, Extras, Moment
from fairway.core.scheduler import Core
from fairway.core.tree import Tree
from fairway.errors import Conflict, PoisonCall, WorldError
from fairway.node import culprits
from fairway.node.calls import asked_by, asked_to_submit
from fairway.node.culprits import NOTE_SECONDS
from fairway.store import CULPRIT_SECONDS, NewJob, Submission
from fairway.times import MICRO
from fairway.wire.messages import Held
from tests.core.stage import COMMAND, WALL, Stage

from .stage import Hand, HeldStore, Shell, new_job
from .virtual_time import in_time, in_virtual_time, until

Hurts = Callable[[happened.CoreEvent], bool]


@pytest.fixture
def plant(monkeypatch: pytest.MonkeyPatch) -> Callable[[Hurts], None]:
    """Let the core of every leader fail on certain events."""
    absorb = Core.absorb

    def planting(hurts: Hurts) -> None:
        def broken(core: Core, event: happened.CoreEvent, now: Moment) -> None:
            absorb(core, event, now)
            if hurts(event):
                raise ZeroDivisionError("planted")

        monkeypatch.setattr(Core, "absorb", broken)

    return planting


def submits(flow: str) -> Hurts:
    """Name the submits of jobs of this flow."""
    return lambda event: isinstance(event, happened.Submitted) and event.arrivals[0].flow == flow


@pytest.fixture
def tree_fails_on(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Let the tree of every leader fail on jobs of a flow, however they come to wait."""
    put, put_alike = Tree.put, Tree.put_alike

    def planting(flow: str) -> None:
        def broken_put(tree: Tree, arrival: Arrival, now: int) -> Any:
            found = put(tree, arrival, now)
            return found if arrival.flow != flow else 1 // 0

        def broken_put_alike(tree: Tree, groups: Sequence[Alike], now: int) -> Any:
            found = put_alike(tree, groups, now)
            return found if flow not in {group.flow for group in groups} else 1 // 0

        monkeypatch.setattr(Tree, "put", broken_put)
        monkeypatch.setattr(Tree, "put_alike", broken_put_alike)

    return planting


async def ends_a_leader(shell: Shell, call: Callable[[], Awaitable[Any]]) -> None:
    """Make a call on which the leader ends, and wait for the next one."""
    engine = shell.leader
    with pytest.raises(WorldError, match="planted"):
        await in_time(call())
    await shell.leads_again(engine)


async def open_queue(shell: Shell) -> None:
    """Let queue q be known: only then a submit rides in the leader's own commit."""
    await shell.submit(new_job(1))
    await shell.taken_in()


CALLS: dict[str, tuple[type, Callable[[Shell], Awaitable[Any]]]] = {
    "submit": (happened.Submitted, lambda shell: shell.submit(new_job(50, flow="bad"))),
    "cancel": (happened.CancelAsked, lambda shell: shell.desk.cancel(1)),
    "edit": (happened.EditAsked, lambda shell: shell.desk.edit(1, {"priority": 5})),
    "front": (happened.EditAsked, lambda shell: shell.desk.prefer(1)),
    "queue": (happened.QueueAsked, lambda shell: shell.desk.set_queue("q", {"limit": 3}, replace=False)),
    "queues": (
        happened.QueuesAsked,
        lambda shell: shell.desk.set_queues({"q": {"limit": 3}}, dry=False, who="me"),
    ),
    "delete": (happened.QueueDropAsked, lambda shell: shell.desk.delete_queue("q")),
    "move": (happened.MoveAsked, lambda shell: shell.desk.move_queue("q", "r", rename=True, who="me")),
    "worker": (happened.WorkerAsked, lambda shell: shell.desk.set_worker("w", {"slots": 3})),
    "resolve": (happened.ResolveAsked, lambda shell: shell.desk.resolve(1, True, b"1")),
}


@pytest.mark.parametrize("name", CALLS)
def test_the_third_leader_refuses_what_ended_two(
    name: str, plant: Callable[[Hurts], None], tmp_path: Path
) -> None:
    kind, call = CALLS[name]

    @in_virtual_time
    async def story() -> None:
        async with Shell(tmp_path, HeldStore()) as shell:
            await open_queue(shell)
            plant(lambda event: isinstance(event, kind))
            await ends_a_leader(shell, lambda: call(shell))
            await ends_a_leader(shell, lambda: call(shell))
            third = shell.leader
            for _ in range(3):
                with pytest.raises(
                    PoisonCall, match=r"ended 2 leaders .*ZeroDivisionError: planted at .*test_culprits"
                ):
                    await in_time(call(shell))
            assert shell.leader is third and third.reign.term == 3
            assert third.culprits.refused == 3
            assert shell.numbers()["poison_calls_refused_total"] == 3
            [trouble] = (await shell.desk.troubles()).culprits
            assert trouble.refused and trouble.culprit.leaders == 2
            await shell.desk.queues()

    story()


@in_virtual_time
async def test_a_retry_is_refused_as_well(plant: Callable[[Hurts], None], tmp_path: Path) -> None:
    async with Shell(tmp_path, HeldStore()) as shell:
        await open_queue(shell)
        await shell.desk.cancel(1)
        plant(lambda event: isinstance(event, happened.ReviveAsked))
        for _ in range(2):
            await ends_a_leader(shell, lambda: shell.desk.retry(1))
        with pytest.raises(PoisonCall, match="retry of job"):
            await in_time(shell.desk.retry(1))


@in_virtual_time
async def test_other_calls_go_on_and_only_the_one_that_raised_is_blamed(
    plant: Callable[[Hurts], None], tmp_path: Path
) -> None:
    async with Shell(tmp_path, HeldStore()) as shell:
        await open_queue(shell)
        plant(submits("bad"))
        for turn in (1, 2):
            engine = shell.leader
            answers = await in_time(
                asyncio.gather(  # all of one batch
                    shell.submit(new_job(100 * turn, flow="good")),
                    shell.submit(new_job(100 * turn + 1, flow="bad")),
                    shell.submit(new_job(100 * turn + 2, flow="late")),
                    return_exceptions=True,
                )
            )
            assert all(isinstance(answer, WorldError) for answer in answers)
            await shell.leads_again(engine)
        assert (await shell.submit(new_job(300, flow="good"))).ids == [300]
        assert (await shell.submit(new_job(301, flow="late"))).ids == [301]
        with pytest.raises(PoisonCall, match="submit of 1 job to queue 'q'"):
            await shell.submit(new_job(302, flow="bad"))
        [trouble] = (await shell.desk.troubles()).culprits
        assert trouble.culprit.what == "submit of 1 job to queue 'q'"
        assert shell.leader.reign.term == 3


@in_virtual_time
async def test_a_call_that_ended_one_leader_and_then_went_well_stays_welcome(
    plant: Callable[[Hurts], None], tmp_path: Path
) -> None:
    async with Shell(tmp_path, HeldStore()) as shell:
        await open_queue(shell)
        plant(submits("bad"))
        await ends_a_leader(shell, lambda: shell.submit(new_job(50, flow="bad")))
        plant(lambda event: False)
        for job in (51, 52):
            assert (await shell.submit(new_job(job, flow="bad"))).ids == [job]


@in_virtual_time
async def test_a_call_is_forgotten_after_a_day(
    plant: Callable[[Hurts], None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async with Shell(tmp_path, HeldStore()) as shell:
        await open_queue(shell)
        plant(submits("bad"))
        for job in (50, 51):
            await ends_a_leader(shell, lambda job=job: shell.submit(new_job(job, flow="bad")))  # type: ignore[misc]
        plant(lambda event: False)
        with pytest.raises(PoisonCall):
            await shell.submit(new_job(52, flow="bad"))
        monkeypatch.setattr(culprits, "wall", lambda: wall() + CULPRIT_SECONDS * MICRO)
        assert (await shell.submit(new_job(53, flow="bad"))).ids == [53]


@in_virtual_time
async def test_a_store_that_does_not_answer_does_not_keep_a_leader_from_ending(
    plant: Callable[[Hurts], None], tmp_path: Path
) -> None:
    async with Shell(tmp_path, HeldStore()) as shell:
        await open_queue(shell)

        async def never(*values: object) -> None:
            await asyncio.sleep(1_000_000)

        shell.memory.note_culprit = never  # type: ignore[method-assign,assignment]
        plant(submits("bad"))
        before = asyncio.get_running_loop().time()
        await ends_a_leader(shell, lambda: shell.submit(new_job(50, flow="bad")))
        assert NOTE_SECONDS <= asyncio.get_running_loop().time() - before < NOTE_SECONDS + 1.0
        plant(lambda event: False)
        assert (await shell.submit(new_job(51, flow="bad"))).ids == [51]


# --- stored jobs ---------------------------------------------------------------------------------------
@pytest.mark.parametrize(("beside", "term"), [(0, 3), (3, 4), (30, 4)])
def test_a_stored_job_that_ends_leaders_is_set_aside_and_all_others_run(
    beside: int, term: int, tree_fails_on: Callable[[str], None], tmp_path: Path
) -> None:
    """Of one that comes alone it is known at once; else one more leader has to find out which it was."""

    @in_virtual_time
    async def story() -> None:
        async with Shell(tmp_path, HeldStore()) as shell:
            await open_queue(shell)
            await shell.desk.cancel(1)
            tree_fails_on("bad")
            others = [new_job(100 + number, flow=f"f{number % 2}") for number in range(beside)]
            await shell.memory.submit([Submission([new_job(50, flow="bad"), *others])], 1)
            shell.desk.ring()
            await until(lambda: shell.engine is not None and shell.leader.reign.term == term, 60)
            await shell.taken_in()
            hand = await Hand(shell.leader.open_port()).hello(slots=50)
            await until(lambda: len(hand.begun()) == beside)
            assert (50, 1) not in hand.begun()
            job = await shell.desk.get_job(50)
            [standing] = await shell.desk.standing([job])
            assert standing is not None and standing.waiting is not None
            assert standing.waiting.reason == "set_aside"
            assert shell.numbers()["jobs_set_aside"] == 1
            with pytest.raises(Conflict, match="set aside"):
                await in_time(shell.desk.edit(50, {"priority": 3}))
            assert (await in_time(shell.desk.cancel(50))).state is State.CANCELLED
            assert shell.numbers()["jobs_set_aside"] == 0
            await asyncio.sleep(5)
            assert shell.leader.reign.term == term

    story()


@pytest.mark.parametrize("is_loaded", [False, True])
@pytest.mark.parametrize(("beside", "term"), [(0, 3), (3, 4), (30, 4)])
def test_a_job_that_ends_leaders_when_it_hears_of_those_it_waits_for_is_set_aside(
    beside: int, term: int, is_loaded: bool, tree_fails_on: Callable[[str], None], tmp_path: Path
) -> None:
    """What it waits for has ended before it is taken in, so it is released at once, and that fails."""

    @in_virtual_time
    async def story() -> None:
        async with Shell(tmp_path, HeldStore()) as shell:
            await open_queue(shell)
            await shell.desk.cancel(1)
            tree_fails_on("bad")
            after = Extras(after=(1,), if_failed="run")
            bad, others = new_job(50, flow="bad", extras=after), [new_job(100 + n) for n in range(beside)]
            others = [job._replace(extras=after) if job.id % 2 else job for job in others]
            await shell.memory.submit([Submission([*others[:2], bad, *others[2:]])], 1)
            if is_loaded:
                shell.memory.tables.arrivals.clear()
                shell.step_down()
            shell.desk.ring()
            await until(lambda: shell.engine is not None and 50 in shell.leader.core.world.aside, 300)
            assert shell.leader.reign.term == term + is_loaded
            await shell.taken_in()
            hand = await Hand(shell.leader.open_port()).hello(slots=50)
            await until(lambda: len(hand.begun()) == beside)
            assert (50, 1) not in hand.begun()
            assert (await in_time(shell.desk.cancel(50))).state is State.CANCELLED
            await asyncio.sleep(5)
            assert shell.leader.reign.term == term + is_loaded

    story()


def drawn_intake(dice: Random) -> tuple[list[Arrival], dict[int, State | None]]:
    """Draw jobs of which some wait for others, of this intake or stored before it, and how those ended."""
    fates = [State.SUCCEEDED, State.FAILED, State.CANCELLED, State.UNKNOWN, None]
    ended = {job: dice.choice(fates) for job in range(1, 9) if dice.random() < 0.8}
    arrivals = []
    for job in range(100, 130):
        known = [*range(1, 9), *range(100, job)]
        after = tuple(dice.sample(known, dice.randint(1, 3))) if dice.random() < 0.7 else ()
        extras = Extras(after=after, if_failed=dice.choice(("run", "fail"))) if after else None
        arrivals.append(Arrival(job, "q", None, 0, COMMAND, WALL, None, extras, bool(after)))
    named = {job for one in arrivals if one.extras for job in one.extras.after}
    return arrivals, {job: state for job, state in ended.items() if job in named}


@pytest.mark.parametrize("is_loaded", [False, True])
@pytest.mark.parametrize("seed", range(20))
def test_jobs_taken_in_one_by_one_stand_as_if_they_had_come_at_one_stroke(seed: int, is_loaded: bool) -> None:
    arrivals, ended = drawn_intake(Random(seed))
    event = happened.Loaded(arrivals, ended) if is_loaded else happened.TakenIn(arrivals, [7, 8], ended)

    def take_in(parts: Iterable[happened.CoreEvent]) -> list[object]:
        stage = Stage()
        stage.core.world.aside = {103, 117}
        for part in parts:
            stage.absorb(part)
        world, batch = stage.core.world, stage.step().batch
        waits = {job for job in range(100, 130) if world.tree.queues["q"].own.holds(arrivals[job - 100])}
        blocked = {job: one.open for job, one in world.blocked.items()}
        drops = {(drop.job, drop.state) for drop in batch.drops}
        return [waits, blocked, world.awaited, drops, set(batch.unblocks), batch.taken]

    assert take_in(culprits.one_by_one(event)) == take_in([event])


async def set_one_aside(shell: Shell, tree_fails_on: Callable[[str], None]) -> None:
    """Store job 50, on which two leaders end; then let nothing fail any more."""
    await open_queue(shell)
    await shell.desk.cancel(1)
    tree_fails_on("bad")
    await shell.memory.submit([Submission([new_job(50, flow="bad")])], 1)
    shell.desk.ring()
    await until(lambda: shell.engine is not None and shell.leader.reign.term == 3)
    await shell.taken_in()
    assert shell.leader.core.world.aside == {50}
    tree_fails_on("none")


async def next_leader(shell: Shell) -> None:
    """Let the leader step down, and another take its place and take in all that waits."""
    before = shell.leader
    await shell.leave_the_seat()
    await shell.leads_again(before)
    await until(lambda: not shell.leader.loading)
    await shell.taken_in()


async def is_told_as_set_aside(shell: Shell) -> bool:
    """Say what the doctor is told of job 50, which must agree with the numbers."""
    [trouble] = (await shell.desk.troubles()).culprits
    assert (trouble.culprit.job, trouble.culprit.leaders) == (50, 2)
    assert shell.numbers()["jobs_set_aside"] == float(trouble.refused)
    return trouble.refused


@in_virtual_time
async def test_a_job_that_was_cancelled_is_not_set_aside_by_the_leaders_to_come(
    tree_fails_on: Callable[[str], None], caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    async with Shell(tmp_path, HeldStore()) as shell:
        await set_one_aside(shell, tree_fails_on)
        assert await is_told_as_set_aside(shell)
        await in_time(shell.desk.cancel(50))
        assert not await is_told_as_set_aside(shell)
        caplog.clear()
        await next_leader(shell)
        assert not await is_told_as_set_aside(shell)
        assert not [record for record in caplog.records if record.levelname == "ERROR"]


@in_virtual_time
async def test_a_job_that_runs_is_not_set_aside_and_one_that_waits_again_is(
    tree_fails_on: Callable[[str], None], tmp_path: Path
) -> None:
    async with Shell(tmp_path, HeldStore()) as shell:
        await set_one_aside(shell, tree_fails_on)
        await in_time(shell.desk.cancel(50))
        await in_time(shell.desk.retry(50))
        assert not await is_told_as_set_aside(shell)
        hand = await Hand(shell.leader.open_port()).hello()
        await until(lambda: hand.begun() == [(50, 1)])
        await next_leader(shell)
        assert not await is_told_as_set_aside(shell)
        hand = await Hand(shell.leader.open_port()).hello(holds=[Held(50, 1)])
        await hand.report(50, kind="error", body=b"{}")
        await until(lambda: shell.memory.tables.jobs[50].state is not State.RUNNING)
        await next_leader(shell)
        assert await is_told_as_set_aside(shell)


# --- digests -------------------------------------------------------------------------------------------
def submit_of(*jobs: NewJob) -> str:
    return asked_to_submit([Submission(jobs)]).digest()


def test_a_call_sent_again_has_the_same_digest_and_another_has_not() -> None:
    first = new_job(1, run_at=5, created_at=5, payload=b'{"a":1}')
    again = new_job(2, run_at=9, created_at=9, payload=b'{"a":1}')
    assert submit_of(first) == submit_of(again)
    others = [
        again._replace(payload=b'{"a":2}'), again._replace(queue="r"), again._replace(flow="f"),
        again._replace(priority=1), again._replace(task="u"), again._replace(tags=("x",)),
        again._replace(concurrency=3), again._replace(unique="k"), again._replace(run_at=100),
        again._replace(extras=Extras(deadline=7)), again._replace(extras=Extras(worker="w")),
    ]  # fmt: skip
    digests = {submit_of(job) for job in others}
    assert len(digests) == len(others) and submit_of(first) not in digests
    assert submit_of(first, first) != submit_of(first)


def test_jobs_of_one_call_that_wait_for_each_other_are_the_same_when_they_have_other_ids() -> None:
    def call(first: int, foreign: int = 7) -> str:
        after = Extras(after=(first, foreign))
        return submit_of(new_job(first), new_job(first + 1, run_at=1, created_at=1, extras=after))

    assert call(100) == call(200)
    assert call(100) != call(100, foreign=8)


def test_who_asks_and_under_which_ticket_makes_no_other_call() -> None:
    def digest(event: happened.CoreEvent) -> str:
        asked = asked_by(event)
        assert asked is not None
        return asked.digest()

    changes = {"limit": 3, "flow_weights": {"a": 1.0}}
    assert digest(happened.QueueAsked(1, "q", changes, False, "me")) == digest(
        happened.QueueAsked(object(), "q", dict(reversed(changes.items())), False, "you")
    )
    assert digest(happened.QueueAsked(1, "q", changes, False)) != digest(
        happened.QueueAsked(1, "q", changes, True)
    )
    moves = [happened.MoveAsked(None, "a", "b", operation, True) for operation in ("x", "y")]
    assert digest(moves[0]) == digest(moves[1])
    assert asked_by(happened.Left("w")) is None
