"""Doing one thing to many jobs: ids, or all that a query finds, counted first and asked about.

The jobs of a query are the node's to go through, in the background (`sweeping.py`); one that arrives
meanwhile is not touched. A refusal (it ended just now) is counted and does not stop the rest; a node that is
away does, after saying how far it got.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from fairway.cli.calling import current, part
from fairway.cli.output import ask, clean, count_of, remark, say, show_json
from fairway.cli.sweeping import BAR_FROM, UNDER_WAY, Operation, sweep, told
from fairway.errors import Conflict, NotFound
from fairway.ids import find_id

if TYPE_CHECKING:
    from fairway.client.http import Transport

#: So many jobs are named in the answer; the others are only counted.
MOST_NAMED = 10_000
#: The states of all jobs that have not ended.
UNENDED = "blocked,scheduled,queued,running"

#: An operation that was not begun, as there was nothing to do it to.
NOTHING_DONE: Operation = {
    "id": None, "kind": "jobs", "state": "done", "count": 0,
    "found": 0, "done": 0, "refused": 0, "refusals": [],
}  # fmt: skip

Command = TypeVar("Command", bound=Callable[..., Any])


class Action(NamedTuple):
    """What is done to each job. *states* are those in which it makes sense.

    *call* does it to one job, by its id; *arguments* are what the node needs to do it to many.
    """

    verb: str
    done: str
    states: str
    call: Callable[[Transport, str], Any] | None = None  # None: it is done to many only
    underway: str = ""  # said instead of *done* while the node still sees to it
    arguments: Mapping[str, Any] = {}
    usual_states: str = ""  # those that are meant if a query names none, if these are fewer


class Refusal(NamedTuple):
    """A job the node would not act upon, and why."""

    id: str
    code: str
    detail: str


def _cancel(transport: Transport, job: str) -> Any:
    return transport.call("DELETE", f"/jobs/{part(job)}")


def _kill(transport: Transport, job: str) -> Any:
    return transport.call("DELETE", f"/jobs/{part(job)}", params={"force": True})


def _retry(transport: Transport, job: str) -> Any:
    return transport.call("POST", f"/jobs/{part(job)}/retry", body={})


def moving(changes: Mapping[str, Any]) -> Action:
    """Return the action that changes where, when and for whom a job waits."""

    def call(transport: Transport, job: str) -> Any:
        return transport.call("PATCH", f"/jobs/{part(job)}", body=dict(changes))

    return Action("move", "moved", "blocked,scheduled,queued", call, arguments={"changes": dict(changes)})


def relocating(to: str | None) -> Action:
    """Return the action that sends a job to a worker, or (None) away from its own."""
    body: dict[str, Any] = {"away": True} if to is None else {"to": to}

    def call(transport: Transport, job: str) -> Any:
        return transport.call("POST", f"/jobs/{part(job)}/relocate", body=body)

    # A blocked job has run nowhere that it could be sent away from.
    states = "scheduled,queued,running" if to is None else UNENDED
    return Action("relocate", "relocated", states, call, arguments=body)


def retrying(canary: str | None, needed: float | None, timeout: float | None) -> Action:
    """Return the action that tries jobs again, some of them first if a canary is asked for."""
    given = {
        "canary": int(canary) if canary is not None and canary.isdecimal() else canary,
        "canary_pass": needed,
        "canary_timeout": timeout,
    }
    return RETRYING._replace(arguments={name: value for name, value in given.items() if value is not None})


def _prefer(transport: Transport, job: str) -> Any:
    return transport.call("POST", f"/jobs/{part(job)}/prefer", body={})


def _requeue(transport: Transport, job: str) -> Any:
    return transport.call("POST", f"/jobs/{part(job)}/requeue", body={})


# A blocked job stands in no line yet: it has neither front nor end.
PREFERRING = Action("prefer", "put in front", "scheduled,queued", _prefer)
REQUEUEING = Action("requeue", "put at the end", "queued,running", _requeue)
CANCELLING = Action("cancel", "cancelled", UNENDED, _cancel, "asked to stop")
KILLING = Action("kill", "killed", UNENDED, _kill, "being killed")
RETRYING = Action(
    "retry", "queued again", "failed,cancelled,unknown,succeeded", _retry, usual_states="failed,unknown"
)
DELETING = Action("delete", "deleted", "failed,cancelled,unknown,succeeded")


def selects(command: Command) -> Command:
    """Give a command its targets: ids, or one query."""
    command = click.option("--yes", "-y", is_flag=True, help="Do not ask.")(command)
    command = click.option("--all-matching", is_flag=True, help="Take a QUERY: all it finds.")(command)
    detached = "With a QUERY: print the operation's id and do not wait for it."
    command = click.option("--detach", is_flag=True, help=detached)(command)
    return click.argument("targets", metavar="ID...|QUERY", nargs=-1, required=True)(command)


def act(action: Action, targets: tuple[str, ...], *, all_matching: bool, yes: bool, detach: bool) -> int:
    """Do *action* to every target and say how it went; returns the exit code."""
    if all_matching:
        return _act_on_query(action, " ".join(targets), yes=yes, detach=detach)
    check_ids(targets)
    if detach:
        raise click.UsageError("--detach belongs to --all-matching")
    return _tell(action, _each(action, current().transport(), targets))


def _act_on_query(action: Action, asked: str, *, yes: bool, detach: bool) -> int:
    if not asked.strip():  # most likely a variable that nobody set
        raise click.UsageError("an empty QUERY matches every job; if you mean that, write 'queue:*'")
    states = action.states if "state:" in asked else action.usual_states or action.states
    query = f"{asked} state:{states}"
    count = count_matching(current().transport(), query)
    named = " or ".join(states.rsplit(",", 1)).replace(",", ", ")
    if count == 0:
        remark(clean(f"nothing to {action.verb}: no {named} job matches {asked}"))
        if current().json:
            show_json({**NOTHING_DONE, "action": action.verb, "q": query})
        return 0
    noun = "job" if states == action.states else f"{named} job"  # fewer than it could be done to
    some = f"many {noun}s" if count is None else count_of(count, noun)
    match = "matches" if count == 1 else "match"
    if not yes and not ask(f"{action.verb} {some} that {match} {clean(asked)}?"):
        remark("nothing was changed")
        return 1
    return sweep_query(action, query, detach=detach)


def sweep_query(action: Action, query: str, *, detach: bool, missing: Sequence[Refusal] = ()) -> int:
    """Let the node do *action* to all that *query* finds, and say how it went; returns the exit code."""
    operation = sweep({"q": query, "action": action.verb, **action.arguments}, detach=detach)
    operation["refusals"] += [refusal._asdict() for refusal in missing]
    operation["refused"] += len(missing)
    refusals = [Refusal(one["id"], one["code"], one["detail"]) for one in operation["refusals"]]
    _tell_refusals(action, refusals, operation["refused"])
    said, code = _told(action, operation)
    if current().json:
        show_json(operation)
    else:
        say(clean(said))
    return code


def delete_named(jobs: Sequence[str], *, detach: bool) -> int:
    """Delete jobs by their ids, naming those that are not there: to a query they are just not found."""
    query = f"id:{','.join(jobs)}"
    found = current().transport().call("GET", "/jobs", params={"q": query, "limit": len(jobs)})["jobs"]
    known = {find_id(job["id"]) for job in found}
    missing = [
        Refusal(job, "no_such_job", f"there is no job {job}") for job in jobs if find_id(job) not in known
    ]
    return sweep_query(DELETING, query, detach=detach, missing=missing) or (1 if missing else 0)


def _told(action: Action, operation: Operation) -> tuple[str, int]:
    if operation["state"] in UNDER_WAY:
        return operation["id"], 0
    return told(operation, action.done)


def count_matching(transport: Transport, query: str) -> int | None:
    """Return how many jobs match, or None if they are too many to count."""
    answer = transport.call("GET", "/jobs", params={"q": query, "limit": 1})
    if answer.get("total") is None and not answer.get("next"):
        return len(answer["jobs"])
    total: int | None = answer.get("total")
    return total


def check_ids(targets: tuple[str, ...]) -> None:
    """Refuse what is no id: a query acts on many jobs, so it must be meant."""
    for target in targets:
        if find_id(target) is None:
            raise click.UsageError(f"{target!r} is no job id; add --all-matching if it is a query")


def _each(action: Action, transport: Transport, jobs: Sequence[str]) -> Tally:
    assert action.call is not None
    tally = Tally()
    with _progress(action, jobs) as steps:
        for job in steps:
            try:
                tally.note_done(action.call(transport, job))
            except (Conflict, NotFound) as error:
                tally.note_refused(Refusal(job, error.code, error.detail))
            except Exception:
                if tally.done:
                    remark(f"stopped after {count_of(tally.done, 'job')}: {action.done}")
                raise
    return tally


class Tally:
    """How it went so far: all are counted, the first MOST_NAMED are named."""

    def __init__(self) -> None:
        self.done = self.refused = 0
        self.jobs: list[Any] = []
        self.refusals: list[Refusal] = []
        self.last: Any = None

    def note_done(self, job: Any) -> None:
        """Count a job that was acted upon."""
        self.done += 1
        self.jobs += [job["id"]] if self.done < MOST_NAMED else []
        self.last = job

    def note_refused(self, refusal: Refusal) -> None:
        """Count a job the node would not act upon."""
        self.refused += 1
        self.refusals += [refusal] if self.refused < MOST_NAMED else []


def _progress(action: Action, jobs: Sequence[str]) -> AbstractContextManager[Iterable[str]]:
    """Return the jobs, with a bar on the terminal if they are many."""
    if not sys.stderr.isatty() or len(jobs) < BAR_FROM:
        return nullcontext(jobs)
    return click.progressbar(jobs, label=action.verb, file=sys.stderr)


def _tell_refusals(action: Action, refusals: Sequence[Refusal], count: int) -> None:
    for refusal in refusals[:3]:
        remark(clean(f"{refusal.id} was not {action.done}: {refusal.detail}"))
    if count > 3:
        remark(f"... and {count - 3} more")


def _tell(action: Action, tally: Tally) -> int:
    _tell_refusals(action, tally.refusals, tally.refused)
    if current().json:
        refused = [refusal._asdict() for refusal in tally.refusals]
        show_json({"count": tally.done, "done": tally.jobs, "refused": refused})
    elif tally.done == 1:
        say(clean(f"{tally.last['id']}  {_now(tally.last, action)}"))
    else:
        say(f"{tally.done} jobs {action.done}")
    return 1 if tally.refused else 0


def _now(job: Any, action: Action) -> str:
    is_underway = action.underway and job.get("cancelling") and job["state"] == "running"
    return action.underway if is_underway else action.done
