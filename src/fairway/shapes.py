"""The public forms as types: what the API answers, and what its OpenAPI document says of it."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict


class Outcome(TypedDict):
    """How a job ended: a value, or a reason and the error."""

    ok: bool
    value: NotRequired[Any]
    reason: NotRequired[str]
    error: NotRequired[dict[str, Any] | None]


class Waiting(TypedDict):
    """Why a job waits."""

    reason: str
    detail: str
    on: str | None


class EtaShape(TypedDict):
    """When a job is expected to start; half of all start within `p50`, nine tenths within `p90`."""

    starts_at: str
    p50: list[str]
    p90: list[str]
    basis: str


class BackoffShape(TypedDict):
    """Seconds before the first new try and at most."""

    first: float
    max: float


class Company(TypedDict):
    """The group a job belongs to, and the jobs it waits for or has waited for."""

    group: str | None
    after: list[str]
    if_failed: str


class Progress(TypedDict):
    """How far the last attempt said it is, 0 to 1, and when. Rate and what follows from it: while it runs."""

    fraction: float
    text: str
    at: str
    rate_per_second: float | None
    seconds_left: float | None
    done_at: str | None


class Usage(TypedDict):
    """What an attempt used; null where that cannot be told."""

    cpu_seconds: float | None
    memory_bytes: int | None


class AttemptShape(TypedDict):
    """What is known of an attempt. Worker and start are kept of the last, its end with that of the job."""

    attempt: int
    running: bool
    progress: Progress | None
    usage: Usage | None
    checkpoint_at: str | None
    worker: str | None
    started_at: str | None
    ended_at: str | None


class Attempts(TypedDict):
    """The attempts of a job, the last first; at most 100."""

    attempts: list[AttemptShape]


class Noted(TypedDict):
    """What the last attempt said and used; when the checkpoint was left from which a next one goes on."""

    progress: Progress | None
    usage: Usage | None
    checkpoint_at: str | None


class Job(Company, Noted):
    """A job."""

    id: str
    queue: str
    flow: str | None
    priority: int
    state: str
    delivery: str
    task: str | None
    args: Any
    kwargs: Any
    work: Any
    tags: list[str]
    unique: str | None
    unique_for: float | None
    run_at: str
    deadline: str | None
    attempt: int
    tries: int
    max_attempts: int | None
    crashes: int
    max_crashes: int | None
    generation: int
    timeout: float | None
    backoff: BackoffShape
    grace: float | None
    worker: str | None
    pinned_to: str | None
    away: list[str]
    cancelling: bool
    created_at: str
    started_at: str | None
    ended_at: str | None
    outcome: Outcome | None
    last_error: Any
    waiting: Waiting | None
    position: int | None
    eta: EtaShape | None
    cause: str | None
    notify: NotifyShape | None


class Failure(TypedDict):
    """What failed alike. `jobs` are those still kept, null if more than 10,000; `samples` some of them."""

    id: str
    task: str
    type: str
    message: str
    frame: str
    first_at: str
    last_at: str
    failures: int
    jobs: int | None
    samples: list[str]
    muted: bool
    muted_until: str | None


class Failures(TypedDict):
    """A page of them, those seen last first. `next` is the cursor of the page behind it."""

    failures: list[Failure]
    next: str | None


class Forgotten(TypedDict):
    """How many failed jobs were forgotten, and how many are left; null if more than 10,000."""

    deleted: int
    left: int | None


class NotifyShape(TypedDict):
    """Who is told of a job's end by a call, and of which ends; an empty list means all."""

    url: str
    on: list[str]


class Jobs(TypedDict):
    """A page of jobs. `next` is the cursor of the page behind it."""

    jobs: list[Job]
    next: str | None
    total: int | None


class Ids(TypedDict):
    """The ids of jobs, in the order they were asked for."""

    ids: list[str]


class Settings(TypedDict):
    """What is set at a queue; null where nothing is."""

    limit: int | None
    assured: int | None
    lend: bool
    priority: int
    weight: float
    rate: str | None
    burst: int | None
    paused: bool
    discipline: str | None
    unique: bool | None
    on_lease_lost: str | None
    quantum: int | None
    charge: str | None
    flow_weights: dict[str, float] | None
    depth: int | None
    capacity: int | None
    divisor: int | None
    perturb: float | None
    overflow: str | None
    max_attempts: int | Literal["none"] | None
    max_crashes: int | Literal["none"] | None
    timeout: float | Literal["none"] | None
    backoff: BackoffShape | None
    grace: float | None
    retention: float | None


