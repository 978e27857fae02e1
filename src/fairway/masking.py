"""Secrets of work: stored, given to the program or server they are for, never shown.

Masked are all values under `secrets`, variables whose name says that they are secret (`DB_PASSWORD`,
`API_KEY`), headers such as Authorization, and passwords in addresses. Whatever shows work to anybody comes
through here. What a program prints is its own: the log is not searched for secrets.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

MASK = "***"

_secret_variable = re.compile(
    r".*(?:TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|APIKEY|CREDENTIAL).*|(?:.*_)?(?:KEY|PASS|PWD|AUTH)",
    re.IGNORECASE,
)
#: The password in an address, and what a query names like a secret.
_in_address = re.compile(
    r"(?<=://)([^/@\s:]*):[^/@\s]+(?=@)"
    r"|(?<=[?&])([^=&#\s]*(?:token|secret|password|passwd|api-?_?key|signature|credential)[^=&#\s]*)=[^&#\s]+",
    re.IGNORECASE,
)
_secret_header = re.compile(
    r"(?:proxy-)?authorization|(?:set-)?cookie|.*(?:token|secret|password|api-?key|signature|credential|-auth"
    r"|-key).*",
    re.IGNORECASE,
)
#: A key that carries nothing but the job's own name; to see it helps to find the call at the other side.
_PLAIN_HEADERS = frozenset({"idempotency-key"})
#: Work without any of these has nothing to hide, and is passed on without being read.
_MARKS = (b'"secrets"', b'"env"', b'"headers"', b'"url"')


def is_secret_variable(name: str) -> bool:
    """Say whether a variable's value is kept to itself."""
    return _secret_variable.fullmatch(name) is not None


def is_secret_header(name: str) -> bool:
    """Say whether a header's value is kept to itself."""
    return name.lower() not in _PLAIN_HEADERS and _secret_header.fullmatch(name) is not None


def mask_stored(work: msgspec.Raw) -> msgspec.Raw | dict[str, Any]:
    """Return stored work as it may be shown."""
    text = bytes(work)
    if not any(mark in text for mark in _MARKS):
        return work
    return mask_work(msgspec.json.decode(text))


def mask_work(work: dict[str, Any]) -> dict[str, Any]:
    """Return work as it may be shown; the given one stays as it is."""
    shown = dict(work)
    for field, is_secret in _FIELDS.items():
        values = shown.get(field)
        if isinstance(values, Mapping):
            shown[field] = {name: _shown(name, value, is_secret) for name, value in values.items()}
    if isinstance(url := shown.get("url"), str):
        shown["url"] = mask_address(url)
    return shown


def mask_address(text: str) -> str:
    """Return an address without its password, and without what its query names like a secret."""
    return _in_address.sub(
        lambda found: f"{found[1]}:{MASK}" if found[2] is None else f"{found[2]}={MASK}", text
    )


def _shown(name: str, value: Any, is_secret: Callable[[str], bool]) -> Any:
    if is_secret(name):
        return MASK
    return mask_address(value) if isinstance(value, str) and "://" in value else value


_FIELDS: dict[str, Callable[[str], bool]] = {
    "secrets": lambda name: True,
    "env": is_secret_variable,
    "headers": is_secret_header,
}
