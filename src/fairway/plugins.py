"""What other packages add: found by their entry points when a node starts."""

from __future__ import annotations

import logging
from importlib.metadata import entry_points

from fairway.core.disciplines import DISCIPLINES

log = logging.getLogger(__name__)

DISCIPLINE_GROUP = "fairway.disciplines"


def load_disciplines() -> list[str]:
    """Register every discipline that is installed beside us; return the names of the new ones.

    One that cannot be imported is left out and told of: its queues are served in the default order.
    """
    found = []
    for entry in entry_points(group=DISCIPLINE_GROUP):
        if entry.name in DISCIPLINES:
            continue
        try:
            DISCIPLINES[entry.name] = entry.load()
        except Exception as error:
            log.warning("discipline %r of %s cannot be loaded: %r", entry.name, entry.value, error)
        else:
            found.append(entry.name)
    return found
