"""Jobs after others on a real node that is killed in between: each begins after all it waits for, once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import fairway
from tests.integration import dependency_tasks
from tests.running import RunningNode


class World:
    """A node with a worker, an app that goes to it, and what its tasks noted."""

    def __init__(self, node: RunningNode, notes: Path) -> None:
        self.node, self._notes = node, notes
        self.app = fairway.App(url=node.url)
        for task in (dependency_tasks.step, dependency_tasks.fail, dependency_tasks.report):
            self.app.task(name=task.name)(task.function)
        name = "tests.integration.dependency_tasks."
        self.step, self.fail, self.report = (self.app.tasks[name + one] for one in ("step", "fail", "report"))

    def notes(self) -> list[str]:
        return self._notes.read_text().split() if self._notes.exists() else []

    def kill_and_restart(self) -> None:
        self.node.kill()
        self.node.start()
        self.node.until_ready()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    notes = tmp_path / "notes"
    node = RunningNode(
        tmp_path, "--slots", "4", "--app", "tests.integration.dependency_tasks:app",
        env={"FAIRWAY_TEST_NOTES": str(notes)},
    )  # fmt: skip
    node._env["FAIRWAY_URL"] = node.url
    with node:
        yield World(node, notes)


def test_a_diamond(world: World) -> None:
    top = world.step.job("top", 0.2)
    left, right = (world.step.options(after=[top]).job(side) for side in ("left", "right"))
    bottom = world.step.options(after=[left, right]).job("bottom")
    handles = world.app.submit_many([bottom, right, left, top])
    assert [handle.result(timeout=60) for handle in handles] == ["bottom", "right", "left", "top"]
    notes = world.notes()
    assert notes[:2] == ["+top", "-top"] and notes[-2:] == ["+bottom", "-bottom"]


def test_a_chain_fails_from_its_failure_on_and_the_node_dies_in_between(world: World) -> None:
    world.node.http.put("/v1/queues/held", json={"paused": True})
    first = world.step.options(queue="held").job("first")
    bad = world.fail.options(after=[first]).job("bad")
    never = world.step.options(after=[bad]).job("never")
    nor_this = world.step.options(after=[never]).job("nor-this")
    anyway = world.step.options(after=[nor_this], if_failed="run").job("anyway")
    handles = world.app.submit_many([first, bad, never, nor_this, anyway])
    world.kill_and_restart()
    assert [handle.state for handle in handles] == ["queued", *["blocked"] * 4]
    world.node.http.patch("/v1/queues/held", json={"paused": False})
    assert handles[4].result(timeout=60) == "anyway"
    with pytest.raises(fairway.JobFailed) as caught:
        handles[3].result(timeout=1)
    assert caught.value.reason == "dependency" and handles[2].id in caught.value.message
    assert world.notes() == ["+first", "-first", "+bad", "+anyway", "-anyway"]


@pytest.mark.timeout(180)
def test_a_group_of_two_hundred_and_its_callback_with_the_node_killed_in_between(world: World) -> None:
    members = [world.step.job(str(number), 0.02) for number in range(198)]
    members += [world.fail.job("one"), world.fail.job("two")]
    group = world.app.group(members, then=world.report.job(), name="night-7")
    while sum(note.startswith("-") for note in world.notes()) < 20:
        assert group.then is not None and group.then.state == "blocked"
    world.kill_and_restart()
    assert group.then is not None and group.then.state == "blocked"
    assert group.result(timeout=120) == 200
    states = [handle.state for handle in group.jobs]
    assert (states.count("succeeded"), states.count("failed")) == (198, 2)
    notes = world.notes()
    assert notes.count("+report") == 1 and notes[-1] == "+report"
    assert world.node.counts("group:night-7", "group:night-7 state:failed") == [201, 2]
