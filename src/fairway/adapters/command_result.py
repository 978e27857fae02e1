"""What came of a command: what its exit code means, and where its result is.

The result is the last line of its output or a file, if the work says so; else what the program wrote, as
JSON, to the file that FAIRWAY_RESULT names; else its exit code.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import stat
import tempfile
import weakref
from pathlib import Path

import msgspec

from fairway.adapters.command_payload import ResultPlace, Work

MOST_RESULT_BYTES = 1024 * 1024
READ_SECONDS = 30.0


class BadResult(Exception):
    """The program ended well, but its result is missing or cannot be kept."""


class NotRead(Exception):
    """The program ended well, but its result could not be read in time: it may be there next time."""


def meaning(code: int, codes: dict[str, list[int]]) -> str:
    """Return what an exit code means: ok, retry or permanent.

    What is not listed is tried again; but whoever lists only what to try again means: nothing else.
    """
    for name, listed in codes.items():
        if code in listed:
            return name
    if code == 0:
        return "ok"
    return "permanent" if "retry" in codes and "permanent" not in codes else "retry"


class Scratch:
    """A directory of the worker's own in which each attempt has a file for its result."""

    def __init__(self) -> None:
        self._directory: Path | None = None

    def new_file(self, name: str, uid: int | None) -> Path:
        """Make an empty file that a command of this user may write."""
        if self._directory is None or not self._directory.is_dir():
            self._directory = Path(tempfile.mkdtemp(prefix="fairway-"))
            self._directory.chmod(0o711)  # other users find their file, by its name only
            weakref.finalize(self, shutil.rmtree, self._directory, ignore_errors=True)
        path = self._directory / name
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW, 0o600))
        if uid is not None:
            os.chown(path, uid, -1, follow_symlinks=False)
        return path


def remove(path: Path) -> None:
    """Remove the file, whatever the program has made of it; the rest goes with the directory."""
    with contextlib.suppress(OSError):
        path.unlink(missing_ok=True)


async def find_result(work: Work, written: Path, last_line: str, code: int, uid: int | None) -> bytes:
    """Return the result as JSON; raises BadResult, and NotRead if that takes too long."""
    if isinstance(work.result, ResultPlace):
        place = Path(work.cwd or ".") / work.result.file
        try:
            async with asyncio.timeout(READ_SECONDS):  # it may lie in a network that hangs
                text = await asyncio.to_thread(read_file, place, uid)
        except TimeoutError:
            raise NotRead(f"{work.result.file!r} could not be read in {READ_SECONDS:g} s") from None
        return check_json(text, repr(work.result.file))
    if work.result is not None:
        if not last_line:
            raise BadResult("it printed no line that could be its result")
        return json_or_text(last_line)
    return read_written(written, uid) or msgspec.json.encode({"exit_code": code, "signal": None})


def read_written(written: Path, uid: int | None) -> bytes | None:
    """Return what the program wrote to its own file, if anything."""
    if not written.exists():
        return None
    text = read_file(written, uid).strip()
    return check_json(text, "the file of FAIRWAY_RESULT") if text else None


def read_file(place: Path, uid: int | None) -> bytes:
    """Read what a program left.

    If it ran as another user, the file must be that user's: a link to what only we may read is none.
    """
    try:
        fd = os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise BadResult(f"there is no result in {place.name!r}: {error.strerror}") from None
    try:
        facts = os.fstat(fd)
        if not stat.S_ISREG(facts.st_mode) or (uid is not None and facts.st_uid != uid):
            raise BadResult(f"{place.name!r} is not a file that the command wrote")
        with os.fdopen(fd, "rb", closefd=False) as file:
            text = file.read(MOST_RESULT_BYTES + 1)
    finally:
        os.close(fd)
    if len(text) > MOST_RESULT_BYTES:
        raise BadResult(f"the result in {place.name!r} is over {MOST_RESULT_BYTES:,} bytes")
    return text


def check_json(text: bytes, place: str) -> bytes:
    """Return a result that is known to be JSON."""
    try:
        msgspec.json.decode(text)
    except (ValueError, RecursionError) as error:
        raise BadResult(f"{place} is not JSON: {str(error)[:200]}") from None
    return text.strip()


def json_or_text(line: str) -> bytes:
    """Return a line as the JSON it is, or as text."""
    try:
        return check_json(line.encode(), "the last line")
    except BadResult:
        return msgspec.json.encode(line)
