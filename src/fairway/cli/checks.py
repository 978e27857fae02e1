"""What `fairway doctor` looks at on this machine; `postgres_checks.py` has what it looks at on a server.

Each check returns one finding: ok, warn (it works, but) or fail (it will not), with what to do.
"""

from __future__ import annotations

import importlib
import os
import shutil
import sys
from pathlib import Path
from typing import Any, NamedTuple

from fairway.errors import FairwayError
from fairway.places import data_directory

SQLITE_FIXED = (3, 51, 3)
FILES_WANTED = 4096
FREE_WANTED_BYTES = 1 << 30
NETWORK_FILE_SYSTEMS = (
    "nfs",
    "cifs",
    "smb",
    "9p",
    "afs",
    "ceph",
    "gluster",
    "lustre",
    "fuse.sshfs",
    "vboxsf",
)


class Finding(NamedTuple):
    """What a check found."""

    status: str
    check: str
    found: str
    advice: str = ""


def check_python(version: tuple[int, ...] = tuple(sys.version_info[:3])) -> Finding:
    """Fairway needs Python 3.11."""
    found = ".".join(map(str, version))
    if version < (3, 11):
        return Finding("fail", "python", found, "install Python 3.11 or newer")
    return Finding("ok", "python", found)


def check_webhooks(secret: str | None = None) -> Finding:
    """Receivers of `notify` know genuine calls by their signature."""
    if secret is None:
        secret = os.environ.get("FAIRWAY_WEBHOOK_SECRET") or ""
    if not secret:
        advice = "to sign calls of `notify`, set FAIRWAY_WEBHOOK_SECRET to the same secret for all nodes"
        return Finding("ok", "webhooks", "not signed: FAIRWAY_WEBHOOK_SECRET is not set here", advice)
    return Finding("ok", "webhooks", "signed")


def check_sqlite(version: str | None = None) -> Finding:
    """SQLite before 3.51.3 can corrupt a file in WAL mode when a checkpoint meets a reset."""
    if version is None:
        try:
            import apsw
        except ImportError as error:
            return Finding("fail", "sqlite", f"apsw is missing: {error}", "pip install 'apsw>=3.54'")
        version = apsw.sqlite_lib_version()
    if tuple(int(part) for part in version.split(".")) < SQLITE_FIXED:
        return Finding("fail", "sqlite", f"{version} can corrupt WAL files", "pip install -U 'apsw>=3.54'")
    return Finding("ok", "sqlite", version)


def check_database(file: Path) -> Finding:
    """Is the file, if it is there, one of ours that can be read?"""
    from fairway.cli.init import look_inside

    if not file.exists():
        return Finding("ok", "database", f"{file} is not there yet; `fairway up` makes it")
    try:
        look_inside(file)
    except FairwayError as error:
        return Finding("fail", "database", str(error), "look at --database, and at the file")
    return Finding("ok", "database", f"{file} is Fairway's, or empty")


def check_file_system(database: Path) -> Finding:
    """WAL needs memory shared by all processes, which no network file system has."""
    place = _existing(database.absolute().parent)
    kind = file_system_of(place)
    if kind.startswith(NETWORK_FILE_SYSTEMS):
        advice = "put the database on a local disk: --database sqlite:///path/file.db"
        return Finding("fail", "file system", f"{place} is on {kind}, a network file system", advice)
    return Finding("ok", "file system", f"{database} on {kind or 'a local disk'}")


def file_system_of(place: Path) -> str:
    """Return the type of the file system *place* is on, "" if the system does not say."""
    psutil: Any = importlib.import_module("psutil")  # it comes without types
    parents = {str(place), *map(str, place.parents)}
    mounts = [part for part in psutil.disk_partitions(all=True) if part.mountpoint in parents]
    return max(mounts, key=lambda part: len(part.mountpoint)).fstype if mounts else ""


def check_space(database: Path) -> Finding:
    """A full disk stops every commit."""
    place = _existing(database.absolute().parent)
    if not os.access(place, os.W_OK):
        advice = f"choose another with --data-dir or $FAIRWAY_HOME (now {data_directory()})"
        return Finding("fail", "disk", f"{place} cannot be written", advice)
    free = shutil.disk_usage(place).free
    found = f"{free / 2**30:.1f} GiB free at {place}"
    return (
        Finding("ok", "disk", found)
        if free >= FREE_WANTED_BYTES
        else Finding("warn", "disk", found, "make room")
    )


def _existing(place: Path) -> Path:
    return next(parent for parent in (place, *place.parents) if parent.exists())


def check_open_files(soft: int | None = None) -> Finding:
    """Every client, worker and running job costs a node a few open files."""
    if soft is None:
        import resource

        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if 0 <= soft < FILES_WANTED:
        advice = f"raise it with `ulimit -n {FILES_WANTED}` before `fairway up`"
        return Finding("warn", "open files", f"at most {soft}", advice)
    return Finding("ok", "open files", "no limit" if soft < 0 else f"at most {soft}")
