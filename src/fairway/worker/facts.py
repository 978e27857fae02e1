"""What a worker knows about its machine, cheap enough to be said with every beat."""

from __future__ import annotations

import os
import platform
import socket
from typing import Any

import psutil


def lasting_facts() -> dict[str, Any]:
    """Return what does not change while the worker lives."""
    return {
        "hostname": socket.gethostname(),
        "os": f"{platform.system()} {platform.release()}",
        "machine": platform.machine(),
        "python": platform.python_version(),
        "cpus": os.cpu_count() or 1,
        "memory_bytes": psutil.virtual_memory().total,
        "pid": os.getpid(),
    }


def passing_facts() -> dict[str, Any]:
    """Return what changes from beat to beat; nothing if the machine will not say: a beat matters more."""
    try:
        return {
            "load": round(os.getloadavg()[0], 2),
            "memory_free_bytes": psutil.virtual_memory().available,
        }
    except OSError:  # no descriptors left to open /proc with
        return {}
