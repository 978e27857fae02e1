"""What a worker has to tell: results and hand-backs until they are acknowledged, logs while there is room.

Results are never dropped; instead, when too many stand unacknowledged, the worker takes no more work
(`is_full`). Owned by the agent.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from fairway.notes import merge
from fairway.wire.messages import (
    FromWorker,
    HandBack,
    Held,
    LogPiece,
    Logs,
    Note,
    Notes,
    Result,
    Results,
    Seen,
)

Key = tuple[int, int]
MOST_UNACKNOWLEDGED = 50_000
MOST_LOG_BYTES = 8 * 1024 * 1024
MOST_CHECKPOINT_BYTES = 32 * 1024 * 1024
#: Bounds of one message, well below the frame's own.
MOST_RESULTS = 5_000
MOST_RESULT_BYTES = 4 * 1024 * 1024
MOST_PIECES = 2_000
MOST_NOTES = 100  # each may carry a checkpoint of 64 KB
MOST_SEEN = 100


class Outbox:
    """Filled by the adapters' reports, emptied by the sender."""

    def __init__(self) -> None:
        self.wake = asyncio.Event()
        self.results: dict[Key, Result] = {}  # unacknowledged
        self.handed_back: dict[Key, Held] = {}  # unacknowledged
        self._new_results: list[Result] = []
        self._new_hand_backs: list[Held] = []
        self._notes: dict[Key, Note] = {}  # the newest of each attempt, to be sent
        self._noted: dict[Key, Note] = {}  # what was sent; a new connection hears it again
        self._checkpoints: dict[Key, int] = {}  # their sizes in `_noted`, the oldest first
        self._checkpoint_bytes = 0
        self._logs: deque[LogPiece] = deque()
        self._log_bytes = 0
        self._seen: deque[Seen] = deque(maxlen=MOST_SEEN)

    @property
    def is_full(self) -> bool:
        """Whether so much is unacknowledged that no more work should be taken."""
        return len(self.results) >= MOST_UNACKNOWLEDGED

    def add_results(self, results: Sequence[Result]) -> None:
        """Tell of attempts that ended."""
        self.results.update(zip([result[:2] for result in results], results, strict=True))
        self._new_results += results
        self.wake.set()

    def add_hand_backs(self, attempts: Sequence[Held]) -> None:
        """Tell of attempts that are given back."""
        self.handed_back.update(zip([held[:2] for held in attempts], attempts, strict=True))
        excess = len(self.handed_back) - MOST_UNACKNOWLEDGED
        for key in list(islice(self.handed_back, max(0, excess))):
            del self.handed_back[key]  # the leader finds out by the lease
        self._new_hand_backs += attempts
        self.wake.set()

    def add_logs(self, pieces: Sequence[LogPiece]) -> None:
        """Tell of output; the oldest gives way when there is too much."""
        self._logs.extend(pieces)
        self._log_bytes += sum(len(piece.text) for piece in pieces)
        while self._log_bytes > MOST_LOG_BYTES:
            self._log_bytes -= len(self._logs.popleft().text)
        self.wake.set()

    def add_notes(self, notes: Iterable[Note]) -> None:
        """Tell what attempts say of themselves; of each only the newest is kept until it is sent.

        When there is too much, the oldest gives way: what was said at all, and checkpoints by their size.
        """
        for note in notes:
            key = note[:2]
            for known in (self._notes, self._noted):
                before = known.get(key)
                known[key] = note if before is None else merge(before, note)
            if note.checkpoint is not None:
                self._count_checkpoint(key, len(note.checkpoint))
        while len(self._noted) > MOST_UNACKNOWLEDGED:
            self._forget_note(next(iter(self._noted)))
        self.wake.set()

    def _count_checkpoint(self, key: Key, size: int) -> None:
        """The newest stands last; those that do not fit any more are forgotten, whether sent or not."""
        self._checkpoint_bytes += size - self._checkpoints.pop(key, 0)
        self._checkpoints[key] = size
        while self._checkpoint_bytes > MOST_CHECKPOINT_BYTES:
            oldest = next(iter(self._checkpoints))
            self._checkpoint_bytes -= self._checkpoints.pop(oldest)
            for known in (self._notes, self._noted):
                if (note := known.get(oldest)) is not None:
                    known[oldest] = note._replace(checkpoint=None)

    def _forget_note(self, key: Key) -> None:
        if self._noted.pop(key, None) is not None:
            self._checkpoint_bytes -= self._checkpoints.pop(key, 0)

    def add_seen(self, seen: Seen) -> None:
        """Answer a look; should nobody have taken the answers for long, the oldest is dropped."""
        self._seen.append(seen)
        self.wake.set()

    def acknowledge(self, attempts: Iterable[Key]) -> None:
        """Forget what the node has taken."""
        results, handed_back = self.results, self.handed_back
        if self._noted:
            attempts = list(attempts)
            for key in attempts:
                self._forget_note(key)
        for key in attempts:
            if results.pop(key, None) is None:
                handed_back.pop(key, None)

    def start_again(self) -> list[Result]:
        """Begin anew for a new connection: return what fits its first message, the rest follows."""
        first = next(split(list(self.results.values())), [])
        self._new_results = list(self.results.values())[len(first) :]
        self._new_hand_backs = list(self.handed_back.values())
        self._notes = dict(self._noted)  # what the last node heard it may not have kept
        self.wake.set()
        return first

    def tell_again(self, key: Key) -> bool:
        """Tell once more what became of an attempt the node asks for; says whether we know."""
        if result := self.results.get(key):
            self._new_results.append(result)
        elif held := self.handed_back.get(key):
            self._new_hand_backs.append(held)
        else:
            return False
        self.wake.set()
        return True

    def take(self) -> Iterator[FromWorker]:
        """Yield what is new, in messages of bounded size."""
        results, self._new_results = self._new_results, []
        hand_backs, self._new_hand_backs = self._new_hand_backs, []
        if self._notes:  # before the results: what ended cannot be noted any more
            notes, self._notes = list(self._notes.values()), {}
            for start in range(0, len(notes), MOST_NOTES):
                yield Notes(notes[start : start + MOST_NOTES])
        yield from self._take_logs(len(self._logs))  # what ended has its whole log with its result
        for part in split(results):
            yield Results(part)
        for start in range(0, len(hand_backs), MOST_RESULTS):
            yield HandBack(hand_backs[start : start + MOST_RESULTS])
        while self._seen:
            yield self._seen.popleft()

    def _take_logs(self, count: int) -> Iterator[Logs]:
        """Yield so many pieces, or what is left of them; those that come meanwhile must not delay results."""
        while self._logs and count > 0:
            pieces = self._take_pieces()
            count -= len(pieces)
            yield Logs(pieces)

    def _take_pieces(self) -> list[LogPiece]:
        pieces: list[LogPiece] = []
        size = 0
        while self._logs and len(pieces) < MOST_PIECES and size < MOST_RESULT_BYTES:
            piece = self._logs.popleft()
            pieces.append(piece)
            size += len(piece.text)
        self._log_bytes -= size
        return pieces


def split(results: list[Result]) -> Iterator[list[Result]]:
    """Cut results into parts that fit into one message each."""
    part: list[Result] = []
    size = 0
    for result in results:
        length = len(result[3])
        if part and (size + length > MOST_RESULT_BYTES or len(part) >= MOST_RESULTS):
            yield part
            part, size = [], 0
        part.append(result)
        size += length
    if part:
        yield part
