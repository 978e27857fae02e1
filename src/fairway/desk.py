"""The contract between a node and its faces: what an API may ask of it.

Submits and reads work on every node; what needs the leader raises NoLeader elsewhere. Everything that
changes something returns after its commit.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from fairway.action import Action, ActionProgress
from fairway.core.demand import Demand
from fairway.core.eta import Eta
from fairway.core.events import ANONYMOUS
from fairway.core.mishaps import Mishap
from fairway.core.model import QueueSettings, Rules
from fairway.core.numbers import Figures
from fairway.core.plan import QueueChange
from fairway.core.schedules import Progress
from fairway.query import Query
from fairway.schedule_spec import ScheduleSpec
from fairway.store import (
    Accepted,
    CauseRow,
    Culprit,
    Leadership,
    NodeRow,
    NumberedChange,
    NumberedEvent,
    Page,
    Store,
    StoredJob,
    StoredNote,
    Submission,
)
from fairway.wire.messages import FromWorker, ToWorker

#: The header of a call that one node passed on to another, which must not pass it on again.
RELAYED = "fairway-relayed"


@dataclass(slots=True)
class Waiting:
    """Why a job waits: one true reason, its object, and a sentence for people."""

    #: not_due | moving | paused | limit | rate | no_worker | behind | busy | kept | starting | expired
    #: set_aside: taking it in ended leaders
    reason: str
    detail: str
    on: str | None = None


@dataclass(slots=True)
class Standing:
    """What the leader knows of a job: why it waits, how many due jobs stand before it, until when.

    *rules* are those in force, its queue's where it said none of its own; None: its own are.
    """

    waiting: Waiting | None
    position: int | None
    eta: Eta | None = None
    rules: Rules | None = None


@dataclass(slots=True)
class FlowView:
    """A flow of a queue with its numbers; None is the jobs without one."""

    flow: str | None
    waiting: int
    running: int
    oldest_wait: float | None  # seconds
    limited_by: str | None  # its queue's, if it waits
    weight: float
    share: float | None  # of what its queue did lately
    figures: Figures | None  # None: they cannot be told
    slot_seconds: float


@dataclass(slots=True)
class QueueView:
    """A queue with its settings and live numbers (of the whole subtree below it)."""

    path: str
    settings: QueueSettings
    waiting: int
    scheduled: int
    running: int
    oldest_wait: float | None  # seconds
    limited_by: str | None
    figures: Figures | None  # None: they cannot be told
    slot_seconds: float
    flows: list[FlowView] = field(default_factory=list)  # the busiest, where one queue was asked for
    changed: NumberedChange | None = None  # the last change of its settings, where one queue was asked for


@dataclass(slots=True)
class MoveView:
    """A branch on its way to another path."""

    operation: str
    rename: bool
    path: str
    to: str
    by: str
    started_at: int
    ended_at: int | None  # None: it goes on
    jobs: int  # that waited there when it began
    left: int  # that still wait there
    running: int  # attempts that still run there
    warnings: list[str] = field(default_factory=list)


@dataclass(slots=True)
class WorkerView:
    """A worker as the leader sees it. None is what one that an earlier leader knew has not said again."""

    name: str
    incarnation: str
    state: str  # up | draining | silent
    slots: int | None = None
    busy: float | None = None  # slots in use, fractions for async and bundles
    running: int = 0
    tags: list[str] | None = None
    adapters: list[str] | None = None
    tasks: list[str] | None = None
    queues: list[str] | None = None
    facts: dict[str, Any] = field(default_factory=dict)
    joined_at: int | None = None
    last_beat_seconds: float | None = None
    version: str = ""
    signatures: dict[str, str] = field(default_factory=dict)  # of tasks that announce one
    async_tasks: list[str] = field(default_factory=list)


@dataclass(slots=True)
class ClusterView:
    """Who leads, since which term, and which nodes there are."""

    leader: Leadership | None
    nodes: list[NodeRow]
    this: str  # name of the node that answers
    leading: bool
    ready: bool
    history: list[Leadership] = field(default_factory=list)
    link: bool | None = None  # whether this node reaches the leader over HTTP; None when it leads
    linked: dict[str, bool] = field(default_factory=dict)  # nodes linked to this leader: whether each stands
    stands: bool = True  # whether this node stands for election
    silent: set[str] = field(default_factory=set)  # nodes that were not seen for a while


@dataclass(slots=True)
class ScheduleView:
    """A schedule, where it stands, and when it fires next."""

    name: str
    spec: ScheduleSpec
    progress: Progress
    next: list[int]
    created_at: int
    changed_at: int


class Trouble(NamedTuple):
    """A call or job on which leaders ended, and whether it is kept from ending another."""

    culprit: Culprit
    refused: bool


class Troubles(NamedTuple):
    """What went wrong inside the leader."""

    mishaps: list[Mishap]
    culprits: list[Trouble]


class Question(NamedTuple):
    """A call as it came in, to be put to the leader's node as it is."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes | None = None


