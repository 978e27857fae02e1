"""`fairway worker`: a worker alone, joined to a node elsewhere."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import click

from fairway.cli.machine import check_apps, executes, read_adapters
from fairway.cli.output import clean, count_of, say
from fairway.cli.parsing import split_commas
from fairway.errors import InvalidRequest
from fairway.places import data_directory, node_address


@click.command()
@click.option("--join", required=True, multiple=True, metavar="URL", help="A node; again for more of them.")
@executes
@click.option("--data-dir", type=click.Path(path_type=Path, file_okay=False), help="Where files go.")
def worker(
    join: tuple[str, ...],
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
    data_dir: Path | None,
) -> int:
    """Start a worker that joins a node.

    SIGTERM or Ctrl-C lets what runs finish within the grace (6 s if not given) and hands back the rest at no
    cost; a second one hands back at once.
    """
    for url in join:
        check_join(url)
    check_apps(apps)
    from fairway.journal import write_to_stderr
    from fairway.worker.app import WorkerOptions, run_worker

    chosen: dict[str, Any] = {"name": name, "slots": slots, "queues": list(split_commas(queues)) or None}
    chosen["grace_seconds"] = grace
    options = WorkerOptions(
        join=list(join),
        tags=list(tags),
        apps=list(apps),
        adapters=read_adapters(adapters),
        rails=rails,
        warm_jobs=warm_jobs,
        async_per_slot=async_per_slot,
        allow_private=allow_private,
        max_jobs_per_child=max_jobs_per_child,
        max_child_age=max_child_age,
        max_child_memory=max_child_memory,
        data_dir=data_directory(data_dir),
        **{key: value for key, value in chosen.items() if value is not None},
    )
    slots_shown = count_of(options.slots, "slot")
    say(clean(f"worker {options.name}, {slots_shown}, joins {', '.join(join)}; Ctrl-C stops it"))
    write_to_stderr()
    code = asyncio.run(run_worker(options))
    if code == 0:
        say(clean(f"worker {options.name} stopped; what it had not finished is the node's again"))
    return code


def check_join(url: str) -> None:
    """Refuse what is not the address of a node."""
    try:
        node_address(url)
    except InvalidRequest as error:
        raise click.UsageError(f"--join {error}") from None
