"""Calls that the leader's node answers for us: which ones, and what happens when it cannot.

1. What only the leader knows or may change is put to it, or refused with 503.
2. What it knows better (why a job waits, that a job has just ended) is put to it if it is reached; else this
   node answers from the store.
3. A submit is put to it, since a job that can begin at once begins in the same commit there. It is inserted
   here if surely nothing was sent, or if it has an Idempotency-Key, under which it cannot be done twice.
"""

from __future__ import annotations

from fairway.api.answers import JSON, Answer, Scope
from fairway.desk import RELAYED, Desk, Question, Reply
from fairway.errors import NoLeader, Unanswered

ANSWER_SECONDS = 15.0
#: What a client says that the leader must hear, and what the leader says that the client must.
PASSED_HEADERS = (b"content-type", b"idempotency-key", b"fairway-user")
RETURNED_HEADERS = ("location", "retry-after")
#: A larger submit is inserted here: the leader need not read it all.
MOST_SUBMIT_BYTES = 64 * 1024

_relayed = RELAYED.encode()


def question_of(scope: Scope, headers: dict[bytes, bytes], body: bytes | None, desk: Desk) -> Question | None:
    """Return what to put to the leader; None if this node leads, or another one asks us as the leader."""
    if desk.leads or _relayed in headers:
        return None
    target = scope["raw_path"] + (b"?" + scope["query_string"] if scope["query_string"] else b"")
    passed = {name.decode(): headers[name].decode("latin-1") for name in PASSED_HEADERS if name in headers}
    return Question(scope["method"], target.decode("latin-1"), passed, body)


async def must_pass_on(desk: Desk, question: Question | None) -> Answer | None:
    """Return the leader's answer; None if this node leads after all. Raises NoLeader without one."""
    if question is None:
        return None
    try:
        return _answer(await desk.pass_on(question, ANSWER_SECONDS))
    except Unanswered:
        raise
    except NoLeader:
        if desk.leads:
            return None
        raise


async def may_pass_on(desk: Desk, question: Question | None, wait: float = 0.0) -> Answer | None:
    """Return the leader's answer to a question that only reads, or None: then this node answers."""
    if question is None or not desk.linked:
        return None
    try:
        reply = await desk.pass_on(question, wait + ANSWER_SECONDS)
    except NoLeader:
        return None
    return None if reply.status >= 500 else _answer(reply)


async def pass_submit_on(desk: Desk, question: Question | None) -> Answer | None:
    """Return the leader's answer to a submit, or None: then it is inserted here."""
    if question is None or not desk.linked or len(question.body or b"") > MOST_SUBMIT_BYTES:
        return None
    try:
        return _answer(await desk.pass_on(question, ANSWER_SECONDS))
    except Unanswered as error:
        if "idempotency-key" in question.headers:
            return None
        raise Unanswered(f"{error}; with an Idempotency-Key it could be sent again") from None
    except NoLeader:
        return None


def _answer(reply: Reply) -> Answer:
    headers = [
        (name.encode(), reply.headers[name].encode("latin-1"))
        for name in RETURNED_HEADERS
        if name in reply.headers
    ]
    media = reply.headers.get("content-type", "").encode("latin-1") or JSON
    return Answer(reply.status, reply.body, media, tuple(headers))
