"""A spec becomes a job that can run, or a message that says what to do."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairway.core.model import DEFAULT_RULES, JOB_DEFAULTS, Delivery, Extras, Rules
from fairway.errors import InvalidRequest
from fairway.spec import MOST_PAYLOAD, new_job, read_spec
from fairway.store import NewJob
from fairway.times import MICRO

NOW = 1_800_000_000 * MICRO


def accept(**spec: Any) -> NewJob:
    """Take a spec, a task's unless it says otherwise."""
    if "work" not in spec:
        spec.setdefault("task", "mail.send")
    return new_job(read_spec(spec), 7, NOW)


def refuse(field: str, *, code: str = "invalid", says: str = "", **spec: Any) -> None:
    """The spec is refused on account of *field*."""
    with pytest.raises(InvalidRequest) as refusal:
        accept(**spec)
    assert (refusal.value.field, refusal.value.code) == (field or None, code)
    assert says in refusal.value.detail


def command(*run: Any, **more: Any) -> dict[str, Any]:
    return {"adapter": "command", "run": list(run), **more}


def test_a_bare_task_gets_the_defaults() -> None:
    assert accept() == NewJob(
        7, "default", None, 0, "python", "mail.send", (), Delivery.AT_LEAST_ONCE, NOW, NOW, DEFAULT_RULES,
        b'{"args":[],"kwargs":{}}', None,
    )  # fmt: skip


def test_everything_that_is_asked_for_is_kept() -> None:
    job = accept(
        queue="acme/emails", flow="u7", priority=-3, args=["a@x.org", 1.5, None], kwargs={"é": [True]},
        tags=["gpu*"], unique="k", delay="5m", max_attempts=None, max_crashes=1, timeout="90s",
        backoff={"first": 2, "max": "1m"},
    )  # fmt: skip
    assert (job.queue, job.flow, job.priority, job.tags, job.unique) == (
        "acme/emails",
        "u7",
        -3,
        ("gpu*",),
        "k",
    )
    assert job.run_at == NOW + 300 * MICRO
    assert job.rules == Rules(None, 1, 90.0, 2.0, 60.0, unsaid=("grace",))
    assert job.payload == '{"args":["a@x.org",1.5,null],"kwargs":{"é":[true]}}'.encode()


def test_a_command_is_work_without_a_task() -> None:
    job = accept(work=command(["sh", "-c", "true"], ["ls", ""], env={"A": ""}, cwd="/tmp"))
    assert (job.adapter, job.task) == ("command", "")
    assert job.payload.startswith(b'{"work":{"adapter":"command","run":[["sh","-c","true"]')


@pytest.mark.parametrize(
    ("task", "work"),
    [
        ("resize", {"adapter": "node", "task": "resize", "args": ["a.png"], "kwargs": {"width": 200}}),
        ("mail.send", {"adapter": "my-go_adapter2", "task": "mail.send"}),
        ("Mail::Weekly", {"adapter": "rails", "job": "Mail::Weekly", "args": [1]}),
        ("Mail::Box.sweep", {"adapter": "rails", "call": "Mail::Box.sweep"}),
    ],
)
def test_the_work_of_a_warm_adapter_names_its_task(task: str, work: dict[str, Any]) -> None:
    job = accept(work=work)
    assert (job.adapter, job.task) == (work["adapter"], task)
    assert json.loads(job.payload) == {"work": work}


def test_a_time_may_be_given_instead_of_a_delay() -> None:
    assert accept(run_at="2027-01-15T08:00:00+00:00").run_at == NOW
    assert accept(run_at="2027-01-15T09:00:00.000001+01:00").run_at == NOW + 1


@pytest.mark.parametrize(
    ("deadline", "seconds"),
    [("90s", 90), (5, 5), (0.5, 0.5), ("2027-01-15T08:00:07Z", 7), ("2027-01-15T09:00:01+01:00", 1)],
)
def test_a_deadline_is_a_time_or_counted_from_the_submit(deadline: Any, seconds: float) -> None:
    assert accept(deadline=deadline).extras == Extras(deadline=NOW + int(seconds * MICRO))


def test_a_deadline_by_which_nothing_could_begin_is_refused() -> None:
    refuse("deadline", says="passed", deadline=0)
    refuse("deadline", says="passed", deadline="2027-01-15T08:00:00Z")
    refuse("deadline", says="not after run_at", deadline="5m", delay="5m")
    refuse("deadline", says="not after run_at", deadline="4m", run_at="2027-01-15T08:05:00Z")
    assert accept(deadline="5m", delay="4m").extras == Extras(deadline=NOW + 300 * MICRO)


@pytest.mark.parametrize(
    "deadline", ["", "soon", -1, "-1s", True, [], "2027-01-15", "2027-01-15T08:00:00", 1e300]
)
def test_what_is_no_deadline_is_refused(deadline: Any) -> None:
    refuse("deadline", deadline=deadline)


