"""One step of a submission, told instead of done: whoever has a connection runs it."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, NamedTuple, TypeVar

from fairway.stores.rows import Row

T = TypeVar("T")


class Ask(NamedTuple):
    """Run the statement of this name once and send its rows back. A value may be a list of numbers."""

    name: str
    values: Row


class Put(NamedTuple):
    """Run the statement of this name for each of these rows; send back what they return, if they do."""

    name: str
    rows: Sequence[Row]
    returns: bool = False


Step = Ask | Put
Steps = Generator[Step, Sequence[Any], T]
