"""Moving a branch: all that waits there goes to another path, and then the branch is gone.

A rename gives the new path the settings of the old one and takes what runs along, in one commit; a delete
with `move_to` leaves the target as it is, and what runs ends where it began. From that commit on the old
branch is closed: nothing begins there, and a job that comes for it is put on its way at once. The jobs that
wait follow page by page, so that nobody else waits for them: each is taken out here and put in there, at its
place, in one commit with its row and its unique key. So a job is in one queue or the other at any time,
whoever dies when.

That a branch is being moved is a setting of its row: a new leader finds it there and goes on. Pages are read
from the store by whoever drives the move (node/mover.py); a job that has left meanwhile is passed over. When
nothing waits or runs there any more, the branch is forgotten.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from fairway.core import asks, blocked
from fairway.core.ahead import start
from fairway.core.events import MoveAsked, MoveOverAsked, PageAsked
from fairway.core.look import QueueLook, WorldLook
from fairway.core.model import Arrival, Moment, QueueSettings
from fairway.core.plan import Move, News, QueueChange, Reply, SaveQueue
from fairway.core.queue import MOST_SEGMENTS, Queue, moved_path
from fairway.core.world import World

#: Of a branch: all their rows are written in the first commit.
MOST_QUEUES = 10_000

Error = tuple[str, str]


def begin_move(world: World, ask: MoveAsked, now: Moment) -> None:
    """Close a branch, and open the way to where its jobs go."""
    source = world.tree.find(ask.path)
    under_way = source.settings.moving if source is not None else None
    if under_way is not None and under_way["to"] == ask.to and under_way["rename"] == ask.rename:
        reply = Reply(ask.ticket, under_way["operation"])  # asked twice: it is the same one
    else:
        reply = _begin(world, source, ask, now)
    world.plan.replies.append(reply)


def _begin(world: World, source: Queue | None, ask: MoveAsked, now: Moment) -> Reply:
    if source is None or source.parent is None:
        return Reply(ask.ticket, error=("not_found", f"there is no queue '{ask.path}'"))
    error = _why_not(world, source, ask)
    if error is not None:
        return Reply(ask.ticket, error=error)
    return _rename(world, source, ask, now) if ask.rename else _close(world, source, ask, now)


def _why_not(world: World, source: Queue, ask: MoveAsked) -> Error | None:
    """Say why a branch cannot go there."""
    if is_below(ask.to, ask.path):
        return "invalid", f"queue '{ask.path}' cannot be moved into itself"
    if ask.rename and world.tree.find(ask.to) is not None:
        return "exists", f"there is a queue '{ask.to}' already; `delete --move-to` brings two together"
    for one in (pair for moving in world.tree.moving.items() for pair in moving):
        if is_below(ask.path, one) or is_below(one, ask.path) or is_below(ask.to, one):
            return "moving", f"queue '{one}' takes part in another move; wait until that is over"
    branch = list(source.subtree())
    if len(branch) > MOST_QUEUES:
        said = f"'{ask.path}' has {len(branch):,} queues; up to {MOST_QUEUES:,} can be moved at once"
        return "too_many", said
    deepest = max(queue.path.count("/") for queue in branch) + ask.to.count("/") - ask.path.count("/")
    if deepest >= MOST_SEGMENTS:
        return "invalid", f"queues below '{ask.to}' would have {deepest + 1} segments, at most 8 are allowed"
    return None


def is_below(path: str, branch: str) -> bool:
    """Say whether a queue is a branch's top, or below it."""
    return path == branch or path.startswith(branch + "/")


# --- rename ----------------------------------------------------------------------------------------------
def _rename(world: World, source: Queue, ask: MoveAsked, now: Moment) -> Reply:
    """Give the new branch the settings of the old one and what runs there, if it can have them."""
    branch = list(source.subtree())
    targets = {queue: world.tree.grow(moved_path(queue.path, ask.path, ask.to)) for queue in branch}
    wanted = {targets[queue]: queue.settings for queue in branch}
    refused = asks.find_refused(wanted | {queue: QueueSettings() for queue in branch})
    if refused is not None:
        for target in reversed(targets.values()):
            world.tree.ungrow(target)
        queue, refusal = refused
        return Reply(ask.ticket, error=("invalid", f"queue '{queue.path}': {refusal.reason}"), field="to")
    for target, settings in wanted.items():
        if settings != QueueSettings():
            asks.change_queue(world, target, settings, now, ask.who)
        else:
            asks.make_known(world, target.path, now)
    reply = _close(world, source, ask, now)
    _take_along(world, targets, now)
    return reply


