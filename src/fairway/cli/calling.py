"""What every command that talks to a node shares: where the node is, who asks, and `--json`.

The options are accepted at every level, `fairway --json jobs list` as well as `fairway jobs list --json`;
the innermost one given wins.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from fairway.client.http import Transport

DEFAULT_URL = "http://127.0.0.1:8899"

#: Refusals that the API tells in its own terms, and what people can do about them here.
TOKEN_PROBLEMS = {"token_required": "the node wants a token", "token_invalid": "the token is not the node's"}
TOKEN_ADVICE = "give it with --token, or set FAIRWAY_TOKEN"

Command = TypeVar("Command", bound=Callable[..., Any])


class Call:
    """How to reach the node and how to answer; filled while the command line is read, one per run."""

    def __init__(self) -> None:
        self.url = os.environ.get("FAIRWAY_URL") or DEFAULT_URL
        self.token = os.environ.get("FAIRWAY_TOKEN") or None
        self.json = False

    def transport(self, patient: bool = False) -> Transport:
        """Return a connection to the node, which the caller closes by leaving the process.

        A *patient* one waits for a node that was there before: for those who follow something.
        """
        from fairway.client.http import Transport  # too slow to load for `--help`
        from fairway.client.repeats import TRIES

        return Transport(self.url, self.token, tries=TRIES if patient else 1, user=_user())


def _user() -> str | None:
    """Return who sits here, for the record of what they change."""
    from getpass import getuser
    from socket import gethostname

    try:
        return f"{getuser()}@{gethostname()}"
    except (OSError, KeyError):  # a number without a name, in a container
        return f"uid {os.getuid()}@{gethostname()}"


def current() -> Call:
    """Return the call of the command that runs."""
    return click.get_current_context().ensure_object(Call)


def talks(command: Command) -> Command:
    """Give a command `--url`, `--token` and `--json`."""
    return _url(_token(answers(command)))


def answers(command: Command) -> Command:
    """Give a command `--json` alone."""
    return _json(command)


def keep(context: click.Context, parameter: click.Parameter, value: Any) -> None:
    """Note an option in the call, unless it was not given here."""
    call = context.ensure_object(Call)
    if value not in (None, False) and parameter.name:
        setattr(call, parameter.name, value)


_url = click.option(
    "--url", metavar="URL", expose_value=False, callback=keep, help="Where a node is.  [FAIRWAY_URL]"
)
_token = click.option(
    "--token", metavar="TOKEN", expose_value=False, callback=keep, help="Who asks.  [FAIRWAY_TOKEN]"
)
_json = click.option(
    "--json", is_flag=True, expose_value=False, callback=keep, help="Answer with one JSON document."
)


def part(text: str) -> str:
    """Write a name as one part of a path, so that no `/`, `?` or `#` in it changes where the call goes."""
    from urllib.parse import quote

    # An empty name, or one of dots, would be folded away by the client and hit the list above it.
    if text.strip(".") == "":
        raise click.UsageError(f"{text!r} is no name")
    return quote(text, safe="")


def path(text: str) -> str:
    """Write a queue's path as part of an address; one that is none is refused as the node would."""
    from fairway.names import check_queue

    return check_queue(text)  # nothing in it needs to be escaped
