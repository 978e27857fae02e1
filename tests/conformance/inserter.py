"""A process of its own that inserts jobs into the file: `python inserter.py FILE FIRST COUNT LIBRARY`.

It uses the library a user would, each job in a transaction of its own, and prints what it was answered.
"""

from __future__ import annotations

import sqlite3
import sys

import apsw

from fairway.store import Submission
from fairway.stores.sqlite.inserting import insert_submission
from tests.conformance.stage import NOW, new_job


def main(file: str, first: int, count: int, library: str) -> None:
    if library == "sqlite3":
        ours = sqlite3.connect(file, timeout=30, isolation_level=None)
        execute = ours.execute
    else:
        other = apsw.Connection(file)
        other.set_busy_timeout(30_000)
        execute = other.execute  # type: ignore[assignment]
    for number in range(first, first + count):
        execute("BEGIN IMMEDIATE")
        accepted = insert_submission(execute, Submission([new_job(number, unique=f"k{number % 50}")]), NOW)
        execute("COMMIT")
        print(*accepted.ids, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