def _take_along(world: World, targets: dict[Queue, Queue], now: Moment) -> None:
    """Count what runs in the old branch in the new one, in whose rows it is from now on."""
    jobs: dict[str, list[int]] = defaultdict(list)
    for live in world.live.values():
        target = targets.get(live.queue)
        if target is not None:
            if live.ahead:  # as if it had its slot: it waits for a moment at most
                start(world, [live], 0.0, now)
            world.tree.hold(live.queue, -1, -live.size, live.flow)
            world.tree.hold(target, 1, live.size, live.flow)
            live.queue = target
            jobs[target.path].append(live.job)
    world.plan.batch.moves += [Move(some, path) for path, some in jobs.items()]


# --- both ------------------------------------------------------------------------------------------------
def _close(world: World, source: Queue, ask: MoveAsked, now: Moment) -> Reply:
    """Let nothing begin in a branch any more, and write down where its jobs go."""
    moving = {
        "to": ask.to, "operation": ask.operation, "rename": ask.rename, "by": ask.who, "at": now.wall,
        "jobs": left_in(world, source),
    }  # fmt: skip
    for queue in list(source.subtree())[1:]:
        _strip(world, queue, now, ask.who)
    closed = replace(_closed(source.settings), paused=True, moving=moving)
    asks.change_queue(world, source, closed, now, ask.who)
    world.plan.batch.news.append(News("queue.moving", now.wall, queue=ask.path, detail=moving))
    return Reply(ask.ticket, ask.operation)


def _strip(world: World, queue: Queue, now: Moment, who: str) -> None:
    """Take a queue's settings and its row away; what it holds is on its way out."""
    if queue.known:
        if queue.settings != QueueSettings():
            change = QueueChange(queue.path, now.wall, who, asks.stored(queue), None)
            world.plan.batch.changes.append(change)
        world.plan.batch.queues.append(SaveQueue(queue.path, None, now.wall))
        queue.known = False
    world.tree.set(queue, _closed(queue.settings), now.wall)


def _closed(settings: QueueSettings) -> QueueSettings:
    """Return what is left of a queue's settings: its discipline, since a new one would have to be filled."""
    return settings.below(QueueSettings())


def redirected(world: World, arrivals: Sequence[Arrival]) -> Sequence[Arrival]:
    """Return jobs that come as they shall wait: those for a branch that is being moved, where it goes."""
    if not world.tree.moving:
        return arrivals
    sent = [arrival._replace(queue=world.tree.way_of(arrival.queue)) for arrival in arrivals]
    jobs: dict[str, list[int]] = defaultdict(list)
    for before, after in zip(arrivals, sent, strict=True):
        if before.queue != after.queue:
            jobs[after.queue].append(after.job)
    world.plan.batch.moves += [Move(some, path) for path, some in jobs.items()]
    return sent


def move_page(world: World, ask: PageAsked, now: Moment) -> None:
    """Let jobs of a branch wait where it goes. One that is not where the store saw it has left meanwhile."""
    jobs: dict[str, list[int]] = defaultdict(list)
    for arrival in ask.jobs:
        path = world.tree.way_of(arrival.queue)
        if arrival.job in world.blocked:
            if blocked.go_to(world, arrival.job, path):
                jobs[path].append(arrival.job)
        elif path != arrival.queue and world.tree.remove(arrival, now.wall):
            world.advice.forget_job(arrival.job)
            world.tree.put(arrival._replace(queue=path), now.wall)
            jobs[path].append(arrival.job)
    for path, some in jobs.items():
        asks.make_known(world, path, now)
        world.plan.batch.moves.append(Move(some, path))
    world.plan.replies.append(Reply(ask.ticket, sum(map(len, jobs.values()))))


def left_in(world: WorldLook, source: QueueLook) -> int:
    """Count what still waits in a branch, for its turn or for other jobs."""
    held = sum(is_below(one.arrival.queue, source.path) for one in world.blocked.values())
    return source.waiting + held


def end_move(world: World, ask: MoveOverAsked, now: Moment) -> None:
    """Forget a branch that was moved, if nothing is left there; say whether it was."""
    source = world.tree.find(ask.path)
    moving = source.settings.moving if source is not None else None
    over = source is not None and moving is not None and not left_in(world, source) and not source.in_use
    if source is not None and moving is not None and over:
        for queue in reversed(list(source.subtree())):
            if queue is not source:
                _strip(world, queue, now, moving["by"])
                world.tree.prune(queue)
                world.advice.forget_queue(queue)
        asks.forget_queue(world, source, now, moving["by"])
        world.plan.batch.news.append(News("queue.moved", now.wall, queue=ask.path, detail=dict(moving)))
    world.plan.replies.append(Reply(ask.ticket, bool(over)))
