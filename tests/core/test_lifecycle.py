"""The life of a job: what the table has may happen, everything else is a bug, and the docs show the table."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from fairway.core.lifecycle import ENDED, TRANSITIONS, WAITING, State, Trigger, advance, diagram
from fairway.errors import IllegalTransition

DOCUMENT = Path(__file__).parents[2] / "docs" / "reference" / "lifecycle.md"


@pytest.mark.parametrize(("state", "trigger"), list(product(State, Trigger)))
def test_a_step_is_in_the_table_or_illegal(state: State, trigger: Trigger) -> None:
    goal = TRANSITIONS[state].get(trigger)
    if goal is not None:
        assert advance(state, trigger) is goal
    else:
        with pytest.raises(IllegalTransition, match=f"a {state} job cannot take {trigger}"):
            advance(state, trigger)


def test_only_a_person_brings_an_ended_job_back() -> None:
    for state in ENDED:
        back = {trigger for trigger, goal in TRANSITIONS[state].items() if goal not in ENDED}
        assert back == {Trigger.REVIVE}


def test_only_unknown_may_change_from_one_end_to_another() -> None:
    changing = {state for state in ENDED if any(goal in ENDED for goal in TRANSITIONS[state].values())}
    assert changing == {State.UNKNOWN}


def test_a_job_runs_only_from_the_queue() -> None:
    before = {state for state, row in TRANSITIONS.items() if State.RUNNING in row.values()}
    assert before == {State.QUEUED}


def test_every_state_waits_runs_or_has_ended() -> None:
    assert sorted(State) == sorted([*WAITING, State.RUNNING, *ENDED])


def test_a_running_job_ends_or_waits_again_by_every_trigger_the_core_uses() -> None:
    assert set(TRANSITIONS[State.RUNNING].values()) == {State.SCHEDULED, State.QUEUED, *ENDED}


def test_the_document_shows_the_table() -> None:
    assert f"```mermaid\n{diagram()}\n```" in DOCUMENT.read_text()
