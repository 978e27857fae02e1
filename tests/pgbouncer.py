"""PgBouncer in transaction mode before a server of the tests; Debian's package, as production has it.

In this mode every transaction may run on another session: no session state outlives it, LISTEN hears nothing.
"""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.postgres import free_port

PACKAGE = "pgbouncer"


class PgBouncer:
    """One pooler for one database, from `with` to its end."""

    def __init__(self, dsn: str, pool: int = 20) -> None:
        self.target = urlsplit(dsn)
        self.port = free_port()
        self.folder = Path(tempfile.mkdtemp(prefix="fairway-bouncer-"))
        self._pool = pool
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def dsn(self) -> str:
        """Return the address of the same database through the pooler."""
        return f"postgresql://{self.target.username}@127.0.0.1:{self.port}{self.target.path}"

    def __enter__(self) -> PgBouncer:
        settings = self.folder / "pgbouncer.ini"
        settings.write_text(self._settings())
        (self.folder / "users").write_text(f'"{self.target.username}" ""\n')
        self.folder.chmod(0o755)
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [find_pgbouncer(), str(settings)], stdout=log, stderr=subprocess.STDOUT, **_leave_root()
            )
        self._until_it_listens()
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(10)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _settings(self) -> str:
        return f"""
[databases]
* = host=127.0.0.1 port={self.target.port}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {self.port}
unix_socket_dir =
auth_type = trust
auth_file = {self.folder}/users
pool_mode = transaction
default_pool_size = {self._pool}
max_client_conn = 500
"""

    def _until_it_listens(self, seconds: float = 10.0) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                time.sleep(0.02)
        raise AssertionError(f"PgBouncer does not listen:\n{(self.folder / 'log').read_text()[-2000:]}")


def find_pgbouncer() -> str:
    """Return the program; install Debian's package where it is missing and we may."""
    path = os.environ.get("PATH", "") + ":/usr/sbin"
    if (found := shutil.which(PACKAGE, path=path)) is None and os.geteuid() == 0 and shutil.which("apt-get"):
        subprocess.run(
            ["apt-get", "install", "--yes", "--no-install-recommends", PACKAGE],
            check=True,
            capture_output=True,
            timeout=300,
        )
        found = shutil.which(PACKAGE, path=path)
    if found is None:
        raise RuntimeError("PgBouncer is missing: apt-get install pgbouncer")
    return found


def _leave_root() -> dict[str, Any]:
    if os.geteuid() != 0:
        return {}
    user = pwd.getpwnam("nobody")
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
