"""`fairway`: finds the command, runs it, and says what went wrong in one or two lines.

Commands are loaded when they are called, so that `fairway --help` need not import them. A command may
return its exit code: 0 it worked, 1 it failed, 2 it was called wrong; Ctrl-C is 130.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from types import TracebackType
from typing import Any

import click

from fairway import __version__
from fairway.cli.calling import TOKEN_ADVICE, TOKEN_PROBLEMS, talks
from fairway.cli.output import clean, remark
from fairway.errors import CallerError, FairwayError, InvalidRequest

#: Every command: where it is and what its line in `fairway --help` says.
COMMANDS = {
    "up": ("fairway.cli.up:up", "Start a node and a worker on this machine."),
    "worker": ("fairway.cli.worker:worker", "Start a worker that joins a node."),
    "submit": ("fairway.cli.submit:submit", "Hand in a job."),
    "jobs": ("fairway.cli.jobs:jobs", "List, show, wait for, cancel and retry jobs."),
    "queues": ("fairway.cli.queues:queues", "List queues; set limits, pause, resume."),
    "operations": (
        "fairway.cli.operations:operations",
        "Show and abort what is being done to many jobs at once.",
    ),
    "workers": ("fairway.cli.workers:workers", "List workers; drain and resume them."),
    "schedules": ("fairway.cli.schedules:schedules", "Apply, list, pause, run and delete schedules."),
    "failures": ("fairway.cli.failures:failures", "List failures by cause; mute and delete them."),
    "demand": ("fairway.cli.demand:demand", "Say which slots are wanted, for autoscalers."),
    "events": ("fairway.cli.events:events", "Watch what happens, live."),
    "cluster": ("fairway.cli.cluster:cluster", "Say who leads and which nodes there are."),
    "doctor": ("fairway.cli.doctor:doctor", "Check this machine and the node, and say what to do."),
    "init": ("fairway.cli.init:init", "Create a database file."),
}


class Context(click.Context):
    """Tells an error of click's parser (`submit --task` without a value) to which command it belongs."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        if isinstance(error, click.UsageError) and error.ctx is None:
            error.ctx = self
        return super().__exit__(kind, error, trace)


class Program(click.Group):
    """The outermost group: loads commands by name, turns errors into lines and exit codes."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, name = COMMANDS[cmd_name][0].split(":")
        command: click.Command = getattr(importlib.import_module(module), name)
        for one in (command, *getattr(command, "commands", {}).values()):
            one.context_class = Context
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Run, and leave the process with the exit code."""
        kwargs["standalone_mode"] = False
        try:
            check_surroundings(kwargs.get("args") or (args[0] if args else None) or sys.argv[1:])
            code = super().main(*args, **kwargs)
        except BaseException as error:
            code = report(error)
        sys.exit(code if isinstance(code, int) else 0)


def check_surroundings(arguments: Sequence[str]) -> None:
    """Refuse what no command can do anything with, before any of them has to know about it."""
    # The first file or socket that is opened would become stdout, and get what jobs and apps print.
    if sys.stdout is None:
        raise click.UsageError("stdout is closed; send it to /dev/null if nobody shall read it")
    for number, argument in enumerate(arguments, start=1):
        try:
            argument.encode()
        except UnicodeEncodeError:  # not shown: it may be a token
            raise click.UsageError(f"argument {number} has bytes that are not UTF-8") from None


def report(error: BaseException) -> int:
    """Say what happened on stderr and return the exit code that fits."""
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else 1
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        error.show()
        return 2
    if isinstance(error, click.Abort | KeyboardInterrupt):
        return 130
    for line in describe(error):
        remark(clean(line))
    return 2 if isinstance(error, click.UsageError | InvalidRequest) else 1


def describe(error: BaseException) -> list[str]:
    """Return the lines that tell a person what happened, to what, and what to do."""
    if isinstance(error, click.UsageError):
        where = error.ctx.command_path if error.ctx else "fairway"
        return [f"{where}: {error.format_message()}", f"  try: {where} --help"]
    if isinstance(error, click.ClickException):
        return [f"fairway: {error.format_message()}"]
    if isinstance(error, CallerError) and error.code in TOKEN_PROBLEMS:
        return [f"fairway: {TOKEN_PROBLEMS[error.code]}; {TOKEN_ADVICE}"]
    if isinstance(error, CallerError):
        field = f" (field {error.field})" if error.field and error.field not in str(error) else ""
        return f"fairway: {error}{field}".split("\n")
    if isinstance(error, FairwayError):
        return f"fairway: {error}".rstrip().split("\n")  # a traceback has many lines
    if isinstance(error, OSError):
        return [f"fairway: {error}"]
    if os.environ.get("FAIRWAY_DEBUG"):
        raise error
    return [
        f"fairway: a bug in fairway: {type(error).__name__}: {error}",
        "  run it again with FAIRWAY_DEBUG=1 to see where, and report that",
    ]


@click.group(cls=Program, context_settings={"help_option_names": ["-h", "--help"]}, no_args_is_help=True)
@click.version_option(__version__, prog_name="fairway", message="%(prog)s %(version)s")
@talks
def main() -> None:
    """Fairway: a durable, fair job scheduler.

    Start with `fairway up`, then in another shell `fairway submit --wait -- echo hello`.
    """
