"""Ids of a call are given out by queue, none twice and none left."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fairway.ids import IdMaker, give_out


@given(st.lists(st.sampled_from("abc"), min_size=1, max_size=30))
def test_each_queue_gets_a_run_of_ids_in_the_order_of_its_jobs(queues: list[str]) -> None:
    ids = IdMaker().take(len(queues))
    given_out = give_out(ids, queues)
    assert sorted(given_out) == list(ids)
    for queue in set(queues):
        own = [job for job, name in zip(given_out, queues, strict=True) if name == queue]
        assert own == list(range(own[0], own[0] + len(own)))
