"""What the outside sees of jobs, queues, workers, the cluster and events."""

from __future__ import annotations

import dataclasses
from typing import Any

import msgspec
import pytest

from fairway.core.demand import Demand, ShapeDemand
from fairway.core.eta import Eta
from fairway.core.lifecycle import State
from fairway.core.model import QueueSettings, Rules
from fairway.core.numbers import Figures
from fairway.core.plan import Event
from fairway.desk import ClusterView, FlowView, QueueView, Standing, Waiting, WorkerView
from fairway.ids import show
from fairway.noted_views import attempts_view
from fairway.shapes import (
    AttemptShape,
    Cluster,
    EventShape,
    Job,
    Queue,
    QueueWithFlows,
    Worker,
    WorkerInShort,
)
from fairway.shapes import Demand as DemandShape
from fairway.spec import new_job, read_spec
from fairway.store import Leadership, NodeRow, NumberedEvent, StoredJob, StoredNote
from fairway.times import MICRO
from fairway.views import (
    accepted_job,
    cluster_view,
    demand_view,
    event_view,
    job_view,
    queue_view,
    whole_queue_view,
    worker_in_short,
    worker_view,
)

NOW = 1_800_000_000 * MICRO
HOUR = 3600 * MICRO
JOB = accepted_job(new_job(read_spec({"task": "mail.send", "args": [1], "kwargs": {"a": None}}), 7, NOW))


def shown(
    job: StoredJob = JOB, standing: Standing | None = None, note: StoredNote | None = None, **changes: Any
) -> dict[str, Any]:
    """Return the job as a reader of the API gets it, which is always of the documented shape."""
    view = msgspec.json.decode(
        msgspec.json.encode(job_view(dataclasses.replace(job, **changes), NOW, standing, note))
    )
    msgspec.convert(view, Job)
    assert set(view) == set(Job.__annotations__)
    return dict(view)


#: Said 0.2 when it began, 0.6 ten seconds later.
NOTE = StoredNote(7, 2, 0.6, "mails", 1.5, None, 0.2, NOW - 10 * MICRO, NOW, NOW - HOUR)


def test_the_rate_is_counted_from_the_first_word_of_the_attempt() -> None:
    view = shown(state=State.RUNNING, attempt=2, note=NOTE)
    assert view["progress"] == {
        "fraction": 0.6,
        "text": "mails",
        "at": "2027-01-15T08:00:00.000000Z",
        "rate_per_second": pytest.approx(0.04),
        "seconds_left": pytest.approx(10.0),
        "done_at": "2027-01-15T08:00:10.000000Z",
    }
    assert view["usage"] == {"cpu_seconds": 1.5, "memory_bytes": None}
    assert view["checkpoint_at"] == "2027-01-15T07:00:00.000000Z"


@pytest.mark.parametrize(
    ("state", "changes"),
    [
        (State.SUCCEEDED, {}),
        (State.RUNNING, {"first_progress": 0.6, "first_at": NOW}),  # one word is no speed
        (State.RUNNING, {"progress": 0.0, "first_progress": 0.0}),
        (State.RUNNING, {"progress": 0.1}),  # it went back
    ],
)
def test_without_a_speed_nothing_is_foretold(state: State, changes: dict[str, Any]) -> None:
    progress = shown(state=state, attempt=2, note=NOTE._replace(**changes))["progress"]
    assert progress["fraction"] == changes.get("progress", 0.6)
    assert progress["rate_per_second"] is progress["seconds_left"] is progress["done_at"] is None


def test_a_crawl_has_no_date_beyond_the_calendar() -> None:
    note = NOTE._replace(first_progress=0.0, progress=1e-12)
    progress = shown(state=State.RUNNING, attempt=2, note=note)["progress"]
    assert progress["seconds_left"] > 1e12 and progress["done_at"] is None


def test_what_an_earlier_attempt_said_is_not_the_new_ones_progress() -> None:
    view = shown(state=State.RUNNING, attempt=3, note=NOTE)
    assert (view["progress"], view["usage"]) == (None, None)
    assert view["checkpoint_at"] is not None
    silent = NOTE._replace(progress=None, cpu_seconds=None)
    view = shown(state=State.RUNNING, attempt=2, note=silent)
    assert (view["progress"], view["usage"]) == (None, None)


def test_attempts_are_shown_whether_they_left_a_note_or_not() -> None:
    job = dataclasses.replace(JOB, attempt=3, state=State.RUNNING, worker="w", started_at=NOW)
    found = attempts_view(job, [NOTE])
    assert [(one["attempt"], one["progress"] is not None, one["worker"]) for one in found] == [
        (3, False, "w"),
        (2, True, None),
        (1, False, None),
    ]
    assert len(attempts_view(dataclasses.replace(job, attempt=1000), [])) == 100
    assert attempts_view(JOB, []) == []


