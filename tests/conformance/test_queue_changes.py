"""Changes of queues are kept with who made them; jobs go from queue to queue with their keys."""

from __future__ import annotations

from fairway.core.lifecycle import State
from fairway.core.plan import Begin, Drop, Move, QueueChange, SaveQueue
from fairway.store import Submission
from tests.conformance.stage import NOW, Stage, an_end, new_job
from tests.conformance.test_commits import check_refused, returned


def change(path: str, number: int, new: bytes | None = b"{}") -> QueueChange:
    return QueueChange(path, NOW + number, "ann@desk", None if number == 1 else b'{"limit": 1}', new)


async def numbers(
    stage: Stage, path: str | None = None, most: int = 100, before: int | None = None
) -> list[int]:
    """Return when the changes were made, as they were numbered by `change`."""
    return [one.change.at - NOW for one in await stage.store.queue_changes(path, most, before)]


async def test_changes_come_back_newest_first_by_queue_or_all(stage: Stage) -> None:
    await stage.commit(changes=[change("a", 1), change("b", 2)])
    await stage.commit(changes=[change("a", 3, None), change("a/b", 4)])
    assert await numbers(stage) == [4, 3, 2, 1]
    assert await numbers(stage, "a") == [3, 1]
    assert await numbers(stage, most=2) == [4, 3]
    [_, second, *_] = await stage.store.queue_changes()
    assert await numbers(stage, before=second.number) == [2, 1]
    [last, first] = await stage.store.queue_changes("a")
    assert (last.change, first.change) == (change("a", 3, None), change("a", 1))


async def test_changes_are_kept_only_with_their_commit(stage: Stage) -> None:
    await check_refused(stage, changes=[change("a", 1)], ends=[an_end(1)])
    assert await numbers(stage) == []


async def test_of_old_changes_the_last_of_each_queue_stay(stage: Stage) -> None:
    await stage.commit(
        queues=[SaveQueue("here", b"{}", NOW)],
        changes=[change("gone", 1), *(change("here", number) for number in range(2, 32))],
    )
    await stage.commit(changes=[change("new", number) for number in range(100, 100 + 990)])
    assert await stage.store.tidy(NOW, 3600.0) == 1 + 10
    # The newest 1,000 are 990 of `new` and ten of `here`; ten more of `here` are among its last twenty.
    assert len(await stage.store.queue_changes(most=2000)) == 990 + 20
    assert await numbers(stage, "here") == list(range(31, 11, -1))
    assert await numbers(stage, "gone") == []
    assert await stage.store.tidy(NOW, 3600.0) == 0


async def test_jobs_that_wait_or_run_are_moved_with_their_keys(stage: Stage) -> None:
    jobs = [new_job(1, queue="old", unique="k"), new_job(2, queue="old"), new_job(3, queue="old", unique="l")]
    await stage.submit(*jobs)
    await stage.begin(3)
    await stage.commit(moves=[Move([1, 2, 3], "new")])
    assert [(await stage.get(job)).queue for job in (1, 2, 3)] == ["new"] * 3
    assert await stage.store.find_claim("new", "k", NOW) == 1
    assert await stage.store.find_claim("old", "k", NOW) is None
    await stage.end(3, unique="l", queue="new")
    assert await stage.store.find_claim("new", "l", NOW) is None
    assert (await stage.get(3)).queue == "new"
    assert [one.job for one in await stage.begin(1)] == [1]


async def test_a_job_goes_on_without_its_key_where_another_has_it(stage: Stage) -> None:
    await stage.submit(new_job(1, queue="old", unique="k"), new_job(2, queue="new", unique="k"))
    await stage.commit(moves=[Move([1], "new")])
    assert await stage.store.find_claim("new", "k", NOW) == 2
    assert await stage.store.find_claim("old", "k", NOW) is None
    assert (await stage.get(1)).unique is None
    await stage.commit(drops=[Drop(1, "cancelled", None, NOW)])
    assert await stage.store.find_claim("new", "k", NOW) == 2


async def test_what_ends_or_begins_in_the_same_commit_does_so_where_it_is_moved_to(stage: Stage) -> None:
    await stage.submit(new_job(1, queue="old", unique="k"), new_job(2, queue="old"), new_job(3, queue="old"))
    await stage.begin(1, 3)
    await stage.commit(
        moves=[Move([1, 2, 3], "new")],
        ends=[an_end(1, unique="k", queue="new")],
        returns=[returned(3)],
        begins=[Begin([2], "w1-a", "w1", NOW)],
    )
    assert await stage.store.find_claim("old", "k", NOW) is None
    assert await stage.store.find_claim("new", "k", NOW) is None
    assert [(await stage.get(job)).queue for job in (1, 2, 3)] == ["new"] * 3
    assert await stage.states(1, 2, 3) == [State.SUCCEEDED, State.RUNNING, State.QUEUED]


async def test_a_job_is_moved_by_the_commit_that_inserts_it_unless_it_is_refused(stage: Stage) -> None:
    await stage.submit(new_job(1, queue="old", unique="k"))
    jobs = [new_job(2, queue="old"), new_job(3, queue="old", unique="k")]
    receipt = await stage.commit(*(Submission([job]) for job in jobs), moves=[Move([2, 3], "new")])
    assert receipt.refused == [3]
    assert (await stage.get(2)).queue == "new"
    assert (await stage.get(1)).queue == "old"


async def test_what_has_ended_is_not_moved(stage: Stage) -> None:
    await stage.run(new_job(1))
    await check_refused(stage, moves=[Move([1], "new")])


async def test_a_branch_is_read_by_its_jobs_in_pages(stage: Stage) -> None:
    queues = ("b", "b/a", "b-c", "bb", "a", "b/a/d", "b0")
    await stage.submit(*(new_job(number, queue=queue) for number, queue in enumerate(queues, start=1)))
    await stage.submit(new_job(8, queue="b"), new_job(9, queue="b"))
    await stage.begin(8)
    found, seen = [], 0
    after: int | None = -1
    while after is not None:
        jobs, after = await stage.store.waiting_below("b", after, 4)
        found += [(job.job, job.queue) for job in jobs]
        seen += 1
    assert found == [(1, "b"), (2, "b/a"), (6, "b/a/d"), (9, "b")]
    assert seen == 4  # four, four and one looked at, then the end
