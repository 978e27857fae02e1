"""`app.act`: something done to all jobs that match, on a real node without a worker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import fairway
from fairway.errors import InvalidRequest, NotFound
from tests.running import RunningNode

SECONDS = 60.0


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    with RunningNode(tmp_path_factory.mktemp("node"), "--no-worker") as node:
        yield node


@pytest.fixture(params=["url", "database"])
def app(node: RunningNode, request: pytest.FixtureRequest) -> Iterator[fairway.App]:
    """An app on a queue of its own, over HTTP or on the database."""
    place = {"url": node.url} if request.param == "url" else {"database": f"sqlite:///{node.database}"}
    app = fairway.App(**place, queue=f"by-{request.param}")
    yield app
    app.close()


def filled(app: fairway.App, queue: str, count: int = 5) -> list[fairway.Handle[None]]:
    @app.task(queue=queue, name="t")
    def nothing() -> None: ...

    return app.submit_many([nothing.job() for _ in range(count)])


def test_an_operation_is_waited_for(app: fairway.App) -> None:
    handles = filled(app, f"waited/{id(app)}")
    operation = app.act(f"queue:waited/{id(app)}", "cancel").wait(SECONDS)
    assert (operation.state, operation.progress["done"]) == ("done", 5)
    assert {handle.state for handle in handles} == {"cancelled"}


def test_an_operation_is_aborted(app: fairway.App) -> None:
    queue = f"queue:aborted/{id(app)}"
    filled(app, queue.removeprefix("queue:"))
    app.act(queue, "cancel").wait(SECONDS)
    operation = app.act(f"{queue} state:cancelled", "retry", canary=1)  # nobody runs it
    with pytest.raises(TimeoutError):
        operation.wait(0.05)
    assert operation.abort().wait(SECONDS).state == "aborted"
    assert operation.progress["done"] <= 1


async def test_the_same_without_blocking(app: fairway.App) -> None:
    queue = f"queue:awaited/{id(app)}"
    filled(app, queue.removeprefix("queue:"))
    operation = await (await app.aact(queue, "cancel")).await_end(SECONDS)
    assert (operation.state, operation.progress["refused"]) == ("done", 0)
    assert (await operation.aabort()).state == "done"
    assert (await operation.arefresh()).progress["done"] == 5


def test_bad_arguments_are_refused(app: fairway.App) -> None:
    for arguments in ({"dry_run": True}, {"canary": 0}, {"colour": 1}):
        with pytest.raises(InvalidRequest):
            app.act("queue:none", "retry", **arguments)
    with pytest.raises(InvalidRequest, match="all"):
        app.act("", "cancel")
    operation = app.act("queue:none", "cancel").wait(SECONDS)
    operation.id = "0000000000000"
    with pytest.raises(NotFound):
        operation.refresh()
