"""What a job without a task carries: `work`, told apart by its adapter and checked deeply.

Only `command` exists so far. A command is a list of steps, each an argv list: never one string, since a
string would need a shell to take it apart and a shell takes apart more than one meant.
"""

from __future__ import annotations

from typing import Any

from fairway.errors import InvalidRequest
from fairway.names import check_characters

COMMAND_KEYS = ("adapter", "run", "env", "cwd")
MOST_STEPS = 100
MOST_ARGUMENTS = 10_000
MOST_VARIABLES = 1000


def check_work(work: dict[str, Any] | None) -> str:
    """Return the adapter's name if the work is such as it can run."""
    work = work or {}
    adapter = work.get("adapter")
    if adapter != "command":
        raise InvalidRequest("work.adapter must be 'command'", field="work.adapter")
    for key in work:
        if key not in COMMAND_KEYS:
            known = ", ".join(COMMAND_KEYS)
            raise InvalidRequest(f"work has no field {key[:60]!a}; known are {known}", field="work")
    _check_steps(work.get("run"))
    _check_env(work.get("env"))
    _check_cwd(work.get("cwd"))
    return "command"


def _check_steps(run: object) -> None:
    if not isinstance(run, list) or not 1 <= len(run) <= MOST_STEPS:
        raise InvalidRequest(
            f'work.run must be a list of 1 to {MOST_STEPS} argv lists, such as [["sh", "-c", "make"]]',
            field="work.run",
        )
    for index, argv in enumerate(run):
        _check_argv(argv, f"work.run[{index}]")


def _check_argv(argv: object, field: str) -> None:
    if isinstance(argv, str):
        raise InvalidRequest(
            f'{field} is one string; write it as a list of arguments, such as ["ls", "-l"],'
            ' or as ["sh", "-c", "..."] if a shell is meant',
            field=field,
        )
    if not isinstance(argv, list) or not 1 <= len(argv) <= MOST_ARGUMENTS:
        raise InvalidRequest(f"{field} must be a list of arguments that is not empty", field=field)
    for argument in argv:
        _check_string(argument, field)
    if not argv[0]:
        raise InvalidRequest(f"{field} names no program: its first argument is empty", field=field)


def _check_env(env: object) -> None:
    if env is None:
        return
    if not isinstance(env, dict) or len(env) > MOST_VARIABLES:
        raise InvalidRequest(
            f"work.env must be an object of at most {MOST_VARIABLES} strings", field="work.env"
        )
    for name, value in env.items():
        if not isinstance(name, str) or not name or "=" in name:
            raise InvalidRequest(f"work.env has a bad variable name {name!a:.60}", field="work.env")
        _check_string(name, "work.env")
        _check_string(value, "work.env")


def _check_cwd(cwd: object) -> None:
    if cwd is None:
        return
    if not cwd:
        raise InvalidRequest("work.cwd is empty; leave it out or name a directory", field="work.cwd")
    _check_string(cwd, "work.cwd")


def _check_string(value: object, field: str) -> None:
    if not isinstance(value, str):
        raise InvalidRequest(
            f"{field} has a {type(value).__name__} where a string is due; quote it", field=field
        )
    check_characters(value, field)
