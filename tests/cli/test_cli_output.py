"""What is written: escaped, aligned, relative."""

from __future__ import annotations

import os
import pty
import subprocess
import sys

import pytest

from fairway.cli import moments
from fairway.cli.output import clean, show_json, show_table

NOON = 1_767_268_800.0  # 2026-01-01T12:00:00Z


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("Zoë 東京 ✓", "Zoë 東京 ✓"),
        ("\x1b[2J\x1b]0;gone\x07", r"\x1b[2J\x1b]0;gone\x07"),
        ("a\nb\tc\r", r"a\nb\tc\r"),
        ("\x9b31m\x7f", r"\x9b31m\x7f"),
        ("user\u202etxt.exe", r"user\u202etxt.exe"),
        ("\ud800", r"\ud800"),
        ("line\u2028end", r"line\u2028end"),
    ],
)
def test_a_terminal_obeys_nothing_that_was_cleaned(text: str, shown: str) -> None:
    assert clean(text) == shown


def test_newlines_stay_where_they_are_wanted() -> None:
    assert clean("a\n\tb\x1b", keep="\n\t") == "a\n\tb\\x1b"


def test_a_table_off_the_terminal_is_plain_and_aligned(capsys: pytest.CaptureFixture[str]) -> None:
    show_table(("queue", "waiting"), [("acme", 3), ("b\x1b[31m", 12), ("c", None)])
    assert capsys.readouterr().out.splitlines() == [
        "queue      waiting",
        "acme             3",
        r"b\x1b[31m       12",
        "c                -",
    ]


def test_an_empty_table_says_so_beside_the_answer(capsys: pytest.CaptureFixture[str]) -> None:
    show_table(("queue",), [], "no queues")
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == ("", "no queues\n")


def test_json_is_one_line_of_ascii_off_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    show_json({"name": "ü\x9b\x7f"})
    assert capsys.readouterr().out == '{"name": "\\u00fc\\u009b\\u007f"}\n'


@pytest.mark.parametrize(
    ("moment", "shown"),
    [
        ("2026-01-01T11:55:00Z", "5 min ago (2026-01-01T11:55:00Z)"),
        ("2026-01-01T12:00:12Z", "in 12 s (2026-01-01T12:00:12Z)"),
        ("2026-01-01T12:00:00.2Z", "just now (2026-01-01T12:00:00.2Z)"),
        ("2025-12-30T12:00:00Z", "2 d ago (2025-12-30T12:00:00Z)"),
        ("2026-01-01T08:30:00Z", "3.5 h ago (2026-01-01T08:30:00Z)"),
        ("rubbish", "rubbish"),
        (None, None),
    ],
)
def test_times_are_relative_with_the_exact_one_in_brackets(moment: str | None, shown: str | None) -> None:
    assert moments.exact(moment, NOON) == shown


def test_a_table_on_a_terminal_takes_no_markup_from_outside() -> None:
    program = "from fairway.cli.output import show_table; show_table(('tag',), [('[red]x[/red] \\x1b[2J',)])"
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "80"}
    subprocess.run([sys.executable, "-c", program], stdout=theirs, env=environment, timeout=30, check=True)
    os.close(theirs)
    shown = os.read(ours, 4096).decode()
    os.close(ours)
    assert "[red]x[/red] \\x1b[2J" in shown
    assert "\x1b[2J" not in shown
    assert "\x1b[1m" in shown  # the heading is bold: this was drawn for a terminal
