"""Priority: higher first, first come first served among equals. The default."""

from __future__ import annotations

from fairway.core.disciplines.ordered import Ordered


class Priority(Ordered):
    """Serves the highest priority first, and by place among equals."""

    name = "priority"
    by_priority = True
