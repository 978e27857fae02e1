"""Globs: `*` is any text, `?` any one character, everything else itself.

Matched in time linear in the text for each piece between stars, never by backtracking: a pattern such as
`a*a*a*b` costs no more than a plain one.
"""

from __future__ import annotations

from fairway.errors import InvalidRequest

MOST_STARS = 8
MOST_LENGTH = 500


def is_glob(text: str) -> bool:
    """Say whether *text* has a wildcard."""
    return "*" in text or "?" in text


def check_glob(text: str) -> str:
    """Return *text* unless it asks for too much work."""
    if len(text) > MOST_LENGTH:
        raise InvalidRequest(f"a pattern has at most {MOST_LENGTH} characters", code="bad_query")
    if text.count("*") > MOST_STARS:
        raise InvalidRequest(f"a pattern has at most {MOST_STARS} stars", code="bad_query")
    return text


def matches(pattern: str, text: str) -> bool:
    """Say whether the whole *text* is what *pattern* describes.

    Only the last star is ever tried again: whatever an earlier one took, the later one can take more.
    """
    p = t = 0
    star = resume = -1
    while t < len(text):
        if p < len(pattern) and pattern[p] == "*":
            star, resume, p = p, t, p + 1
        elif p < len(pattern) and pattern[p] in ("?", text[t]):
            p, t = p + 1, t + 1
        elif star >= 0:
            resume += 1
            p, t = star + 1, resume
        else:
            return False
    return all(character == "*" for character in pattern[p:])
