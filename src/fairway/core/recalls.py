"""Running work is moved: its worker is asked to hand it back, and it waits where, and for whom, it shall.

What becomes of the job is written down when somebody asks, not when it comes back: its new place, the workers
it is pinned to or kept from, and which attempt is recalled. So a leader that takes over in between asks
again, and however the attempt ends, the job waits as was wanted. It costs no try. An attempt that ends by
itself before it is stopped has ended; a cancel wins. At-most-once code is never recalled: once stopped it
could not begin again.
"""

from __future__ import annotations

from dataclasses import replace

from fairway.core.asks import MOVED
from fairway.core.events import RecallAsked
from fairway.core.lifecycle import State
from fairway.core.matching import bounds_of, may_run_on
from fairway.core.model import Extras, Moment
from fairway.core.plan import Kill, News, Recall, Reply
from fairway.core.queue import front_of
from fairway.core.world import Live, World

STOPPED = "stopped"  # how the worker shall end it: it is not over, but handed back


def recall(world: World, ask: RecallAsked, now: Moment) -> None:
    """Take a running attempt back from its worker, if it may not stay there or shall wait at the end."""
    live = world.live.get(ask.new.job)
    if live is None or live.attempt != ask.attempt:
        error: tuple[str, str] | None = MOVED
    else:
        error = _why_not(live)
    if live is not None and error is None:
        _recall(world, live, ask, now)
    world.plan.replies.append(Reply(ask.ticket, None if error else "recalled", error=error))


def _why_not(live: Live) -> tuple[str, str] | None:
    if live.cancelling:
        return "cancelling", "the job is being cancelled"
    if live.shape.once:
        return "at_most_once", "an at-most-once job that is stopped cannot begin again; cancel it, or wait"
    return None


def _recall(world: World, live: Live, ask: RecallAsked, now: Moment) -> None:
    live.shape = ask.new.shape
    if ask.to_end:
        live.place, live.recalled = now.wall, True
    elif not may_run_on(live.shape, live.worker.spec.name):
        live.place, live.recalled = min(live.place, front_of(live.queue, now.wall)), True
    live.extras = replace(ask.new.extras or Extras(), recall=live.attempt if live.recalled else 0)
    world.plan.batch.recalls.append(Recall(live.job, live.attempt, live.incarnation, live.place, live.extras))
    if live.recalled:
        world.plan.kills.append(Kill(live.incarnation, live.job, live.attempt, False, STOPPED))
    kind = "job.recalled" if live.recalled else "job.edited"
    world.plan.batch.news.append(
        News(
            kind, now.wall, (live.job,), live.queue.path, State.RUNNING, live.attempt, live.worker.spec.name,
            live.shape.task, {"to_end": True} if ask.to_end else bounds_of(live.shape),
        )
    )  # fmt: skip