@pytest.mark.parametrize(
    ("state", "running"), [(State.RUNNING, True), (State.QUEUED, False), (State.FAILED, False)]
)
def test_an_attempt_whose_end_is_not_kept_does_not_look_as_if_it_ran(state: State, running: bool) -> None:
    job = dataclasses.replace(JOB, attempt=2, state=state, worker="w", started_at=NOW)
    found = attempts_view(job, [])
    assert [(one["running"], one["ended_at"]) for one in found] == [(running, None), (False, None)]
    conforms(found[0], AttemptShape)


def test_a_task_shows_its_arguments() -> None:
    view = shown()
    assert (view["id"], view["task"], view["args"], view["kwargs"]) == (
        show(7),
        "mail.send",
        [1],
        {"a": None},
    )
    assert view["work"] is None
    assert (view["state"], view["attempt"], view["outcome"], view["eta"]) == ("queued", 0, None, None)
    assert view["created_at"] == view["run_at"] == "2027-01-15T08:00:00.000000Z"


def test_work_is_shown_instead_of_a_task() -> None:
    work = {"adapter": "command", "run": [["ls"]]}
    view = shown(accepted_job(new_job(read_spec({"work": work}), 7, NOW)))
    assert (view["task"], view["args"], view["work"]) == (None, None, work)


def test_a_job_whose_time_has_not_come_is_scheduled() -> None:
    assert shown(run_at=NOW + 1)["state"] == "scheduled"
    assert shown(run_at=NOW, state=State.SCHEDULED)["state"] == "queued"


def test_a_value_is_shown_as_it_was_stored() -> None:
    view = shown(state=State.SUCCEEDED, outcome=b'{"a":[1,2.50,"\xc3\xa9"]}', ended_at=NOW)
    assert view["outcome"] == {"ok": True, "value": {"a": [1, 2.5, "é"]}}
    assert shown(state=State.SUCCEEDED, outcome=None)["outcome"] == {"ok": True, "value": None}


def test_an_error_is_shown_with_its_reason() -> None:
    error = b'{"reason":"max_attempts","type":"ValueError","message":"no","traceback":"..."}'
    assert shown(state=State.FAILED, outcome=error)["outcome"] == {
        "ok": False,
        "reason": "max_attempts",
        "error": {"type": "ValueError", "message": "no", "traceback": "..."},
    }


@pytest.mark.parametrize("state", [State.CANCELLED, State.UNKNOWN])
def test_an_end_without_a_word_is_its_own_reason(state: State) -> None:
    assert shown(state=state, outcome=None)["outcome"] == {"ok": False, "reason": state, "error": None}


def test_a_waiting_job_shows_how_its_last_try_went() -> None:
    error = b'{"reason":"error","type":"ValueError","message":"no"}'
    view = shown(run_at=NOW + HOUR, tries=1, outcome=error)
    assert (view["outcome"], view["last_error"]["type"]) == (None, "ValueError")
    assert shown(state=State.FAILED, outcome=error)["last_error"] is None


def test_lost_workers_count_as_crashes_for_a_day() -> None:
    losses = (NOW - 25 * HOUR, NOW - 23 * HOUR, NOW - HOUR)
    assert shown(crashes=1, losses=losses)["crashes"] == 3
    assert shown(crashes=1, losses=losses, state=State.FAILED, ended_at=NOW - 2 * HOUR)["crashes"] == 4


def test_rules_are_shown_in_seconds() -> None:
    view = shown(rules=Rules(None, 5, 1.5, 2, 60))
    assert (view["max_attempts"], view["max_crashes"], view["timeout"]) == (None, 5, 1.5)
    assert view["backoff"] == {"first": 2, "max": 60}


def test_a_waiting_job_says_why_and_where_it_stands() -> None:
    view = shown(standing=Standing(Waiting("limit", "limit of acme is full", "acme"), 4))
    assert view["waiting"] == {"reason": "limit", "detail": "limit of acme is full", "on": "acme"}
    assert (view["position"], view["eta"]) == (4, None)


def test_a_waiting_job_says_when_it_will_start() -> None:
    eta = Eta(NOW + HOUR, (NOW, NOW + 2 * HOUR), (NOW, NOW + 3 * HOUR), "4 ahead of it")
    view = shown(standing=Standing(Waiting("behind", "behind 4 jobs", "acme"), 4, eta))
    assert view["eta"] == {
        "starts_at": "2027-01-15T09:00:00.000000Z",
        "p50": ["2027-01-15T08:00:00.000000Z", "2027-01-15T10:00:00.000000Z"],
        "p90": ["2027-01-15T08:00:00.000000Z", "2027-01-15T11:00:00.000000Z"],
        "basis": "4 ahead of it",
    }


