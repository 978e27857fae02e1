"""What a running attempt says of itself in between: how far it is, where to go on, words for its log."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from fairway.adapters.warm.lines import Checkpoint, Progress, Rubbish, Said
from fairway.adapters.warm.turn import Turn
from fairway.errors import InvalidRequest
from fairway.notes import MOST_TEXT, check_checkpoint
from fairway.strict import compact_json
from fairway.wire.messages import Note

Noted = Callable[[Sequence[Note]], None]


def pass_on(said: Progress | Checkpoint | Said, turn: Turn, noted: Noted) -> None:
    """Pass on what an attempt said; raises Rubbish if it cannot be meant."""
    if isinstance(said, Progress):
        if not math.isfinite(said.fraction):
            raise Rubbish(f"progress {said.fraction} is not between 0 and 1")
        noted([Note(*turn.assignment[:2], min(max(said.fraction, 0.0), 1.0), said.text[:MOST_TEXT])])
    elif isinstance(said, Checkpoint):
        _keep(said, turn, noted)
    else:
        text = said.text if said.text.endswith("\n") else said.text + "\n"
        turn.output.pass_on(said.stream, text.encode(errors="replace"))


def _keep(said: Checkpoint, turn: Turn, noted: Noted) -> None:
    """Keep a checkpoint; one that cannot be kept is no reason to fail, but the log says so, once."""
    try:
        value = compact_json(said.value, "checkpoint")
        check_checkpoint(value)
    except InvalidRequest as error:
        if not turn.has_complained:
            turn.has_complained = True
            turn.output.pass_on("notice", f"[a checkpoint was not kept: {error}]\n".encode(errors="replace"))
        return
    noted([Note(*turn.assignment[:2], checkpoint=value)])
