"""A member of a queue: one of its children, or its own jobs, with its account. Owned by the tree."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway.core.account import Account

if TYPE_CHECKING:
    from fairway.core.queue import Queue


class Member(Account):
    """What competes for the slots of *parent*; the root has none."""

    __slots__ = ("busy", "order", "parent", "priority", "served", "version")

    def __init__(self, parent: Queue | None, order: int) -> None:
        super().__init__()
        self.parent = parent
        self.order = order  # of creation: the last tie-break
        self.priority = 0
        self.served = 0  # the number of its last turn
        self.version = 0  # rises when its standing changes: what was noted about it before is void
        self.busy = False  # holds something, or something below it could begin
