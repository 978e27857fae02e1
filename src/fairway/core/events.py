"""What goes into the core. Each is a small value; `ticket` is the engine's own and only handed back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from fairway.core.lifecycle import State
from fairway.core.model import Alike, Arrival, Held, Result, Rules, WorkerSpec
from fairway.core.plan import Begun, News

#: Who changed something, if nobody says.
ANONYMOUS = "anonymous"


class Submitted(NamedTuple):
    """Jobs that this leader inserts in the commit of the next plan."""

    arrivals: Sequence[Arrival]


#: How jobs ended that others wait for; None: there is no such job any more. Those not named have not ended.
Endings = Mapping[int, State | None]
NO_ENDINGS: Endings = {}


class TakenIn(NamedTuple):
    """Jobs that others inserted, with the numbers of their arrival rows."""

    arrivals: Sequence[Arrival]
    numbers: Sequence[int]
    ended: Endings = NO_ENDINGS  # of the jobs that blocked ones of these wait for


class Loaded(NamedTuple):
    """Jobs that waited already when this leader took over: many at one stroke where they are alike."""

    arrivals: Sequence[Arrival]
    ended: Endings = NO_ENDINGS
    alike: Sequence[Alike] = ()


class Replaced(NamedTuple):
    """Jobs whose unique key has gone to newer ones, which are taken in next: these begin no more."""

    arrivals: Sequence[Arrival]


class Refused(NamedTuple):
    """Submitted jobs that the store did not insert: their key was taken."""

    arrivals: Sequence[Arrival]


class Started(NamedTuple):
    """The store committed these begins."""

    begun: Sequence[Begun]


class Found(NamedTuple):
    """A running attempt that this leader found when it took over."""

    arrival: Arrival
    begun: Begun
    incarnation: str
    worker: str
    started_at: int
    cancelling: bool


class QueueFound(NamedTuple):
    """A queue row that this leader found when it took over."""

    path: str
    settings: Mapping[str, Any]


class Joined(NamedTuple):
    """A worker connected: what it is, what it holds, what it finished unheard."""

    spec: WorkerSpec
    holds: Sequence[Held]
    results: Sequence[Result]
    predecessor: str | None
    luck: float
    about: Mapping[str, Any]  # facts and version, for people
    draining: bool = False  # it takes no more


class Left(NamedTuple):
    """A worker's connection is gone; its lease runs on."""

    incarnation: str


class Gone(NamedTuple):
    """A worker is surely dead: no need to wait for its lease."""

    incarnation: str


class Parted(NamedTuple):
    """A worker said goodbye: it told of all it ever started, and what else is its own it never will start."""

    incarnation: str


class Drained(NamedTuple):
    """A worker takes no more."""

    incarnation: str


class Renewed(NamedTuple):
    """A worker beats and names what it holds."""

    incarnation: str
    holds: Sequence[Held]
    about: Mapping[str, Any]


class Reported(NamedTuple):
    """Attempts ended at a worker. *luck* in [0, 1) spreads the retries."""

    incarnation: str
    results: Sequence[Result]
    luck: float


class HandedBack(NamedTuple):
    """A worker gives attempts back."""

    incarnation: str
    attempts: Sequence[Held]


class CancelAsked(NamedTuple):
    """Somebody no longer wants a job; *job* is where the store saw it waiting."""

    ticket: Any
    job: Arrival
    force: bool


class EditAsked(NamedTuple):
    """Somebody re-roles a waiting job from where the store saw it to where it shall stand."""

    ticket: Any
    job: Arrival
    new: Arrival
    run_at: int
    rules: Rules
    stand: str = ""  # front: before all others, and now; end: behind all others


class RecallAsked(NamedTuple):
    """Somebody wants a running attempt back, to begin elsewhere or later; *new* is as the job shall wait."""

    ticket: Any
    new: Arrival
    attempt: int
    to_end: bool


class ReviveAsked(NamedTuple):
    """Somebody tries an ended job again; the store knows whether it can be."""

    job: int


class Revived(NamedTuple):
    """The store brought an ended job back."""

    arrival: Arrival


class ResolveAsked(NamedTuple):
    """Somebody says how an unknown job went; the store knows whether it is one."""

    job: int
    state: str
    outcome: bytes | None


class Resolved(NamedTuple):
    """The store took the late word on an unknown job: whoever waits for it may go on."""

    job: int
    state: State


class QueueAsked(NamedTuple):
    """Somebody changes a queue's settings; *changes* were checked for type."""

    ticket: Any
    path: str
    changes: Mapping[str, Any]
    replace: bool
    who: str = ANONYMOUS


class QueuesAsked(NamedTuple):
    """Somebody wants queues to have exactly these settings, all or none. *dry*: only say what changes."""

    ticket: Any
    queues: Mapping[str, Mapping[str, Any]]
    dry: bool = False
    who: str = ANONYMOUS


class QueueDropAsked(NamedTuple):
    """Somebody wants an empty queue forgotten."""

    ticket: Any
    path: str
    who: str = ANONYMOUS


class MoveAsked(NamedTuple):
    """Somebody wants all that waits in a branch to wait in another. *rename*: its settings go along."""

    ticket: Any
    path: str
    to: str
    operation: str
    rename: bool
    who: str = ANONYMOUS


class PageAsked(NamedTuple):
    """Some jobs of a branch that is being moved, as the store saw them waiting."""

    ticket: Any
    path: str
    jobs: Sequence[Arrival]


class MoveOverAsked(NamedTuple):
    """Everything the store had in a branch that is being moved was looked at: is it empty now?"""

    ticket: Any
    path: str


class Noted(NamedTuple):
    """Something that the store keeps already happened outside the core: to be told with the next commit."""

    news: Sequence[News]


class WorkerAsked(NamedTuple):
    """Somebody changes what a worker serves, live. None: leave as it is."""

    ticket: Any
    name: str
    queues: tuple[str, ...] | None
    draining: bool | None
    slots: int | None = None
    deadline_seconds: float | None = None  # after which a draining worker hands back what it still runs


CoreEvent = (
    Submitted | TakenIn | Loaded | Replaced | Refused | Started | Found | QueueFound
    | Joined | Left | Gone | Parted | Drained | Renewed | Reported | HandedBack
    | CancelAsked | EditAsked | RecallAsked | ReviveAsked | Revived | ResolveAsked | Resolved
    | QueueAsked | QueuesAsked | QueueDropAsked | MoveAsked | PageAsked | MoveOverAsked | WorkerAsked | Noted
)  # fmt: skip
