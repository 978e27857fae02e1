"""The contract of a store: what must be durable, and the guards that are checked where it is.

Anybody may `submit`: it writes job rows, their keys and an *arrival* that tells the leader. Everything
else is the leader's: one `commit` at a time, one transaction each, fenced by the leader's term, applied
whole or not at all. Reads may be answered from any snapshot that is not older than the last commit this
process was told of.

Three implementations (`stores/memory/`, `stores/sqlite/`, `stores/postgres/`), one conformance suite
(tests/conformance). To add a fourth: implement `Store`, add it to the suite's fixture.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from fairway.core.lifecycle import State
from fairway.core.model import Alike, Arrival, Delivery, Extras, Rules
from fairway.core.plan import Batch, Begun, Event, News, QueueChange
from fairway.query import Query


class NewJob(NamedTuple):
    """A job to be inserted, parsed and checked. `payload` is JSON: args and kwargs, or work."""

    id: int
    queue: str
    flow: str | None
    priority: int
    adapter: str
    task: str  # "" when the adapter has none
    tags: tuple[str, ...]
    delivery: Delivery
    run_at: int
    created_at: int
    rules: Rules
    payload: bytes
    unique: str | None = None
    concurrency: int | None = None  # sets the queue's limit when the leader takes the job in
    extras: Extras | None = None
    replace: bool = False  # takes its unique key from whoever has it; the store notes from whom in `extras`


class Request(NamedTuple):
    """An idempotency key with the digest of what was asked under it."""

    key: str
    digest: bytes


@dataclass(slots=True)
class Submission:
    """Jobs that are accepted or refused together: one call of a client."""

    jobs: Sequence[NewJob]
    request: Request | None = None


@dataclass(slots=True)
class Accepted:
    """The answer to a submission: an id for each job, and which of them existed already.

    A job whose unique key was taken is not inserted; the id is then the holder's, which may have ended. One
    that replaces is always inserted. `problem` is set when
    nothing was inserted at all: `idempotency_conflict` (the key was used for another payload).
    """

    ids: list[int] = field(default_factory=list)
    existed: list[bool] = field(default_factory=list)
    problem: str | None = None


@dataclass(slots=True)
class StoredJob:
    """A job as a reader sees it. `state` is WAITING's stored form (`scheduled`/`queued` by `run_at`)."""

    id: int
    queue: str
    flow: str | None
    priority: int
    state: State
    delivery: Delivery
    adapter: str
    task: str
    tags: tuple[str, ...]
    run_at: int
    place: int
    created_at: int
    attempt: int
    tries: int
    crashes: int
    losses: tuple[int, ...]
    generation: int
    rules: Rules
    payload: bytes
    unique: str | None
    incarnation: str | None = None
    worker: str | None = None
    started_at: int | None = None
    ended_at: int | None = None
    cancelling: bool = False
    outcome: bytes | None = None  # JSON: the bare value when succeeded, else the error object
    extras: Extras | None = None
    cause: str | None = None  # of one that failed, or of which nobody knows

    @property
    def once(self) -> bool:
        return self.delivery is Delivery.AT_MOST_ONCE


class Taken(NamedTuple):
    """A job that somebody else inserted, with the number of its arrival row."""

    number: int
    job: Arrival


class WaitingPage(NamedTuple):
    """Jobs that wait, up to the id `last`: plain ones with those they are like, the others one by one.

    Each group, and the groups by the first of each, and the others are in the order of the ids.
    """

    alike: Sequence[Alike]
    others: Sequence[Arrival]  # blocked, or with extras
    last: int

    @property
    def size(self) -> int:
        """How many jobs there are."""
        return sum(len(group.jobs) for group in self.alike) + len(self.others)


class LiveAttempt(NamedTuple):
    """A running attempt as a new leader finds it."""

    arrival: Arrival
    begun: Begun
    incarnation: str
    worker: str
    started_at: int
    cancelling: bool


class Leadership(NamedTuple):
    """Who leads: the row changes only at an election; the beat rises with each renewal."""

    term: int
    holder: str  # node incarnation
    name: str
    url: str
    elected_at: int
    beat: int
    asleep: bool = False


class Receipt(NamedTuple):
    """What a commit found. `accepted` has one entry per submission, in order.

    `refused` are ids of submitted jobs that were not inserted (key taken): if the plan had already begun
    one, that begin did not happen. `resolved`, `revived`: the jobs for which the record took effect.
    `told` are the events as written: without those of refused jobs, begins with their attempts. `number`
    is the commit's event number, or None if it told nothing. `redrawn`: a job's id was taken by another job,
    so it was stored under a new one, with an arrival; what the plan did under the old id was left out.
    """

    begun: list[Begun]
    accepted: list[Accepted]
    refused: list[int]
    revived: list[StoredJob]
    resolved: list[StoredJob]
    told: list[News]
    number: int | None
    redrawn: bool = False


