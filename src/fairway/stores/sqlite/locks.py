"""OS locks beside the file: who of this machine is alive is known at once, without waiting for a lease.

The system lets go of a lock when its process dies, however it dies. The lock belongs to the open file, so
a child that was forked without exec holds it as well: take it in processes that only ever exec others.
"""

from __future__ import annotations

import fcntl
import os
import re
import time
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from fairway.errors import InvalidRequest

_plain = re.compile(r"[A-Za-z0-9_-]{1,64}")

#: Somebody who only looks holds the lock for some microseconds; a taker tries again for this long.
LOOK_SECONDS = 0.05


class FileLock:
    """A lock that lives as long as its holder's process."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: int | None = None

    def try_lock(self, patience: float = LOOK_SECONDS) -> bool:
        """Take the lock and keep it; False if another process has it, also after *patience* seconds."""
        if self._file is not None:
            return True
        self.path.parent.mkdir(parents=True, exist_ok=True)
        while True:
            file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            if not _take(file, patience):
                os.close(file)
                return False
            if _is_at(file, self.path):
                self._file = file
                return True
            os.close(file)  # somebody removed it as stale between our open and our lock: once more

    @property
    def descriptor(self) -> int | None:
        """The open file while the lock is held: whoever inherits it holds the lock as well."""
        return self._file

    def held_by_other(self) -> bool:
        """Say whether somebody else holds the lock now."""
        return self._file is None and self.path.exists() and not _is_free(self.path)

    def release(self, remove: bool = False) -> None:
        """Let go of the lock; *remove* also takes the file away, for locks of one life."""
        if self._file is None:
            return
        if remove:
            self.path.unlink(missing_ok=True)
        os.close(self._file)
        self._file = None


def leader_lock(database: Path) -> FileLock:
    """Return the lock that the leading node holds; its file stays."""
    return FileLock(database.with_name(database.name + ".leader.lock"))


class WorkerLocks:
    """The locks of this machine's workers, one file for each incarnation."""

    def __init__(self, database: Path) -> None:
        self.folder = database.with_name(database.name + ".workers")

    def lock_of(self, incarnation: str) -> FileLock:
        """Return the lock a worker takes when it starts and releases, with its file, when it ends."""
        if not _plain.fullmatch(incarnation):  # it comes from outside and becomes a file's name
            raise InvalidRequest("an incarnation is 1 to 64 letters, digits, - and _", field="incarnation")
        return FileLock(self.folder / f"{incarnation}.lock")

    def is_free(self, incarnation: str) -> bool:
        """Say whether this worker is surely dead: it had a lock here and holds it no more.

        A worker of another machine has no lock here; nothing is known about it.
        """
        if not _plain.fullmatch(incarnation):
            return False
        path = self.lock_of(incarnation).path
        return path.exists() and _is_free(path)

    def remove_stale(self, keep: Collection[str] = ()) -> list[str]:
        """Remove the locks of dead workers but those to *keep*; return whose they were.

        Keep those whose attempts are not taken back yet: if this process dies first, its successor
        must still be able to see that they are dead.
        """
        dead = [path for path in self.folder.glob("*.lock") if path.stem not in keep and _is_free(path)]
        for path in dead:
            path.unlink(missing_ok=True)
        return [path.stem for path in dead]


def _is_at(file: int, path: Path) -> bool:
    """Say whether an open file is still the one at this path."""
    with suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(file), path.stat())
    return False


def _take(file: int, patience: float) -> bool:
    over = time.monotonic() + patience
    while True:
        with suppress(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        if time.monotonic() > over:
            return False
        time.sleep(0.005)


def _is_free(path: Path) -> bool:
    """Look at a lock. Shared, so that two who look at once do not take each other for its holder."""
    try:
        file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(file)
    return True
