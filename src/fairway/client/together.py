"""Requests that wait for each other: before they are submitted none has an id, so they go by their place.

`options(after=[request])` holds the request itself. When it is submitted in the same call it becomes `#3`,
when it was in an earlier batch its id.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from fairway.client.request import JobRequest
from fairway.errors import InvalidRequest

if TYPE_CHECKING:
    from fairway.client.handle import Handle


class Together:
    """The requests of one call, batch after batch."""

    def __init__(self) -> None:
        self._sent: list[JobRequest[Any]] = []
        self._handles: Sequence[Handle[Any]] = ()

    def name(self, requests: Sequence[JobRequest[Any]]) -> Sequence[JobRequest[Any]]:
        """Return requests that name what they wait for in text."""
        for request in requests:
            check_request(request)
        if not any("after" in request.options for request in requests):
            return requests
        names: dict[int, list[str]] = {}
        for request, handle in zip(self._sent, self._handles, strict=True):
            names.setdefault(id(request), []).append(handle.id)
        for index, request in enumerate(requests):
            names.setdefault(id(request), []).append(f"#{index}")
        return [_named(request, names) for request in requests]

    def sent(self, requests: Sequence[JobRequest[Any]], handles: Sequence[Handle[Any]]) -> None:
        """Remember a batch: *handles* are all there are by now."""
        self._sent += requests  # kept alive, since they are told apart by their address
        self._handles = handles


def check_request(request: object) -> None:
    """Refuse what is no request: a task itself, its name, arguments."""
    if not isinstance(request, JobRequest):
        raise TypeError(f"pass what task.job(...) returns, not {request!r:.80}")


def _named(request: JobRequest[Any], names: dict[int, list[str]]) -> JobRequest[Any]:
    after = request.options.get("after")
    if not after or all(isinstance(one, str) for one in after):
        return request
    once = {one if isinstance(one, str) else id(one): one for one in after}
    texts = [[one] if isinstance(one, str) else _names_of(one, names) for one in once.values()]
    return replace(request, options={**request.options, "after": list(chain.from_iterable(texts))})


def _names_of(request: JobRequest[Any], names: dict[int, list[str]]) -> list[str]:
    found = names.get(id(request))
    if found is None:
        raise InvalidRequest(
            f"a job waits for a request of {request.task.name} that is not submitted with it; submit both by"
            " submit_many or group, the first one first, or submit that one before and give its handle",
            field="after",
        )
    return found
