"""One request and its answer: to an address that was checked, bounded, over as few hops as are allowed.

A name is resolved once and the connection is made to the address that was checked, with the name in Host and
in TLS. So connections are never shared: one to an address says nothing about another name that has it.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import httpx
import msgspec

import fairway
from fairway.addresses import public_addresses
from fairway.masking import is_secret_header

MOST_BODY_BYTES = 1024 * 1024
MOST_HOPS = 5
MOST_ADDRESSES = 4
CONNECT_SECONDS = 10.0
_REDIRECTS = frozenset({301, 302, 303, 307, 308})


class Work(msgspec.Struct, frozen=True):
    """What an http job carries."""

    url: str
    method: str = "GET"
    headers: dict[str, str] = {}
    json: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    body: str | None = None
    timeout: str | float | None = None
    expect: list[int] | None = None
    follow: bool = False


class Payload(msgspec.Struct, frozen=True):
    """The job's payload around it."""

    work: Work


@dataclass(frozen=True, slots=True)
class Request:
    """What is sent."""

    work: Work
    method: str
    url: httpx.URL
    headers: dict[str, str] = field(repr=False)
    content: bytes = field(repr=False)

    @property
    def shown(self) -> str:
        """Name it for people: without the query, which may carry what is nobody's business."""
        return f"{self.method} {self.url.copy_with(query=None, fragment=None)}"


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back."""

    status: int
    phrase: str
    headers: httpx.Headers
    body: bytes
    is_cut: bool


class BadRedirect(Exception):
    """The server sends us on to where we do not go."""


def read_request(payload: bytes, own_headers: dict[str, str]) -> Request:
    """Read a payload; raises ValueError. *own_headers* are added where the work does not say otherwise."""
    work = _read(payload).work
    usual = {"Accept": "*/*", "Accept-Encoding": "identity", "User-Agent": f"fairway/{fairway.__version__}"}
    content = b""
    if not isinstance(work.json, msgspec.UnsetType):
        content, usual["Content-Type"] = bytes(work.json), "application/json"
    elif work.body is not None:
        content, usual["Content-Type"] = work.body.encode(), "text/plain; charset=utf-8"
    given = {name.lower() for name in work.headers}
    added = {name: value for name, value in (usual | own_headers).items() if name.lower() not in given}
    return Request(work, work.method, read_url(work.url), work.headers | added, content)


def read_url(text: str) -> httpx.URL:
    """Return an address that a request can go to; raises ValueError."""
    try:
        url = httpx.URL(text)
    except httpx.InvalidURL as error:
        raise ValueError(str(error)) from None
    if url.scheme not in ("http", "https") or not url.host:
        raise ValueError("its address must begin with http:// or https:// and name a host")
    return url


class Exchange:
    """Sends requests. Owned by the adapter; to make one takes a moment, as it reads certificates."""

    def __init__(self, allow_private: bool) -> None:
        self._allow_private = allow_private
        self._transport = new_transport()

    async def send(self, request: Request, sending: Callable[[], None]) -> Answer:
        """Send a request and read the answer, that of the last hop if redirects are followed.

        *sending* is called when the first byte of it is about to leave.
        """
        for _ in range(MOST_HOPS + 1):
            answer = await self._send_once(request, sending)
            if not (request.work.follow and answer.status in _REDIRECTS and "location" in answer.headers):
                return answer
            request = next_hop(request, answer)
        raise BadRedirect(f"{request.shown} is more than {MOST_HOPS} redirects away")

    async def close(self) -> None:
        """Close what is open."""
        await self._transport.aclose()

    async def _send_once(self, request: Request, sending: Callable[[], None]) -> Answer:
        url = request.url
        host = url.raw_host.decode("ascii").strip("[]")
        port = url.port or (443 if url.scheme == "https" else 80)
        addresses = await public_addresses(host, port, self._allow_private)
        response = await self._connect(request, host, addresses[:MOST_ADDRESSES], sending)
        try:
            return await read_answer(response)
        finally:
            await response.aclose()

    async def _connect(
        self, request: Request, host: str, addresses: list[str], sending: Callable[[], None]
    ) -> httpx.Response:
        """Send to the first address that takes a connection."""

        async def trace(step: str, facts: object) -> None:
            if step == "http11.send_request_headers.started":
                sending()

        for left, address in enumerate(addresses, 1 - len(addresses)):
            built = httpx.Request(
                request.method,
                request.url.copy_with(host=address, fragment=None),
                headers={**request.headers, "Host": request.url.netloc.decode("ascii")},
                content=request.content or None,
                extensions={"timeout": TIMEOUT.as_dict(), "sni_hostname": host, "trace": trace},
            )
            try:
                return await self._transport.handle_async_request(built)
            except (httpx.ConnectError, httpx.ConnectTimeout):
                if left == 0:
                    raise
        raise httpx.ConnectError(f"{host} has no address")


#: How long to wait for a connection; the whole exchange has a limit of its own.
TIMEOUT = httpx.Timeout(None, connect=CONNECT_SECONDS)


def new_transport() -> httpx.AsyncHTTPTransport:
    """Return a transport that keeps nothing: no connections, and no proxies of our own environment.

    Not a client: that would keep cookies, and send those of one job's server with another job's request.
    """
    return httpx.AsyncHTTPTransport(
        verify=httpx.create_ssl_context(),
        trust_env=False,
        limits=httpx.Limits(max_connections=None, max_keepalive_connections=0),
    )


def next_hop(request: Request, answer: Answer) -> Request:
    """Return the request that a redirect asks for; secrets stay with the server they were meant for."""
    try:
        url = read_url(str(request.url.join(answer.headers["location"])))
    except (ValueError, httpx.InvalidURL):
        raise BadRedirect(f"{request.shown} redirects to what is no address") from None
    if request.url.scheme == "https" and url.scheme != "https":
        raise BadRedirect(f"{request.shown} redirects to {url.host} without encryption")
    headers, method, content = request.headers, request.method, request.content
    if (url.scheme, url.host, url.port) != (request.url.scheme, request.url.host, request.url.port):
        headers = {name: value for name, value in headers.items() if not is_secret_header(name)}
    if answer.status == 303 or (answer.status in (301, 302) and method == "POST"):
        method, content = "HEAD" if method == "HEAD" else "GET", b""
        headers = {name: value for name, value in headers.items() if name.lower() != "content-type"}
    return replace(request, method=method, url=url, headers=headers, content=content)


async def read_answer(response: httpx.Response) -> Answer:
    """Read an answer up to the bound."""
    body = bytearray()
    async for chunk in response.aiter_raw(65536):
        body += chunk
        if len(body) > MOST_BODY_BYTES:
            break
    text = decompress(bytes(body), response.headers.get("content-encoding", ""))
    is_cut = len(body) > MOST_BODY_BYTES or len(text) > MOST_BODY_BYTES
    return Answer(
        response.status_code, response.reason_phrase, response.headers, text[:MOST_BODY_BYTES], is_cut
    )


def decompress(body: bytes, coding: str) -> bytes:
    """Undo a compression nobody asked for, up to the bound: a small body may unfold to a huge one."""
    if coding.strip().lower() not in ("gzip", "x-gzip", "deflate"):
        return body
    try:
        return zlib.decompressobj(wbits=47).decompress(body, MOST_BODY_BYTES + 1)
    except zlib.error:
        return body


_read = msgspec.json.Decoder(Payload).decode