Rates = TypedDict("Rates", {"in": float, "begun": float, "out": float})
Rates.__doc__ = "Jobs that came, attempts that began and that ended, a second, about the last minute."


class Percentiles(TypedDict):
    """Seconds below which a half, nine tenths and all but a hundredth were."""

    p50: float
    p90: float
    p99: float


class Figures(TypedDict):
    """What was counted under this leader; null if counting failed (`fairway doctor`).

    `errors` is the part of recent attempts that went wrong.
    """

    begun: int | None
    ended: int | None
    rates: Rates | None
    wait: Percentiles | None
    run: Percentiles | None
    errors: float | None
    slot_seconds: float


class Flow(Figures):
    """A flow of a queue; null is the jobs without one. `share` is its part of what the queue did lately."""

    flow: str | None
    waiting: int
    running: int
    oldest_wait: float | None
    limited_by: str | None
    weight: float
    share: float | None


class Changed(TypedDict):
    """Who changed a queue's settings last, and when."""

    number: int
    by: str
    at: str


class Queue(Figures):
    """A queue; its numbers count everything below it. `oldest_wait` is in seconds."""

    path: str
    settings: Settings
    waiting: int
    scheduled: int
    running: int
    oldest_wait: float | None
    limited_by: str | None
    moving_to: str | None
    changed: Changed | None  # null in the list of all


class QueueChange(Changed):
    """A change of a queue's settings: those that were set before and after. null: there was no queue."""

    path: str
    old: dict[str, Any] | None
    new: dict[str, Any] | None


class QueueChanges(TypedDict):
    """Changes, newest first. `next` is the `before` of the page behind it."""

    changes: list[QueueChange]
    next: int | None


class Difference(TypedDict):
    """What would be, or was, another setting of a queue."""

    path: str
    old: dict[str, Any] | None
    new: dict[str, Any] | None


class Differences(TypedDict):
    """What applying settings changes; `applied` is false for a dry run."""

    changes: list[Difference]
    applied: bool


Operation = TypedDict(
    "Operation",
    {
        "id": str,
        "kind": str,
        "from": str,
        "to": str,
        "by": str,
        "state": str,
        "started_at": str,
        "ended_at": str | None,
        "jobs": int,
        "left": int,
        "running": int,
        "warnings": list[str],
    },
)
Operation.__doc__ = """A branch on its way to another path: `kind` is rename or move, `state` running or done.

Of the `jobs` that waited when it began `left` are still there; `running` attempts have yet to end there."""


class QueueWithFlows(Queue):
    """A queue with its busiest flows, where flows take turns."""

    flows: list[Flow]


class Queues(TypedDict):
    """The queue tree, parents before children; `next` is the path to go on behind, null at the end."""

    queues: list[Queue]
    next: str | None


class WorkerInShort(TypedDict):
    """A worker as lists show it; `tasks` is how many it knows.

    Null is what a new leader does not know yet of a worker whose attempts it found running.
    """

    name: str
    incarnation: str
    state: str
    slots: int | None
    busy: float | None
    running: int
    tags: list[str] | None
    adapters: list[str] | None
    tasks: int | None
    queues: list[str] | None
    joined_at: str | None
    last_beat_seconds: float | None
    version: str


TaskShape = TypedDict("TaskShape", {"name": str, "signature": str | None, "async": bool})
TaskShape.__doc__ = "A task that a worker knows."


class Worker(TypedDict):
    """A worker: what it can run, in which versions, and what it knows about its machine.

    Null is what a new leader does not know yet of a worker whose attempts it found running.
    """

    name: str
    incarnation: str
    state: str
    slots: int | None
    busy: float | None
    running: int
    tags: list[str] | None
    adapters: list[str] | None
    tasks: list[TaskShape] | None
    queues: list[str] | None
    facts: dict[str, Any]
    joined_at: str | None
    last_beat_seconds: float | None
    version: str
    versions: dict[str, str]


class Workers(TypedDict):
    """The workers the leader knows."""

    workers: list[WorkerInShort]


class ShapeDemand(TypedDict):
    """Slots wanted for jobs of one shape, and what there is for them."""

    adapter: str
    task: str | None
    tags: list[str]
    away: list[str]  # workers that these jobs are kept from
    jobs: int  # due, and held back by nothing but the lack of slots
    slots: float  # that these jobs would fill
    seconds: float | None  # that one is expected to run, where that is known
    running: int
    slots_there: int  # on workers that can run such jobs
    slots_free: float


