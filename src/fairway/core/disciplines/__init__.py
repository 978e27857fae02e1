"""The disciplines a queue may have, by name."""

from __future__ import annotations

from collections.abc import Callable

from fairway.core.discipline import Discipline
from fairway.core.disciplines.deadline import Deadline
from fairway.core.disciplines.fifo import Fifo
from fairway.core.disciplines.priority import Priority
from fairway.core.disciplines.sfq import Sfq
from fairway.core.model import QueueSettings

DEFAULT = Priority.name
DISCIPLINES: dict[str, Callable[[QueueSettings], Discipline]] = {
    Priority.name: Priority,
    Fifo.name: Fifo,
    Sfq.name: Sfq,
    Deadline.name: Deadline,
}


def make_discipline(settings: QueueSettings) -> Discipline:
    """Make the discipline that is set; one that is not known here (any more) is served as the default."""
    return DISCIPLINES.get(settings.discipline or DEFAULT, DISCIPLINES[DEFAULT])(settings)
