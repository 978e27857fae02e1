"""Which nodes there are, of those that wrote themselves down."""

from __future__ import annotations

from pathlib import Path

from fairway.clock import wall
from fairway.node.neighbours import SILENT_SECONDS, is_silent
from fairway.store import NodeRow
from fairway.times import MICRO

from .stage import HeldStore, Shell
from .virtual_time import in_time, in_virtual_time


def node(name: str, incarnation: str, *, port: int = 1, started: int = 0, seen: int = 0) -> NodeRow:
    """Return a node's row; times are seconds from now."""
    now = wall()
    return NodeRow(
        name, incarnation, f"http://127.0.0.1:{port}", "0.1", now + started * MICRO, now + seen * MICRO
    )


def test_a_node_is_silent_once_it_missed_some_of_its_writings() -> None:
    row = node("n", "i")
    assert [is_silent(row, row.seen_at + age * MICRO) for age in (0, SILENT_SECONDS - 1, SILENT_SECONDS)] == [
        False,
        False,
        True,
    ]


@in_virtual_time
async def test_a_cluster_shows_no_predecessors_and_says_who_was_not_seen(tmp_path: Path) -> None:
    store = HeldStore()
    for row in (
        node("n1", "old", started=-900, seen=-5),
        node("n1", "older", started=-990, seen=-900),
        node("n1", "new", started=-3),
        node("n1", "elsewhere", port=2, started=-900, seen=-600),
        node("n2", "other", started=-900),
        node("n3", "before", started=-60, seen=-40),
        node("n3", "clock set back", started=-7000, seen=-1),
    ):
        await store.save_node(row)
    async with Shell(tmp_path, store) as shell:
        seen = await in_time(shell.desk.cluster())
    assert {one.incarnation for one in seen.nodes} == {"new", "elsewhere", "other", "clock set back"}
    assert seen.silent == {"older", "elsewhere", "before"}