class Reply(NamedTuple):
    """What the leader's node answered. Header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Tunnel(Protocol):
    """A worker's connection continued to the leader's node: frames pass as they are, in order."""

    async def send(self, frame: bytes | str) -> None:
        """Pass a frame of the worker's on; waits when the leader is slow."""

    async def receive(self) -> bytes | str:
        """Wait for the leader's next frame; raises NoLeader when the connection is gone."""

    async def until_over(self) -> None:
        """Return when another node leads, so that the worker must connect anew."""

    async def close(self) -> None:
        """Close the connection to the leader."""


class WorkerPort(Protocol):
    """A node's end of one worker connection."""

    async def receive(self, message: FromWorker) -> None:
        """Take a message from the worker; waits when the node is full, so that the worker slows down."""

    def next_frames(self) -> AsyncIterator[list[ToWorker]]:
        """Yield batches of messages for the worker until the connection should close."""

    def give_straight(self, give: Callable[[list[ToWorker]], None]) -> None:
        """Let what begins be given to a worker in this process by a call, if nothing else waits for it."""

    def closed(self) -> None:
        """The connection is gone; the lease runs on."""


class Desk(Protocol):
    """Everything a face may ask of a node."""

    @property
    def name(self) -> str:
        """The node's name."""

    @property
    def store(self) -> Store:
        """Where everything durable is, for reading."""

    @property
    def leads(self) -> bool:
        """Whether this node leads now."""

    @property
    def linked(self) -> bool:
        """Whether another node leads and is reached from here, as far as we know."""

    async def pass_on(self, question: Question, timeout: float) -> Reply:
        """Put a call to the leader's node; raises NoLeader if nothing was sent, Unanswered if it was."""

    async def open_tunnel(self) -> Tunnel | None:
        """Connect a worker through to the leader's node; None if this node leads, NoLeader if none does."""

    def ring(self) -> None:
        """Somebody inserted jobs: the leader, here or at the end of our link, should look."""

    def pulse(self, node: str, stands: bool, term: int) -> AsyncIterator[bytes]:
        """Let another node hear that this one leads in *term*, until it does no more."""

    async def submit(self, submissions: Sequence[Submission]) -> list[Accepted]:
        """Accept jobs durably: through the leader's next commit if this node leads, else by the store.

        Jobs of queues in set mode get their keys first; the submissions then have them.
        """

    async def get_job(self, job: int) -> StoredJob:
        """Return a job or raise NotFound."""

    async def wait_job(self, job: int, timeout: float) -> StoredJob:
        """Return the job as soon as it has ended, or as it is when the time is over."""

    async def settle_log(self) -> None:
        """Wait a moment until output that has come to this node is in the store."""

    def follow_log(self, job: int) -> AbstractContextManager[asyncio.Event]:
        """Give an event that is set when a job's log has grown, on a node that leads."""

    async def look(self, job: int) -> str:
        """Return where the code of a running job is just now; Conflict if it does not run."""

    async def search(self, query: Query, *, sort: str, limit: int, cursor: str | None) -> Page:
        """Return a page of jobs."""

    async def standing(self, jobs: Sequence[StoredJob]) -> list[Standing | None]:
        """Say why each waits, where it stands and which rules hold; None without a leader, or for nothing."""

    async def notes(self, jobs: Sequence[StoredJob]) -> dict[int, StoredNote]:
        """Return the last note on each, by job; on the leader's node all that it has heard."""

    async def attempt_notes(self, job: int) -> list[StoredNote]:
        """Return the notes of a job's last attempts, newest first."""

    async def cancel(self, job: int, force: bool = False) -> StoredJob:
        """Cancel: a waiting job never begins after this returned; a running one is stopped."""

    async def retry(self, job: int) -> StoredJob:
        """Try an ended job again, in a new generation."""

    async def resolve(self, job: int, succeeded: bool, value: bytes | None) -> StoredJob:
        """A person says how an unknown job went."""

    async def edit(self, job: int, changes: dict[str, Any]) -> StoredJob:
        """Re-role a waiting job: queue, flow, priority, run_at, deadline (micros), tags, max_attempts.

        Also timeout, adapter (of a task), worker (the only one that may take it), away (those that may not).
        """

    async def relocate(self, job: int, to: str | None) -> StoredJob:
        """Send a job to a worker, or (None) away from its own; what runs is stopped and handed back."""

    async def prefer(self, job: int) -> StoredJob:
        """Put a waiting job before all others of its line, due now."""

    async def requeue(self, job: int) -> StoredJob:
        """Put a job behind all others of its line; what runs is stopped and handed back."""

    async def queues(self, after: str = "", most: int = 1000) -> list[QueueView]:
        """Return queues of the tree by path, parents before children, up to *most* behind *after*."""

    async def queue(self, path: str) -> QueueView:
        """Return one queue, with its flows, or raise NotFound."""

    async def set_queue(
        self, path: str, changes: dict[str, Any], *, replace: bool, who: str = ANONYMOUS
    ) -> QueueView:
        """Change settings (limit, paused, discipline); *replace* forgets those not named."""

    async def set_queues(
        self, queues: Mapping[str, dict[str, Any]], *, dry: bool, who: str
    ) -> list[QueueChange]:
        """Give queues exactly these settings, all or none; return what that changes. *dry*: only say so."""

    async def revert_queue(self, path: str, number: int | None, who: str) -> QueueView:
        """Set a queue as it was after a change; None: as it was before the last one."""

    async def delete_queue(self, path: str, who: str = ANONYMOUS) -> None:
        """Forget an empty queue; Conflict while jobs wait or run below it."""

    async def move_queue(self, path: str, to: str, *, rename: bool, who: str) -> MoveView:
        """Begin to move all that waits in a branch, which then goes. *rename*: settings and attempts, too."""

    async def find_move(self, operation: str) -> MoveView:
        """Say how far a move is, or raise NotFound."""

    async def next_jobs(self, path: str, most: int) -> list[int]:
        """Return the order in which due jobs of a queue, and of those below it, will begin."""

    async def demand(self) -> Demand:
        """Say which slots are wanted, shape by shape, and which there are."""

    async def schedules(self) -> list[ScheduleView]:
        """Return every schedule, by name."""

    async def get_schedule(self, name: str) -> ScheduleView:
        """Return a schedule or raise NotFound."""

    async def put_schedule(
        self, name: str, spec: ScheduleSpec, *, dry: bool = False
    ) -> tuple[ScheduleView, bool]:
        """Make or replace a schedule, or (*dry*) only say what it would be; say whether it is new."""

    async def pause_schedule(self, name: str, paused: bool) -> ScheduleView:
        """Pause a schedule, or let it fire again from now on."""

    async def delete_schedule(self, name: str) -> None:
        """Forget a schedule; the jobs it submitted stay."""

    async def run_schedule(self, name: str) -> StoredJob:
        """Submit a schedule's job now and return it."""

    async def workers(self) -> list[WorkerView]:
        """Return the workers the leader knows."""

    async def set_worker(self, name: str, changes: dict[str, Any]) -> WorkerView:
        """Change queues (globs), slots, draining (and its deadline_seconds) of a worker, live."""

    async def cluster(self) -> ClusterView:
        """Say who leads and who is there."""

    async def troubles(self) -> Troubles:
        """Say what failed inside the leader: advice that could not be told, calls on which leaders ended."""

    async def step_down(self) -> None:
        """Resign; another node, or this one again, takes over."""

    def events(self, after: str | None) -> AsyncIterator[list[NumberedEvent] | None]:
        """Yield events behind id *after* (None: from now on); yields None when nothing came for 15 s.

        When *after* is older than what is kept, the first event yielded has kind `gap`.
        """

    def attach_worker(self) -> WorkerPort:
        """Open a port for a worker that connected; its first message must be Hello."""

    async def mute_failure(self, cause: CauseRow, until: int | None, who: str = ANONYMOUS) -> bool:
        """Mute a cause until a time, None: no more; False if it is gone."""

    async def forget_failure(self, cause: CauseRow, most: int, who: str = ANONYMOUS) -> int:
        """Forget so many failed jobs of a cause, and the cause with the last; return how many went."""

    async def start_action(self, action: Action) -> ActionProgress:
        """Begin to do something to all jobs that match a query; Busy if too much is under way already."""

    async def operations(self) -> list[ActionProgress | MoveView]:
        """Return the actions of this leader, the newest first, and the moves of queues under way."""

    async def find_operation(self, operation: str) -> ActionProgress | MoveView:
        """Say how far an action or a move is; NotFound also for an action of an earlier leader."""

    async def abort_operation(self, operation: str) -> ActionProgress:
        """Let an action stop after its batch; what is done stays done. Conflict for a move."""

    def numbers(self) -> dict[str, float]:
        """Return counters and gauges for /metrics."""
