"""Programs of Debian packages that tests need: found, or installed where we may."""

from __future__ import annotations

import os
import shutil
import subprocess
from functools import cache

INSTALL_SECONDS = 300


@cache
def find_node() -> str:
    """Return the `node` program."""
    if (found := shutil.which("node")) is None:
        install("nodejs")
        found = shutil.which("node")
    if found is None:
        raise RuntimeError("Node is missing: apt-get install nodejs")
    return found


@cache
def find_rails() -> str:
    """Return a `ruby` that has Rails."""
    if not _has_rails():
        install("ruby-rails")
    if not _has_rails():
        raise RuntimeError("Rails is missing: apt-get install --no-install-recommends ruby-rails")
    return str(shutil.which("ruby"))


def _has_rails() -> bool:
    if (ruby := shutil.which("ruby")) is None:
        return False
    command = [ruby, "-e", 'gem "rails"; gem "activejob"']
    return subprocess.run(command, capture_output=True, timeout=60).returncode == 0


def install(package: str) -> None:
    """Install a package if we are root on a Debian; another test may be installing at the same time."""
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        return
    command = [
        "apt-get",
        "install",
        "--yes",
        "--no-install-recommends",
        "-o",
        "DPkg::Lock::Timeout=200",
        package,
    ]
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    done = subprocess.run(command, capture_output=True, timeout=INSTALL_SECONDS, env=environment)
    if done.returncode != 0:  # the lists may be older than the packages
        subprocess.run(["apt-get", "update"], check=True, capture_output=True, timeout=INSTALL_SECONDS)
        subprocess.run(command, check=True, capture_output=True, timeout=INSTALL_SECONDS, env=environment)