def test_what_is_left_out_is_left_to_the_queue() -> None:
    assert accept(timeout=5).rules == Rules(
        timeout=5.0, unsaid=("max_attempts", "max_crashes", "backoff", "grace")
    )
    assert accept(grace="1m").rules == Rules(unsaid=JOB_DEFAULTS[:-1], grace=60.0)
    assert accept(timeout=None).rules == Rules(unsaid=("max_attempts", "max_crashes", "backoff", "grace"))
    assert accept(max_attempts=10).rules == Rules(unsaid=("max_crashes", "timeout", "backoff", "grace"))
    assert accept(backoff={}).rules == Rules(unsaid=("max_attempts", "max_crashes", "timeout", "grace"))
    assert accept(delivery="at_most_once").rules == Rules(
        1, unsaid=("max_crashes", "timeout", "backoff", "grace")
    )
    assert accept(backoff=None).rules is DEFAULT_RULES


def test_an_at_most_once_job_is_tried_once() -> None:
    assert accept(delivery="at_most_once").rules.max_attempts == 1
    assert accept(delivery="at_most_once", max_attempts=1).rules.max_attempts == 1
    refuse("max_attempts", delivery="at_most_once", max_attempts=2)
    refuse("max_attempts", delivery="at_most_once", max_attempts=None)


@pytest.mark.parametrize(
    "text", ["<script>alert(1)</script>", "{{7*7}}", "\x1b[31mred", "a'; DROP TABLE job;--", "𝓾"]
)
def test_text_is_kept_as_it_is(text: str) -> None:
    job = accept(flow=text, unique=text, tags=[text], args=[text])
    assert (job.flow, job.unique, job.tags) == (text, text, (text,))
    refuse("task", task=text)
    refuse("queue", queue=text)


@pytest.mark.parametrize(
    "path",
    [
        "", "/", "a/", "/a", "a//b", ".", "..", "-", "a/..", "a/./b", "a/-/next", "a b", "a\n", "é", "a\0",
        "a" * 65, "/".join("abcdefghi"), "a\\b", "a*", "\ud800",
    ],
)  # fmt: skip
def test_what_is_no_queue_path_is_refused(path: str) -> None:
    refuse("queue", queue=path)


@pytest.mark.parametrize(
    "path", ["a", "a/b", ".a", "a..b", "--", "-a", "_", "a" * 64, "/".join("abcdefgh"), "0"]
)
def test_queue_paths(path: str) -> None:
    assert accept(queue=path).queue == path


@pytest.mark.parametrize(
    "name", ["", "1a", "a b", "a..b", ".a", "a.", "a()", "a\n", "é", "a" * 201, "__import__('os')"]
)
def test_what_is_no_task_name_is_refused(name: str) -> None:
    refuse("task", task=name)


@pytest.mark.parametrize("name", ["a", "_a", "mail.send", "app.tasks.Send_2", "a" * 200, "app:send"])
def test_task_names(name: str) -> None:
    assert accept(task=name).task == name


def test_exactly_one_of_task_and_work_is_due() -> None:
    refuse("task", task=None)
    refuse("task", task="a", work=command(["ls"]))
    refuse("args", work=command(["ls"]), args=[1])
    refuse("args", work=command(["ls"]), kwargs={"a": 1})


@pytest.mark.parametrize(
    ("field", "work", "says"),
    [
        ("work.adapter", {}, "command"),
        ("work.adapter", {"adapter": "Shell", "run": [["ls"]]}, "command"),
        ("work.adapter", {"adapter": "python", "task": "mail.send"}, "command"),
        ("work", {"adapter": "shell", "run": [["ls"]]}, "known are adapter, task"),
        ("work.task", {"adapter": "node"}, "needs task"),
        ("work.task", {"adapter": "node", "task": 7}, "needs task"),
        ("work.task", {"adapter": "node", "task": "two words"}, "not a task name"),
        ("work.args", {"adapter": "node", "task": "add", "args": {}}, "list"),
        ("work.kwargs", {"adapter": "node", "task": "add", "kwargs": []}, "object"),
        ("work", {"adapter": "rails", "task": "MailJob"}, "known are adapter, job, call"),
        ("work.job", {"adapter": "rails"}, "either job"),
        ("work.job", {"adapter": "rails", "job": "A", "call": "A.b"}, "either job"),
        ("work.job", {"adapter": "rails", "job": "Mail::"}, "not a task name"),
        ("work.call", {"adapter": "rails", "call": "Mail::Box"}, "names no method"),
        ("work.adapter", {"adapter": None}, "command"),
        ("work.adapter", {"adapter": ["command"]}, "command"),
        ("work", command(["ls"], shell=True), "known are"),
        ("work.run", {"adapter": "command"}, "argv lists"),
        ("work.run", command(), "argv lists"),
        ("work.run", {"adapter": "command", "run": "ls -l"}, "argv lists"),
        ("work.run", {"adapter": "command", "run": {"0": ["ls"]}}, "argv lists"),
        ("work.run", command(*[["ls"]] * 101), "argv lists"),
        ("work.run[0]", command("ls -l"), "one string"),
        ("work.run[1]", command(["ls"], "ls"), "one string"),
        ("work.run[0]", command([]), "not empty"),
        ("work.run[0]", command(None), "list of arguments"),
        ("work.run[0]", command([""]), "no program"),
        ("work.run[0]", command(["ls", 1]), "quote it"),
        ("work.run[0]", command(["ls", True]), "quote it"),
        ("work.run[0]", command(["ls", None]), "quote it"),
        ("work.run[0]", command(["ls", ["-l"]]), "quote it"),
        ("work.run[0]", command(["ls\0"]), "NUL"),
        ("work.run[0]", command(["ls", "\ud800"]), "surrogate"),
        ("work.env", command(["ls"], env=["A=1"]), "object"),
        ("work.env", command(["ls"], env={"A": 1}), "quote it"),
        ("work.env", command(["ls"], env={"A=B": "1"}), "variable name"),
        ("work.env", command(["ls"], env={"": "1"}), "variable name"),
        ("work.env", command(["ls"], env={"A": "\0"}), "NUL"),
        ("work.cwd", command(["ls"], cwd=""), "empty"),
        ("work.cwd", command(["ls"], cwd=7), "quote it"),
        ("work.cwd", command(["ls"], cwd="a\0b"), "NUL"),
    ],
)
def test_work_that_cannot_run_is_refused(field: str, work: dict[str, Any], says: str) -> None:
    refuse(field, work=work, says=says)


