"""Every error Fairway raises, in one tree.

    FairwayError
    ├── CallerError          your fault: has a code and an HTTP status; nothing was changed
    │   ├── InvalidRequest     malformed or out of range (422; 400 when not even JSON)
    │   │   └── PrivateAddress   an address that is not of the open internet, and not allowed here
    │   ├── NotFound           no such job, queue, worker
    │   ├── Conflict           the thing is in a state that forbids it (a stale attempt, a taken key)
    │   ├── PoisonCall         leaders ended on this very call: it is not tried again
    │   └── Refused            not allowed here (host, origin, token)
    ├── WorldError           the world's fault: passing, worth another try
    │   ├── NoLeader           nobody leads just now; try again soon
    │   │   └── Unanswered       the leader was asked and did not answer: it may have done it
    │   ├── StoreUnavailable   the database did not answer; nothing was written
    │   ├── Unsure             the database did not say whether it kept a write
    │   ├── NoAdvice           what was asked for advice cannot be told: an error of ours, counted
    │   └── Busy               a bounded buffer is full
    ├── StoreUnusable        the database is corrupt, not ours or too new; a person must look
    ├── Deposed              this node's term is over; it resigns and rebuilds
    ├── JobFailed            what Handle.result() raises: the job ended without a value
    │   ├── JobCancelled
    │   └── JobUnknown
    └── IllegalTransition    ours: a bug, raised before anything is touched

What user code raises inside a task stands apart: PermanentFailure, RetryAfter.
"""

from __future__ import annotations


class FairwayError(Exception):
    """The root of all errors of Fairway's own."""


class CallerError(FairwayError):
    """The caller asked for something that cannot be; nothing was changed."""

    status = 400
    code = "bad_request"

    def __init__(
        self, detail: str, *, code: str | None = None, field: str | None = None, status: int | None = None
    ) -> None:
        super().__init__(detail)
        self.detail = detail
        self.field = field
        self.code = code or self.code
        self.status = status or self.status


class InvalidRequest(CallerError):
    """A value is missing, of the wrong type or out of range."""

    status = 422
    code = "invalid"


class PrivateAddress(InvalidRequest):
    """An address of a private network, of this machine or of none, where only public ones are allowed."""

    code = "private_address"


class NotFound(CallerError):
    """There is no such thing."""

    status = 404
    code = "not_found"


class Conflict(CallerError):
    """The thing exists, but its state forbids what was asked."""

    status = 409
    code = "conflict"


class PoisonCall(CallerError):
    """Taking this very call in ended leaders by an internal error, so it is refused; nothing was changed."""

    status = 422
    code = "poison_call"


class Refused(CallerError):
    """The caller may not do this from there."""

    status = 403
    code = "refused"


class WorldError(FairwayError):
    """Something outside failed for now; the same call may succeed later."""

    status = 503
    code = "unavailable"
    retry_after_seconds = 1


class NoLeader(WorldError):
    """No node leads at the moment, so nothing but submits and reads can be done."""

    code = "no_leader"


class Unanswered(NoLeader):
    """The leader's node was asked and did not answer: what was asked may have been done."""


class StoreUnavailable(WorldError):
    """The database did not answer in time."""

    code = "store_unavailable"


class Unsure(WorldError):
    """The database did not say whether it kept the last write; asking again under the same key finds out."""

    code = "store_unsure"


class NoAdvice(WorldError):
    """What was asked only tells people something, and telling it failed: work goes on, and it is counted."""

    status = 500
    code = "no_advice"


class Busy(WorldError):
    """A bounded buffer is full; the sender should slow down."""

    status = 429
    code = "busy"


class QueueFull(Busy):
    """As many jobs wait in a queue as may; some must begin before more are taken."""

    code = "queue_full"


class StoreUnusable(FairwayError):
    """The database is damaged, belongs to something else or was written by a newer Fairway."""


class Deposed(FairwayError):
    """Another node holds a newer term; everything this leader still wanted to write is void."""


class IllegalTransition(FairwayError):
    """A job was asked to take a step its state does not have: a bug in Fairway."""


class JobFailed(FairwayError):
    """The job ended without a value; carries the reason and the remote traceback."""

    def __init__(
        self, job_id: str, reason: str, *, type: str = "", message: str = "", traceback: str = ""
    ) -> None:
        self.job_id, self.reason = job_id, reason
        self.type, self.message, self.traceback = type, message, traceback
        text = f"job {job_id} failed ({reason})"
        if type or message:
            text += f": {type}: {message}" if type else f": {message}"
        if traceback:
            text += f"\n\nremote traceback:\n{traceback}"
        super().__init__(text)


class JobCancelled(JobFailed):
    """The job was cancelled before it ended by itself."""


class JobUnknown(JobFailed):
    """An at-most-once job whose worker was lost: it may or may not have done its work."""


class PermanentFailure(Exception):
    """Raise it in a task: this job can never succeed, do not try again."""


class RetryAfter(Exception):
    """Raise it in a task: try again after so many seconds, whatever the backoff says."""

    def __init__(self, seconds: float, message: str = "") -> None:
        super().__init__(message or f"try again in {seconds:g} s")
        self.seconds = float(seconds)
