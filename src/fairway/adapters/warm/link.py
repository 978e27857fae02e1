"""A link to one warm child: the attempts it has, from their begin to what became of them.

Its duties:

1. Send attempts, one at a time in each lane; the next one as soon as the result of the last has come.
2. Take in what the child says of them.
3. Stop attempts: ask with `cancel`; at half the grace SIGTERM, at its end SIGKILL for the whole group.
4. When the child has ended, charge what ran and give back what did not.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Sequence
from typing import Protocol

import msgspec

from fairway.adapters.output import Output
from fairway.adapters.python.judge import describe
from fairway.adapters.warm import lines
from fairway.adapters.warm.child import Child
from fairway.adapters.warm.judge import judge, judge_end
from fairway.adapters.warm.notes import pass_on
from fairway.adapters.warm.program import Program
from fairway.adapters.warm.turn import Key, Lane, Turn
from fairway.wire.messages import Assignment, LogPiece, Note, Result
from fairway.worker.warden import Ended, NotSpawned, Warden

GRACE_SECONDS = 2.0
#: How long the jobs behind one of the same bundle wait for it.
PATIENCE_SECONDS = 0.1


class Owner(Protocol):
    """Whom a link reports to: the adapter."""

    def finished(self, result: Result) -> None:
        """An attempt ended."""

    def give_back(self, keys: Sequence[Key]) -> None:
        """These will not run here."""

    def wrote(self, pieces: Sequence[LogPiece]) -> None:
        """An attempt wrote output."""

    def noted(self, notes: Sequence[Note]) -> None:
        """An attempt said how far it is."""

    def has_room(self, link: Link) -> None:
        """This child can take one more."""

    def unlink(self, link: Link) -> None:
        """This child is gone."""


class Link(Child):
    """A child and its attempts."""

    def __init__(self, warden: Warden, program: Program, owner: Owner) -> None:
        self.owner = owner
        self.lanes: list[Lane] = []
        self.turns: dict[Key, Turn] = {}
        self.served = 0
        self.ends_with_lease = False  # all that it runs
        self.worn = False  # not to be given more
        super().__init__(warden, program)

    # --- 1. sending -------------------------------------------------------------------------------------
    def begin(self, assignments: Sequence[Assignment]) -> None:
        """Run an attempt, or a bundle in its order."""
        lane = Lane(assignments)
        self.lanes.append(lane)
        self.ends_with_lease = assignments[0].kill
        self.process.bind(self.ends_with_lease)
        if self.is_ready:
            self._send_next(lane)

    def became_ready(self) -> None:
        """Send what has waited."""
        for lane in list(self.lanes):
            self._send_next(lane)

    def _send_next(self, lane: Lane) -> None:
        while lane.rest:
            assignment = lane.rest.popleft()
            try:
                line = lines.write_run(lines.show(assignment.job), assignment)
            except (msgspec.MsgspecError, UnicodeDecodeError) as error:
                body = describe("BadPayload", f"not a call of a task: {error}")
                self.owner.finished(Result(*assignment[:2], "permanent", body, 0.0))
                continue
            output = Output(assignment.job, assignment.attempt, self.owner.wrote)
            self._start(Turn(assignment, lane, output, time.monotonic()), line)
            return
        self._leave(lane)

    def _start(self, turn: Turn, line: bytes) -> None:
        key, timeout = turn.assignment[:2], turn.assignment.timeout
        self.speech.settle()  # what was written until now is not its own
        turn.lane.turn = self.turns[key] = turn
        self.send(line)
        if timeout is not None:
            turn.timers.append(self.loop.call_later(timeout, self.stop, key, "timeout", False))
        if turn.lane.rest:
            turn.timers.append(self.loop.call_later(PATIENCE_SECONDS, self._take_back, turn.lane))

    def _take_back(self, lane: Lane) -> None:
        self.owner.give_back(lane.take_back())

    def take_back_unsent(self) -> None:
        """Give back all that has not been sent."""
        for lane in list(self.lanes):
            self._take_back(lane)
            if lane.turn is None:
                self._leave(lane)

    def _leave(self, lane: Lane) -> None:
        self.lanes.remove(lane)
        if not self.lanes:
            self.ends_with_lease = False
            self.process.bind(False)
        if not self.gone:
            self.owner.has_room(self)

    # --- 2. what the child says ---------------------------------------------------------------------------
    def took(self, line: lines.Line) -> None:
        """Take in a line about an attempt; one about another that has ended may come from a thread of its."""
        if line.result is not None:
            self._end_turn(line.result)
        elif (said := line.progress or line.checkpoint or line.log) and (turn := self._find_turn(said)):
            pass_on(said, turn, self.owner.noted)

    def _end_turn(self, ending: lines.Ending) -> None:
        turn = self._find_turn(ending)
        if turn is None:
            raise lines.Rubbish(f"it ended {ending.job[:20]!r} ({ending.attempt}), which it does not run")
        self.speech.settle()
        kind, body, retry_after = judge(ending, turn.assignment.task)
        if turn.stopped_as is not None and kind != "ok":
            kind, retry_after = turn.stopped_as, 0.0
        self.served += 1
        self._finish(turn, kind, body, retry_after)
        self._send_next(turn.lane)

    def _find_turn(self, about: lines.Ending | lines.Note) -> Turn | None:
        job = lines.find_job(about.job)
        return None if job is None else self.turns.get((job, about.attempt))

    def _finish(self, turn: Turn, kind: str, body: bytes, retry_after: float = 0.0) -> None:
        key = turn.assignment[:2]
        del self.turns[key]
        turn.lane.turn = None
        turn.end()
        self.owner.finished(Result(*key, kind, body, time.monotonic() - turn.began, retry_after))

    def find_output(self) -> Output | None:
        """Return the output of the job whose code runs; None if there is none, or more than one."""
        if len(self.turns) != 1:
            return None
        (turn,) = self.turns.values()
        return turn.output

    # --- 3. stopping ------------------------------------------------------------------------------------
    def stop(self, key: Key, kind: str, force: bool) -> None:
        """Stop an attempt: ask, terminate, kill; by force others in the same child end with it."""
        turn = self.turns.get(key)
        if turn is None:
            self._stop_unsent(key, kind)
            return
        asked = turn.stopped_as is not None
        turn.stopped_as = turn.stopped_as or kind
        if force:
            self.kill()
        elif not asked:
            self._ask(turn, kind)

    def _ask(self, turn: Turn, kind: str) -> None:
        job, attempt = turn.assignment[:2]
        self.send(lines.write_cancel(lines.show(job), attempt, kind))
        grace = GRACE_SECONDS if turn.assignment.grace is None else turn.assignment.grace
        turn.timers += [
            self.loop.call_later(grace / 2, self._terminate),
            self.loop.call_later(grace, self.kill),
        ]

    def _terminate(self) -> None:
        # It may live on, but the signal is on its way and might hit the next attempt instead.
        self.worn = True
        self.process.signal(signal.SIGTERM)

    def _stop_unsent(self, key: Key, kind: str) -> None:
        for lane in list(self.lanes):
            if lane.drop(key):
                self._end_unsent(key, kind)
                if not lane.rest and lane.turn is None:
                    self._leave(lane)

    def _end_unsent(self, key: Key, kind: str) -> None:
        if kind == "stopped":  # for the worker's own reasons: another can run it, even if only once
            self.owner.give_back([key])
        else:
            self.owner.finished(Result(*key, kind, describe("Stopped", "stopped before it began"), 0.0))

    # --- 4. its end ---------------------------------------------------------------------------------------
    def has_ended(self, ending: Ended | NotSpawned, was_ready: bool, how: str) -> None:
        """Charge what ran, and a job whose child did not get ready by its own fault; give back the rest."""
        self.owner.unlink(self)
        stopping = any(turn.stopped_as for turn in self.turns.values())
        for turn in list(self.turns.values()):
            self._finish(turn, *judge_end(turn, ending.lease_over, stopping, how, self.why))
        blameless = was_ready or ending.guardian_lost or ending.lease_over
        for lane in list(self.lanes):
            if lane.rest and not blameless:
                self._charge_with_the_start(lane.rest.popleft(), how)
            self._take_back(lane)
            self._leave(lane)

    def _charge_with_the_start(self, assignment: Assignment, how: str) -> None:
        message = f"its process did not get ready: {self.why or how}"
        body = describe("ChildCrashed", message, self.speech.tail)
        self.owner.finished(Result(*assignment[:2], "crashed", body, 0.0))
