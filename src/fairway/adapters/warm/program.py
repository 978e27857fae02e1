"""What warm children are started with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from fairway.adapters.warm.lines import PROTOCOL

#: Not stdin and stdout: a stray print of a job must not break the protocol.
READ_FD, WRITE_FD = 3, 4


@dataclass(frozen=True, slots=True)
class Program:
    """What a child is started with."""

    adapter: str
    argv: tuple[str, ...]
    cwd: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)

    def environment(self) -> dict[str, str]:
        """Return what the child learns from its environment."""
        return {
            **self.env,
            "FAIRWAY_ADAPTER": self.adapter,
            "FAIRWAY_PROTOCOL": str(PROTOCOL),
            "FAIRWAY_READ_FD": str(READ_FD),
            "FAIRWAY_WRITE_FD": str(WRITE_FD),
        }
