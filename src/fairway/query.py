"""The one search grammar of lists, events, API and CLI.

    state:failed queue:acme/* task:send flow:u7 tag:gpu worker:w3 error:timeout
    args.to:*@x.org priority:>3 age:>10m -queue:test "free text"

Terms are joined by *and*; a leading `-` negates; `field:a,b` means either; `*` and `?` are globs. Parsed
once at the edge into a `Query`; a store turns it into its own language, `matches_event` reads events.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Term:
    """One condition. `field` is "" for free text. `op` is one of = > >= < <= (globs are op =)."""

    field: str
    op: str
    values: tuple[str, ...]
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Query:
    """Conditions that must all hold; none at all matches everything."""

    terms: tuple[Term, ...] = ()