@pytest.mark.parametrize("count", [0, -1, True, 1.0, 1.5, "3", 10**7, 2**70, [1], {}])
def test_a_count_is_a_whole_number_above_nothing(count: object) -> None:
    refuse("max_attempts", max_attempts=count)
    refuse("max_crashes", max_crashes=count)


@pytest.mark.parametrize("limit", [0, -1, True, 1.0, "3", 2**40])
def test_a_limit_is_a_whole_number_above_nothing(limit: object) -> None:
    refuse("concurrency", concurrency=limit)


@pytest.mark.parametrize("priority", [32768, -32769, 1.5, "1", None, True])
def test_a_priority_fits_sixteen_bits(priority: object) -> None:
    refuse("priority", priority=priority)


@pytest.mark.parametrize("time", ["", "soon", "2027-01-15", "2027-01-15T08:00:00", "2027-13-01T00:00:00Z",
                                  "1969-12-31T23:59:59Z", "9999-12-31T23:59:59-23:59"])  # fmt: skip
def test_a_time_without_zone_or_out_of_range_is_refused(time: str) -> None:
    refuse("run_at", run_at=time)


@pytest.mark.parametrize(
    "duration", ["", "5x", "-1s", -1, 1e300, float("inf"), "1e5", "999999999999w", "5 m"]
)
def test_what_is_no_duration_is_refused(duration: object) -> None:
    refuse("delay", delay=duration)
    refuse("timeout", timeout=duration)
    refuse("backoff.first", backoff={"first": duration})


def test_rules_that_contradict_each_other_are_refused() -> None:
    refuse("timeout", timeout=0, says="above 0")
    refuse("delay", delay=1, run_at="2027-01-15T08:00:00Z", says="not both")
    refuse("backoff.first", backoff={"first": "2h", "max": "1h"})


@pytest.mark.parametrize("field", ["flow", "unique"])
@pytest.mark.parametrize("text", ["", "a" * 201, "a\0", "\ud800", "a\udfffb"])
def test_short_texts_are_bounded_and_text(field: str, text: str) -> None:
    refuse(field, **{field: text})


def test_tags_are_globs_within_bounds() -> None:
    refuse("tags[1]", tags=["gpu", ""])
    refuse("tags[0]", tags=["*a" * 9], says="stars")
    refuse("tags[0]", tags=["a" * 601])
    refuse("tags", tags=["a"] * 33)
    refuse("tags", tags="gpu")


def test_unknown_fields_are_named() -> None:
    refuse("dleay", dleay=5, says="dleay")
    refuse("backoff.jitter", backoff={"jitter": 1})


def test_a_payload_has_a_bound() -> None:
    room = MOST_PAYLOAD - len('{"args":[""],"kwargs":{}}')
    assert len(accept(args=["a" * room]).payload) == MOST_PAYLOAD
    with pytest.raises(InvalidRequest) as refusal:
        accept(args=["a" * (room + 1)])
    assert (refusal.value.status, refusal.value.code) == (413, "too_large")


junk: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(st.text(max_size=8), below, max_size=3),
    max_leaves=8,
)
fields = st.sampled_from(
    ["queue", "flow", "priority", "delivery", "task", "args", "kwargs", "work", "tags", "unique", "run_at",
     "delay", "max_attempts", "max_crashes", "timeout", "backoff", "concurrency", "deadline", "nonsense"]
)  # fmt: skip


@given(st.dictionaries(fields, junk, max_size=5))
def test_whatever_comes_is_taken_or_refused(spec: dict[str, Any]) -> None:
    try:
        job = new_job(read_spec(spec), 7, NOW)
    except InvalidRequest as refusal:
        assert refusal.detail
    else:
        assert job.payload.startswith(b'{"')
