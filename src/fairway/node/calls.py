"""Calls as a leader's core takes them in: in words, and as a digest by which the next leader knows them.

A client that got no answer sends its call once more, maybe to another node: the same content under other ids
and at another time. So the digest leaves out what is drawn anew each time, times, and who asks. It has the
version of Fairway in it: after an upgrade nothing is held against a call. Its first word says of what kind
the call is, so that most others need not be read to see that they are different.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import msgspec

from fairway import __version__
from fairway.core import events as happened
from fairway.core.model import Arrival, Extras
from fairway.ids import show
from fairway.store import NewJob, Submission

_encode = msgspec.json.Encoder(order="deterministic", enc_hook=repr).encode


class Asked(NamedTuple):
    """A call: its kind, in words, and all that makes it the same when it is sent again."""

    kind: str
    what: str
    content: tuple[Any, ...]

    def digest(self) -> str:
        """Return the name under which every leader of this version knows it."""
        said = _encode((__version__, self.kind, self.content))
        return f"{self.kind}:{hashlib.sha256(said).hexdigest()}"


def asked_by(event: happened.CoreEvent) -> Asked | None:
    """Return the call behind an event; None if no client asked for it."""
    match event:
        case happened.CancelAsked(job=job, force=force):
            return Asked("cancel", f"cancel of job {show(job.job)}", (job.job, force))
        case happened.EditAsked(job=job, new=new, stand=stand, rules=rules):
            what = f"edit of job {show(job.job)}" if not stand else f"job {show(job.job)} put to the {stand}"
            return Asked("edit", what, (*_standing(new), rules, stand))
        case happened.RecallAsked(new=new, to_end=to_end):
            return Asked("recall", f"recall of job {show(new.job)}", (*_standing(new), to_end))
        case happened.ReviveAsked(job=revived):
            return Asked("retry", f"retry of job {show(revived)}", (revived,))
        case happened.ResolveAsked(job=resolved, state=state, outcome=outcome):
            return Asked("resolve", f"word on job {show(resolved)}", (resolved, state, outcome))
        case happened.WorkerAsked(name=name):
            return Asked("worker", f"change of worker '{name}'", tuple(event[1:]))
    return _asked_of_queues(event)


def _asked_of_queues(event: happened.CoreEvent) -> Asked | None:
    match event:
        case happened.QueueAsked(path=path, changes=changes, replace=whole):
            return Asked("queue", f"change of queue '{path}'", (path, dict(changes), whole))
        case happened.QueuesAsked(queues=queues, dry=dry):
            what = f"change of {len(queues)} queues"
            return Asked("queues", what, ({path: dict(one) for path, one in queues.items()}, dry))
        case happened.QueueDropAsked(path=path):
            return Asked("drop", f"deletion of queue '{path}'", (path,))
        case happened.MoveAsked(path=path, to=to, rename=rename):
            return Asked("move", f"move of queue '{path}' to '{to}'", (path, to, rename))
    return None


def asked_to_submit(submissions: Sequence[Submission]) -> Asked:
    """Return the call behind submissions that came together."""
    jobs = [job for each in submissions for job in each.jobs]
    paths = sorted({job.queue for job in jobs})
    what = f"submit of {len(jobs)} {'job' if len(jobs) == 1 else 'jobs'} to queue '{', '.join(paths[:3])}'"
    what += " and others" if len(paths) > 3 else ""
    own = {job.id: f"#{index}" for index, job in enumerate(jobs)}
    return Asked(kind_of_submit(submissions), what, tuple(_content(job, own) for job in jobs))


def kind_of_submit(submissions: Sequence[Submission]) -> str:
    """Return the kind of a submit: those of so many jobs."""
    return f"submit-{sum(len(each.jobs) for each in submissions)}"


def stored(job: int) -> Asked:
    """Return a stored job that is to be taken in, as if it were a call."""
    return Asked("job", f"job {show(job)}, stored and to be taken in", (job,))


def _content(job: NewJob, own: dict[int, str]) -> tuple[Any, ...]:
    """Return what was asked for a job, less its id and its times; jobs of the same call are numbered."""
    later, extras = job.run_at > job.created_at, job.extras
    after = [own.get(one, one) for one in extras.after] if extras is not None else []
    content = job._replace(id=0, run_at=0, created_at=0, extras=_timeless(extras))
    return (*content, later, after)


def _timeless(extras: Extras | None) -> Extras | None:
    if extras is None:
        return None
    return replace(extras, deadline=None if extras.deadline is None else 0, after=(), replaces=None)


def _standing(job: Arrival) -> tuple[Any, ...]:
    """Return a job as it shall wait, but for its place: that is another one at every try."""
    shape = job.shape
    needs = (shape.adapter, shape.task, shape.tags, shape.once, shape.worker, shape.away)
    return job.job, job.queue, job.flow, job.priority, needs
