"""Events of progress: told at most once a second for a job, and only while the attempt runs.

They are events like all others, written and numbered by the leader's next commit, so those of one second go
together, a bounded number; what is left waits for the next. Owned by an engine.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from itertools import islice

from fairway.clock import wall
from fairway.core.look import WorldLook
from fairway.core.plan import News
from fairway.store import NoteRow

PAUSE_SECONDS = 1.0
MOST = 1000


class ProgressNews:
    """Gathers the last progress of each attempt and tells it with *tell*."""

    def __init__(self, world: WorldLook, tell: Callable[[Sequence[News]], None]) -> None:
        self._world, self._tell = world, tell
        self._notes: dict[int, NoteRow] = {}  # by job
        self._filled = asyncio.Event()

    def add(self, notes: Sequence[NoteRow]) -> None:
        """Take in what the store keeps now."""
        for note in notes:
            if note.progress is not None:
                self._notes[note.job] = note
        if self._notes:
            self._filled.set()

    async def tell_forever(self) -> None:
        """Tell what has gathered, once a second."""
        while True:
            await self._filled.wait()
            news = [one for note in self._take() if (one := self._news_of(note)) is not None]
            if news:
                self._tell(news)
            await asyncio.sleep(PAUSE_SECONDS)

    def _take(self) -> list[NoteRow]:
        taken = list(islice(self._notes.values(), MOST))
        for note in taken:
            del self._notes[note.job]
        if not self._notes:
            self._filled.clear()
        return taken

    def _news_of(self, note: NoteRow) -> News | None:
        """Return the event, or None if the attempt runs no more."""
        live = self._world.live.get(note.job)
        if live is None or (live.attempt, live.incarnation) != (note.attempt, note.incarnation):
            return None
        return News(
            "job.progress", wall(), (note.job,), live.queue.path, "running", note.attempt,
            live.worker.spec.name, live.shape.task or None,
            {"fraction": note.progress, "text": note.text},
        )  # fmt: skip