class Demand(TypedDict):
    """Slots that there are, and those wanted by shape; `more` shapes are left out."""

    slots: int
    free: float
    shapes: list[ShapeDemand]
    more: int


class Node(TypedDict):
    """A node."""

    name: str
    incarnation: str
    url: str
    version: str
    started_at: str
    seen_at: str
    role: str | None  # leads | stands | does not lead | gone (not seen for 30 s); null: not known here
    link: str | None  # up | store only: how it reaches the leader; null: it leads, is gone, or not known


class Leader(TypedDict):
    """A past or present leader."""

    term: int
    name: str
    elected_at: str


class Cluster(TypedDict):
    """Who leads, in which term, and which nodes there are."""

    leader: str | None
    leader_url: str | None
    term: int | None
    this: str
    leading: bool
    ready: bool
    link: str | None  # how this node reaches the leader: up | store only; null when it leads
    nodes: list[Node]
    history: list[Leader]


class AdvisoryError(TypedDict):
    """An error in what the leader only tells people: of which part, where, how often in this term."""

    part: str  # forecast | position | explanation | numbers | demand
    place: str
    error: str
    count: int


class CulpritShape(TypedDict):
    """A call, or a stored job that was to be taken in, on which leaders ended."""

    what: str
    error: str
    job: str | None  # the job, if it is one
    leaders: int  # that ended on it
    refused: bool  # a call is refused, a job that waits is set aside: two leaders were enough
    first_at: str
    last_at: str
    until: str  # then it is forgotten


class Troubles(TypedDict):
    """What went wrong inside the leader, and is not to end one again."""

    advisory: list[AdvisoryError]
    culprits: list[CulpritShape]


class LastFire(TypedDict):
    """The latest fire: submitted, skipped, existed (its unique key had a job), refused, or run by hand."""

    at: str
    job: str | None
    what: str


class Schedule(TypedDict):
    """A schedule. `next` are its next five fires; `pending` is how many wait for a job of its own to end."""

    name: str
    cron: str | None
    zone: str | None
    every: str | float | None
    anchor: str | None
    job: Any
    missed: str
    missed_most: int
    overlap: str
    jitter: str | float
    paused: bool
    next: list[str]
    last: LastFire | None
    pending: int
    created_at: str
    changed_at: str


class Schedules(TypedDict):
    """All schedules, by name."""

    schedules: list[Schedule]


class EventShape(TypedDict):
    """Something that happened."""

    id: str
    kind: str
    at: str
    job: str | None
    queue: str | None
    state: str | None
    attempt: int | None
    worker: str | None
    task: str | None
    detail: dict[str, Any] | None


class Refusal(TypedDict):
    """A job that could not be acted upon, and why."""

    id: str
    code: str
    detail: str


class CanaryState(TypedDict):
    """How the jobs fare that went first; `passed` is null until that is known."""

    jobs: int
    succeeded: int
    failed: int
    passed: bool | None


class JobsOperation(TypedDict):
    """Something done to all jobs that match `q`; `kind` is jobs.

    `state` is running, aborting, done, aborted, stopped (the canary did not pass) or failed; `reason` says
    why one of the last two. `found` is counted when it begins, 10001 means more; `refusals` are the first 20
    of the `refused`.
    """

    id: str
    kind: str
    action: str
    q: str
    by: str
    state: str
    started_at: str
    ended_at: str | None
    found: int
    done: int
    refused: int
    refusals: list[Refusal]
    canary: CanaryState | None
    reason: str | None


class Matches(TypedDict):
    """What an action would be done to: how many jobs (10001 means more) and the first of them."""

    count: int
    sample: list[str]


AnyOperation = TypedDict(
    "AnyOperation",
    {
        "id": str,
        "kind": str,
        "by": str,
        "state": str,
        "started_at": str,
        "ended_at": str | None,
        "action": NotRequired[str],
        "q": NotRequired[str],
        "found": NotRequired[int],
        "done": NotRequired[int],
        "refused": NotRequired[int],
        "refusals": NotRequired[list[Refusal]],
        "canary": NotRequired[CanaryState | None],
        "reason": NotRequired[str | None],
        "from": NotRequired[str],
        "to": NotRequired[str],
        "jobs": NotRequired[int],
        "left": NotRequired[int],
        "running": NotRequired[int],
        "warnings": NotRequired[list[str]],
    },
)
AnyOperation.__doc__ = """A JobsOperation (`kind` jobs), or an Operation on a queue (rename, move)."""


class Operations(TypedDict):
    """Actions of this leader, the newest first, and moves of queues under way."""

    operations: list[AnyOperation]
