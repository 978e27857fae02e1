"""The disciplines a queue may have, by name."""

from __future__ import annotations

from collections.abc import Callable

from fairway.core.discipline import Discipline
from fairway.core.disciplines.fifo import Fifo
from fairway.core.disciplines.priority import Priority

DEFAULT = Priority.name
DISCIPLINES: dict[str, Callable[[], Discipline]] = {Priority.name: Priority, Fifo.name: Fifo}
