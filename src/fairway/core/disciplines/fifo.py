"""First in, first out: by place alone, whatever the priority."""

from __future__ import annotations

from fairway.core.disciplines.ordered import Ordered


class Fifo(Ordered):
    """Serves by place."""

    name = "fifo"
