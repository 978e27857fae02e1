"""Who asks, as far as it is told: it is written down with what they change."""

from __future__ import annotations

from fairway.api.operation import Call
from fairway.core.events import ANONYMOUS
from fairway.errors import InvalidRequest
from fairway.names import check_text

HEADER = "Fairway-User"
#: For the table of calls.
NAMES_ITSELF = ((HEADER, "who you are, for the record of changes"),)


def asker(call: Call) -> str:
    """Return the name that a call gives itself."""
    named = call.headers.get(HEADER.lower().encode())
    if not named:
        return ANONYMOUS
    try:
        name = named.decode().strip()
    except UnicodeDecodeError:
        raise InvalidRequest(f"{HEADER} is not UTF-8", field=HEADER) from None
    if not name.isprintable():
        raise InvalidRequest(f"{HEADER} has characters that cannot be shown", field=HEADER)
    return check_text(name, HEADER)
