"""Names and short texts from outside, each with its grammar and a message that says what to do.

Names repeat from job to job, so the answers of the checks are remembered.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from fairway.errors import InvalidRequest

QUEUE_PATTERN = r"^[A-Za-z0-9_.-]{1,64}(/[A-Za-z0-9_.-]{1,64}){0,7}$"
TASK_PATTERN = r"^[A-Za-z_][A-Za-z0-9_]*(([.:-]|::)[A-Za-z0-9_]+)*$"
QUEUE_GLOB_PATTERN = r"^[A-Za-z0-9_.*?-]+(/[A-Za-z0-9_.*?-]+){0,7}$"
WORKER_PATTERN = r"^[A-Za-z0-9_][A-Za-z0-9_.@-]{0,127}$"
MOST_TEXT = 200
MOST_STARS = 8
MOST_TAGS = 32
MOST_GLOB = 600
MOST_TOKEN = 512

_segment = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_glob_segment = re.compile(r"[A-Za-z0-9_.*?-]+")
_task = re.compile(TASK_PATTERN[1:-1], re.ASCII)
_worker = re.compile(WORKER_PATTERN[1:-1], re.ASCII)
_token = re.compile(rf"[\x21-\x7e]{{1,{MOST_TOKEN}}}")
_reserved = frozenset({".", "..", "-"})


@lru_cache(maxsize=8192)
def check_queue(path: str, field: str = "queue") -> str:
    """Return the path if it is one: 1 to 8 segments, none of them `.`, `..` or `-`."""
    segments = path.split("/")
    if len(segments) > 8:
        raise InvalidRequest(f"{field} has {len(segments)} segments; at most 8 are allowed", field=field)
    for segment in segments:
        if not _segment.fullmatch(segment) or segment in _reserved:
            raise InvalidRequest(
                f"{field} {shown(path)} is not a queue path: write 1 to 8 segments of ASCII letters, digits,"
                " '_', '.' or '-' (at most 64 each, none of them '.', '..' or '-'), joined by '/'",
                field=field,
            )
    return path


@lru_cache(maxsize=8192)
def check_task(name: str, field: str = "task") -> str:
    """Return the name if it can be a task's: words joined by dots, such as `mail.send`."""
    if len(name) > MOST_TEXT or not _task.fullmatch(name):
        raise InvalidRequest(
            f"{field} {shown(name)} is not a task name: write words joined by dots, such as 'mail.send',"
            f" at most {MOST_TEXT} characters",
            field=field,
        )
    return name


@lru_cache(maxsize=1024)
def check_worker(name: str, field: str = "name") -> str:
    """Return the name if it can be a worker's."""
    return _check_name(name, field, "a worker name")


@lru_cache(maxsize=1024)
def check_adapter(name: str, field: str = "adapter") -> str:
    """Return the name if it can be an adapter's."""
    return _check_name(name, field, "an adapter's name")


def check_workers(names: Sequence[str], field: str, most: int = MOST_TAGS) -> tuple[str, ...]:
    """Return names of workers, each once."""
    if len(names) > most:
        raise InvalidRequest(f"{field} has {len(names)} entries; at most {most} are allowed", field=field)
    return tuple(dict.fromkeys(check_worker(name, f"{field}[{at}]") for at, name in enumerate(names)))


@lru_cache(maxsize=1024)
def check_schedule(name: str, field: str = "name") -> str:
    """Return the name if it can be a schedule's: the same grammar as a worker's."""
    return _check_name(name, field, "a schedule's name")


def _check_name(name: str, field: str, what: str) -> str:
    if not _worker.fullmatch(name):
        raise InvalidRequest(
            f"{field} {shown(name)} is not {what}: write ASCII letters, digits, '_', '.', '@' or '-',"
            " at most 128 characters, the first of them a letter, a digit or '_'",
            field=field,
        )
    return name


@lru_cache(maxsize=8192)
def check_text(text: str, field: str, most: int = MOST_TEXT) -> str:
    """Return a short text as it is: not empty, not too long, no NUL, no lone surrogate."""
    if not text:
        raise InvalidRequest(f"{field} is empty; leave it out or give it a value", field=field)
    if len(text) > most:
        raise InvalidRequest(f"{field} has {len(text)} characters; at most {most} are allowed", field=field)
    check_characters(text, field)
    return text


def check_characters(text: str, field: str) -> None:
    """Refuse what no database and no terminal takes: NUL and lone surrogates."""
    if "\0" in text:
        raise InvalidRequest(f"{field} has a NUL character", field=field)
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise InvalidRequest(f"{field} has a lone surrogate, which is not text", field=field) from None


def check_token(token: str | None) -> str | None:
    """Return a token if it can travel in a header; it is a secret, so that no message shows it."""
    if token is not None and not _token.fullmatch(token):
        raise InvalidRequest(
            "the token (FAIRWAY_TOKEN, unless another was given) must be printable ASCII without spaces, "
            f"at most {MOST_TOKEN} characters",
            field="token",
        )
    return token


def check_globs(globs: Sequence[str], field: str, most: int = MOST_TAGS) -> tuple[str, ...]:
    """Return globs, each of bounded length and with a bounded number of stars."""
    if len(globs) > most:
        raise InvalidRequest(f"{field} has {len(globs)} entries; at most {most} are allowed", field=field)
    for index, glob in enumerate(globs):
        check_glob(glob, f"{field}[{index}]")
    return tuple(globs)


@lru_cache(maxsize=8192)
def check_glob(glob: str, field: str) -> str:
    """Return one glob."""
    check_text(glob, field, MOST_GLOB)
    if glob.count("*") > MOST_STARS:
        raise InvalidRequest(f"{field} has more than {MOST_STARS} stars", field=field)
    return glob


def check_queue_globs(globs: Sequence[str], field: str) -> tuple[str, ...]:
    """Return globs of queue paths, each of which some queue could match."""
    check_globs(globs, field)
    for index, glob in enumerate(globs):
        segments = glob.split("/")
        if len(segments) > 8 or not all(map(_may_match, segments)):
            raise InvalidRequest(
                f"{field}[{index}] {shown(glob)} can match no queue: write a path, in which '*' stands for"
                " anything and '?' for one character, such as 'acme/*'. Nothing can be excluded: to take one"
                " queue away from a worker that serves all, name those that it shall keep",
                field=f"{field}[{index}]",
            )
    return tuple(globs)


def _may_match(segment: str) -> bool:
    """Say whether a part of a glob between slashes can match some of a path."""
    if "*" in segment or "?" in segment:
        return bool(_glob_segment.fullmatch(segment))
    return bool(_segment.fullmatch(segment)) and segment not in _reserved


def shown(text: str) -> str:
    """Show a text as it was typed, but for what would not be seen."""
    return repr(text if len(text) <= 60 else text[:60] + "…")
