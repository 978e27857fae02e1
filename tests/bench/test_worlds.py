"""Worlds that are drawn: the same each time, and as varied as their kinds say."""

from __future__ import annotations

import pytest
from bench.fairness.worlds import DAY, KINDS, SHORTEST, draw


def test_a_seed_gives_the_same_world_on_every_machine() -> None:
    jobs = draw("users_30_on_16", 1, 200).jobs
    assert [f"{job.user} {job.submit:.3f} {job.seconds:.3f} {job.task}" for job in jobs[:4]] == [
        "u15 59.280 9.558 t15",
        "u15 59.280 9.714 t15",
        "u15 59.280 26.902 t15",
        "u3 184.356 72.755 t3",
    ]
    assert (len(jobs), f"{sum(job.seconds for job in jobs):.1f}") == (202, "31902.4")


@pytest.mark.parametrize("kind", KINDS)
def test_a_world_is_of_its_kind_and_seed_alone(kind: str) -> None:
    world = draw(kind, 7, 500)
    assert world == draw(kind, 7, 500)
    assert world.jobs != draw(kind, 8, 500).jobs
    assert world.users == KINDS[kind].users
    assert [job.number for job in world.jobs] == list(range(1, len(world.jobs) + 1))
    assert [job.submit for job in world.jobs] == sorted(job.submit for job in world.jobs)
    assert all(SHORTEST <= job.seconds <= 3 * DAY for job in world.jobs)


def test_some_kinds_have_long_tails() -> None:
    """The longest hundredth of the jobs takes more than a quarter of all slot-seconds."""
    tailed = [kind for kind in KINDS if _longest_hundredth(kind) > 1 / 4]
    assert {"tail", "days", "floods", "users_20_on_4", "users_30_on_16"} <= set(tailed)
    assert "equal" not in tailed


def _longest_hundredth(kind: str) -> float:
    lengths = sorted((job.seconds for job in draw(kind, 1, 4000).jobs), reverse=True)
    return sum(lengths[: len(lengths) // 100]) / sum(lengths)
