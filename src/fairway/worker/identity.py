"""Who a worker is: its name, and an incarnation that is new at every start.

A small locked file per name tells a worker about its predecessor. The lock is held by the agent and by its
guardian, so whoever gets it knows that the predecessor and all that it started are gone; the leader need not
wait for the lease. A file from another boot may be another machine's: it tells nothing.
"""

from __future__ import annotations

import fcntl
import os
import re
import secrets
from pathlib import Path

import msgspec
import psutil


class Identity(msgspec.Struct, frozen=True):
    """One life of one worker."""

    name: str
    incarnation: str
    predecessor: str | None = None
    lock_fd: int | None = None  # for the guardian to hold


class Trace(msgspec.Struct):
    """What a worker leaves in its file."""

    incarnation: str
    pid: int
    boot: str


def take_identity(name: str, directory: Path | None) -> Identity:
    """Choose an incarnation; find out who had the name before, and leave our own trace."""
    incarnation = secrets.token_hex(8)
    if directory is None:
        return Identity(name, incarnation)
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"worker-{re.sub(r'[^A-Za-z0-9_.-]', '_', name)}.json"
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # a living worker has this name, file and machine
        os.close(fd)
        return Identity(name, incarnation)
    predecessor = find_predecessor(os.pread(fd, 4096, 0))
    trace = msgspec.json.encode(Trace(incarnation, os.getpid(), boot_id()))
    os.ftruncate(fd, 0)
    os.pwrite(fd, trace, 0)
    return Identity(name, incarnation, predecessor, fd)


def find_predecessor(text: bytes) -> str | None:
    """Return the incarnation that left this trace, if it was of this boot."""
    try:
        trace = msgspec.json.decode(text, type=Trace)
    except msgspec.MsgspecError:
        return None
    return trace.incarnation if trace.boot == boot_id() else None


def boot_id() -> str:
    """Return what tells this boot of this machine from others."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return f"{os.uname().nodename}-{int(psutil.boot_time())}"
