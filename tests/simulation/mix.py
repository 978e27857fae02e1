"""What a seed draws: how large its world is, and which faults it has at which rates.

One fixed mix misses bugs: a world in which everything fails all the time never gets far enough for the
subtle ones. So each seed has a few kinds of fault, each at a rate of its own.

One world of twelve lasts for an hour or two: in it beats, leases and faults are slower, and tenants have long
jobs beside short ones (`tenants.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random

#: Kinds of fault that a seed may have; each with the field it sets and the range of its rate.
KINDS: dict[str, tuple[float, float]] = {
    "reset": (0.01, 0.10),  # a connection breaks, per message
    "lose": (0.01, 0.10),  # a relay loses a message, per message
    "double": (0.02, 0.20),  # a relay doubles a message, per message
    "reorder": (0.05, 0.30),  # a relay lets a message overtake, per message
    "slow": (0.05, 0.30),  # a message takes seconds, per message
    "worker_crash": (0.02, 0.12),  # per second
    "worker_pause": (0.02, 0.10),
    "worker_drain": (0.02, 0.10),
    "leader_crash": (0.01, 0.06),
    "leader_freeze": (0.01, 0.06),
    "coup": (0.01, 0.05),  # another node is elected while the leader lives
    "outage": (0.01, 0.05),  # the store answers nobody for a while
    "commit_fails": (0.002, 0.03),  # per commit
    "answer_lost": (0.002, 0.02),  # per commit: applied, but the leader never hears of it
    "slow_commit": (0.01, 0.10),  # per commit
    "wall_jump": (0.05, 0.60),
    "meddling": (0.05, 0.50),  # people change limits, pause, edit, cancel, retry: per second
    "impatience": (0.05, 0.30),  # a client hears no answer and asks again, per request
}
#: How many of the jobs of a world that has such replace those that have their key.
REPLACING = 0.5
#: How often a second somebody sends a job elsewhere in a world in which people do; so many jobs are pinned.
RELOCATING = 0.4
#: How often a second much comes at once, some of it for a queue that is assured slots, where that happens.
FLOODING = 0.1
#: How many times slower a world is that lasts: its beats come once a minute.
LASTING = 30.0
#: How often in half a beat somebody looks, in a world in which people do.
LOOKING = 1.0
#: How many results wait a little to be told together with others, in a world that lasts.
TOGETHER = 0.6


@dataclass(frozen=True)
class Mix:
    """One world's size and rates. A rate of 0 means that it has no such fault."""

    horizon: float = 30.0  # seconds of trouble, then everything heals
    jobs: int = 40
    workers: int = 3
    rates: tuple[tuple[str, float], ...] = ()
    scale: float = 1.0  # how many times slower its beats, leases and faults are
    stories: int = 0  # of tenants that come alone, or hold slots for long

    def rate(self, kind: str) -> float:
        """Return how often a kind of fault happens in this world."""
        return dict(self.rates).get(kind, 0.0)

    def without(self, kind: str) -> Mix:
        """Return the same world without one kind of fault."""
        return replace(self, rates=tuple(pair for pair in self.rates if pair[0] != kind))


def mix_of(seed: int) -> Mix:
    """Return a seed's world. In a third jobs replace each other, in a third they are sent elsewhere.

    Of the others half have floods, and a quarter last for an hour and more.
    """
    if seed % 12 == 6:
        return draw_lasting(Random(seed))
    mix = draw_mix(Random(seed))
    more = {1: (("replacing", REPLACING),), 2: (("relocating", RELOCATING),)}
    floods = (("flooding", FLOODING),) if seed % 6 == 3 else ()
    return replace(mix, rates=(*mix.rates, *more.get(seed % 3, ()), *floods))


def draw_mix(random: Random) -> Mix:
    """Draw a world: two to eight kinds of fault out of all."""
    kinds = sorted(random.sample(sorted(KINDS), random.randint(2, 8)))
    rates = tuple((kind, random.uniform(*KINDS[kind])) for kind in kinds)
    return Mix(random.uniform(20.0, 40.0), random.randint(20, 50), random.randint(2, 3), rates)


def draw_lasting(random: Random) -> Mix:
    """Draw a world that lasts: few kinds of fault, so that it is calm for a while; in half people look."""
    kinds = sorted(random.sample(sorted(KINDS), random.choice((0, 0, 1, 2, 3))))
    rates = [(kind, random.uniform(*KINDS[kind])) for kind in kinds]
    rates += [("together", TOGETHER)]
    rates += [("looking", LOOKING)] if random.random() < 0.5 else []
    horizon = LASTING * random.uniform(60.0, 120.0)
    return Mix(horizon, random.randint(0, 15), 3, tuple(rates), LASTING, random.randint(1, 2))
