"""Where code is just now, written for people: frames from the task's own first one on, the newest last.

Used inside children. When one cannot answer, because C code holds its interpreter or its loop is blocked,
`faulthandler` writes the stacks without asking Python; `trim_dump` makes those readable.
"""

from __future__ import annotations

import asyncio
import faulthandler
import signal
import sys
import threading
import traceback
from types import CodeType, FrameType
from typing import Any

DUMP_SIGNAL = signal.SIGRTMIN + 6 if hasattr(signal, "SIGRTMIN") else signal.SIGUSR1
MOST_FRAMES = 200
MOST_THREADS = 20
MOST_AWAITED = 20

Line = tuple[FrameType, int]


def dump_on_signal(fd: int) -> None:
    """Write all threads' stacks to a descriptor whenever the agent's signal comes."""
    faulthandler.register(DUMP_SIGNAL, file=fd, all_threads=True, chain=False)


# --- threads ---------------------------------------------------------------------------------------------
def show_threads(main: int, base: CodeType, own_names: str = "fairway-") -> str:
    """Write the main thread's stack above *base*, and those of threads that are not Fairway's."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    frames = sys._current_frames()
    parts = [show_frames(above(frames[main], base))]
    others = [ident for ident in frames if ident != main and not names.get(ident, "").startswith(own_names)]
    for ident in others[:MOST_THREADS]:
        shown = show_frames(above(frames[ident], None))
        parts.append(f"thread {names.get(ident, ident)!r}:\n{shown}")
    if len(others) > MOST_THREADS:
        parts.append(f"and {len(others) - MOST_THREADS} threads more\n")
    return "\n".join(parts)


def above(frame: FrameType | None, base: CodeType | None) -> list[Line]:
    """Return the frames from the one that *base* called on, the newest last; all if it is not there."""
    found: list[Line] = []
    while frame is not None and frame.f_code is not base:
        found.append((frame, frame.f_lineno))
        frame = frame.f_back
    return found[::-1]


def show_frames(lines: list[Line]) -> str:
    """Write frames as a traceback does."""
    cut = lines[-MOST_FRAMES:]
    left_out = f"  ... {len(lines) - len(cut)} frames above these\n" if len(cut) < len(lines) else ""
    return left_out + "".join(traceback.StackSummary.extract(iter(cut), capture_locals=False).format())


# --- tasks on a loop -------------------------------------------------------------------------------------
def show_task(task: asyncio.Task[Any], base: frozenset[CodeType]) -> str:
    """Write the chain of awaits of a task, then of the tasks it waits for; none of the frames of *base*."""
    parts: list[str] = []
    seen: set[int] = set()
    waiting: list[Any] = [task]
    while waiting and len(parts) < MOST_AWAITED:
        found = waiting.pop(0)
        if id(found) in seen:
            continue
        seen.add(id(found))
        if isinstance(found, asyncio.Task):
            heading = "" if found is task else f"which waits for task {found.get_name()!r}:\n"
            lines, last = follow_awaits(found.get_coro(), base)
            parts.append(heading + show_frames(lines) + last)
            found = getattr(found, "_fut_waiter", None)
            waiting.append(found)
        waiting += list(getattr(found, "_children", ()))  # of a gather
    return "\n".join(part for part in parts if part)


def follow_awaits(awaited: Any, base: frozenset[CodeType]) -> tuple[list[Line], str]:
    """Return the frames of a chain of awaits, and a word on what stands at its end."""
    lines: list[Line] = []
    while awaited is not None and len(lines) < MOST_FRAMES:
        for prefix in ("cr", "gi", "ag"):
            if hasattr(awaited, f"{prefix}_frame"):
                frame = getattr(awaited, f"{prefix}_frame")
                if frame is not None and frame.f_code not in base:
                    lines.append((frame, frame.f_lineno))
                name = "gi_yieldfrom" if prefix == "gi" else f"{prefix}_await"
                awaited = getattr(awaited, name)
                break
        else:
            return lines, f"  waits for {str(awaited)[:200]}\n"
    return lines, ""


# --- from outside ----------------------------------------------------------------------------------------
def trim_dump(dump: str) -> str:
    """Leave Fairway's own threads and frames out of faulthandler's text; the newest last, as everywhere."""
    parts = [_trim_thread(part) for part in dump.strip().split("\n\n")]
    return "\n".join(part for part in parts if part)


def _trim_thread(text: str) -> str:
    lines = [line for line in text.splitlines() if not line.startswith("Timeout")]
    heading, frames = lines[0], lines[1:]
    base = next((at for at, frame in enumerate(frames) if "_child.py" in frame and "in _call" in frame), None)
    if base is None and any(OWN in frame for frame in frames):
        return ""
    kept = frames[:base]
    return "\n".join([heading.replace("call first", "call last"), *kept[::-1]]) + "\n"


OWN = "/adapters/python/"
