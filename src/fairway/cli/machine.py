"""The options of whoever executes, shared by `fairway up` and `fairway worker`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])

COUNT = click.IntRange(1, 10_000)

OPTIONS = (
    click.option("--name", metavar="NAME", help="Its name.  [made from the host's]"),
    click.option("--slots", type=COUNT, help="How many attempts at once.  [the number of cores]"),
    click.option("--tag", "tags", metavar="TAG", multiple=True, help="What it offers, such as gpu."),
    click.option("--queues", metavar="GLOB,...", multiple=True, help="Whose jobs it takes.  [all]"),
    click.option("--app", "apps", metavar="MODULE:APP", multiple=True, help="A Python app with tasks."),
    click.option(
        "--async-per-slot", type=COUNT, default=100, show_default=True, help="async tasks that share a slot."
    ),
    click.option(
        "--allow-private",
        is_flag=True,
        envvar="FAIRWAY_ALLOW_PRIVATE",
        help="HTTP jobs may go to private addresses too.",
    ),
)


def executes(command: Command) -> Command:
    """Give a command the options of a worker."""
    for option in reversed(OPTIONS):
        command = option(command)
    return command


def check_apps(apps: tuple[str, ...]) -> None:
    """Refuse an app that is not written as a module and a name in it."""
    for app in apps:
        module, colon, name = app.partition(":")
        if not (module and colon and name):
            raise click.UsageError(f"--app {app!r} names no app; write MODULE:APP, such as shop.jobs:app")
