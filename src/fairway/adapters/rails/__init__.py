"""The rails adapter: a Rails environment booted once per child, many jobs through it.

It is the warm adapter with a child of ours, `runner.rb` beside this file.
"""

from __future__ import annotations

from pathlib import Path

from fairway.adapters.warm.adapter import WarmAdapter
from fairway.worker.warden import Warden

RUNNER = Path(__file__).parent / "runner.rb"


def make_rails_adapter(root: str, warden: Warden, slots: int, recycle_jobs: int = 0) -> WarmAdapter:
    """Return an adapter for the Rails application in the folder *root*, run by the `ruby` of that folder."""
    home = str(Path(root).resolve())
    argv = ["ruby", str(RUNNER), home]
    return WarmAdapter("rails", argv, warden, slots, cwd=home, recycle_jobs=recycle_jobs)
