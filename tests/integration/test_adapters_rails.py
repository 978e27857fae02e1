"""The rails adapter on a real Rails: its jobs, its rules for retries, a thousand in one environment."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from fairway.adapters.warm.adapter import WarmAdapter
from fairway.wire.messages import Assignment, Task
from fairway.worker.warden import Warden
from tests.integration.warm_children import make_adapter
from tests.integration.worker_world import Recorder

pytestmark = [pytest.mark.timeout(400), pytest.mark.asyncio(loop_scope="module")]


class Stage:
    """A booted application; jobs get rising numbers."""

    def __init__(self, adapter: WarmAdapter) -> None:
        self.adapter, self.recorder = adapter, Recorder()
        self.tasks: list[Task] = []
        self._job = 0

    async def run(self, task: str, *args: Any, **kwargs: Any) -> int:
        """Run a job to its end; return its number."""
        job = self.begin(task, *args, **kwargs)
        await self.recorder.until(lambda: (job, 1) in self.recorder.results)
        return job

    def begin(self, task: str, *args: Any, attempt: int = 1, tries: int = 0, **kwargs: Any) -> int:
        """Begin a job; return its number."""
        self._job += 1
        payload = json.dumps({"work": {"adapter": "rails", "args": args, "kwargs": kwargs}}).encode()
        assignment = Assignment(self._job, attempt, "rails", task, payload, None, "acme/mail", tries=tries)
        self.adapter.begin([assignment])
        return self._job

    async def value(self, task: str, *args: Any, **kwargs: Any) -> Any:
        """Run a job that goes well; return its value."""
        job = await self.run(task, *args, **kwargs)
        assert self.recorder.result(job).kind == "ok", self.recorder.value(job)
        return self.recorder.value(job)


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def stage() -> AsyncIterator[Stage]:
    """One environment for all tests: what one job does must not disturb the next."""
    warden = Warden()
    warden.start()
    stage = Stage(make_adapter("rails", warden, slots=1))
    stage.tasks = await stage.adapter.start(stage.recorder)
    yield stage
    await stage.adapter.close(1)
    await warden.close()


async def test_job_classes_and_what_opts_in_are_announced(stage: Stage) -> None:
    signatures = {task.name: task.signature for task in stage.tasks}
    assert signatures["Add"] == "(one, other)"
    assert signatures["Keywords"] == "(one, two:, three: …)"
    assert signatures["Sweeper"] == "(name, deep: …)"
    assert signatures["Mail::Box.empty"] == "(name)"
    assert "Mail::Box.burn" not in signatures and "Mail::Box" not in signatures


async def test_a_thousand_jobs_go_through_one_environment(stage: Stage) -> None:
    pid = (await stage.value("Where"))["pid"]
    began = time.perf_counter()
    for number in range(1000):
        assert await stage.value("Add", number, 1) == number + 1
    milliseconds = time.perf_counter() - began  # of a thousand jobs
    print(f"\n1,000 ActiveJobs through one booted Rails: {milliseconds:.2f} ms each")
    assert (await stage.value("Where"))["pid"] == pid


async def test_arguments_come_as_rails_has_them(stage: Stage) -> None:
    assert await stage.value("Keywords", 1, two=2) == [1, 2, 3]
    assert await stage.value("Keywords", {"a": [1]}, two=None, three={"b": 2}) == [{"a": [1]}, None, {"b": 2}]
    symbol = {"_aj_serialized": "ActiveJob::Serializers::SymbolSerializer", "value": "hush"}
    assert await stage.value("Add", [symbol], ["loud"]) == ["hush", "loud"]


async def test_a_constant_that_opts_in_is_run(stage: Stage) -> None:
    assert await stage.value("Sweeper", "attic", deep=True) == "attic swept deeply"
    assert await stage.value("Mail::Box.empty", "inbox") == "inbox emptied"


@pytest.mark.parametrize("task", ["Mail::Box.burn", "Kernel.system", "String", "NoSuch", "File", "Mail::Box"])
async def test_what_did_not_opt_in_is_not_run(stage: Stage, task: str) -> None:
    job = await stage.run(task, "true")
    assert stage.recorder.result(job).kind == "permanent"
    assert task.partition(".")[0] in stage.recorder.value(job)["message"]


async def test_an_error_comes_with_the_application_s_lines(stage: Stage) -> None:
    job = await stage.run("Fail", "no such page")
    error = stage.recorder.value(job)
    assert (stage.recorder.result(job).kind, error["type"]) == ("error", "ArgumentError")
    assert error["message"] == "no such page"
    assert "app/jobs/fail.rb:2" in error["traceback"].splitlines()[0]
    assert "runner.rb" not in error["traceback"]


async def test_a_raising_job_does_not_take_the_environment_down(stage: Stage) -> None:
    pid = (await stage.value("Where"))["pid"]
    kinds = [
        stage.recorder.result(await stage.run(*task)).kind for task in (("Fail", "x"), ("Abort",), ("Add",))
    ]
    assert kinds == ["error", "error", "error"]
    assert (await stage.value("Where"))["pid"] == pid


async def test_exit_ends_that_attempt_and_nothing_else(stage: Stage) -> None:
    job = await stage.run("Die", 3)
    assert stage.recorder.result(job).kind == "crashed"
    assert "exited with 3" in stage.recorder.value(job)["message"]
    assert await stage.value("Add", 1, 1) == 2


async def test_retry_on_waits_as_it_says_and_gives_up_as_it_says(stage: Stage) -> None:
    first = await stage.run("Retrying")
    result, error = stage.recorder.result(first), stage.recorder.value(first)
    assert (result.kind, error["type"], error["message"]) == ("retry_after", "IOError", "no answer")
    assert 7 <= result.retry_after < 10  # Rails adds some jitter
    handed_back = stage.begin("Retrying", attempt=9, tries=0)
    await stage.recorder.until(lambda: (handed_back, 9) in stage.recorder.results)
    assert stage.recorder.results[(handed_back, 9)].kind == "retry_after", "a deploy is no execution"
    third = stage.begin("Retrying", attempt=3, tries=2)
    await stage.recorder.until(lambda: (third, 3) in stage.recorder.results)
    assert stage.recorder.results[(third, 3)].kind == "permanent"


async def test_discard_on_fails_for_good(stage: Stage) -> None:
    job = await stage.run("Discarding")
    assert (stage.recorder.result(job).kind, stage.recorder.value(job)["type"]) == ("permanent", "KeyError")


async def test_a_job_that_does_not_listen_is_interrupted_and_its_ensure_runs(stage: Stage) -> None:
    job = stage.begin("Hold")
    await stage.recorder.until(lambda: any(piece.job == job for piece in stage.recorder.pieces))
    stage.adapter.stop(job, 1, force=False)
    await stage.recorder.until(lambda: (job, 1) in stage.recorder.results)
    assert stage.recorder.result(job).kind == "cancelled"
    assert [piece.text for piece in stage.recorder.pieces if piece.job == job][-1] == "let go\n"
    assert await stage.value("Add", 1, 1) == 2
