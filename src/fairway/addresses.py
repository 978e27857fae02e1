"""Which addresses may be called for somebody else: those of the open internet, unless a node allows others.

A node that calls addresses its users name would otherwise be their way into the network it stands in:
loopback, private ranges, link-local (where clouds keep their credentials). A name is resolved here, every
address it has is checked, and the caller connects to one of those, so that a second answer of the name
server cannot lead elsewhere.
"""

from __future__ import annotations

import asyncio
import os
import socket
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from urllib.parse import urlsplit

from fairway.errors import InvalidRequest, PrivateAddress

__all__ = [
    "PrivateAddress",
    "check_literal",
    "check_public",
    "check_url",
    "private_allowed",
    "public_addresses",
]

RESOLVE_SECONDS = 5.0
RESOLVERS = 16  # more than calls that go to one host, whose name server may hang
MOST_URL = 2000
#: What the standard library takes for global in one version or another.
_NOT_PUBLIC = tuple(
    ip_network(text)
    for text in (
        "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12",
        "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15",
        "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
        "168.63.129.16/32",  # the metadata of Azure
        "::/96", "64:ff9b:1::/48", "100::/64", "2001::/23", "2001:db8::/32", "3fff::/20", "5f00::/16",
        "fc00::/7", "fe80::/10", "fec0::/10", "ff00::/8",
    )
)  # fmt: skip
_TRANSLATED = IPv6Network("64:ff9b::/96")  # IPv4 in IPv6, for networks that have only the latter


async def public_addresses(host: str, port: int, allow_private: bool = False) -> list[str]:
    """Return the addresses of *host*; raises PrivateAddress if one is not public, OSError if it has none."""
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(RESOLVE_SECONDS):
            ask = partial(socket.getaddrinfo, _bare(host), port, type=socket.SOCK_STREAM)
            found = await loop.run_in_executor(_resolvers(), ask)
    except TimeoutError:
        raise OSError(f"the name {host!r} was not resolved within {RESOLVE_SECONDS:g} s") from None
    except UnicodeError:
        raise OSError(f"{host[:80]!r} is no name of a host") from None
    addresses = list(dict.fromkeys(str(entry[4][0]) for entry in found))
    return addresses if allow_private else check_public(host, addresses)


@cache
def _resolvers() -> ThreadPoolExecutor:
    """Threads for look-ups alone: a name server that hangs must not hold up what else needs a thread."""
    return ThreadPoolExecutor(RESOLVERS, thread_name_prefix="fairway-resolver")


def check_public(host: str, addresses: list[str]) -> list[str]:
    """Return the addresses of a host if all are public, else raise PrivateAddress."""
    for address in addresses:
        if not is_public(address):
            shown = host if host == address else f"{host} ({address})"
            raise PrivateAddress(
                f"{shown} is not an address of the public internet; private ones must be allowed"
            )
    return addresses


def is_public(address: str) -> bool:
    """Say whether an address is one of the open internet; what is hidden in another counts as itself."""
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return False
    # Which of those that hide another are "global" changed between versions of Python.
    judged: list[IPv4Address | IPv6Address] = [*_hidden(parsed)] or [parsed]
    return all(_is_open(one) for one in judged)


def _is_open(address: IPv4Address | IPv6Address) -> bool:
    return address.is_global and not any(address in network for network in _NOT_PUBLIC)


def check_literal(host: str) -> None:
    """Refuse a host that names a private address by itself, without asking a name server."""
    bare = _bare(host)
    if bare.rstrip(".").lower() == "localhost" or bare.rstrip(".").lower().endswith(".localhost"):
        raise PrivateAddress(f"{host} is this machine; the node must allow private addresses")
    literal = _literal(bare)
    if literal is not None:
        check_public(host, [literal])


def check_url(url: str, field: str) -> str:
    """Return the host of an http(s) URL that can be called, or say what is wrong with it."""
    if len(url) > MOST_URL or not url.isascii() or any(character <= " " for character in url):
        raise InvalidRequest(f"{field} must be a URL of at most {MOST_URL} ASCII characters", field=field)
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port, parts = None, None, urlsplit("")
    if parts.scheme not in ("http", "https") or not host or port == 0 or len(host) > 253:
        raise InvalidRequest(f"{field} must be of the form https://host/path", field=field)
    if parts.username is not None or parts.password is not None:
        raise InvalidRequest(f"{field} must not have a user or a password in it", field=field)
    return host


def private_allowed() -> bool:
    """Say whether this process may call private addresses: `FAIRWAY_ALLOW_PRIVATE=1`."""
    return os.environ.get("FAIRWAY_ALLOW_PRIVATE", "") not in ("", "0")


def _bare(host: str) -> str:
    return host[1:-1] if host.startswith("[") and host.endswith("]") else host


def _literal(host: str) -> str | None:
    """Return the address that a host is written as, also in the old ways: 127.1, 0x7f000001, 2130706433."""
    try:
        return str(ip_address(host))
    except ValueError:
        pass
    try:
        return socket.inet_ntoa(socket.inet_aton(host))
    except (OSError, UnicodeError):
        return None


def _hidden(address: IPv4Address | IPv6Address) -> list[IPv4Address]:
    """Return the IPv4 addresses that an IPv6 one leads to."""
    if isinstance(address, IPv4Address):
        return []
    found = [address.ipv4_mapped, address.sixtofour, *(address.teredo or ())]
    if address in _TRANSLATED:
        found.append(IPv4Address(int(address) & 0xFFFFFFFF))
    return [one for one in found if one is not None]