WORKER = WorkerView(
    "w", "i", "up", 2, 0.5, 1, ["gpu"], ["http", "python"], ["a.b", "a.c"], ["**"],
    {"cpus": 2, "versions": {"http": "httpx 0.28", "python": "3.11.7"}}, NOW, 0.1, "0.1",
    signatures={"a.b": "(x: int) -> str"}, async_tasks=["a.c"],
)  # fmt: skip


def test_a_worker_shows_what_it_can_and_in_which_versions() -> None:
    view = worker_view(WORKER)
    assert view["tasks"] == [
        {"name": "a.b", "signature": "(x: int) -> str", "async": False},
        {"name": "a.c", "signature": None, "async": True},
    ]
    assert (view["facts"], view["versions"]["http"]) == ({"cpus": 2}, "httpx 0.28")
    short = worker_in_short(WORKER)
    assert short["tasks"] == 2 and not {"facts", "versions"} & set(short)


def test_a_worker_that_says_strange_things_is_shown_all_the_same() -> None:
    strange = dataclasses.replace(WORKER, facts={"versions": "new"})
    assert worker_view(strange)["versions"] == {}


def test_what_is_not_known_of_a_worker_is_null() -> None:
    found = WorkerView("w", "i", "silent", running=3)
    named = ("slots", "busy", "tags", "adapters", "tasks", "queues", "joined_at", "last_beat_seconds")
    for view, shape in ((worker_view(found), Worker), (worker_in_short(found), WorkerInShort)):
        conforms(view, shape)
        assert [name for name, value in view.items() if value is None] == list(named)


def conforms(view: Any, shape: Any) -> None:
    """A view has exactly the fields of its documented shape, with their types."""
    assert set(view) == set(shape.__annotations__)
    msgspec.convert(msgspec.json.decode(msgspec.json.encode(view)), shape)


@pytest.mark.parametrize(
    ("cluster", "roles"),
    [
        ({"leading": True}, [("leads", None), ("gone", None), (None, "store only")]),
        (
            {"leading": True, "linked": {"i2": True}},
            [("leads", None), ("stands", "up"), (None, "store only")],
        ),
        ({"leading": False, "this": "n3", "link": True}, [("leads", None), ("gone", None), ("stands", "up")]),
    ],
)
def test_a_node_that_was_not_seen_for_a_while_is_gone_unless_it_is_heard_of(
    cluster: dict[str, Any], roles: list[tuple[str | None, str | None]]
) -> None:
    leader = Leadership(3, "i1", "n1", "http://127.0.0.1:1", NOW, 5)
    nodes = [
        NodeRow(f"n{each}", f"i{each}", f"http://127.0.0.1:{each}", "0.1", NOW, NOW) for each in (1, 2, 3)
    ]
    view = ClusterView(
        **{"this": "n1", **cluster}, leader=leader, nodes=nodes, ready=True, silent={"i1", "i2"}
    )
    assert [(node["role"], node["link"]) for node in cluster_view(view)["nodes"]] == roles


def test_the_other_views_have_the_documented_shapes() -> None:
    figures = Figures(5, 4, 1.0, 0.5, 0.5, [0.1, 0.2, 0.3], [], 0.25)
    queue = QueueView("a", QueueSettings(limit=3), 1, 2, 3, 0.5, "a", figures, 7.5)
    conforms(queue_view(queue), Queue)
    queue.flows = [
        FlowView("ann", 2, 1, 0.5, "a", 3.0, 0.75, figures, 1.5),
        FlowView(None, 0, 0, None, None, 1.0, None, figures, 0.0),
    ]
    conforms(whole_queue_view(queue), QueueWithFlows)
    shape = ShapeDemand("python", "a.b", ("gpu",), 3, 1.5, None, 2, 4, 0.5)
    conforms(demand_view(Demand(4, 0.5, [shape])), DemandShape)
    conforms(worker_view(WORKER), Worker)
    conforms(worker_in_short(WORKER), WorkerInShort)
    leader = Leadership(3, "holder", "n1", "http://127.0.0.1:1", NOW, 5)
    node = NodeRow("n1", "holder", "http://127.0.0.1:1", "0.1", NOW, NOW)
    conforms(cluster_view(ClusterView(leader, [node], "n1", True, True, [leader])), Cluster)
    conforms(cluster_view(ClusterView(None, [], "n1", False, False)), Cluster)
    conforms(event_view(NumberedEvent(4, 2, Event("job.ended", NOW, 7, "a", "failed"))), EventShape)


def test_an_event_is_named_by_its_commit_and_its_place_in_it() -> None:
    view = event_view(NumberedEvent(4, 2, Event("job.ended", NOW, 7)))
    assert (view["id"], view["job"]) == ("4.2", show(7))
