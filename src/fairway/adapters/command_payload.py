"""What a command job carries, as the adapter reads it; it was checked when it was submitted."""

from __future__ import annotations

import os
import tempfile

import msgspec

from fairway.times import parse_duration


class Step(msgspec.Struct, frozen=True):
    """One program, with a time limit of its own."""

    argv: list[str]
    timeout: str | float | None = None

    @property
    def seconds(self) -> float | None:
        """How long it may run."""
        return None if self.timeout is None else parse_duration(self.timeout)


class ResultPlace(msgspec.Struct, frozen=True):
    """The file that the program leaves its result in."""

    file: str


class Work(msgspec.Struct, frozen=True):
    """What a command job carries."""

    run: list[list[str] | Step]
    env: dict[str, str] = {}
    secrets: dict[str, str] = {}
    cwd: str | None = None
    stdin: str | None = None
    input: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    exit_codes: dict[str, list[int]] = {}
    result: str | ResultPlace | None = None
    user: str | None = None
    group: str | None = None
    limits: dict[str, int] = {}

    @property
    def steps(self) -> list[Step]:
        """The programs in their order."""
        return [step if isinstance(step, Step) else Step(step) for step in self.run]


class Payload(msgspec.Struct, frozen=True):
    """The job's payload around it."""

    work: Work


def read_work(payload: bytes) -> Work:
    """Read a payload; raises ValueError if it is none of a command."""
    return _read(payload).work


def open_input(work: Work) -> int | None:
    """Return a descriptor that the programs read their input from; None if there is none.

    A file and no pipe: nobody has to feed it, and each step reads it from its beginning.
    """
    if work.stdin is None and work.input is msgspec.UNSET:
        return None
    text = work.stdin.encode() if work.stdin is not None else bytes(work.input or b"") + b"\n"
    with tempfile.TemporaryFile() as file:
        file.write(text)
        file.flush()
        return os.dup(file.fileno())


_read = msgspec.json.Decoder(Payload).decode
