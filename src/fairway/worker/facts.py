"""What a worker knows about its machine: what lasts, and what is said anew with every beat.

Where the machine stands (region, zone, cloud) is found out in surroundings.py, without asking the network.
"""

from __future__ import annotations

import os
import platform
import shutil
import socket
from pathlib import Path
from typing import Any

import psutil

from fairway.worker.surroundings import find_surroundings


def lasting_facts() -> dict[str, Any]:
    """Return what does not change while the worker lives."""
    facts: dict[str, Any] = {
        "hostname": socket.gethostname(),
        "os": f"{platform.system()} {platform.release()}",
        "machine": platform.machine(),
        "python": platform.python_version(),
        "cpus": os.cpu_count() or 1,
        "memory_bytes": psutil.virtual_memory().total,
        "pid": os.getpid(),
    }
    if model := cpu_model():
        facts["cpu"] = model
    return facts | find_surroundings(os.environ)


def passing_facts() -> dict[str, Any]:
    """Return what changes from beat to beat; nothing if the machine will not say: a beat matters more."""
    try:
        return {
            "load": round(os.getloadavg()[0], 2),
            "memory_free_bytes": psutil.virtual_memory().available,
            "disk_free_bytes": shutil.disk_usage(".").free,
        }
    except OSError:  # no descriptors left to open /proc with
        return {}


def cpu_model(cpuinfo: Path = Path("/proc/cpuinfo")) -> str | None:
    """Return what the processor calls itself (Linux; elsewhere what Python knows)."""
    try:
        with cpuinfo.open(errors="replace") as lines:
            for line in lines:
                name, _, value = line.partition(":")
                if name.strip() in ("model name", "Model", "cpu model"):
                    return value.strip()[:200] or None
    except OSError:
        pass
    return platform.processor()[:200] or None
