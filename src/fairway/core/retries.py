"""What follows when an attempt has ended: one judgement, by a table of the ways an attempt can end.

`tries` are ends by error or timeout and are bounded by `max_attempts`; `crashes` are deaths of the child,
`losses` those of the worker (they count for a day only, so that long jobs survive machines that come and
go), both bounded by `max_crashes`. What is handed back costs nothing. An at-most-once job whose code has
started never starts again.
"""

from __future__ import annotations

import json
from typing import NamedTuple

from fairway.core.lifecycle import Trigger
from fairway.core.model import Ledger, Reason, Rules

MICRO = 1_000_000
LONGEST_DELAY = 10 * 366 * 86_400.0


class Judgement(NamedTuple):
    """What happens to the job: the trigger, why if it ends without a value, its ledger, the delay."""

    trigger: Trigger
    reason: Reason | None
    ledger: Ledger
    delay: float = 0.0


def judge(
    kind: str, rules: Rules, ledger: Ledger, *, once: bool, cancelling: bool, now: int, window: float,
    luck: float = 0.0, retry_after: float = 0.0,
) -> Judgement:  # fmt: skip
    """Judge an attempt that ended as *kind*: a worker's word, or `lost`, `handed_back`."""
    if kind == "ok":
        return Judgement(Trigger.SUCCEED, None, ledger)
    if cancelling and not (once and kind == "lost"):
        return Judgement(Trigger.CANCEL, Reason.CANCELLED, ledger)
    if kind in ("error", "timeout", "retry_after"):
        return _tried(kind, rules, ledger, once, luck, retry_after)
    if kind == "permanent":
        return Judgement(Trigger.FAIL, Reason.PERMANENT, ledger._replace(tries=ledger.tries + 1))
    if kind == "crashed":
        return _crashed(rules, ledger._replace(crashes=ledger.crashes + 1), once, now, window)
    if kind == "lost":
        losses = (*recent(ledger.losses, now, window), now)
        if once:
            return Judgement(Trigger.LOSE_TRACK, Reason.LOST, ledger._replace(losses=losses))
        return _crashed(rules, ledger._replace(losses=losses), once, now, window)
    if kind == "handed_back":
        return Judgement(Trigger.HAND_BACK, None, ledger)
    # "stopped" (its worker went away under it) and "cancelled" that nobody asked for
    if once:
        return Judgement(Trigger.FAIL, Reason.STOPPED, ledger)
    return Judgement(Trigger.HAND_BACK, None, ledger)


def backoff(rules: Rules, tries: int, luck: float) -> float:
    """Return the wait before the next try: doubling up to a bound, up to a quarter longer by luck."""
    doubled = rules.retry_first * 2.0 ** min(tries - 1, 60)
    return min(doubled, rules.retry_max) * (1.0 + 0.25 * luck)


def recent(losses: tuple[int, ...], now: int, window: float) -> tuple[int, ...]:
    """Return the losses that still count."""
    horizon = now - int(window * MICRO)
    return tuple(at for at in losses if at > horizon)


def describe(reason: Reason, body: bytes) -> bytes:
    """Return the error object that is stored: what the worker said, with the reason in front."""
    head = b'{"reason":"' + reason.encode() + b'"'
    rest = body.strip()[1:] if body else b"}"
    return head + (b"," if rest.lstrip() != b"}" else b"") + rest


def note(kind: str, message: str) -> bytes:
    """Return an error object for what no worker could report."""
    return json.dumps({"type": kind, "message": message, "traceback": ""}).encode()


def _tried(kind: str, rules: Rules, ledger: Ledger, once: bool, luck: float, retry_after: float) -> Judgement:
    ledger = ledger._replace(tries=ledger.tries + 1)
    if once or (rules.max_attempts is not None and ledger.tries >= rules.max_attempts):
        reason = Reason.TIMEOUT if kind == "timeout" else Reason.MAX_ATTEMPTS
        return Judgement(Trigger.FAIL, reason, ledger)
    wait = retry_after if kind == "retry_after" else backoff(rules, ledger.tries, luck)
    if not 0.0 <= wait <= LONGEST_DELAY:  # a task may ask for anything, infinity and not-a-number included
        wait = LONGEST_DELAY if wait > 0 or wait != wait else 0.0
    return Judgement(Trigger.RETRY, None, ledger, wait)


def _crashed(rules: Rules, ledger: Ledger, once: bool, now: int, window: float) -> Judgement:
    count = ledger.crashes + len(recent(ledger.losses, now, window))
    if once or (rules.max_crashes is not None and count >= rules.max_crashes):
        return Judgement(Trigger.CRASH_OUT, Reason.CRASHED, ledger)
    return Judgement(Trigger.LOSE, None, ledger)
