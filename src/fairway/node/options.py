"""What a node is started with."""

from __future__ import annotations

import os
import re
import secrets
import socket
from dataclasses import dataclass, field, replace
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

from fairway.addresses import private_allowed
from fairway.core.model import Timers
from fairway.errors import InvalidRequest
from fairway.names import check_token
from fairway.places import check_scheduler, data_directory, database_given, scheduler_file, sqlite_file

#: In which running jobs may finish when the node stops; a person waits for it.
GRACE_SECONDS = 3.0
_name = re.compile(r"[A-Za-z0-9_.-]{1,64}")


@dataclass(slots=True)
class NodeOptions:
    """How a node runs. Everything has a default; nonsense is refused at start."""

    database: str | None = None
    listen: str = "127.0.0.1:8899"
    name: str | None = None
    slots: int | None = None
    tags: tuple[str, ...] = ()
    queues: tuple[str, ...] = ()
    apps: tuple[str, ...] = ()
    adapters: dict[str, list[str]] = field(default_factory=dict)  # warm ones: what to start, by name
    rails: str | None = None
    warm_jobs: int = 0
    worker: bool = True
    async_per_slot: int = 100
    # What is called on others' behalf, for HTTP jobs and `notify`, may be in networks that are not public.
    allow_private: bool = field(default_factory=private_allowed)
    max_jobs_per_child: int | None = None
    max_child_age: float | None = None  # seconds
    max_child_memory: int | None = None  # bytes
    lead: bool = True
    advertise: str | None = None
    token: str | None = field(default_factory=lambda: os.environ.get("FAIRWAY_TOKEN") or None, repr=False)
    scheduler: str | None = None
    data_dir: Path | None = None
    webhook_secret: str | None = field(
        default_factory=lambda: os.environ.get("FAIRWAY_WEBHOOK_SECRET") or None, repr=False
    )
    grace_seconds: float = GRACE_SECONDS  # in which running jobs may finish when the node stops
    leader_ttl: float = field(default_factory=lambda: 5.0 * time_scale())
    timers: Timers = field(default_factory=lambda: scaled_timers(time_scale()))

    def check(self) -> None:
        """Refuse what cannot work."""
        if self.timers.lease <= 2 * self.timers.beat:
            raise InvalidRequest(
                f"a lease of {self.timers.lease:g} s must be longer than two beats of {self.timers.beat:g} s"
            )
        if self.name is not None and not _name.fullmatch(self.name):
            raise InvalidRequest(f"node name {self.name!r} must be 1–64 of A–Z a–z 0–9 _ . -", field="name")
        if self.slots is not None and not 1 <= self.slots <= 10_000:
            raise InvalidRequest("slots must be 1 to 10,000", field="slots")
        if not 1 <= self.async_per_slot <= 1_000_000:
            raise InvalidRequest("async_per_slot must be 1 to 1,000,000", field="async_per_slot")
        for name in ("max_jobs_per_child", "max_child_age", "max_child_memory"):
            if (bound := getattr(self, name)) is not None and bound <= 0:
                raise InvalidRequest(f"{name} must be above 0", field=name)
        if self.scheduler is not None:
            check_scheduler(self.scheduler)
        database_given(self.database)
        check_token(self.token)
        self.check_address()
        self.check_advertised()

    def home(self) -> Path:
        """Return the data directory."""
        return data_directory(self.data_dir)

    def worker_home(self) -> Path:
        """Return where a scheduler's own worker leaves its trace: the same name may serve several."""
        return self.home() / self.scheduler if self.scheduler else self.home()

    def database_address(self) -> str:
        """Return the address as given, "" for the default file."""
        return database_given(self.database) or ""

    def database_path(self) -> Path:
        """Return the SQLite file; each scheduler has its own, beside that of the default one."""
        address = self.database_address()
        return scheduler_file(sqlite_file(address) if address else self.home() / "fairway.db", self.scheduler)

    def check_address(self) -> None:
        """Others are let in only with a token."""
        host, colon, port = self.listen.rpartition(":")
        host = host.strip("[]") or "127.0.0.1"
        if not colon or not (port.isascii() and port.isdigit()) or int(port) > 65535:
            raise InvalidRequest(f"listen {self.listen!r} is not of the form HOST:PORT", field="listen")
        if not _is_own(host) and self.token is None:
            raise InvalidRequest(
                f"listening on {host} would open the scheduler to others, which needs a token: "
                "set FAIRWAY_TOKEN, the same for all nodes, workers and clients, or listen on 127.0.0.1",
                field="listen",
            )

    def check_advertised(self) -> None:
        """Other nodes and workers must be able to use it as it is."""
        if self.advertise is not None and not _is_plain_url(self.advertise):
            raise InvalidRequest(
                f"advertise {self.advertise[:200]!r} is not of the form http://host:port", field="advertise"
            )

    def advertised(self, host: str, port: int) -> str:
        """Return where others reach this node, which listens on *host* and *port*."""
        if self.advertise:
            return self.advertise.rstrip("/")
        if host in ("0.0.0.0", "::"):  # every address of this machine: its name is the best we know
            host = socket.gethostname()
        return url_of(host, port)

    def node_name(self) -> str:
        """Return the given name or one made from the host's."""
        if self.name:
            return self.name
        host = re.sub(r"[^A-Za-z0-9_.-]", "-", socket.gethostname().split(".")[0]) or "node"
        return f"{host[:48]}-{secrets.token_hex(2)}"


def url_of(host: str, port: int) -> str:
    """Return the URL of an address."""
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _is_plain_url(url: str) -> bool:
    """Say whether *url* is http(s)://host[:port] and nothing more."""
    try:
        parts = urlsplit(url)
        bare = parts.port != 0 and parts.path in ("", "/") and not (parts.query or parts.fragment)
    except ValueError:
        return False
    return bare and parts.scheme in ("http", "https") and bool(parts.hostname) and "@" not in parts.netloc


def _is_own(host: str) -> bool:
    """Say whether only this machine reaches *host*; a name such as 127.example.org may be anybody's."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def time_scale() -> float:
    """Return the factor for all timers together: `FAIRWAY_TIME_SCALE`, for tests; 1 if not set."""
    text = os.environ.get("FAIRWAY_TIME_SCALE", "1")
    try:
        scale = float(text)
    except ValueError:
        scale = 0.0
    if not 0.01 <= scale <= 100:
        raise InvalidRequest(f"FAIRWAY_TIME_SCALE {text!r} must be a number from 0.01 to 100")
    return scale


def scaled_timers(scale: float) -> Timers:
    """Return the usual timers, all longer or shorter by one factor."""
    usual = Timers()
    return replace(
        usual, beat=usual.beat * scale, lease=usual.lease * scale, kill_lease=usual.kill_lease * scale
    )
