"""What a warm child prints: its stdout and stderr live as long as it does, and belong to the job that runs.

What it prints while no job runs, or several, is nobody's: it goes to the worker's own log.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from fairway.adapters.output import Output

log = logging.getLogger(__name__)


class Speech(Output):
    """Passes a child's output on to that of the job whose code runs."""

    def __init__(self, adapter: str, find: Callable[[], Output | None]) -> None:
        super().__init__(0, 0, lambda pieces: None)
        self._adapter, self._find = adapter, find

    @property
    def full(self) -> bool:
        """Whether the job that runs has written all that is kept."""
        output = self._find()
        return output is not None and output.full

    def take(self, name: str, chunk: bytes) -> None:
        """Keep the tail, which says why a child did not get ready, and that of the job."""
        super().take(name, chunk)
        if output := self._find():
            output.take(name, chunk)

    def pass_on(self, name: str, lines: bytes) -> None:
        """Give whole lines to the job that runs."""
        if output := self._find():
            output.pass_on(name, lines)
        elif lines:
            log.info("%s: %s", self._adapter, lines[:2000].decode(errors="replace").rstrip())
