"""The warm adapter: bundles, output, crashes, children that talk rubbish, shared and worn ones."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from fairway.adapters.warm.adapter import WarmAdapter
from fairway.adapters.warm.child import CannotStart
from fairway.wire.messages import Assignment
from fairway.worker.warden import Warden
from tests.integration.warm_children import CHILD, EXAMPLE, WARM_KINDS
from tests.integration.worker_world import Recorder, eventually, is_gone
from tests.packages import find_node

call = WARM_KINDS["warm"].call


@pytest.fixture
async def warden() -> AsyncIterator[Warden]:
    warden = Warden()
    warden.start()
    yield warden
    await warden.close()


async def begun(adapter: WarmAdapter, *assignments: Assignment) -> Recorder:
    """Start an adapter and begin these, one by one."""
    recorder = Recorder()
    await adapter.start(recorder)
    for assignment in assignments:
        adapter.begin([assignment])
    return recorder


async def run(adapter: WarmAdapter, *assignments: Assignment) -> Recorder:
    """Run these one after the other."""
    recorder = await begun(adapter)
    for assignment in assignments:
        adapter.begin([assignment])
        await recorder.until(lambda key=assignment[:2]: key in recorder.results)
    return recorder


def python(warden: Warden, **options: Any) -> WarmAdapter:
    return WarmAdapter("warm", CHILD, warden, 2, **options)


def scripted(warden: Warden, *said: object) -> WarmAdapter:
    """A child that says these lines, one when it starts and one after each line it reads."""
    script = "import os, sys\nfor line in sys.argv[1:]:\n"
    script += " os.write(4, os.fsencode(line) + b'\\n')\n os.read(3, 9999)"
    lines = [line if isinstance(line, str) else json.dumps(line) for line in said]
    return WarmAdapter("warm", [sys.executable, "-c", script, *lines], warden, 2)


READY = {"ready": {"protocol": 1, "tasks": [{"name": "add"}]}}


async def test_the_tasks_of_the_child_are_those_of_the_worker(warden: Warden) -> None:
    tasks = await scripted(
        warden, {"ready": {"protocol": 1, "tasks": [{"name": "mail.send", "signature": "(to)", "icon": "x"}]}}
    ).start(Recorder())
    assert [(task.name, task.is_async, task.signature) for task in tasks] == [("mail.send", False, "(to)")]


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (
            {"ready": {"protocol": 2, "tasks": []}},
            "speaks version 2 of the warm protocol, this worker speaks 1",
        ),
        ({"ready": {"protocol": 1, "tasks": [{"name": "two words"}]}}, "not a task name"),
        ({"ready": {"protocol": 1, "tasks": [], "concurrency": 0}}, "concurrency 0"),
        ({"ready": {"tasks": []}}, "protocol"),
        ({"result": {"job": "x", "attempt": 1, "ok": True}}, "before it was ready"),
        ("hello", "in the line 'hello'"),
        ("[]", "in the line"),
        ("{" * 3, "in the line"),
    ],
)
async def test_a_child_that_cannot_be_used_is_refused_with_the_reason(
    warden: Warden, said: object, why: str
) -> None:
    with pytest.raises(CannotStart, match=why):
        await scripted(warden, said).start(Recorder())


@pytest.mark.parametrize(
    ("argv", "why"),
    [
        (["no-such-program"], "could not be started: .*No such file"),
        (["sh", "-c", "echo no database >&2; exit 7"], "exited with 7\n\nno database"),
        (["sh", "-c", "head -c 3000000 /dev/zero >&4; sleep 60"], "longer than"),
    ],
)
async def test_a_child_that_does_not_get_ready_says_why(warden: Warden, argv: list[str], why: str) -> None:
    with pytest.raises(CannotStart, match=why):
        await WarmAdapter("warm", argv, warden, 1).start(Recorder())


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("rubbish", "in the line 'rubbish'"),
        ({"result": {"job": "0000000000009", "attempt": 1, "ok": True}}, "which it does not run"),
        ({"result": {"job": "0000000000001", "attempt": "1", "ok": True}}, "attempt"),
        (READY, "twice"),
        ('{"progress": {"job": "0000000000001", "attempt": 1, "fraction": 1e999}}', "1e999"),
    ],
)
async def test_a_child_that_talks_rubbish_is_killed_and_its_job_says_why(
    warden: Warden, said: object, why: str
) -> None:
    recorder = await run(scripted(warden, READY, said), call(1, "add"))
    assert recorder.result(1).kind == "crashed"
    assert recorder.value(1)["type"] == "ProtocolBroken" and why in recorder.value(1)["message"]


async def test_half_a_character_is_no_rubbish(warden: Warden) -> None:
    said = '{"result": {"job": "0000000000001", "attempt": 1, "ok": true, "value": "cut \\ud83d"}}'
    recorder = await run(scripted(warden, READY, said), call(1, "add"))
    assert (recorder.result(1).kind, recorder.value(1)) == ("ok", "cut ?")


async def test_what_a_newer_child_says_is_passed_over(warden: Warden) -> None:
    result = {"result": {"job": "0000000000001", "attempt": 1, "ok": True, "value": 1, "mood": 2}}
    said = json.dumps({"mood": 1}) + "\n" + json.dumps(result)
    recorder = await run(scripted(warden, READY, said), call(1, "add"))
    assert recorder.value(1) == 1


async def test_a_value_that_cannot_be_kept_is_an_error(warden: Warden) -> None:
    deep = "[" * 80 + "]" * 80
    said = '{"result": {"job": "0000000000001", "attempt": 1, "ok": true, "value": ' + deep + "}}"
    recorder = await run(scripted(warden, READY, said), call(1, "add"))
    assert (recorder.result(1).kind, recorder.value(1)["type"]) == ("permanent", "ResultNotEncodable")
    recorder = await run(python(warden), call(2, "large", 1_500_000), call(3, "add", 1, 1))
    assert (recorder.result(2).kind, recorder.value(2)["type"]) == ("permanent", "ResultTooLarge")
    assert recorder.result(3).kind == "ok"


async def test_a_payload_that_is_no_call_is_refused_for_good(warden: Warden) -> None:
    recorder = await run(python(warden), call(1, "add")._replace(payload=b"[]"), call(2, "add", 1, 1))
    assert [recorder.result(job).kind for job in (1, 2)] == ["permanent", "ok"]


async def test_permanent_and_retry_after_are_passed_on(warden: Warden) -> None:
    recorder = await run(python(warden), call(1, "refuse", "no"), call(2, "later", 7))
    assert recorder.result(1).kind == "permanent"
    assert (recorder.result(2).kind, recorder.result(2).retry_after) == ("retry_after", 7.0)


async def test_progress_and_checkpoints_are_noted_and_the_next_attempt_goes_on(warden: Warden) -> None:
    recorder = await run(python(warden), call(1, "count", 2), call(2, "count", 3)._replace(checkpoint=b"2"))
    assert [(note.job, note.progress, note.text, note.checkpoint) for note in recorder.notes] == [
        (1, 0.5, "1 of 2", None),
        (1, None, "", b"1"),
        (1, 1.0, "2 of 2", None),
        (1, None, "", b"2"),
        (2, 1.0, "3 of 3", None),
        (2, None, "", b"3"),
    ]
    assert recorder.value(2) == 2
    assert recorder.text("stdout") == "counted\ncounted\n"


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ('"' + "x" * 65_536 + '"', "a checkpoint of 65538 bytes"),
        ("[" * 65 + "]" * 65, "nested deeper than 64"),
    ],
    ids=["large", "deep"],
)
async def test_a_checkpoint_that_cannot_be_kept_is_complained_of_once(
    warden: Warden, value: str, why: str
) -> None:
    recorder = await run(scripted(warden, READY, noting(value, "[" * 65 + "]" * 65)), call(1, "add"))
    assert recorder.result(1).kind == "ok" and recorder.notes == []
    assert why in recorder.text("notice") and recorder.text("notice").count("not kept") == 1


async def test_bytes_that_are_no_text_are_replaced(warden: Warden) -> None:
    recorder = await run(scripted(warden, READY, noting('"\udcff"')), call(1, "add"))
    assert recorder.result(1).kind == "ok"
    assert [note.checkpoint for note in recorder.notes] == ['"\ufffd"'.encode()]


def noting(*values: str) -> str:
    """Return what a child says that leaves these checkpoints and ends its first job."""
    name = '"job": "0000000000001", "attempt": 1'
    lines = [f'{{"checkpoint": {{{name}, "value": {value}}}}}' for value in values]
    return "\n".join([*lines, f'{{"result": {{{name}, "ok": true}}}}'])


async def test_each_job_has_its_own_output(warden: Warden) -> None:
    recorder = await run(python(warden), call(1, "shout", "a"), call(2, "shout", "b"), call(3, "add", 1, 1))
    said = {job: [(p.stream, p.text) for p in recorder.pieces if p.job == job] for job in (1, 2, 3)}
    assert sorted(said[1]) == [("stderr", "A\n"), ("stdout", "a\n"), ("stdout", "no end")]
    assert sorted(said[2]) == [("stderr", "B\n"), ("stdout", "b\n"), ("stdout", "no end")]
    assert said[3] == []


async def test_a_job_that_writes_without_end_does_not_silence_the_next(warden: Warden) -> None:
    long = "\n".join(["x" * 60] * 10_000)
    recorder = await run(python(warden), call(1, "shout", long), call(2, "shout", "b"))
    assert sum(len(piece.text) for piece in recorder.pieces if piece.job == 1) < 1_100_000
    assert "notice" in {piece.stream for piece in recorder.pieces if piece.job == 1}
    assert [p.text for p in recorder.pieces if p.job == 2 and p.stream == "stdout"] == ["b\n", "no end"]


async def test_a_crash_is_charged_to_the_job_that_ran_and_named(warden: Warden) -> None:
    recorder = await run(python(warden), call(1, "die", 3), call(2, "add", 1, 1))
    assert recorder.result(1).kind == "crashed"
    assert recorder.value(1) == {
        "type": "ChildCrashed",
        "message": "its process ended while running it: exited with 3",
        "traceback": "dying\n",
    }
    assert recorder.result(2).kind == "ok"


async def test_a_bundle_runs_in_its_order_in_one_child(warden: Warden) -> None:
    adapter = python(warden)
    recorder = await begun(adapter)
    adapter.begin([call(job, "where")._replace(bundle=1) for job in range(1, 21)])
    await recorder.until_ended(20)
    assert recorder.order == list(range(1, 21))
    assert len({recorder.value(job)["pid"] for job in range(1, 21)}) == 1


async def test_a_slow_job_of_a_bundle_keeps_no_other_waiting(warden: Warden) -> None:
    adapter = python(warden)
    recorder = await begun(adapter)
    adapter.begin([call(1, "sleep", 60), call(2, "add", 1, 1), call(3, "add", 1, 1)])
    await recorder.until(lambda: recorder.returned)
    assert recorder.returned == [(2, 1), (3, 1)]
    assert adapter.started(1, 1) and not adapter.started(2, 1)
    adapter.stop(1, 1, force=True)
    await recorder.until(lambda: recorder.results)


async def test_a_crash_in_a_bundle_charges_only_the_job_that_ran(warden: Warden) -> None:
    adapter = python(warden)
    recorder = await begun(adapter)
    adapter.begin([call(1, "add", 1, 1), call(2, "die", 1), call(3, "add", 1, 1)])
    await recorder.until_ended(3)
    assert [recorder.result(job).kind for job in (1, 2)] == ["ok", "crashed"]
    assert recorder.returned == [(3, 1)]


async def test_a_job_stopped_before_its_child_was_ready_never_begins(warden: Warden) -> None:
    adapter = python(warden)
    recorder = await begun(adapter, call(1, "sleep", 60), call(2, "shout", "never"))
    adapter.stop(2, 1, force=False)
    await recorder.until(lambda: recorder.results)
    assert (recorder.result(2).kind, recorder.value(2)["message"]) == ("cancelled", "stopped before it began")
    adapter.begin([call(3, "add", 1, 1)])
    await recorder.until(lambda: (3, 1) in recorder.results)
    assert "never" not in recorder.text("stdout")


async def test_a_grace_of_its_own_is_what_a_job_gets(warden: Warden) -> None:
    adapter = python(warden)
    recorder = await begun(adapter, call(1, "spin", 60)._replace(grace=0.2))
    await recorder.until(lambda: recorder.pieces)
    adapter.stop(1, 1, force=False, kind="timeout")
    await recorder.until_ended(1)
    assert (recorder.result(1).kind, recorder.value(1)["type"]) == ("timeout", "TimeLimitReached")
    assert "SIGKILL" in recorder.value(1)["message"]


async def test_a_child_is_replaced_after_so_many_jobs(warden: Warden) -> None:
    recorder = await run(python(warden, recycle_jobs=2), *[call(job, "where") for job in range(1, 7)])
    pids = [recorder.value(job)["pid"] for job in range(1, 7)]
    assert pids[0] == pids[1] and pids[2] == pids[3] and pids[4] == pids[5] and len(set(pids)) == 3
    await eventually(lambda: is_gone(pids[0]) and is_gone(pids[2]))


async def test_idle_children_are_kept_up_to_the_slots_and_no_more(warden: Warden) -> None:
    adapter = python(warden)
    recorder = await begun(adapter, *[call(job, "sleep", 60) for job in (1, 2)])
    await recorder.until(lambda: len(recorder.pieces) == 2)
    for job in (1, 2):
        adapter.stop(job, 1, force=False)
    await recorder.until_ended(2)
    adapter.begin([call(3, "where")])
    adapter.begin([call(4, "where")])
    await recorder.until_ended(4)
    pids = [recorder.value(job)["pid"] for job in (3, 4)]
    adapter.resize(1)
    await eventually(lambda: sum(is_gone(pid) for pid in pids) == 1)


async def test_closing_hands_back_what_waits_for_its_child(warden: Warden) -> None:
    adapter = python(warden)
    recorder = await begun(adapter, call(1, "sleep", 60), call(2, "add", 1, 1))
    await adapter.close(0.1)
    assert recorder.returned == [(2, 1)] and recorder.result(1).kind == "stopped"


# --- children that run several jobs at once ---------------------------------------------------------------
def node(warden: Warden, tmp_path: Path) -> WarmAdapter:
    return WarmAdapter("node", [find_node(), str(EXAMPLE)], warden, 4, env={"CONCURRENCY": "3"})


async def test_a_child_that_says_so_runs_several_jobs_at_once(warden: Warden, tmp_path: Path) -> None:
    adapter = node(warden, tmp_path)
    recorder = await begun(adapter, *[call(job, "aborted") for job in (1, 2)], call(3, "where"))
    await recorder.until_ended(1)
    adapter.stop(2, 1, force=False)
    adapter.stop(1, 1, force=False, kind="timeout")
    await recorder.until_ended(3)
    assert [recorder.value(job) for job in (1, 2)] == ["timeout", "cancelled"]
    adapter.begin([call(4, "where")])
    await recorder.until_ended(4)
    assert recorder.value(3)["pid"] == recorder.value(4)["pid"]


async def test_those_that_share_a_child_are_handed_back_when_it_is_killed_for_one(
    warden: Warden, tmp_path: Path
) -> None:
    adapter = node(warden, tmp_path)
    recorder = await begun(adapter, call(1, "aborted"), call(2, "spin", 60))
    await eventually(lambda: adapter.started(1, 1) and adapter.started(2, 1))
    adapter.stop(2, 1, force=True)
    await recorder.until_ended(2)
    assert [recorder.result(job).kind for job in (1, 2)] == ["stopped", "cancelled"]


async def test_what_is_printed_while_several_run_is_nobodys(warden: Warden, tmp_path: Path) -> None:
    adapter = node(warden, tmp_path)
    recorder = await begun(adapter, call(1, "aborted"), call(2, "shout", "whose"), call(3, "count", 1))
    await recorder.until_ended(2)
    assert [(piece.job, piece.text) for piece in recorder.pieces] == [(3, "counted\n")]


async def test_what_runs_at_most_once_has_a_child_to_itself(warden: Warden) -> None:
    """Where a child is killed to stop one, its companions are given back: such a job could not be."""
    ready = {"ready": {"protocol": 1, "tasks": [{"name": "add"}], "concurrency": 4}}
    script = "import os, sys, time\nos.write(4, sys.argv[1].encode() + b'\\n')\ntime.sleep(600)"
    adapter = WarmAdapter("warm", [sys.executable, "-c", script, json.dumps(ready)], warden, 4)
    once, other = call(2, "add", 1, 1)._replace(once=True), call(4, "add", 1, 1)._replace(once=True)
    recorder = await begun(adapter, call(1, "add", 1, 1), once, call(3, "add", 1, 1), other)
    await eventually(lambda: all(adapter.started(job, 1) for job in (1, 2, 3, 4)))
    adapter.stop(1, 1, force=True)
    await recorder.until(lambda: len(recorder.results) == 2)
    assert (recorder.result(1).kind, recorder.result(3).kind) == ("cancelled", "stopped")
    adapter.stop(2, 1, force=True)
    await recorder.until(lambda: len(recorder.results) == 3)
    assert recorder.result(2).kind == "cancelled" and adapter.started(4, 1)
