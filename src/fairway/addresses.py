"""Which addresses belong to the public internet: what Fairway calls on others' behalf goes nowhere else.

Somebody who may hand in an address must not reach through us what only we can reach: this machine, the
network it stands in, the cloud's metadata. So a name is resolved once, every address it has is checked, and
the connection is made to an address that was checked: a name that answers differently the second time
gains nothing.
"""

from __future__ import annotations

import asyncio
import socket
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

#: Beyond what the standard library knows as not global, in whatever version.
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
_NAT64 = ip_network("64:ff9b::/96")


class PrivateAddress(Exception):
    """A host that is not, or not only, of the public internet."""


async def public_addresses(host: str, port: int, allow_private: bool) -> list[str]:
    """Return the addresses to connect to; raises PrivateAddress, or OSError if the name has none."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    addresses = list(dict.fromkeys(str(place[4][0]) for place in found))
    for address in addresses:
        if not allow_private and not is_public(address):
            shown = host if host == address else f"{host} ({address})"
            raise PrivateAddress(f"{shown} is not an address of the public internet")
    return addresses


def is_public(address: str) -> bool:
    """Say whether an IP address is reached by everybody alike."""
    try:
        ip = ip_address(address)
    except ValueError:
        return False
    if isinstance(ip, IPv6Address):
        inner = inner_address(ip)
        if inner is not None:
            return is_public(str(inner))
    return ip.is_global and not any(ip in network for network in _NOT_PUBLIC)


def inner_address(ip: IPv6Address) -> IPv4Address | None:
    """Return the IPv4 address that an IPv6 one leads to, if it does."""
    if ip in _NAT64:
        return IPv4Address(int(ip) & 0xFFFFFFFF)
    return ip.ipv4_mapped or ip.sixtofour
