"""Whatever kind of record a commit may have, nobody forgets it: asked of every field of `Batch`."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from fairway.core.plan import Batch, Begin
from fairway.store import Store, Submission
from fairway.stores.postgres.at_once import begins_at_once, only_begins_few
from tests.conformance.stage import NOW, Stage, new_job

KINDS = [kind.name for kind in fields(Batch)]
BEGIN = Begin([8], "w1-a", "w1", NOW)


def batch_with(kind: str) -> Batch:
    """A batch that begins job 8 and has something of one more kind; what it is does not matter here."""
    return Batch(**{"begins": [BEGIN], kind: [BEGIN]})  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", KINDS)
def test_only_begins_and_what_comes_with_them_are_written_in_one_statement(kind: str) -> None:
    assert only_begins_few(batch_with(kind), []) == (kind in ("begins", "news", "taken"))


@pytest.mark.parametrize("kind", KINDS)
def test_only_a_submission_and_its_begins_are_written_in_one_statement(kind: str) -> None:
    submissions = [Submission([new_job(8)])]
    assert begins_at_once(batch_with(kind), submissions) == (kind in ("begins", "news"))


@pytest.mark.parametrize("kind", KINDS)
def test_only_ends_and_begins_and_what_comes_with_them_overlap_another_commit(kind: str) -> None:
    assert batch_with(kind).is_simple == (kind in ("ends", "begins", "causes", "notices", "news"))


class Watched(Batch):
    """A batch that knows which of its records were looked at."""

    __slots__ = ("looked_at",)

    def __init__(self) -> None:
        object.__setattr__(self, "looked_at", set())
        super().__init__()

    def __getattribute__(self, name: str) -> Any:
        if name in KINDS:
            object.__getattribute__(self, "looked_at").add(name)
        return object.__getattribute__(self, name)


async def test_every_store_looks_at_every_kind_of_record(store: Store) -> None:
    stage, batch = await Stage(store).lead(), Watched()
    await store.commit(stage.term, "leader", batch, [], NOW)
    assert sorted(batch.looked_at) == sorted(KINDS)
