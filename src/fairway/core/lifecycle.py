"""The life of a job: one table, consulted before anything changes.

`scheduled` and `queued` are one stored state told apart by time: a waiting job whose `run_at` has come is
queued. The diagram in docs/reference/lifecycle.md is drawn from this table by `python -m
fairway.core.lifecycle`, and a test keeps the two alike.
"""

from __future__ import annotations

from enum import StrEnum

from fairway.errors import IllegalTransition


class State(StrEnum):
    """Where a job is in its life."""

    BLOCKED = "blocked"
    SCHEDULED = "scheduled"
    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    UNKNOWN = "unknown"


class Trigger(StrEnum):
    """What can happen to a job."""

    UNBLOCK = "unblock"  # the jobs it waited for have ended
    DOOM = "doom"  # a job it waited for failed
    DUE = "due"  # its time has come
    DEFER = "defer"  # a person moved its time
    EXPIRE = "expire"  # its deadline passed before it began
    DROP = "drop"  # its queue overflowed
    BEGIN = "begin"
    SUCCEED = "succeed"
    FAIL = "fail"  # no tries left, permanent, or at-most-once
    RETRY = "retry"  # error or timeout, tries left
    LOSE = "lose"  # worker or child gone, may run again
    CRASH_OUT = "crash_out"  # worker or child gone once too often
    LOSE_TRACK = "lose_track"  # worker gone, at-most-once
    HAND_BACK = "hand_back"  # given back by its worker at no cost
    CANCEL = "cancel"  # a person no longer wants it
    RESOLVE_SUCCEEDED = "resolve_succeeded"  # the late word on an unknown job
    RESOLVE_FAILED = "resolve_failed"
    REVIVE = "revive"  # a person tries an ended job again


S, T = State, Trigger

TRANSITIONS: dict[State, dict[Trigger, State]] = {
    S.BLOCKED: {T.UNBLOCK: S.SCHEDULED, T.DOOM: S.FAILED, T.CANCEL: S.CANCELLED, T.EXPIRE: S.FAILED},
    S.SCHEDULED: {
        T.DUE: S.QUEUED,
        T.DEFER: S.SCHEDULED,
        T.EXPIRE: S.FAILED,
        T.DROP: S.CANCELLED,
        T.CANCEL: S.CANCELLED,
    },
    S.QUEUED: {
        T.BEGIN: S.RUNNING,
        T.DEFER: S.SCHEDULED,
        T.EXPIRE: S.FAILED,
        T.DROP: S.CANCELLED,
        T.CANCEL: S.CANCELLED,
    },
    S.RUNNING: {
        T.SUCCEED: S.SUCCEEDED,
        T.FAIL: S.FAILED,
        T.RETRY: S.SCHEDULED,
        T.LOSE: S.QUEUED,
        T.CRASH_OUT: S.FAILED,
        T.LOSE_TRACK: S.UNKNOWN,
        T.HAND_BACK: S.QUEUED,
        T.CANCEL: S.CANCELLED,
    },
    S.SUCCEEDED: {T.REVIVE: S.QUEUED},
    S.FAILED: {T.REVIVE: S.QUEUED},
    S.CANCELLED: {T.REVIVE: S.QUEUED},
    S.UNKNOWN: {T.RESOLVE_SUCCEEDED: S.SUCCEEDED, T.RESOLVE_FAILED: S.FAILED, T.REVIVE: S.QUEUED},
}

WAITING = frozenset({S.BLOCKED, S.SCHEDULED, S.QUEUED})
ENDED = frozenset({S.SUCCEEDED, S.FAILED, S.CANCELLED, S.UNKNOWN})


def advance(state: State, trigger: Trigger) -> State:
    """Return the state that follows *state* on *trigger*."""
    try:
        return TRANSITIONS[state][trigger]
    except KeyError:
        raise IllegalTransition(f"a {state} job cannot take {trigger}") from None


def diagram() -> str:
    """Draw the table as a Mermaid state diagram."""
    lines = ["stateDiagram-v2", "    [*] --> scheduled: submit", "    [*] --> blocked: submit, after others"]
    for state, row in TRANSITIONS.items():
        goals: dict[State, list[str]] = {}
        for trigger, goal in row.items():
            goals.setdefault(goal, []).append(trigger.value.replace("_", " "))
        lines += [f"    {state} --> {goal}: {', '.join(names)}" for goal, names in goals.items()]
    lines += [f"    {state} --> [*]" for state in TRANSITIONS if state in ENDED]
    return "\n".join(lines)


if __name__ == "__main__":
    print(diagram())
