"""One warm child: its process, its pipes, its life from start to end; what it runs is the link's business.

A child that breaks the protocol, or is not ready in time, is killed, and why is remembered.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from abc import ABC, abstractmethod

from fairway.adapters.output import Output
from fairway.adapters.python.link import describe_ending
from fairway.adapters.warm import lines
from fairway.adapters.warm.channel import Channel
from fairway.adapters.warm.program import READ_FD, WRITE_FD, Program
from fairway.adapters.warm.speech import Speech
from fairway.worker.warden import Ended, Happening, NotSpawned, Warden

READY_SECONDS = 120.0
EXIT_SECONDS = 5.0


class CannotStart(Exception):
    """A child did not get ready; the message says why."""


class Child(ABC):
    """A process that speaks the warm protocol. Owned by the agent's loop."""

    def __init__(self, warden: Warden, program: Program) -> None:
        self.program = program
        self.gone = self.retired = False
        self.loop = asyncio.get_running_loop()
        self.ready: asyncio.Future[lines.Ready] = self.loop.create_future()
        self.ready.add_done_callback(lambda future: future.cancelled() or future.exception())
        self.why = ""  # it was killed for this
        self.speech = Speech(program.adapter, self.find_output)
        self._channel = Channel(self._take, self._was_closed)
        self._spawn(warden)
        self._timer = self.loop.call_later(READY_SECONDS, self._not_ready_in_time)

    def _spawn(self, warden: Warden) -> None:
        with contextlib.ExitStack() as ours, contextlib.ExitStack() as theirs:
            ours.callback(self._channel.close)
            ours.callback(self.speech.close)
            read_fd, write_fd = self._channel.open(theirs)
            fds = {READ_FD: read_fd, WRITE_FD: write_fd}
            for place, name in ((1, "stdout"), (2, "stderr")):
                fds[place] = self.speech.open(name)
                theirs.callback(os.close, fds[place])
            self.process = warden.spawn(
                self.program.argv,
                self._on_happening,
                env=self.program.environment(),
                cwd=self.program.cwd,
                fds=fds,
            )
            ours.pop_all()  # all went well: these stay open

    @property
    def is_ready(self) -> bool:
        """Whether it can run attempts at once."""
        return self.ready.done() and not self.gone

    # --- to the child -----------------------------------------------------------------------------------
    def send(self, line: bytes) -> None:
        """Send a line."""
        self._channel.send(line)

    def kill(self) -> None:
        """Kill it and all it started."""
        self.process.signal(signal.SIGKILL)

    def retire(self) -> None:
        """Let an idle child end by itself, or else kill it."""
        if not self.retired and not self.gone:
            self.retired = True
            self.send(lines.EXIT)
            self._timer.cancel()
            self._timer = self.loop.call_later(EXIT_SECONDS, self.kill)

    def _break(self, why: str) -> None:
        """End a child that cannot be worked with."""
        self.why = self.why or why
        self.kill()

    def _not_ready_in_time(self) -> None:
        self._break(f"it was not ready within {READY_SECONDS:g} s")

    # --- from the child ---------------------------------------------------------------------------------
    def _take(self, text: bytes) -> None:
        if self.why:
            return
        try:
            line = lines.read_line(text)
            if line.ready is not None:
                self._be_ready(line.ready)
            elif not self.ready.done():
                raise lines.Rubbish(f"it said {text[:200].decode(errors='replace')!r} before it was ready")
            else:
                self.took(line)
        except lines.Rubbish as error:
            self._break(str(error))

    def _be_ready(self, ready: lines.Ready) -> None:
        lines.check_ready(ready)
        if self.ready.done():
            raise lines.Rubbish("it said twice that it is ready")
        if not self.retired:
            self._timer.cancel()
        self.ready.set_result(ready)
        self.became_ready()

    def _was_closed(self, why: str) -> None:
        if why:
            self._break(why)
        else:  # most likely it is just ending, and the guardian will say how
            self.loop.call_later(EXIT_SECONDS, self._break, "it closed its end of the pipe")

    def _on_happening(self, happening: Happening) -> None:
        if not isinstance(happening, Ended | NotSpawned) or self.gone:
            return
        self._channel.read_to_the_end()  # its last results
        self.speech.settle()
        self.gone = True
        self._conclude(happening)
        self._timer.cancel()
        self._channel.close()
        self.speech.close()

    def _conclude(self, ending: Ended | NotSpawned) -> None:
        how = describe_ending(ending)
        was_ready = self.ready.done()
        if not was_ready:
            self.ready.set_exception(CannotStart(self._explain(how)))
        self.has_ended(ending, was_ready, how)

    def _explain(self, how: str) -> str:
        """Say why it did not get ready; the last it wrote usually tells."""
        command = " ".join(self.program.argv)[:500]
        why = f"adapter {self.program.adapter}: {command!r} did not get ready: {self.why or how}"
        return f"{why}\n\n{self.speech.tail}" if self.speech.tail else why

    # --- what the link does -------------------------------------------------------------------------------
    @abstractmethod
    def find_output(self) -> Output | None:
        """Return the output of the job whose code runs; None if there is none, or more than one."""

    @abstractmethod
    def became_ready(self) -> None:
        """Send what has waited."""

    @abstractmethod
    def took(self, line: lines.Line) -> None:
        """Take in a line; raises Rubbish if it cannot be meant."""

    @abstractmethod
    def has_ended(self, ending: Ended | NotSpawned, was_ready: bool, how: str) -> None:
        """Say what became of the attempts it had."""
