"""What the worker's tests share: a reporter that remembers, and ways to wait and to look at processes."""

from __future__ import annotations

import asyncio
import os
import resource
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest

from fairway.adapters.python import sync_link
from fairway.wire.messages import Assignment, LogPiece, Note, Result
from fairway.worker import shelf

PATIENCE_SECONDS = 60.0  # a child may have to boot Rails first, on a slow machine
Key = tuple[int, int]


def wait_behind_others(patch: pytest.MonkeyPatch, seconds: float = PATIENCE_SECONDS) -> None:
    """Let attempts that wait behind others be handed back after so long: not when a busy machine is slow."""
    patch.setattr(shelf, "PATIENCE_SECONDS", seconds)
    patch.setattr(sync_link, "PATIENCE_SECONDS", seconds)
    patch.setattr(sync_link, "SLOW_NANOSECONDS", seconds * 1e9 / 2)


class Recorder:
    """A reporter that keeps everything."""

    def __init__(self) -> None:
        self.results: dict[Key, Result] = {}
        self.order: list[int] = []
        self.returned: list[Key] = []
        self.behind: list[Key] = []
        self.pieces: list[LogPiece] = []
        self.notes: list[Note] = []
        self._news = asyncio.Event()

    def finished(self, results: Sequence[Result]) -> None:
        """Keep results; an attempt must not end twice."""
        for result in results:
            assert result[:2] not in self.results and result[:2] not in self.returned
            self.results[result[:2]] = result
            self.order.append(result.job)
        self._news.set()

    def handed_back(self, attempts: Sequence[Key]) -> None:
        """Keep what was given back."""
        assert not set(attempts) & set(self.results)
        self.returned += attempts
        self._news.set()

    def began(self, attempts: Sequence[Key]) -> None:
        """Keep what stood behind others and has its turn."""
        self.behind += attempts
        self._news.set()

    def wrote(self, pieces: Sequence[LogPiece]) -> None:
        """Keep output."""
        self.pieces += pieces
        self._news.set()

    def noted(self, notes: Sequence[Note]) -> None:
        """Keep what attempts said of themselves."""
        self.notes += notes
        self._news.set()

    async def until(self, fact: Callable[[], Any]) -> None:
        """Wait until *fact* holds, looking after every report."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not fact():
                self._news.clear()
                await self._news.wait()

    async def until_ended(self, count: int) -> None:
        """Wait until so many attempts ended or came back."""
        await self.until(lambda: len(self.results) + len(self.returned) >= count)

    def result(self, job: int) -> Result:
        """Return the result of a job's first attempt."""
        return self.results[(job, 1)]

    def value(self, job: int) -> Any:
        """Return the value of a job that went well, or the error of one that did not."""
        return msgspec.json.decode(self.result(job).body)

    def text(self, stream: str) -> str:
        """Return all that was written to a stream."""
        return "".join(piece.text for piece in self.pieces if piece.stream == stream)


@contextmanager
def few_descriptors(spare: int) -> Iterator[None]:
    """Let this process open only so many more descriptors."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(open_descriptors()) + 1 + spare, hard))
    taken: list[int] = []
    try:
        with suppress(OSError):
            while True:
                taken.append(os.open(os.devnull, os.O_RDONLY))
        for _ in range(spare):
            os.close(taken.pop())
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for fd in taken:
            os.close(fd)


def open_descriptors() -> set[int]:
    """Return the descriptors this process has open."""
    return {fd for fd in (int(path.name) for path in Path("/dev/fd").iterdir()) if is_open(fd)}


def is_open(fd: int) -> bool:
    """Whether this is an open descriptor; the listing's own is not any more."""
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def call(job: int, task: str, *args: Any, timeout: float | None = None, bundle: int = 0) -> Assignment:
    """Return an assignment that calls a task."""
    payload = msgspec.json.encode({"args": args, "kwargs": {}})
    return Assignment(job, 1, "python", task, payload, timeout, "acme/mail", bundle)


def command(job: int, *steps: list[str], timeout: float | None = None, **work: Any) -> Assignment:
    """Return an assignment that runs commands."""
    payload = msgspec.json.encode({"work": {"adapter": "command", "run": steps, **work}})
    return Assignment(job, 1, "command", "", payload, timeout, "acme/mail")


def request(job: int, url: str, **work: Any) -> Assignment:
    """Return an assignment that sends an HTTP request."""
    payload = msgspec.json.encode({"work": {"adapter": "http", "url": url, **work}})
    return Assignment(job, 1, "http", "", payload, None, "acme/mail")


async def eventually(fact: Callable[[], Any], seconds: float = PATIENCE_SECONDS) -> None:
    """Wait until something outside our events is so."""
    async with asyncio.timeout(seconds):
        while not fact():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


def is_gone(pid: int) -> bool:
    """Whether a process runs no more."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
