"""How long jobs of a task take: a running average, trusted from twenty runs on."""

from __future__ import annotations

ENOUGH = 20
MEMORY = 0.05  # weight of the newest run once there are enough
MOST = 10_000  # tasks remembered; the one seen longest ago is forgotten


class Estimates:
    """Averages by task. An estimate is None until there were enough runs to tell."""

    def __init__(self) -> None:
        self._runs: dict[str, tuple[int, float]] = {}

    def add(self, task: str, seconds: float, count: int = 1) -> None:
        """Learn from runs that took *seconds* altogether."""
        runs, mean = self._runs.get(task, (0, 0.0))
        runs += count
        mean += (seconds / count - mean) * max(count / runs, 1.0 - (1.0 - MEMORY) ** count)
        if self._runs.pop(task, None) is None and len(self._runs) >= MOST:
            self._runs.pop(next(iter(self._runs)))
        self._runs[task] = (runs, mean)

    def find(self, task: str) -> float | None:
        """Return the average run in seconds, if it is known."""
        runs, mean = self._runs.get(task, (0, 0.0))
        return mean if runs >= ENOUGH else None
