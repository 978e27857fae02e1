"""Replay jobs of many users through the core, and judge who had what: `make bench-fairness`.

    python -m bench.fairness [--kinds tail,crowd] [--seeds 3] [--ways tree,jobs,seconds]
    python -m bench.fairness LOG.swf ... [--slots 64] [--jobs 20000] [--expand]

Without a file worlds of every kind are drawn. `--against DIR` replays the same beside it with the core of
another checkout, and shows both and their ratio. A bad share is a result, not an error: the exit code is 2
for a file that is no log, and 1 if the other checkout's core could not be run.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import fairway
from bench.fairness import swf
from bench.fairness.judge import judge, total
from bench.fairness.other import Other, OtherFailed
from bench.fairness.replay import FLOWS, replay
from bench.fairness.table import Row, table
from bench.fairness.work import Load
from bench.fairness.worlds import KINDS, draw

WAYS = ("tree", *FLOWS)
DRAWN, OF_A_LOG = 8_000, 20_000  # jobs


def main() -> int:
    """Replay what was asked for; return the exit code."""
    asked = parse()
    try:
        logs = _read(asked)
    except swf.NotSwf as error:
        print(error, file=sys.stderr)
        return 2
    other = Other(asked.against, sys.argv[1:]) if asked.against else None
    try:
        rows = list(_replay(asked, logs))
        others = other.rows() if other is not None else []
    except OtherFailed as error:
        print(error, file=sys.stderr)
        return 1
    finally:
        if other is not None:
            other.close()
    if asked.json:
        found = {"code": str(Path(fairway.__file__).parent), "rows": [row.as_json() for row in rows]}
        print(json.dumps(found | ({"others": [row.as_json() for row in others]} if others else {}), indent=1))
    else:
        print(table(rows, others))
    return 0


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="bench.fairness", description="Replay jobs and judge their shares.")
    parser.add_argument("logs", nargs="*", type=Path, metavar="LOG.swf", help="logs, packed by gzip or not")
    parser.add_argument("--kinds", type=_some(KINDS), default=list(KINDS), help=f"some of {','.join(KINDS)}")
    parser.add_argument("--seeds", type=_positive, default=3, help="worlds of each kind (3)")
    parser.add_argument("--ways", type=_some(WAYS), default=list(WAYS), help=f"some of {','.join(WAYS)}")
    parser.add_argument("--jobs", type=_positive, help=f"jobs of a log ({OF_A_LOG}) or a world ({DRAWN})")
    parser.add_argument("--slots", type=_positive, help="slots for a log (such that its work fills them)")
    parser.add_argument("--expand", action="store_true", help="a job of a log is an attempt per processor")
    parser.add_argument("--against", type=Path, metavar="DIR", help="compare with the core of that checkout")
    parser.add_argument("--json", action="store_true", help="print the numbers as JSON")
    parser.add_argument("--quiet", action="store_true", help="show no progress")
    return parser.parse_args()


def _read(asked: argparse.Namespace) -> list[Load]:
    loads = []
    for path in asked.logs:
        load, skipped = swf.read(path, asked.jobs or OF_A_LOG, asked.slots, asked.expand)
        loads.append(load)
        if skipped and not asked.quiet:
            left_out = ", ".join(f"{count} {why}" for why, count in skipped.items())
            print(f"{load.name}: left out {left_out}", file=sys.stderr)
    return loads


def _replay(asked: argparse.Namespace, logs: list[Load]) -> Iterator[Row]:
    """Yield a row for each log, or for each kind of world over all its seeds, and each way."""
    worlds = [[log] for log in logs] or [
        [draw(kind, seed, asked.jobs or DRAWN) for seed in range(1, asked.seeds + 1)] for kind in asked.kinds
    ]
    count, done = len(asked.ways) * sum(map(len, worlds)), 0
    for loads in worlds:
        for way in asked.ways:
            verdicts = []
            for load in loads:
                verdicts.append(judge(load, replay(load, way)))
                done += 1
                if not asked.quiet:
                    print(f"{done} of {count}: {load.name}, {way}", file=sys.stderr, flush=True)
            first, jobs = loads[0], sum(len(load.jobs) for load in loads)
            yield Row(first.group, way, first.users, jobs, first.slots, total(verdicts))


def _some(known: Iterable[str]) -> Callable[[str], list[str]]:
    """Return what reads a list of words, each of which must be known."""
    words = list(known)

    def read(text: str) -> list[str]:
        found = text.split(",")
        if unknown := [word for word in found if word not in words]:
            raise argparse.ArgumentTypeError(f"no such: {', '.join(unknown)}; there are {', '.join(words)}")
        return found

    return read


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be 1 or more")
    return number


if __name__ == "__main__":
    sys.exit(main())
