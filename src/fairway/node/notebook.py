"""What running attempts say of themselves, on its way from the workers to the store. Not through the core.

Of each attempt only the newest word on each thing is kept, so a task may speak as often as it likes. Progress
and use of resources are written a few times a second, a checkpoint at once; and all there is before anybody
reads notes, or an attempt comes back of which another may go on: see `flush`. Bounded; when the store
does not take notes for long they are dropped and counted. Owned by an engine.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

from fairway.clock import wall
from fairway.errors import WorldError
from fairway.notes import merge
from fairway.store import NoteRow, Store

log = logging.getLogger("fairway.notebook")

MOST_NOTES = 50_000
MOST_CHECKPOINT_BYTES = 32 * 1024 * 1024
PAUSE_SECONDS = 0.1
#: How long others wait for notes; then they go on with what the store has.
FLUSH_SECONDS = 5.0
TRIES = 3

Key = tuple[int, int, str]


class Notebook:
    """Gathers notes and writes them in batches; *kept* hears of those that were written."""

    def __init__(self, store: Store, kept: Callable[[Sequence[NoteRow]], None]) -> None:
        self._store, self._kept = store, kept
        self._notes: dict[Key, NoteRow] = {}
        self._bytes = 0
        self._filled, self._urgent = asyncio.Event(), asyncio.Event()
        self._writing: asyncio.Task[None] | None = None
        self._batches = self._written = 0
        self.dropped = 0

    def keep(self, notes: Iterable[NoteRow]) -> None:
        """Take notes in, as far as there is room."""
        for note in notes:
            before = self._notes.get(note[:3])
            replaced = 0 if before is None or note.checkpoint is None else _size(before)
            size = self._bytes + _size(note) - replaced
            if (before is None and len(self._notes) >= MOST_NOTES) or size > MOST_CHECKPOINT_BYTES:
                self.dropped += 1
                continue
            self._bytes = size
            self._notes[note[:3]] = note if before is None else merge(before, note)
            if note.checkpoint is not None:
                self._urgent.set()
        self._filled.set()

    async def write_forever(self) -> None:
        """Write what has gathered, again and again."""
        while True:
            await self._filled.wait()
            with suppress(TimeoutError):
                async with asyncio.timeout(PAUSE_SECONDS):
                    await self._urgent.wait()
            await self.flush()

    async def flush(self) -> None:
        """Return when all that was taken in before is written or given up, or the store takes too long.

        Waits for the batch under way and the one behind it, not for what comes meanwhile: under a steady
        stream of notes there is always another batch, and the engine's step waits here.
        """
        last = self._batches + bool(self._notes)
        try:
            async with asyncio.timeout(FLUSH_SECONDS):
                while self._written < last:
                    await self._write_one()
        except TimeoutError:
            log.warning("notes are late: the store takes long", extra={"seconds": FLUSH_SECONDS})

    async def _write_one(self) -> None:
        """Wait for the batch under way, which may be another's; begin one if there is none."""
        if self._writing is None:
            self._batches += 1
            self._writing = asyncio.create_task(self._write())
        await asyncio.shield(self._writing)

    async def _write(self) -> None:
        notes = list(self._notes.values())
        self._notes, self._bytes = {}, 0
        self._filled.clear()
        self._urgent.clear()
        try:
            await self._try_to_save(notes)
        finally:
            self._writing = None
            self._written += 1

    async def _try_to_save(self, notes: Sequence[NoteRow]) -> None:
        for attempt in range(1, TRIES + 1):
            try:
                await self._store.save_notes(notes, wall())
            except WorldError as error:
                if attempt == TRIES:
                    self.dropped += len(notes)
                    log.warning("notes were not kept", extra={"notes": len(notes), "why": str(error)})
                    return
                await asyncio.sleep(0.05 * 4**attempt)
            else:
                self._kept(notes)
                return


def _size(note: NoteRow) -> int:
    return 0 if note.checkpoint is None else len(note.checkpoint)
