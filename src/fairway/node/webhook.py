"""One call to a receiver: signed, bounded in time, and made to an address that was checked.

The name is resolved here and the connection made to one of its checked addresses; redirects are not followed
and proxies of the environment not used, since both would lead past the check. Connections are not kept: two
names may share an address, and what was proven for one does not hold for the other.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

from fairway import __version__
from fairway.addresses import public_addresses
from fairway.store import Call

if TYPE_CHECKING:
    import httpx

TIMEOUT_SECONDS = 10.0
OPEN_SECONDS = 30.0
SIGNATURE = "Fairway-Signature"


class NotTaken(Exception):
    """The receiver did not take a call. *for_good*: it is not worth another try."""

    def __init__(self, detail: str, for_good: bool = False, answered: bool = False) -> None:
        super().__init__(detail)
        self.for_good, self.answered = for_good, answered


class Mailbag:
    """Makes calls for one node."""

    def __init__(self, secret: str | None, allow_private: bool) -> None:
        self._secret, self._allow_private = secret, allow_private
        self._client: httpx.AsyncClient | None = None

    async def post(self, call: Call, seconds: int) -> None:
        """Make a call; raises NotTaken unless the answer is 2xx, PrivateAddress if it may not go there."""
        client = await self._get_client()
        import httpx

        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                status = await self._post(client, call, seconds)
        except TimeoutError:
            raise NotTaken(f"no answer within {TIMEOUT_SECONDS:g} s") from None
        except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:
            raise NotTaken(f"{type(error).__name__}: {error}") from None
        if not 200 <= status < 300:
            passing = status in (408, 425, 429) or status >= 500
            raise NotTaken(f"the receiver answered {status}", for_good=not passing, answered=True)

    async def close(self) -> None:
        """Close what is open."""
        if self._client is not None:
            await self._client.aclose()

    async def _get_client(self) -> httpx.AsyncClient:
        if self._client is None:
            try:
                async with asyncio.timeout(OPEN_SECONDS):
                    opened = await asyncio.to_thread(open_client)
            except (TimeoutError, OSError) as error:
                raise NotTaken(f"the node could not make a call: {error!r}", answered=True) from None
            self._client = self._client or opened
        return self._client

    async def _post(self, client: httpx.AsyncClient, call: Call, seconds: int) -> int:
        import httpx

        parts = urlsplit(call.url)
        host = parts.hostname or ""
        port = parts.port or (443 if parts.scheme == "https" else 80)
        body = body_of(call)
        headers = {
            "Host": parts.netloc,
            "Content-Type": "application/json",
            "User-Agent": f"fairway/{__version__}",
        }
        headers["Fairway-Delivery"] = str(call.number)
        if self._secret:
            headers[SIGNATURE] = sign(self._secret, seconds, body)
        extensions = {"sni_hostname": host} if parts.scheme == "https" else {}
        addresses = await public_addresses(host, port, self._allow_private)
        for last, address in zip([False] * (len(addresses) - 1) + [True], addresses, strict=True):
            place = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
            url = urlunsplit((parts.scheme, place, parts.path or "/", parts.query, ""))
            try:
                return await _ask(client, url, body, headers, extensions)
            except httpx.ConnectError:  # a machine may have addresses that do not work from here
                if last:
                    raise
        raise OSError(f"{host} has no address")


def open_client() -> httpx.AsyncClient:
    """Load what calls need: with the first of them and beside the loop, as it takes a third of a second."""
    import httpx

    return httpx.AsyncClient(
        timeout=TIMEOUT_SECONDS,
        trust_env=False,
        follow_redirects=False,
        limits=httpx.Limits(max_keepalive_connections=0),
    )


async def _ask(
    client: httpx.AsyncClient, url: str, body: bytes, headers: dict[str, str], extensions: dict[str, Any]
) -> int:
    # What it answers beside the status is not read: it may be endless.
    async with client.stream("POST", url, content=body, headers=headers, extensions=extensions) as answer:
        return answer.status_code


def body_of(call: Call) -> bytes:
    """Return what is sent: the same bytes at every try."""
    return b'{"event":"job.ended","delivery":%d,"job":%b}' % (call.number, call.body)


def sign(secret: str, seconds: int, body: bytes) -> str:
    """Return the signature of a body sent at a time, so that an old call cannot be sent again by others."""
    digest = hmac.new(secret.encode(), b"%d." % seconds + body, hashlib.sha256).hexdigest()
    return f"t={seconds},v1={digest}"
