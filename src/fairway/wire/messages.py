"""The worker protocol, version 1, as types. docs/reference/protocol.md explains it to other languages.

Every message is an array whose first element names it: `["beat", [[7, 1]]]`, in msgpack (binary frames) or
JSON (text frames; bytes are base64 there). A job is named by its integer id, an attempt by (job, attempt);
the connection stands for the incarnation it opened with. Every message to a worker carries the term of the
leader that sent it; a worker drops those of an older term than it has heard.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from fairway.core.model import Attempt as Attempt
from fairway.core.model import Held as Held
from fairway.core.model import Result as Result

PROTOCOL = 1
#: A frame larger than this is refused by both sides.
MOST_BYTES = 16 * 1024 * 1024


class Message(msgspec.Struct, tag=True, array_like=True, frozen=True):
    """The root of all messages."""


class Task(msgspec.Struct, array_like=True, frozen=True):
    """A task the worker knows."""

    name: str
    is_async: bool = False
    signature: str = ""
    adapter: str = ""  # whose it is; "": any of the worker's adapters


class LogPiece(NamedTuple):
    """Some output of an attempt; numbers rise within the attempt."""

    job: int
    attempt: int
    number: int
    at: int
    stream: str
    text: str


class Assignment(NamedTuple):
    """An attempt to run. Those with the same bundle (> 0) run one after the other in one slot."""

    job: int
    attempt: int
    adapter: str
    task: str
    payload: bytes
    timeout: float | None
    queue: str
    bundle: int = 0
    generation: int = 0
    kill: bool = False  # end its code before the lease can be taken by somebody else
    grace: float | None = None  # seconds between asking it to end and killing it; None: the worker's own
    checkpoint: bytes | None = None  # JSON: what an earlier attempt left to go on from
    once: bool = False  # its code, once started, is never started again: it cannot be handed back
    tries: int = 0  # attempts that ended by error or timeout; a person's retry starts anew


class Note(NamedTuple):
    """What a running attempt says of itself; None: nothing new of that."""

    job: int
    attempt: int
    progress: float | None = None  # from 0 to 1
    text: str = ""
    checkpoint: bytes | None = None  # JSON
    cpu_seconds: float | None = None
    memory_bytes: int | None = None  # the most it has used


# --- worker → node -----------------------------------------------------------------------------------
class Hello(Message, tag="hello", frozen=True):
    """The first frame: who I am, what I can, what I hold and what I finished but was not thanked for."""

    protocol: int
    name: str
    incarnation: str
    slots: int
    adapters: list[str]
    tasks: list[Task] = []
    tags: list[str] = []
    queues: list[str] = msgspec.field(default_factory=lambda: ["**"])
    async_per_slot: int = 100
    facts: dict[str, Any] = {}
    holds: list[Held] = []
    results: list[Result] = []
    predecessor: str | None = None  # an incarnation of the same name whose process is surely gone
    pid: int = 0
    version: str = ""
    draining: bool = False  # I take no more
    ahead: bool = False  # I keep what is begun ahead


class Beat(Message, tag="beat", frozen=True):
    """I live, and these attempts are mine; sent by a process that never runs user code."""

    holds: list[Held]
    facts: dict[str, Any] = {}
    number: int = 0  # rises; above 0 it is answered by `heard`


class Results(Message, tag="results", frozen=True):
    """Attempts that ended; kept by the worker until acknowledged."""

    results: list[Result]


class HandBack(Message, tag="handback", frozen=True):
    """Attempts I give back: not started, and they never will be here (or stopped, when draining)."""

    attempts: list[Held]


class Logs(Message, tag="logs", frozen=True):
    """Output of running attempts."""

    pieces: list[LogPiece]


class Notes(Message, tag="notes", frozen=True):
    """How far running attempts are, where a next one may go on, what they have used. Before their results."""

    notes: list[Note]


class Seen(Message, tag="seen", frozen=True):
    """The answer to a `look`: where the attempt's code is, as text; or why that cannot be told."""

    number: int
    text: str
    found: bool = True


class Draining(Message, tag="draining", frozen=True):
    """I take no more; what I hold I finish or hand back."""


class Goodbye(Message, tag="goodbye", frozen=True):
    """I hold nothing any more and go."""

    reason: str = ""


# --- node → worker -----------------------------------------------------------------------------------
class Welcome(Message, tag="welcome", frozen=True):
    """You are in. How often to beat, how long a lease lasts, and where else the cluster can be reached.

    It comes again when *nodes* has changed. The lease of attempts whose code is to end with it (`kill`) may
    be longer. *heard*: the hello counts as a beat that was heard.
    """

    protocol: int
    term: int
    node: str
    beat_seconds: float
    lease_seconds: float
    nodes: list[str] = []
    kill_lease_seconds: float = 0.0  # 0: the same lease
    heard: bool = False


class Heard(Message, tag="heard", frozen=True):
    """Your beat of this number was heard by a leader: your lease counts from when you sent it."""

    term: int
    number: int


class Begin(Message, tag="begin", frozen=True):
    """Run these: they are committed as yours."""

    term: int
    assignments: list[Assignment]
    ahead: bool = False  # each when a slot is free for it; handed back if none is for a moment


class Stop(Message, tag="stop", frozen=True):
    """Stop these attempts: asked first, or at once if force.

    kind: `cancelled`, or `stopped`: then they are not over, but to be handed back with their checkpoint.
    """

    term: int
    attempts: list[Held]
    force: bool = False
    kind: str = "cancelled"


class Adjust(Message, tag="adjust", frozen=True):
    """Offer so many slots from now on, serve these queues, take no more work or take it; None: as it is.

    *deadline_seconds* goes with `draining`: hand back what still runs when so many have passed.
    """

    term: int
    slots: int | None = None
    queues: list[str] | None = None
    draining: bool | None = None
    deadline_seconds: float | None = None


class Look(Message, tag="look", frozen=True):
    """Say where the code of this attempt is just now: answered by `seen` with the same number."""

    term: int
    number: int
    job: int
    attempt: int


class Acks(Message, tag="acks", frozen=True):
    """Your reports on these were committed, or are refused as stale; forget them.

    Those in *lost* you named, and they are not yours any more; a report on them you may still have to make.
    """

    term: int
    done: list[Attempt]
    stale: list[Attempt]
    lost: list[Attempt] = []


class Refusal(Message, tag="refusal", frozen=True):
    """You cannot be served, and why; the connection closes."""

    code: str
    detail: str


FromWorker = Hello | Beat | Results | HandBack | Logs | Notes | Seen | Draining | Goodbye
ToWorker = Welcome | Heard | Begin | Stop | Adjust | Look | Acks | Refusal
