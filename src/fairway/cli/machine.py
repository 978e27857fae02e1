"""The options of whoever executes, shared by `fairway up` and `fairway worker`."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from typing import Any, TypeVar

import click

from fairway.cli.parsing import duration, lasting, size
from fairway.warm_work import is_warm

Command = TypeVar("Command", bound=Callable[..., Any])

COUNT = click.IntRange(1, 10_000)

OPTIONS = (
    click.option("--name", metavar="NAME", help="Its name.  [made from the host's]"),
    click.option("--slots", type=COUNT, help="How many attempts at once.  [the number of cores]"),
    click.option("--tag", "tags", metavar="TAG", multiple=True, help="What it offers, such as gpu."),
    click.option("--queues", metavar="GLOB,...", multiple=True, help="Whose jobs it takes.  [all]"),
    click.option("--app", "apps", metavar="MODULE:APP", multiple=True, help="A Python app with tasks."),
    click.option(
        "--adapter",
        "adapters",
        metavar="NAME=COMMAND",
        multiple=True,
        help="A program that speaks the warm protocol.",
    ),
    click.option(
        "--rails", type=click.Path(exists=True, file_okay=False), help="A Rails application's folder."
    ),
    click.option(
        "--warm-jobs",
        type=click.IntRange(0),
        default=0,
        show_default=True,
        help="Replace a warm child after so many jobs; 0: never.",
    ),
    click.option(
        "--async-per-slot", type=COUNT, default=100, show_default=True, help="async tasks that share a slot."
    ),
    click.option(
        "--allow-private",
        is_flag=True,
        envvar="FAIRWAY_ALLOW_PRIVATE",
        help="HTTP jobs and `notify` may go to private addresses too.",
    ),
    click.option(
        "--max-jobs-per-child",
        type=click.IntRange(1, 1_000_000_000),
        metavar="N",
        help="A Python child is replaced after so many jobs.",
    ),
    click.option(
        "--max-child-age",
        callback=lasting,
        metavar="DURATION",
        help="A Python child is replaced when so old.",
    ),
    click.option(
        "--max-child-memory",
        callback=size,
        metavar="SIZE",
        help="A Python child is replaced when it has so much memory, such as 512MB.",
    ),
    click.option(
        "--grace", callback=duration, metavar="DURATION", help="How long what runs may go on when it stops."
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


def read_adapters(texts: tuple[str, ...]) -> dict[str, list[str]]:
    """Read `NAME=COMMAND` of warm adapters; the command is split as a shell would, and run without one."""
    adapters: dict[str, list[str]] = {}
    for text in texts:
        name, _, command = text.partition("=")
        try:
            argv = shlex.split(command)
        except ValueError as error:
            raise click.UsageError(f"--adapter {text!r} cannot be taken apart: {error}") from None
        if not argv:
            raise click.UsageError(f"--adapter {text!r} starts nothing; write NAME=COMMAND")
        if not is_warm(name) or name == "rails":
            raise click.UsageError(
                f"--adapter {text!r}: {name!r} cannot be its name; write up to 31 of a-z 0-9 _ -, beginning"
                " with a letter, and none of command, http, python, rails"
            )
        if name in adapters:
            raise click.UsageError(f"--adapter {name} is given twice")
        adapters[name] = argv
    return adapters
