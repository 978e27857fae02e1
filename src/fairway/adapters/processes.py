"""The processes of a command that runs, as a tree of lines for people."""

from __future__ import annotations

import psutil

MOST_PROCESSES = 200
MOST_CHARACTERS = 300


def show_processes(pid: int) -> str | None:
    """Return a process and all below it, each with its state, CPU time and command line; None if it is gone.

    Reads the machine's list of processes, which takes milliseconds: not for the loop's thread.
    """
    try:
        root = psutil.Process(pid)
        below = root.children(recursive=True)
    except psutil.Error:
        return None
    parents = {process.pid: parent_of(process) for process in below}
    lines = []
    for process in [root, *below[:MOST_PROCESSES]]:
        line = show_process(process)
        if line is not None:
            lines.append("  " * depth(process.pid, parents) + line)
    if len(below) > MOST_PROCESSES:
        lines.append(f"and {len(below) - MOST_PROCESSES} processes more")
    return "".join(line + "\n" for line in lines) or None


def show_process(process: psutil.Process) -> str | None:
    """Return one line; None if it has just ended."""
    try:
        with process.oneshot():
            times = process.cpu_times()
            command = " ".join(process.cmdline()) or f"[{process.name()}]"
            seconds = times.user + times.system
            return f"{process.pid} {process.status()} {seconds:.2f} s CPU  {command[:MOST_CHARACTERS]!r}"
    except psutil.Error:
        return None


def parent_of(process: psutil.Process) -> int | None:
    """Return its parent's pid, if it still has one."""
    try:
        return process.ppid()
    except psutil.Error:
        return None


def depth(pid: int, parents: dict[int, int | None]) -> int:
    """Return how far below the root a process is; bounded, as pids may change hands while we look."""
    steps = 0
    found: int | None = pid
    while found in parents and steps < 20:
        found, steps = parents[found], steps + 1
    return steps
