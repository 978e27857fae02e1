"""`fairway worker`: a worker alone, joined to a node elsewhere."""

from __future__ import annotations

from urllib.parse import urlsplit

import click

from fairway.cli.calling import Call
from fairway.cli.machine import check_apps, executes
from fairway.cli.parsing import split_commas
from fairway.cli.up import announce


@click.command()
@click.option("--join", required=True, metavar="URL", help="A node, such as http://127.0.0.1:8899.")
@executes
@click.pass_context
def worker(
    context: click.Context,
    join: str,
    name: str | None,
    slots: int | None,
    tags: tuple[str, ...],
    queues: tuple[str, ...],
    apps: tuple[str, ...],
    async_per_slot: int,
) -> int:
    """Start a worker that joins a node.

    Ctrl-C lets it finish what runs and hand back the rest; a second Ctrl-C stops at once.
    """
    check_join(join)
    check_apps(apps)
    from fairway.worker.app import WorkerOptions, run_worker

    options = WorkerOptions(
        join=join,
        token=context.ensure_object(Call).token,
        name=name,
        slots=slots,
        tags=tags,
        queues=split_commas(queues),
        apps=apps,
        async_per_slot=async_per_slot,
    )
    return run_worker(options, announce)


def check_join(join: str) -> None:
    """Refuse what is not the address of a node."""
    parts = urlsplit(join)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise click.UsageError(f"--join {join!r} is no address of a node; write http://host:port")
