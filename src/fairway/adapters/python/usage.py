"""What an attempt used, as far as that can be told from a process in which nothing else runs meanwhile.

CPU is that of the process and of those it waited for. The peak of memory is set back after each attempt that
was measured; where the system cannot do that, a peak counts only if it is higher than all before it.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from resource import RUSAGE_CHILDREN, RUSAGE_SELF, getrusage

from fairway.wire.messages import Note

_unit = 1 if sys.platform == "darwin" else 1024


class Meter:
    """Measures one attempt after the other."""

    def __init__(self) -> None:
        self._cpu = 0.0
        self._peak = 0  # that an earlier attempt may have reached
        self._set_back()

    def start(self) -> None:
        """An attempt begins."""
        self._cpu = cpu_seconds()

    def stop(self, job: int, attempt: int) -> Note:
        """Say what it used."""
        cpu, peak = cpu_seconds() - self._cpu, peak_bytes()
        memory = peak if peak > self._peak else None
        self._set_back()
        return Note(job, attempt, cpu_seconds=round(cpu, 6), memory_bytes=memory)

    def _set_back(self) -> None:
        self._peak = peak_bytes()
        with suppress(OSError):
            clear_peak()
            self._peak = 0


def clear_peak() -> None:
    """Let the peak of memory start again from what there is now; raises OSError where that cannot be done."""
    fd = os.open("/proc/self/clear_refs", os.O_WRONLY)
    try:
        os.write(fd, b"5")
    finally:
        os.close(fd)


def cpu_seconds() -> float:
    """Return what this process and those it waited for have used so far."""
    own, others = getrusage(RUSAGE_SELF), getrusage(RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + others.ru_utime + others.ru_stime


def peak_bytes() -> int:
    """Return the most memory this process has had since that was set back."""
    return getrusage(RUSAGE_SELF).ru_maxrss * _unit
