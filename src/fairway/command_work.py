"""The work of a command: steps, each an argv list, and what they run with.

A step is never one string, since a string would need a shell to take it apart and a shell takes apart more
than one meant. A step that needs a timeout of its own is an object: `{"argv": [...], "timeout": "30s"}`.
"""

from __future__ import annotations

from typing import Any

from fairway.errors import InvalidRequest
from fairway.masking import is_secret_variable
from fairway.work_fields import (
    check_known,
    check_not_masked,
    check_optional_text,
    check_string,
    check_timeout,
    check_variables,
    check_whole,
)

COMMAND_KEYS = (
    "adapter", "run", "env", "secrets", "cwd", "stdin", "input", "exit_codes", "result", "user", "group",
    "limits",
)  # fmt: skip
STEP_KEYS = ("argv", "timeout")
MEANINGS = ("ok", "retry", "permanent")
#: Limits of a program, each with the least and the most it can be.
LIMITS = {
    "cpu_seconds": (1, 10**9),
    "memory_bytes": (16 * 1024 * 1024, 2**62),  # with less, hardly a program starts at all
    "files": (8, 10**9),
    "processes": (1, 10**9),
}
MOST_STEPS = 100
MOST_ARGUMENTS = 10_000
LAST_LINE = "last_line"


def check_command(work: dict[str, Any]) -> None:
    """Refuse a command that could not run."""
    check_known(work, COMMAND_KEYS)
    _check_steps(work.get("run"))
    _check_environment(work)
    check_optional_text(work.get("cwd"), "work.cwd")
    _check_stdin(work)
    _check_exit_codes(work.get("exit_codes"))
    _check_result(work.get("result"))
    for field in ("user", "group"):
        check_optional_text(work.get(field), f"work.{field}")
    _check_limits(work.get("limits"))


def _check_steps(run: object) -> None:
    if not isinstance(run, list) or not 1 <= len(run) <= MOST_STEPS:
        raise InvalidRequest(
            f'work.run must be a list of 1 to {MOST_STEPS} argv lists, such as [["sh", "-c", "make"]]',
            field="work.run",
        )
    for index, step in enumerate(run):
        _check_step(step, f"work.run[{index}]")


def _check_step(step: object, field: str) -> None:
    if isinstance(step, dict):
        check_known(step, STEP_KEYS, field)
        check_timeout(step.get("timeout"), f"{field}.timeout")
        _check_argv(step.get("argv"), f"{field}.argv")
    else:
        _check_argv(step, field)


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
        check_string(argument, field)
    if not argv[0]:
        raise InvalidRequest(f"{field} names no program: its first argument is empty", field=field)


def _check_environment(work: dict[str, Any]) -> None:
    check_variables(work.get("env"), "work.env")
    check_variables(work.get("secrets"), "work.secrets")
    secrets = work.get("secrets") or {}
    for name in work.get("env") or {}:
        if name in secrets:
            raise InvalidRequest(f"{name[:60]!a} is both in work.env and work.secrets", field="work.secrets")
        if is_secret_variable(name):
            check_not_masked(work["env"][name], f"work.env.{name[:60]}")
    for name, value in secrets.items():
        check_not_masked(value, f"work.secrets.{name[:60]}")


def _check_stdin(work: dict[str, Any]) -> None:
    if work.get("stdin") is None:
        return
    if "input" in work:
        raise InvalidRequest(
            "give work.stdin (text) or work.input (JSON), not both: a program has one input",
            field="work.input",
        )
    if not isinstance(work["stdin"], str):
        raise InvalidRequest("work.stdin must be text; JSON for the program goes to work.input",
                             field="work.stdin")  # fmt: skip


def _check_exit_codes(codes: object) -> None:
    if codes is None:
        return
    if not isinstance(codes, dict):
        raise InvalidRequest(
            'work.exit_codes must be an object such as {"retry": [75]}', field="work.exit_codes"
        )
    check_known(codes, MEANINGS, "work.exit_codes")
    meanings: dict[int, str] = {}
    for meaning, listed in codes.items():
        field = f"work.exit_codes.{meaning}"
        if not isinstance(listed, list) or not listed:
            raise InvalidRequest(f"{field} must be a list of exit codes that is not empty", field=field)
        for code in listed:
            if meanings.setdefault(check_whole(code, 0, 255, field), meaning) != meaning:
                raise InvalidRequest(f"exit code {code} has two meanings in work.exit_codes", field=field)
    if meanings.get(0, "ok") != "ok":
        raise InvalidRequest("exit code 0 can only mean ok", field="work.exit_codes")


def _check_result(result: object) -> None:
    if result is None or result == LAST_LINE:
        return
    if not isinstance(result, dict) or set(result) != {"file"}:
        raise InvalidRequest(
            'work.result must be "last_line" or {"file": "path of what the program writes"}',
            field="work.result",
        )
    check_optional_text(result["file"] or "", "work.result.file")


def _check_limits(limits: object) -> None:
    if limits is None:
        return
    if not isinstance(limits, dict):
        raise InvalidRequest('work.limits must be an object such as {"cpu_seconds": 60}', field="work.limits")
    check_known(limits, tuple(LIMITS), "work.limits")
    for name, value in limits.items():
        check_whole(value, *LIMITS[name], f"work.limits.{name}")