class LogLine(NamedTuple):
    """A piece of an attempt's output. `number` rises within one attempt."""

    job: int
    attempt: int
    number: int
    at: int
    stream: str  # "stdout", "stderr" or "notice"
    text: str


class NoteRow(NamedTuple):
    """What an attempt says of itself, as its worker passed it on; None: nothing new of that."""

    job: int
    attempt: int
    incarnation: str
    progress: float | None = None  # from 0 to 1
    text: str = ""  # counts only with a progress
    checkpoint: bytes | None = None  # JSON
    cpu_seconds: float | None = None
    memory_bytes: int | None = None


class StoredNote(NamedTuple):
    """What is known of an attempt from its notes: the last word on each, and when it came."""

    job: int
    attempt: int
    progress: float | None
    text: str
    cpu_seconds: float | None
    memory_bytes: int | None
    first_progress: float | None  # the first that was said, from which a rate is counted
    first_at: int | None
    progress_at: int | None
    checkpoint_at: int | None


class NodeRow(NamedTuple):
    """A node as it last wrote itself down."""

    name: str
    incarnation: str
    url: str
    version: str
    started_at: int
    seen_at: int


class ScheduleRow(NamedTuple):
    """A schedule: what was asked for, and where it stands, both as JSON. Every write changes `revision`."""

    name: str
    revision: int
    spec: bytes
    progress: bytes
    created_at: int
    changed_at: int


class ScheduleChange(NamedTuple):
    """What becomes of a schedule (`row` None: it is deleted), and the jobs that this submits.

    `before` is the revision it must have, 0 if there must be none of that name.
    """

    name: str
    before: int
    row: ScheduleRow | None
    submissions: Sequence[Submission] = ()


class CauseRow(NamedTuple):
    """Why attempts failed, how many, when first and last. Muted until a time, None: not at all."""

    id: str
    task: str
    type: str
    message: str
    frame: str
    first_at: int
    last_at: int
    failures: int
    muted_until: int | None

    def is_muted(self, now: int) -> bool:
        """Whether people do not want to see it now."""
        return self.muted_until is not None and self.muted_until > now


#: A call or job on which leaders ended is remembered so long, and no more than so many of them.
CULPRIT_SECONDS = 86_400
MOST_CULPRITS = 1_000


class Culprit(NamedTuple):
    """A call, or a stored job that was to be taken in, on which leaders ended. Known by its digest."""

    digest: str
    what: str
    error: str
    job: int | None  # if it is a stored job
    leaders: int  # that ended on it
    first_at: int
    last_at: int

    @property
    def until(self) -> int:
        """When it is forgotten, unless it ends another."""
        return self.last_at + CULPRIT_SECONDS * 1_000_000


class Call(NamedTuple):
    """A call that tells of a job's end and was not answered yet. Numbers are never used twice."""

    number: int
    job: int
    url: str
    host: str
    body: bytes  # JSON: the job
    tries: int
    due_at: int
    made_at: int


class NumberedChange(NamedTuple):
    """A change of a queue's settings with its number; numbers rise."""

    number: int
    change: QueueChange


class NumberedEvent(NamedTuple):
    """An event with its public id `number.index`."""

    number: int
    offset: int
    event: Event


@dataclass(slots=True)
class Page:
    """One page of a search. `next` is the cursor behind the last job, or None at the end."""

    jobs: list[StoredJob]
    next: str | None
    total: int | None


