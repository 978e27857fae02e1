"""Errors as the outside sees them: problem+json with a stable code."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

import msgspec

from fairway.api.answers import Answer
from fairway.errors import CallerError, WorldError

MEDIA = b"application/problem+json"


class Problem(msgspec.Struct, omit_defaults=True, kw_only=True):
    """What went wrong, for programs (`code`) and for people (`detail`)."""

    type: str
    title: str
    status: int
    code: str
    detail: str
    field: str | None = None
    id: str | None = None


def problem(
    status: int,
    code: str,
    detail: str,
    *,
    field: str | None = None,
    id: str | None = None,
    headers: tuple[tuple[bytes, bytes], ...] = (),
) -> Answer:
    """Return the answer that says so."""
    said = Problem(
        type=f"urn:fairway:{code}",
        title=HTTPStatus(status).phrase,
        status=status,
        code=code,
        detail=_showable(detail),
        field=None if field is None else _showable(field),
        id=id,
    )
    return Answer(status, msgspec.json.encode(said), MEDIA, headers)


def answer_for(error: CallerError | WorldError) -> Answer:
    """Return the answer to an error of the caller's or of the world's."""
    if isinstance(error, WorldError):
        after = (b"retry-after", str(error.retry_after_seconds).encode())
        return problem(error.status, error.code, str(error) or _sentence(error), headers=(after,))
    return problem(error.status, error.code, error.detail, field=error.field)


class Turned(CallerError):
    """A request turned away before it was looked at closely; may carry headers."""

    def __init__(self, status: int, code: str, detail: str, **headers: str) -> None:
        super().__init__(detail, code=code, status=status)
        self.headers = tuple(
            (name.replace("_", "-").encode(), text.encode()) for name, text in headers.items()
        )

    def answer(self) -> Answer:
        return problem(self.status, self.code, self.detail, headers=self.headers)


def _showable(text: str) -> str:
    """Text from outside may hold lone surrogates, which no JSON can carry."""
    return text if text.isascii() else text.encode(errors="replace").decode()


def _sentence(error: Exception) -> Any:
    return (type(error).__doc__ or "").partition("\n")[0]
