"""A job's id as people see it: 13 characters that sort as the numbers do."""

from __future__ import annotations

ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"  # Crockford's: no i, l, o, u

_triples = [a + b + c for a in ALPHABET for b in ALPHABET for c in ALPHABET]


def show(job_id: int) -> str:
    """Write an id as the outside sees it; the text sorts as the numbers do."""
    t = _triples
    return (
        ALPHABET[job_id >> 60]
        + t[(job_id >> 45) & 32767]
        + t[(job_id >> 30) & 32767]
        + t[(job_id >> 15) & 32767]
        + t[job_id & 32767]
    )
