"""One leads at a time; an older term can write nothing."""

from __future__ import annotations

import asyncio

import pytest

from fairway.core.plan import Batch, Begin
from fairway.errors import Deposed
from fairway.store import NodeRow, Store, Submission
from tests.conformance.stage import NOW, Stage, new_job, told


async def test_nobody_leads_at_first(store: Store) -> None:
    assert await store.find_leadership() is None
    assert await store.leaders() == []


async def test_terms_rise_and_elections_are_remembered(store: Store) -> None:
    first = await store.elect(0, "a", "node-a", "http://a", NOW)
    second = await store.elect(1, "b", "node-b", "http://b", NOW + 1)
    assert first and second
    assert (first.term, first.holder, first.name, first.url, first.elected_at) == (
        1, "a", "node-a", "http://a", NOW
    )  # fmt: skip
    assert (second.term, second.holder) == (2, "b") and second.beat > first.beat
    assert await store.find_leadership() == second
    assert [(past.term, past.holder) for past in await store.leaders()] == [(2, "b"), (1, "a")]
    assert len(await store.leaders(most=1)) == 1


@pytest.mark.parametrize("seen", [0, 1, 3])
async def test_who_saw_another_term_is_not_elected(store: Store, seen: int) -> None:
    await store.elect(0, "a", "a", "", NOW)
    leader = await store.elect(1, "b", "b", "", NOW)
    assert await store.elect(seen, "c", "c", "", NOW) is None
    assert await store.find_leadership() == leader


async def test_of_many_candidates_one_is_elected(store: Store) -> None:
    answers = await asyncio.gather(*(store.elect(0, f"n{n}", f"n{n}", "", NOW) for n in range(8)))
    [winner] = [answer for answer in answers if answer]
    assert await store.find_leadership() == winner


async def test_each_renewal_beats(store: Store) -> None:
    leader = await store.elect(0, "a", "a", "", NOW)
    assert leader and await store.renew(1, "a", asleep=True)
    renewed = await store.find_leadership()
    assert renewed and renewed.beat == leader.beat + 1 and renewed.asleep
    assert await store.renew(1, "a", asleep=False)
    assert not (await store.find_leadership() or renewed).asleep


async def test_only_the_holder_of_the_term_renews(store: Store) -> None:
    assert not await store.renew(1, "a", asleep=False)
    leader = await store.elect(0, "a", "a", "", NOW)
    assert not await store.renew(1, "b", asleep=False)
    assert not await store.renew(2, "a", asleep=False)
    assert await store.find_leadership() == leader


async def test_who_resigns_leaves_the_term_to_a_successor(store: Store) -> None:
    await store.elect(0, "a", "a", "", NOW)
    await store.resign(1, "b")
    assert (await store.renew(1, "a", asleep=False)) is True
    await store.resign(1, "a")
    left = await store.find_leadership()
    assert left and (left.term, left.holder) == (1, "")
    assert not await store.renew(1, "a", asleep=False)
    successor = await store.elect(1, "b", "b", "", NOW)
    assert successor and successor.term == 2


async def check_deposed(stage: Stage, term: int, holder: str) -> None:
    await stage.submit(new_job(1))
    batch = Batch(begins=[Begin([1], "w", "w", NOW)], news=[told("job.begun", 1)])
    with pytest.raises(Deposed):
        await stage.store.commit(term, holder, batch, [Submission([new_job(2)])], NOW)
    assert await stage.store.live_attempts() == []
    assert await stage.store.event_span() == (0, 0)
    assert await stage.store.find_job(2) is None


async def test_a_deposed_leader_writes_nothing(stage: Stage) -> None:
    await stage.store.elect(stage.term, "other", "other", "", NOW)
    await check_deposed(stage, stage.term, "leader")


async def test_a_leader_that_resigned_writes_nothing(stage: Stage) -> None:
    await stage.store.resign(stage.term, "leader")
    await check_deposed(stage, stage.term, "leader")


async def test_the_right_term_of_another_holder_writes_nothing(stage: Stage) -> None:
    await check_deposed(stage, stage.term, "impostor")


async def test_nobody_commits_before_the_first_election(store: Store) -> None:
    await check_deposed(Stage(store), 0, "")


async def test_nodes_write_themselves_down_and_say_goodbye(store: Store) -> None:
    b, a = (NodeRow(name, f"{name}-1", "http://x", "1", NOW, NOW) for name in "ba")
    await store.save_node(b)
    await store.save_node(a)
    await store.save_node(b._replace(seen_at=NOW + 9))
    assert await store.nodes() == [a, b._replace(seen_at=NOW + 9)]
    await store.forget_node("a-1")
    assert [node.name for node in await store.nodes()] == ["b"]
