"""The smallest Fairway app: one plain task and one async one. README.md beside it says how to run it."""

from __future__ import annotations

import asyncio

import fairway

app = fairway.App()


@app.task(queue="acme/emails", max_attempts=5, timeout=30)
def send(to: str, subject: str = "hi") -> int:
    """Pretend to send a mail; return how long it was. `def` tasks have a child process to themselves."""
    return len(f"To: {to}\nSubject: {subject}\n")


@app.task(queue="acme/pages")
async def fetch(url: str, seconds: float = 0.1) -> str:
    """Pretend to fetch a page. `async def` tasks share a child process, many at once."""
    await asyncio.sleep(seconds)
    return f"fetched {url}"


def main() -> None:
    """Submit one of each and print what came of them."""
    mail = send.submit("a@example.org", subject="hello")
    page = fetch.submit("https://example.org/")
    print(mail.id, mail.result(timeout=10))
    print(page.id, page.result(timeout=10))


if __name__ == "__main__":
    main()
