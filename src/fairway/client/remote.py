"""The channel over HTTP: every call is one request to a node, repeated under one key if it must be."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

from fairway.client.channel import Job, first_state
from fairway.client.http import Transport
from fairway.client.repeats import TRIES
from fairway.client.request import JobRequest
from fairway.client.sse import SentEvent

CALL_SECONDS = 30.0


class RemoteChannel:
    """Speaks with one node."""

    def __init__(self, url: str, token: str | None) -> None:
        self.transport = Transport(url, token, tries=TRIES)

    def submit(self, requests: Sequence[JobRequest[Any]]) -> list[Job]:
        path, body = _submission(requests)
        return _accepted(requests, self.transport.call("POST", path, body=body, headers=_key()))

    async def asubmit(self, requests: Sequence[JobRequest[Any]]) -> list[Job]:
        path, body = _submission(requests)
        return _accepted(requests, await self.transport.acall("POST", path, body=body, headers=_key()))

    def get(self, job: str, wait: float) -> Job:
        return _job(
            self.transport.call("GET", f"/jobs/{job}", params=_wait(wait), timeout=wait + CALL_SECONDS)
        )

    async def aget(self, job: str, wait: float) -> Job:
        timeout = wait + CALL_SECONDS
        return _job(await self.transport.acall("GET", f"/jobs/{job}", params=_wait(wait), timeout=timeout))

    def cancel(self, job: str) -> Job:
        return _job(self.transport.call("DELETE", f"/jobs/{job}"))

    async def acancel(self, job: str) -> Job:
        return _job(await self.transport.acall("DELETE", f"/jobs/{job}"))

    def act(self, job: str, verb: str, body: dict[str, Any]) -> Job:
        return _job(self.transport.call("POST", f"/jobs/{job}/{verb}", body=body))

    async def aact(self, job: str, verb: str, body: dict[str, Any]) -> Job:
        return _job(await self.transport.acall("POST", f"/jobs/{job}/{verb}", body=body))

    def stack(self, job: str) -> str:
        return str(self.transport.call("GET", f"/jobs/{job}/stack"))

    async def astack(self, job: str) -> str:
        return str(await self.transport.acall("GET", f"/jobs/{job}/stack"))

    def put_schedule(self, name: str, body: dict[str, Any]) -> dict[str, Any]:
        return _job(self.transport.call("PUT", f"/schedules/{name}", body=body))

    async def aput_schedule(self, name: str, body: dict[str, Any]) -> dict[str, Any]:
        return _job(await self.transport.acall("PUT", f"/schedules/{name}", body=body))

    def call(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        return _job(self.transport.call(method, path, body=body))

    async def acall(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        return _job(await self.transport.acall(method, path, body=body))

    def events(self, query: str, after: str | None) -> Iterator[dict[str, Any]]:
        for sent in self.transport.follow("/events", {"q": query or None}, last_id=after or ""):
            yield _event(sent)

    async def aevents(self, query: str, after: str | None) -> AsyncIterator[dict[str, Any]]:
        async for sent in self.transport.afollow("/events", {"q": query or None}, last_id=after or ""):
            yield _event(sent)

    def close(self) -> None:
        self.transport.close()


def _submission(requests: Sequence[JobRequest[Any]]) -> tuple[str, Any]:
    if len(requests) == 1:
        return "/jobs", requests[0].body()
    return "/jobs/bulk", {"jobs": [request.body() for request in requests]}


def _accepted(requests: Sequence[JobRequest[Any]], answer: Any) -> list[Job]:
    if len(requests) == 1:
        return [_job(answer)]
    ids = answer["ids"]
    return [{"id": job, "state": first_state(request)} for job, request in zip(ids, requests, strict=True)]


def _key() -> dict[str, str]:
    return {"idempotency-key": uuid.uuid4().hex}


def _wait(seconds: float) -> dict[str, str] | None:
    return {"wait": f"{seconds:.3f}s"} if seconds > 0 else None


def _job(answer: Any) -> Job:
    job: Job = answer
    return job


def _event(sent: SentEvent) -> dict[str, Any]:
    event = sent.json()
    if not isinstance(event, dict):
        event = {"value": event}
    return {"id": sent.id, "kind": sent.event, **event}
