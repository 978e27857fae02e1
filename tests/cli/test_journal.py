"""The log of a node: one event, one line, with its facts."""

from __future__ import annotations

import logging

import pytest

from fairway.errors import InvalidRequest
from fairway.journal import Lines
from fairway.places import sqlite_file


def check(line: str, message: str, **facts: object) -> None:
    record = logging.makeLogRecord({"name": "fairway.node", "levelname": "INFO", "msg": message, **facts})
    assert Lines().format(record).partition("Z ")[2] == line


def test_a_line_names_its_facts() -> None:
    check("info fairway.node leading term=7 node=n1", "leading", term=7, node="n1")
    check('info fairway.node lost why="no answer, \\"x\\""', "lost", why='no answer, "x"')


def test_nothing_in_a_line_gives_orders_to_a_terminal() -> None:
    check("info fairway.node a\\x0ab\\x1b[2J", "a\nb\x1b[2J")
    check('info fairway.node x why="\\u001b[2J\\n"', "x", why="\x1b[2J\n")


def test_a_trace_follows_its_line() -> None:
    try:
        raise ValueError("why")
    except ValueError as error:
        record = logging.makeLogRecord(
            {"msg": "failed", "exc_info": (type(error), error, error.__traceback__)}
        )
    first, *rest = Lines().format(record).splitlines()
    assert first.endswith("failed") and rest[-1] == "ValueError: why"


@pytest.mark.parametrize(
    "address",
    ["postgresql:/x/jobs", "postgres//foo", "host=127.0.0.1 dbname=jobs password=s3cret", "dbname = x"],
)
def test_no_file_is_made_of_a_slip_in_an_address(address: str) -> None:
    with pytest.raises(InvalidRequest, match="seems to mean PostgreSQL") as raised:
        sqlite_file(address)
    assert "s3cret" not in str(raised.value)


def test_files_may_have_any_other_name() -> None:
    assert str(sqlite_file("./postgres/x.db")) == "postgres/x.db"
    assert str(sqlite_file("sqlite:///dir/a=b.db")) == "dir/a=b.db"
