"""Doing one thing to many jobs: ids, or all that a query finds, counted first and asked about.

The jobs of a query are taken page by page and acted upon in the order of their creation, newest first;
one that arrives meanwhile is not touched. A refusal (it ended just now) is counted and does not stop the
rest; a node that is away does, after saying how far it got.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from fairway.cli.calling import current, part
from fairway.cli.output import ask, clean, count_of, remark, say, show_json
from fairway.errors import Conflict, NotFound
from fairway.ids import find_id

if TYPE_CHECKING:
    from fairway.client.http import Transport

PAGE = 200
#: From so many jobs on a bar shows how far it is.
BAR_FROM = 20
#: So many jobs are named in the answer; the others are only counted.
MOST_NAMED = 10_000

Command = TypeVar("Command", bound=Callable[..., Any])


class Action(NamedTuple):
    """What is done to each job. *states* are those in which it makes sense."""

    verb: str
    done: str
    states: str
    call: Callable[[Transport, str], Any]
    underway: str = ""  # said instead of *done* while the node still sees to it


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

    return Action("move", "moved", "scheduled,queued", call)


def relocating(to: str | None) -> Action:
    """Return the action that sends a job to a worker, or (None) away from its own."""
    body: dict[str, Any] = {"away": True} if to is None else {"to": to}

    def call(transport: Transport, job: str) -> Any:
        return transport.call("POST", f"/jobs/{part(job)}/relocate", body=body)

    return Action("relocate", "relocated", "scheduled,queued,running", call)


def _prefer(transport: Transport, job: str) -> Any:
    return transport.call("POST", f"/jobs/{part(job)}/prefer", body={})


def _requeue(transport: Transport, job: str) -> Any:
    return transport.call("POST", f"/jobs/{part(job)}/requeue", body={})


PREFERRING = Action("prefer", "put in front", "scheduled,queued", _prefer)
REQUEUEING = Action("requeue", "put at the end", "queued,running", _requeue)
CANCELLING = Action("cancel", "cancelled", "scheduled,queued,running", _cancel, "asked to stop")
KILLING = Action("kill", "killed", "scheduled,queued,running", _kill, "being killed")
RETRYING = Action("retry", "queued again", "failed,cancelled,unknown,succeeded", _retry)


def selects(command: Command) -> Command:
    """Give a command its targets: ids, or one query."""
    command = click.option("--yes", "-y", is_flag=True, help="Do not ask.")(command)
    command = click.option("--all-matching", is_flag=True, help="Take a QUERY: all it finds.")(command)
    return click.argument("targets", metavar="ID...|QUERY", nargs=-1, required=True)(command)


def act(action: Action, targets: tuple[str, ...], *, all_matching: bool, yes: bool) -> int:
    """Do *action* to every target and say how it went; returns the exit code."""
    transport = current().transport()
    if not all_matching:
        _check_ids(targets)
        return _tell(action, _each(action, transport, iter(targets), len(targets)))
    asked = " ".join(targets)
    query = f"{asked} state:{action.states}"
    count = count_matching(transport, query)
    if count == 0:
        states = " or ".join(action.states.rsplit(",", 1)).replace(",", ", ")
        remark(clean(f"nothing to {action.verb}: no {states} job matches {asked}"))
        return 0
    some = "many jobs" if count is None else count_of(count, "job")
    match = "matches" if count == 1 else "match"
    if not yes and not ask(f"{action.verb} {some} that {match} {clean(query)}?"):
        remark("nothing was changed")
        return 1
    return _tell(action, _each(action, transport, matching(transport, query), count))


def count_matching(transport: Transport, query: str) -> int | None:
    """Return how many jobs match, or None if they are too many to count."""
    answer = transport.call("GET", "/jobs", params={"q": query, "limit": 1})
    if answer.get("total") is None and not answer.get("next"):
        return len(answer["jobs"])
    total: int | None = answer.get("total")
    return total


def matching(transport: Transport, query: str) -> Iterator[str]:
    """Yield the ids of the jobs that match, fetched page by page."""
    cursor = None
    while True:
        params = {"q": query, "sort": "-created_at", "limit": PAGE, "cursor": cursor}
        answer = transport.call("GET", "/jobs", params=params)
        yield from (job["id"] for job in answer["jobs"])
        cursor = answer.get("next")
        if not cursor:
            return


def _check_ids(targets: tuple[str, ...]) -> None:
    for target in targets:
        if find_id(target) is None:
            raise click.UsageError(f"{target!r} is no job id; add --all-matching if it is a query")


def _each(action: Action, transport: Transport, jobs: Iterator[str], count: int | None) -> Tally:
    tally = Tally()
    with _progress(action, jobs, count) as steps:
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


def _progress(
    action: Action, jobs: Iterator[str], count: int | None
) -> AbstractContextManager[Iterable[str]]:
    """Return the jobs, with a bar on the terminal if they are many."""
    if not sys.stderr.isatty() or (count is not None and count < BAR_FROM):
        return nullcontext(jobs)
    return click.progressbar(jobs, length=count, label=action.verb, file=sys.stderr)


def _tell(action: Action, tally: Tally) -> int:
    for refusal in tally.refusals[:3]:
        remark(clean(f"{refusal.id} was not {action.done}: {refusal.detail}"))
    if tally.refused > 3:
        remark(f"... and {tally.refused - 3} more")
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