class Store(Protocol):
    """Keeps everything that must survive. `now` is always passed in, as wall microseconds."""

    kind: str
    #: Whether two commits of one leader can be under way at once.
    overlaps: bool

    async def open(self) -> None:
        """Connect, check the version, bring the schema up to date."""

    async def close(self) -> None:
        """Let go of everything; never loses what was committed."""

    # --- anybody ---------------------------------------------------------------------------------
    async def submit(self, submissions: Sequence[Submission], now: int) -> list[Accepted]:
        """Insert each submission whole, or say why not; rings the leader's doorbell.

        A job that waits for others (`extras.after`) is inserted as blocked. Raises InvalidRequest with the
        code `unknown_job`, nothing inserted, if it names one that is neither stored nor of its submission.
        If one of its submission has got another id, or its key had a job already, it waits for that.
        """

    async def find_job(self, job: int) -> StoredJob | None:
        """Return a job, hot or ended, read in one statement."""

    async def find_claim(self, queue: str, unique: str, now: int) -> int | None:
        """Return the job that holds a unique key of a queue, if one does; it may have ended."""

    async def find_jobs(self, jobs: Sequence[int]) -> list[StoredJob]:
        """Return those of *jobs* that exist, in any order."""

    async def search(
        self, query: Query, *, now: int, sort: str = "-created_at", limit: int = 50, cursor: str | None = None
    ) -> Page:
        """Return jobs that match, in order, a page at a time; a junk cursor raises InvalidRequest."""

    async def count(self, query: Query, now: int) -> int:
        """Count the jobs that match, up to 10,000 (10,001 means more)."""

    async def events_after(self, number: int, index: int, most: int = 1000) -> list[NumberedEvent]:
        """Return events behind the given id, oldest first."""

    async def event_span(self) -> tuple[int, int]:
        """Return the numbers of the oldest and the newest kept event row; (0, 0) if there is none."""

    async def find_leadership(self) -> Leadership | None:
        """Return the leader row, or None before the first election."""

    async def leaders(self, most: int = 20) -> list[Leadership]:
        """Return the past elections, newest first."""

    async def save_node(self, node: NodeRow) -> None:
        """Write down that a node is there."""

    async def nodes(self) -> list[NodeRow]:
        """Return the nodes that wrote themselves down."""

    async def forget_node(self, incarnation: str) -> None:
        """A node says goodbye."""

    async def queue_rows(self) -> dict[str, bytes]:
        """Return every known queue with its own settings as JSON."""

    async def queue_changes(
        self, path: str | None = None, most: int = 100, before: int | None = None
    ) -> list[NumberedChange]:
        """Return changes of a queue's settings, or of all, newest first; *before* is a number not reached."""

    async def find_queues(self, paths: Sequence[str]) -> dict[str, bytes]:
        """Return the same of those of *paths* that are known."""

    async def schedule_rows(self) -> list[ScheduleRow]:
        """Return every schedule, by name."""

    async def find_schedule(self, name: str) -> ScheduleRow | None:
        """Return one schedule."""

    async def causes(self, most: int = 500, before: tuple[int, str] | None = None) -> list[CauseRow]:
        """Return causes, those seen last first; *before* is (last_at, id) of one not reached."""

    async def find_cause(self, cause: str) -> CauseRow | None:
        """Return one cause."""

    async def note_culprit(self, digest: str, what: str, error: str, job: int | None, now: int) -> None:
        """Count one more leader that ended on a call or job; what is older than CULPRIT_SECONDS is forgotten.

        So are, beyond MOST_CULPRITS, those noted longest ago. Not fenced: who notes it leads no more.
        """

    async def culprits(self, now: int) -> list[Culprit]:
        """Return what is still remembered of these, those noted last first."""

    async def add_log(self, lines: Sequence[LogLine]) -> None:
        """Keep output of attempts; already numbered and bounded by the worker."""

    async def read_log(
        self, job: int, attempt: int | None, after: int = -1, most: int = 10_000
    ) -> list[LogLine]:
        """Return output behind line *after* of the given attempt (None: the latest that has any)."""

    async def save_notes(self, notes: Sequence[NoteRow], now: int) -> None:
        """Keep what attempts say of themselves, one note an attempt; what a note leaves out stays.

        One takes effect only if its attempt is the job's last one and is, or was, of that incarnation: that
        of an attempt that has just ended still does, that of one before another attempt, or before a
        person's retry, changes nothing. A new checkpoint takes the place of those of earlier attempts.
        Notes of attempts that are MOST_ATTEMPTS before it go, but for a checkpoint that still counts.
        """

    async def find_notes(self, jobs: Sequence[int]) -> dict[int, StoredNote]:
        """Return the note of the last attempt that left one, by job.

        Its `checkpoint_at` is that of the checkpoint a next attempt would get, whoever left it.
        """

    async def attempt_notes(self, job: int, most: int = 100) -> list[StoredNote]:
        """Return the notes of a job's attempts, the last first."""

    # --- leadership ------------------------------------------------------------------------------
    async def elect(self, seen_term: int, holder: str, name: str, url: str, now: int) -> Leadership | None:
        """Raise the term by one if it still is *seen_term* (0: no row yet); None if somebody else did."""

    async def renew(self, term: int, holder: str, asleep: bool) -> bool:
        """Beat once; False if the term is over."""

    async def resign(self, term: int, holder: str) -> None:
        """Say that nobody leads now, so that a successor need not wait."""

    # --- the leader ------------------------------------------------------------------------------
    async def commit(
        self,
        term: int,
        holder: str,
        batch: Batch,
        submissions: Sequence[Submission],
        now: int,
        after: Awaitable[object] | None = None,
    ) -> Receipt:
        """Write everything in one fenced transaction. Raises Deposed (nothing written) if the term is over.

        *after* is the commit before this one, still under way: this one must not be kept before that one
        is, and not at all if that one fails. Only a store that `overlaps` is asked so, with records that
        touch none of the other's jobs.

        Submissions come first, then the batch in the order of its fields. Submissions of the leader leave
        no arrival, and none of their jobs replaces another. A record whose fence does not match raises
        Deposed as well: the core is wrong about the world and must be rebuilt.
        """

    async def write_schedule(
        self, term: int, holder: str, change: ScheduleChange, now: int
    ) -> list[Accepted] | None:
        """Replace a schedule and insert its jobs, in one transaction fenced by the term.

        If it has another revision than *change* says, nothing is written and None returned. Raises Deposed
        (nothing written) if the term is over. A fire is this one call, so its job exists if, and only if, the
        schedule remembers it. Jobs leave arrivals.
        """

    async def take_arrivals(self, after: int, most: int = 10_000, *, by_words: bool = False) -> list[Taken]:
        """Return arrivals that nobody has taken in; they are deleted by naming them in `Batch.taken`.

        With *after* 0: all there are, for a leader that begins. Then *after* is the last number that was
        returned: what came since, however late its transaction was committed. About *most* jobs: one
        submission is not torn apart. *by_words*: if all who rang said for which jobs, those will do.
        """

    async def live_attempts(self) -> list[LiveAttempt]:
        """Return every running attempt."""

    def waiting_jobs(self, page: int = 10_000) -> AsyncIterator[WaitingPage]:
        """Return all waiting jobs, *page* at a time in the order of their ids: for a new leader.

        The first page that is not full is the last: of what is inserted after it arrivals tell. Else a leader
        that takes over under load would read one page after the other for ever.
        """

    async def waiting_below(
        self, path: str, after: int = -1, most: int = 10_000
    ) -> tuple[list[Arrival], int | None]:
        """Return waiting jobs of a branch by id, and where to go on; None at the end.

        Looks at *most* jobs behind *after*, whatever their queue: there is no index by queue, and nobody
        should wait long for one answer.
        """

    async def ended_states(self, jobs: Sequence[int]) -> dict[int, State | None]:
        """Return how those of *jobs* ended that have, None for those that are not there any more."""

    async def find_replaced(self, jobs: Sequence[int]) -> list[Arrival]:
        """Return those of *jobs* that wait or run although their unique key has gone to a newer job."""

    async def begun_again(self, jobs: Sequence[int]) -> list[Begun]:
        """Read what running attempts need once more, to send a begin again."""

    async def checkpoints(self, jobs: Sequence[int]) -> dict[int, bytes]:
        """Return where the next attempt of each job goes on, as JSON; none where there is no checkpoint."""

    async def tidy(self, now: int, keep_ended_seconds: float, most: int = 5000) -> int:
        """Forget old ended jobs, logs, events, changes of queues and keys; return how many.

        A bounded number at a time. Of changes the newest 1,000 stay, and the last 20 of each queue there is.
        """

    async def mute_cause(self, term: int, holder: str, cause: str, until: int | None) -> bool:
        """Mute a cause until a time, None: no more; False if there is none. Raises Deposed."""

    async def forget_cause(self, term: int, holder: str, cause: str, most: int = 5000) -> int:
        """Forget ended jobs of a cause with their logs, and the cause with the last; return how many went.

        One transaction fenced by the term: raises Deposed, nothing forgotten, if it is over.
        """

    async def due_calls(self, now: int, most: int = 100, without: Collection[str] = ()) -> list[Call]:
        """Return the calls about ended jobs whose time has come, the longest due first.

        None of the hosts *without*: however many theirs are, others are found behind them.
        """

    async def next_call(self) -> int | None:
        """Return when the next of them is due."""

    async def settle_calls(self, over: Sequence[int], later: Sequence[tuple[int, int, int]]) -> None:
        """Forget calls by number; give others a new (number, tries, due_at)."""

    async def put_calls_off(self, host: str, now: int, due_at: int) -> None:
        """Let all calls to a host wait that are due."""

    async def ended_queues(self, since: int, until: int) -> list[str]:
        """Return the queues of the jobs that ended in *since* ≤ time < *until*."""

    async def forget_ended(self, queues: Sequence[str], since: int, until: int, most: int = 5000) -> int:
        """Forget jobs of just these queues that ended in that time, with logs and notes; return how many."""

    async def delete_jobs(self, term: int, holder: str, jobs: Sequence[int]) -> list[int]:
        """Forget those of *jobs* that have ended, with logs and notes; return which, in any order.

        One transaction fenced by the term: raises Deposed, nothing deleted, if it is over.
        """

    # --- the doorbell ----------------------------------------------------------------------------
    async def wait_for_ring(self, timeout: float, answer: Callable[[], None] | None = None) -> bool:
        """Wait until somebody else may have committed something, or the time is over.

        A store that can may call *answer* as it rings instead, and wait on.
        """
