"""Wrong uses: mypy --strict must complain about each line marked `# E:`, with that code, and no other."""

from __future__ import annotations

import fairway

app = fairway.App()


@app.task
def plain(to: str, count: int = 1) -> int:
    return len(to) * count


@app.task(queue="acme")
async def later(number: float) -> str:
    return str(number)


plain(1)  # E: arg-type
plain.submit(1)  # E: call-overload
plain.submit()  # E: call-overload
plain.submit("a", "b")  # E: call-overload
plain.submit("a", colour="red")  # E: call-overload
plain.job(1)  # E: arg-type
plain.job()  # E: call-arg
plain.job("a", colour="red")  # E: call-arg
plain.options(flow="a").submit(1)  # E: call-overload
plain.options(colour="red")  # E: call-arg
plain.options(priority="high")  # E: arg-type
app.task(colour="red")  # E: call-overload
text: str = plain.submit("a").result()  # E: assignment


async def awaits() -> None:
    await plain.asubmit(1)  # E: call-overload
    await later.asubmit("x")  # E: call-overload
    _number: int = await (await later.asubmit(1.5)).aresult()  # E: assignment
    _coroutine: str = later(1.5)  # E: assignment
