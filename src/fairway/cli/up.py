"""`fairway up`: a node and a worker on this machine, until Ctrl-C."""

from __future__ import annotations

from pathlib import Path

import click

from fairway.cli.machine import check_apps, executes, read_adapters
from fairway.cli.output import clean, say
from fairway.cli.parsing import database_address, split_commas

DEFAULT_LISTEN = "127.0.0.1:8899"


@click.command()
@click.option(
    "--database", callback=database_address, metavar="URL", help="sqlite:///path/file.db or postgresql://..."
)
@click.option("--listen", default=DEFAULT_LISTEN, show_default=True, metavar="HOST:PORT", help="0: any port.")
@executes
@click.option("--no-worker", is_flag=True, help="The node alone.")
@click.option("--no-lead", is_flag=True, help="Never stand for election.")
@click.option("--advertise", metavar="URL", help="Where others reach it.  [the address it listens on]")
@click.option(
    "--scheduler",
    "schedulers",
    multiple=True,
    metavar="NAME",
    help="Which of the database's schedulers; again for more of them.  [fairway]",
)
@click.option("--data-dir", type=click.Path(path_type=Path, file_okay=False), help="Where files go.")
def up(
    database: str | None,
    listen: str,
    name: str | None,
    slots: int | None,
    tags: tuple[str, ...],
    queues: tuple[str, ...],
    apps: tuple[str, ...],
    adapters: tuple[str, ...],
    rails: str | None,
    warm_jobs: int,
    async_per_slot: int,
    allow_private: bool,
    max_jobs_per_child: int | None,
    max_child_age: float | None,
    max_child_memory: int | None,
    grace: float | None,
    no_worker: bool,
    no_lead: bool,
    advertise: str | None,
    schedulers: tuple[str, ...],
    data_dir: Path | None,
) -> int:
    """Start a node and a worker on this machine; Ctrl-C stops both.

    What runs then may finish within the grace (3 s if not given) and is handed back after it, at no cost; a
    second Ctrl-C hands back at once.

    Nothing else needs to run. Jobs are kept in one SQLite file, `fairway.db` in the data directory
    (--data-dir, else $FAIRWAY_HOME, else ~/.local/share/fairway) unless --database or
    $FAIRWAY_DATABASE names another file or a PostgreSQL database, and survive a restart.

    Nodes on the same database are a cluster: one leads, any other takes over. To listen on an address
    that others reach, set FAIRWAY_TOKEN to the same secret for all nodes, workers and clients.

    Schedulers with names of their own are strangers to each other: a schema each in PostgreSQL, a file each
    otherwise. Several --scheduler are hosted side by side, each with a worker, at http://HOST:PORT/NAME.
    """
    check_listen(listen)
    check_apps(apps)
    from fairway.node.options import GRACE_SECONDS, NodeOptions
    from fairway.node.program import run_node
    from fairway.node.schedulers import check_names

    options = NodeOptions(
        database=database,
        listen=listen,
        name=name,
        slots=slots,
        tags=tags,
        queues=split_commas(queues),
        apps=apps,
        worker=not no_worker,
        lead=not no_lead,
        advertise=advertise,
        adapters=read_adapters(adapters),
        rails=rails,
        warm_jobs=warm_jobs,
        async_per_slot=async_per_slot,
        allow_private=allow_private,
        max_jobs_per_child=max_jobs_per_child,
        max_child_age=max_child_age,
        max_child_memory=max_child_memory,
        data_dir=data_dir,
        grace_seconds=GRACE_SECONDS if grace is None else grace,
    )
    options.check()
    check_names(schedulers)
    return run_node(options, announce, schedulers)


def announce(line: str) -> None:
    """Show a line of the node's at once, also through a pipe."""
    say(clean(line, keep="\n\t"))


def check_listen(listen: str) -> None:
    """Refuse an address that cannot be one."""
    host, _, port = listen.rpartition(":")
    if not (host and port.isascii() and port.isdigit() and int(port) < 65_536):
        raise click.UsageError(f"--listen {listen!r} is no address; write HOST:PORT, as {DEFAULT_LISTEN}")
