"""Errors of what is advisory: counted by part, each place in the code kept once for whoever logs.

Bounded: with so many places noted, what fails elsewhere is only counted.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import PurePath

MOST_PLACES = 50
MOST_TEXT = 200  # characters of an error's message


class Part(StrEnum):
    """What the leader tells people and decides nothing by."""

    FORECAST = "forecast"  # when a job will start
    POSITION = "position"  # how many stand before it, and the order of a branch
    EXPLANATION = "explanation"  # why it waits
    NUMBERS = "numbers"  # of queues, flows and tenants
    DEMAND = "demand"  # slots wanted


@dataclass(slots=True)
class Mishap:
    """An error of one part at one place, as it was first seen, and how often it came."""

    part: Part
    place: str
    error: str
    count: int = 0


class Mishaps:
    """All errors of what is advisory in one term. Owned by the world's advice."""

    def __init__(self) -> None:
        self.counts = dict.fromkeys(Part, 0)
        self._seen: dict[tuple[Part, str], Mishap] = {}
        self._untold: list[Mishap] = []

    def note(self, part: Part, error: Exception) -> None:
        """Count an error; one from a place that is new is to be told."""
        self.counts[part] += 1
        place = place_of(error)
        mishap = self._seen.get((part, place))
        if mishap is None:
            if len(self._seen) >= MOST_PLACES:
                return
            mishap = self._seen[part, place] = Mishap(part, place, text_of(error))
            self._untold.append(mishap)
        mishap.count += 1

    def all(self) -> list[Mishap]:
        """Return the places at which something failed, the most frequent first."""
        return sorted(self._seen.values(), key=lambda mishap: -mishap.count)

    def take_untold(self) -> list[Mishap]:
        """Return what is new since this was last asked, for the log."""
        untold, self._untold = self._untold, []
        return untold


def place_of(error: BaseException) -> str:
    """Return file and line at which an error was raised, the file from its package on."""
    trace = error.__traceback__
    if trace is None:
        return "an unknown place"
    while trace.tb_next is not None:
        trace = trace.tb_next
    parts = PurePath(trace.tb_frame.f_code.co_filename).parts
    since = len(parts) - 1 - parts[::-1].index("fairway") if "fairway" in parts else -2
    return f"{'/'.join(parts[since:])}:{trace.tb_lineno}"


def text_of(error: BaseException) -> str:
    """Return an error in one short line; its own words may fail as well."""
    name = type(error).__name__
    try:  # some characters no store takes
        said = " ".join(str(error).replace("\0", " ").encode(errors="replace").decode().split())
    except Exception:
        said = ""
    return f"{name}: {said}"[:MOST_TEXT] if said else name
