"""Connections of the asynchronous client: httpx, one client per event loop, imported on first use.

Importing httpx takes 0.4 s: it happens in a thread, so that the first call of a web server's loop does not
stop all the others.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING
from urllib.parse import SplitResult
from weakref import WeakKeyDictionary

from fairway.client import problems
from fairway.client.connections import Answer

if TYPE_CHECKING:
    import httpx

#: Waiting for results holds a connection each.
MOST_CONNECTIONS = 1000


class AsyncConnections:
    """One pooled client per running event loop; a loop's client dies with the loop."""

    def __init__(self, url: SplitResult) -> None:
        self._base = f"{url.scheme}://{url.netloc}"
        self._verify = url.scheme == "https"  # without TLS the certificates need not be read: 0.1 s
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, httpx.AsyncClient] = WeakKeyDictionary()

    async def exchange(
        self, method: str, target: str, body: bytes | None, headers: Mapping[str, str], timeout: float
    ) -> Answer:
        """Send one request and read its answer; raises OSError (TimeoutError) when it cannot."""
        client = await self._client()
        import httpx

        try:
            response = await client.request(
                method, self._base + target, content=body, headers=dict(headers), timeout=timeout
            )
        except httpx.TimeoutException as cause:
            raise TimeoutError(str(cause)) from cause
        except httpx.HTTPError as cause:
            raise _lost(cause) from cause
        return Answer(response.status_code, dict(response.headers), response.content)

    async def stream(self, target: str, headers: Mapping[str, str], silence: float) -> AsyncIterator[bytes]:
        """Yield the bytes of an answer that does not end; raises what its status means."""
        client = await self._client()
        import httpx

        try:
            async with client.stream(
                "GET", self._base + target, headers=dict(headers), timeout=silence
            ) as response:
                if response.status_code != 200:
                    await response.aread()
                    raise problems.error_from(response.status_code, dict(response.headers), response.content)
                async for piece in response.aiter_bytes():
                    yield piece
        except httpx.HTTPError as cause:
            raise _lost(cause) from cause

    async def close(self) -> None:
        """Close the running loop's client."""
        client = self._clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.aclose()

    async def _client(self) -> httpx.AsyncClient:
        loop = asyncio.get_running_loop()
        client = self._clients.get(loop)
        if client is None:
            client = await asyncio.to_thread(self._new_client)
            client = self._clients.setdefault(loop, client)
        return client

    def _new_client(self) -> httpx.AsyncClient:
        import httpx

        limits = httpx.Limits(max_connections=MOST_CONNECTIONS, max_keepalive_connections=20)
        return httpx.AsyncClient(verify=self._verify, limits=limits, trust_env=False)


def _lost(cause: httpx.HTTPError) -> ConnectionError:
    import httpx

    kind = ConnectionRefusedError if isinstance(cause, httpx.ConnectError) else ConnectionResetError
    return kind(str(cause) or type(cause).__name__)
