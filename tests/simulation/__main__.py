"""Run many worlds: `python -m tests.simulation --seeds 20000 --start 0`."""

from __future__ import annotations

import argparse
import sys
import time

from .mix import mix_of
from .run import check_seed, shrink
from .witness import Violation


def main() -> int:
    """Play seed after seed; shrink and show the first that fails."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--keep-going", action="store_true", help="count failures instead of stopping")
    options = parser.parse_args()
    began, failures = time.monotonic(), 0
    for seed in range(options.start, options.start + options.seeds):
        try:
            check_seed(seed)
        except Violation as violation:
            failures += 1
            if options.keep_going:
                print(str(violation).splitlines()[0], flush=True)
                continue
            smallest = shrink(seed, mix_of(seed))
            print(f"the smallest variant that fails: {smallest}", flush=True)
            try:
                check_seed(seed, smallest)
            except Violation as smaller:
                print(smaller)
            return 1
        done = seed - options.start + 1
        if done % 500 == 0:
            pace = done / (time.monotonic() - began)
            print(f"{done} of {options.seeds} worlds, {pace:.0f} a second, {failures} failed", flush=True)
    print(f"{options.seeds} worlds from seed {options.start}: {failures} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
