"""Writing for people and for programs.

Whatever a server says may hold a terminal's control sequences, so every text of its goes through `clean`
before it is shown. Tables are drawn by rich on a terminal and are plain aligned columns elsewhere; rich is
imported only when a table is really drawn there, because it costs more than the rest of a command.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import click

#: What a state looks like on a terminal.
COLOURS = {
    "succeeded": "green",
    "running": "cyan",
    "queued": "yellow",
    "scheduled": "blue",
    "failed": "red",
    "unknown": "magenta",
    "cancelled": "bright_black",
    "up": "green",
    "draining": "yellow",
    "silent": "red",
    "ok": "green",
    "warn": "yellow",
    "fail": "red",
}

# Control characters; what turns or hides text; halves of surrogate pairs; line ends that are no newline.
_obeyed = re.compile(
    "[\x00-\x1f\x7f-\x9f\u00ad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)


def clean(text: object, keep: str = "") -> str:
    """Return *text* with everything a terminal might obey written out, but for characters in *keep*."""

    def written_out(match: re.Match[str]) -> str:
        return match[0] if match[0] in keep else ascii(match[0])[1:-1]

    return _obeyed.sub(written_out, str(text))


def count_of(number: int, noun: str) -> str:
    """Write a number of things: `1 job`, `2 jobs`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def say(text: str = "") -> None:
    """Write a line for people, on stdout; the caller has cleaned what came from outside."""
    click.echo(text)


def remark(text: str) -> None:
    """Write a line beside the answer, on stderr."""
    click.echo(text, err=True)


def show_json(document: Any) -> None:
    """Write one JSON document: indented on a terminal, one line elsewhere, ASCII in both."""
    # ASCII, because JSON's own escapes leave DEL and the C1 controls as they are.
    text = json.dumps(document, indent=2 if sys.stdout.isatty() else None, ensure_ascii=True)
    click.echo(text.replace("\x7f", "\\u007f"))


def show_table(
    headings: Sequence[str],
    rows: Iterable[Sequence[object]],
    empty: str = "nothing",
    *,
    gives_way: Sequence[str] = (),
    folded: str = "",
) -> None:
    """Write rows under headings; numbers stand to the right. Says *empty* when there is no row.

    In a narrow window the columns that *gives_way* names are shortened, the first one first; the *folded*
    one takes several lines instead. All others stay whole.
    """
    cells = [["-" if cell is None or cell == "" else clean(cell) for cell in row] for row in rows]
    if not cells:
        remark(empty)
    elif sys.stdout.isatty():
        _draw(headings, cells, gives_way, folded)
    else:
        _align(headings, cells)


def _align(headings: Sequence[str], cells: list[list[str]]) -> None:
    widths = [max(len(line[at]) for line in [list(headings), *cells]) for at in range(len(headings))]
    right = [_is_number_column(cells, at) for at in range(len(headings))]
    for line in [list(headings), *cells]:
        padded = [
            cell.rjust(width) if flush else cell.ljust(width)
            for cell, width, flush in zip(line, widths, right, strict=True)
        ]
        click.echo("  ".join(padded).rstrip())


def _draw(headings: Sequence[str], cells: list[list[str]], gives_way: Sequence[str], folded: str) -> None:
    from rich.console import Console

    from fairway.cli.drawing import draw, fit

    columns = fit(headings, cells, gives_way, Console().width)
    numbers = [heading for at, heading in enumerate(headings) if _is_number_column(cells, at)]
    draw(columns, COLOURS, numbers, folded)
    shown = {column.heading for column in columns}
    hidden = [
        heading
        for at, heading in enumerate(headings)
        if heading not in shown and any(line[at] != "-" for line in cells)
    ]
    if hidden:
        remark(f"the window is too narrow for: {', '.join(hidden)}")


def _is_number_column(cells: list[list[str]], at: int) -> bool:
    column = [line[at] for line in cells if line[at] != "-"]
    return bool(column) and all(re.fullmatch(r"\d+(\.\d+)?", cell) for cell in column)


def show_facts(facts: Iterable[tuple[str, object]]) -> None:
    """Write `name  value` lines, aligned; facts without a value are left out."""
    known = [(name, clean(value)) for name, value in facts if value is not None and value != ""]
    width = max((len(name) for name, _ in known), default=0)
    for name, value in known:
        click.echo(f"{click.style(name.ljust(width), dim=True)}  {_coloured(value)}")


def _coloured(value: str) -> str:
    colour = COLOURS.get(value)
    return click.style(value, fg=colour) if colour else value


def ask(question: str) -> bool:
    """Ask a yes-or-no question on stderr; no answer at all is the caller's mistake."""
    click.echo(f"{question} [y/N] ", err=True, nl=False)
    answer = sys.stdin.readline()
    if not answer:
        remark("")
        raise click.UsageError("there is nobody to answer; add --yes to go on without asking")
    return answer.strip().lower() in {"y", "yes"}
