"""A queue's settings: read, shown, changed, and refused with the reason where they contradict each other."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, NamedTuple

from fairway.core.disciplines import DISCIPLINES
from fairway.core.model import MOST_GRACE, NO_BOUND, QueueSettings
from fairway.core.queue import Queue
from fairway.core.rates import parse_rate

_DEFAULTS: dict[str, Any] = {
    field.name: field.default for field in fields(QueueSettings) if field.name != "hash_key"
}
LEAST_WEIGHT, MOST_WEIGHT = 0.01, 1_000_000
LEAST_RETENTION = 1.0
_CHARGES = ("jobs", "seconds")
_OVERFLOWS = ("reject", "drop_newest", "drop_oldest")
#: Words for "as if nobody had set it", by setting.
_UNSET = {"quantum": "auto", "perturb": 0}


class Refusal(NamedTuple):
    """Why settings cannot be: the field, and a sentence."""

    field: str
    reason: str


def show_settings(settings: QueueSettings) -> dict[str, Any]:
    """Return the settings that are set."""
    return {
        name: value for name, default in _DEFAULTS.items() if (value := getattr(settings, name)) != default
    }


def read_settings(stored: Mapping[str, Any]) -> QueueSettings:
    """Read settings as they were stored; what this version does not know is left alone."""
    return QueueSettings(**{name: value for name, value in stored.items() if name in _DEFAULTS})


def changed(base: QueueSettings, changes: Mapping[str, Any]) -> QueueSettings:
    """Return settings with changes made to them; None, or a default's own name, takes a setting away."""

    def unset(name: str, value: Any) -> bool:
        return value is None or (name in _UNSET and value == _UNSET[name])

    return replace(
        base, **{name: _DEFAULTS[name] if unset(name, value) else value for name, value in changes.items()}
    )


def why_refused(
    queue: Queue, new: QueueSettings, wanted: Mapping[Queue, QueueSettings] | None = None
) -> Refusal | None:
    """Say what is wrong with settings for a queue, as the tree stands; None if nothing is.

    *wanted* are those that others are given in the same breath.
    """
    return _wrong_alone(new) or _wrong_in_tree(queue, new, wanted or {})


def _wrong_alone(new: QueueSettings) -> Refusal | None:
    """Look at settings by themselves."""
    for name in ("limit", "assured"):
        value = getattr(new, name)
        if value is not None and value < 0:
            return Refusal(name, f"{name} cannot be below 0")
    for name in ("burst", "quantum", "depth", "capacity", "divisor", "max_attempts", "max_crashes"):
        value = getattr(new, name)
        if value is not None and value != NO_BOUND and value < 1:
            return Refusal(name, f"{name} is at least 1")
    if not LEAST_WEIGHT <= new.weight <= MOST_WEIGHT:
        return Refusal("weight", f"weight lies between {LEAST_WEIGHT} and {MOST_WEIGHT:,}")
    if new.assured is not None and new.limit is not None and new.assured > new.limit:
        return Refusal("assured", f"assured ({new.assured}) cannot be above the limit ({new.limit})")
    if new.burst is not None and new.rate is None:
        return Refusal("burst", "a burst needs a rate")
    if new.rate is not None:
        try:
            parse_rate(new.rate)
        except ValueError as error:
            return Refusal("rate", str(error))
    return _wrong_discipline(new) or _wrong_for_jobs(new)


def _wrong_for_jobs(new: QueueSettings) -> Refusal | None:
    timeout = None if new.timeout == NO_BOUND else new.timeout
    if timeout is not None and not (math.isfinite(timeout) and timeout > 0):
        return Refusal("timeout", "timeout must be above 0; 'none' is no timeout")
    if new.grace is not None and not 0 <= new.grace <= MOST_GRACE:
        return Refusal("grace", f"grace lies between 0 and {MOST_GRACE:g} seconds")
    if new.retention is not None and not (math.isfinite(new.retention) and new.retention >= LEAST_RETENTION):
        return Refusal("retention", f"retention is {LEAST_RETENTION:g} second or more")
    if new.backoff is not None and not 0 <= new.backoff["first"] <= new.backoff["max"]:
        return Refusal("backoff", "backoff.first must not be above backoff.max")
    return None


def _wrong_discipline(new: QueueSettings) -> Refusal | None:
    if new.discipline is not None and new.discipline not in DISCIPLINES:
        known = ", ".join(sorted(DISCIPLINES))
        return Refusal("discipline", f"there is no discipline {new.discipline[:64]!r}; there are {known}")
    if new.charge not in (None, *_CHARGES):
        return Refusal("charge", f"charge is one of {', '.join(_CHARGES)}")
    if new.overflow not in (None, *_OVERFLOWS):
        return Refusal("overflow", f"overflow is one of {', '.join(_OVERFLOWS)}")
    if new.perturb is not None and not (math.isfinite(new.perturb) and new.perturb >= 1):
        return Refusal("perturb", "perturb is 0 (never) or 1 second and more")
    for flow, weight in (new.flow_weights or {}).items():
        if not LEAST_WEIGHT <= weight <= MOST_WEIGHT:
            bounds = f"between {LEAST_WEIGHT} and {MOST_WEIGHT:,}"
            return Refusal("flow_weights", f"the weight of flow {flow[:64]!r} lies {bounds}")
    return None


def _wrong_in_tree(queue: Queue, new: QueueSettings, wanted: Mapping[Queue, QueueSettings]) -> Refusal | None:
    """Children cannot be assured more than their parent; the root's slots come and go, nobody counts them."""

    def assured(other: Queue) -> int:
        return wanted.get(other, other.settings).assured or 0

    below = sum(map(assured, queue.children.values()))
    if below > (new.assured or 0):
        said = f"assured ({new.assured or 0}) cannot be below what the queues below it are assured ({below})"
        return Refusal("assured", said)
    parent = queue.parent
    if new.assured and parent is not None and parent.parent is not None:
        beside = sum(assured(child) for child in parent.children.values() if child is not queue)
        most = assured(parent)
        if beside + new.assured > most:
            said = f"'{parent.path}' is assured {most}, of which {most - beside} are left"
            return Refusal("assured", f"assured cannot be {new.assured}: {said}")
    return None
