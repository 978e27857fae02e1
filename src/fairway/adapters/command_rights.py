"""As whom a command runs and how much it may use: found out here, done by the guardian before the exec.

Only root can become somebody else. Limits can be lowered by anybody, and raised above the worker's own by
root only.
"""

from __future__ import annotations

import asyncio
import grp
import os
import pwd
import resource
from dataclasses import dataclass, field
from typing import Any

from fairway.adapters.command_payload import Work

LOOK_UP_SECONDS = 10.0
#: A program over its time gets SIGXCPU, and SIGKILL this much later if it does not heed that.
CPU_GRACE_SECONDS = 2
_RESOURCES = {
    "cpu_seconds": "RLIMIT_CPU",
    "memory_bytes": "RLIMIT_AS",
    "files": "RLIMIT_NOFILE",
    "processes": "RLIMIT_NPROC",
}


class NotAllowed(Exception):
    """This worker cannot run the command as it is asked to."""


@dataclass(frozen=True, slots=True)
class Rights:
    """What a command's processes become; None: as the worker is."""

    uid: int | None = None
    gid: int | None = None
    groups: list[int] | None = None
    limits: list[tuple[int, int, int]] = field(default_factory=list)
    env: dict[str, str] = field(default_factory=dict)

    def to_request(self) -> dict[str, Any] | None:
        """Return what the guardian is told."""
        if self.uid is None and self.gid is None and not self.limits:
            return None
        return {"uid": self.uid, "gid": self.gid, "groups": self.groups, "limits": self.limits}


async def find_rights(work: Work, euid: int) -> Rights:
    """Return what the work asks for, at a worker that runs as *euid*.

    Raises NotAllowed, and TimeoutError if nobody says for now who a user is.
    """
    limits = [_limit(name, value, euid) for name, value in work.limits.items()]
    if work.user is None and work.group is None:
        return Rights(limits=limits) if limits else AS_IT_IS
    async with asyncio.timeout(LOOK_UP_SECONDS):  # users may be kept elsewhere in the network
        return await asyncio.to_thread(_look_up, work.user, work.group, euid, limits)


AS_IT_IS = Rights()


def _look_up(user: str | None, group: str | None, euid: int, limits: list[tuple[int, int, int]]) -> Rights:
    entry = None if user is None else _find_user(user)
    gid = _find_group(group) if group is not None else entry.pw_gid if entry else None
    uid = None if entry is None else entry.pw_uid
    if euid != 0:
        if uid in (None, euid) and gid in (None, os.getegid()):
            return Rights(limits=limits)  # it is that already
        asked = f"user {user!r}" if user is not None else f"group {group!r}"
        raise NotAllowed(f"the command is to run as {asked}, for which its worker would have to run as root")
    if entry is None or gid is None:
        return Rights(gid=gid, groups=None if gid is None else [gid], limits=limits)
    groups = os.getgrouplist(entry.pw_name, gid)
    return Rights(uid, gid, groups, limits, _environment(entry))


def _environment(entry: pwd.struct_passwd) -> dict[str, str]:
    """Return the variables that belong to a user."""
    return {"HOME": entry.pw_dir, "USER": entry.pw_name, "LOGNAME": entry.pw_name}


def _find_user(user: str) -> pwd.struct_passwd:
    try:
        return pwd.getpwuid(int(user)) if user.isdecimal() else pwd.getpwnam(user)
    except (KeyError, OverflowError):
        raise NotAllowed(f"there is no user {user[:60]!r} on this worker") from None


def _find_group(group: str) -> int:
    try:
        return (grp.getgrgid(int(group)) if group.isdecimal() else grp.getgrnam(group)).gr_gid
    except (KeyError, OverflowError):
        raise NotAllowed(f"there is no group {group[:60]!r} on this worker") from None


def _limit(name: str, value: int, euid: int) -> tuple[int, int, int]:
    """Return a resource's number, its soft and its hard bound."""
    number = getattr(resource, _RESOURCES.get(name, ""), None)
    if number is None:
        raise NotAllowed(f"this worker's system has no limit {name}")
    hard = value + CPU_GRACE_SECONDS if name == "cpu_seconds" else value
    own = resource.getrlimit(number)[1]
    if euid != 0 and own != resource.RLIM_INFINITY and hard > own:
        raise NotAllowed(f"limit {name} of {value:,} is above the worker's own, {own:,}")
    return number, value, hard
