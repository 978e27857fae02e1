"""Queues, workers, events, cluster, doctor, init: each against a stand-in or the machine itself."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from fairway import __version__
from fairway.api.queues import SettingsChanges
from fairway.cli import checks, doctor
from fairway.cli.events import line
from fairway.cli.main import main
from fairway.cli.queues import SETTINGS, read_change
from fairway.client.problems import timed_out, unreachable
from fairway.errors import FairwayError, NoLeader, Refused
from tests.cli.stand_in import StandIn, job

QUEUE = {
    "path": "acme",
    "settings": {"limit": 1, "paused": False, "discipline": None},
    "waiting": 2,
    "scheduled": 0,
    "running": 1,
    "oldest_wait": 61.0,
    "limited_by": "acme",
    "begun": 40,
    "ended": 39,
    "rates": {"in": 2.5, "begun": 1.5, "out": 1.25},
    "wait": {"p50": 1.0, "p90": 4.0, "p99": 9.0},
    "run": {"p50": 0.25, "p90": 0.5, "p99": 1.0},
    "errors": 0.125,
    "slot_seconds": 99.0,
}
WORKER = {
    "name": "w1",
    "incarnation": "abc",
    "state": "up",
    "slots": 2,
    "busy": 0.5,
    "running": 50,
    "tags": ["gpu"],
    "adapters": ["command", "http"],
    "tasks": [
        {"name": "shop.send", "signature": "(to: str) -> None", "async": True},
        {"name": "shop.count", "signature": None, "async": False},
    ],
    "queues": ["acme/*"],
    "facts": {
        "cpus": 2,
        "cpu": "Fast CPU",
        "load": 0.25,
        "memory_bytes": 16_000_000_000,
        "memory_free_bytes": 4_200_000_000,
        "disk_free_bytes": 7e11,
        "region": "eu-1",
        "cloud": "aws",
        "rack": "r7",
    },
    "versions": {"fairway": "0.1.0", "python": "3.11.7", "http": "httpx 0.28"},
    "joined_at": "2026-01-01T00:00:00Z",
    "last_beat_seconds": 0.25,
    "version": "0.1.0",
}


def test_queues_are_listed_with_what_holds_them_up(node: StandIn) -> None:
    node.answer("GET /v1/queues", {"queues": [QUEUE]})
    heading, row = node.run("queues", "list").stdout.splitlines()
    assert heading.startswith("queue  waiting  scheduled  running  limit  oldest wait  in/s  out/s  wait p90")
    assert " ".join(row.split()) == "acme 2 0 1 1 1 min 2.5 1.25 4 s 250 ms 12.5% - acme"


def test_queues_are_listed_as_a_tree(node: StandIn) -> None:
    paths = ["acme", "acme/mail", "acme/mail/bulk", "beta"]
    node.answer("GET /v1/queues", {"queues": [{**QUEUE, "path": path} for path in paths]})
    lines = node.run("queues", "list").stdout.splitlines()[1:]
    assert [line[:12].rstrip() for line in lines] == ["acme", "  mail", "    bulk", "beta"]


def test_a_queue_is_shown_with_its_numbers_and_flows(node: StandIn) -> None:
    flow = {
        **QUEUE,
        "flow": "ann",
        "waiting": 7,
        "running": 2,
        "share": 0.25,
        "weight": 3.0,
        "slot_seconds": 3.5,
    }
    node.answer("GET /v1/queues/acme", {**QUEUE, "flows": [flow, {**flow, "flow": None}]})
    node.answer("GET /v1/queues/acme/-/next", {"jobs": [job()]})
    said = node.run("queues", "show", "acme").stdout
    for words in (
        "rates         in 2.5/s, begun 1.5/s, out 1.25/s",
        "wait          p50 1 s, p90 4 s, p99 9 s",
        "run           p50 250 ms, p90 500 ms, p99 1 s",
        "errors        12.5%",
        "slot-seconds  99.0 in 40 attempts",
        "next  1",
        "flow    waiting  running  oldest wait  in/s  out/s",
        "ann           7        2",
        "25.0%",
        "(none)",
    ):
        assert words in said


def test_demand_is_shown_shape_by_shape(node: StandIn) -> None:
    shape = {
        "adapter": "python", "task": "shop.send", "tags": ["gpu", "eu"], "jobs": 12, "slots": 1.2,
        "seconds": 0.5, "running": 2, "slots_there": 4, "slots_free": 1.5,
    }  # fmt: skip
    answer = {"slots": 8, "free": 1.5, "shapes": [shape], "more": 2}
    node.answer("GET /v1/demand", answer)
    result = node.run("demand")
    assert result.stdout.splitlines()[0] == "8 slots, 1.5 free"
    row = result.stdout.splitlines()[2]
    assert " ".join(row.split()) == "python shop.send gpu, eu 12 1.2 500 ms 2 4 1.5"
    assert "2 shapes more" in result.stderr
    assert json.loads(node.run("demand", "--json").stdout) == answer


@pytest.mark.parametrize(
    ("limited_by", "shown"),
    [
        ("paused of 'acme'", "acme: paused"),
        ("limit of 'acme/b'", "acme/b: limit is full"),
        ("quota", "quota"),
    ],
)
def test_what_holds_a_queue_up_is_named_first(node: StandIn, limited_by: str, shown: str) -> None:
    node.answer("GET /v1/queues", {"queues": [{**QUEUE, "limited_by": limited_by}]})
    assert node.run("queues", "list").stdout.endswith(f"  {shown}\n")


def test_the_settings_are_those_of_the_api() -> None:
    assert SettingsChanges.__struct_fields__ == SETTINGS


@pytest.mark.parametrize(
    ("text", "change"),
    [
        ("limit=3", ("limit", 3)),
        ("limit=none", ("limit", None)),
        ("timeout=none", ("timeout", "none")),
        ("timeout=null", ("timeout", None)),
        ("paused=true", ("paused", True)),
        ("paused=False", ("paused", False)),
        ("discipline=fifo", ("discipline", "fifo")),
        ("limit=-1", ("limit", -1)),
        ("weight=2.5", ("weight", 2.5)),
        ("weight=1e2", ("weight", 100)),
        ("weight=2.5E-1", ("weight", 0.25)),
        ("weight=-1.5", ("weight", -1.5)),
        ("limit=2.0", ("limit", 2.0)),
        ("limit=99999999999999999999", ("limit", 99999999999999999999)),
        ("limit=1e", ("limit", "1e")),
        ("rate=100/min", ("rate", "100/min")),
        ('flow_weights={"gold": 3}', ("flow_weights", {"gold": 3})),
    ],
)
def test_settings_are_read_as_what_they_are(text: str, change: tuple[str, Any]) -> None:
    assert read_change(text) == change


@pytest.mark.parametrize(("text", "number"), [("weight=1e308", int(1e308)), (f"weight={10**30}", 10**30)])
def test_a_number_of_any_size_is_sent_as_one(node: StandIn, text: str, number: int) -> None:
    node.answer("PATCH /v1/queues/acme", QUEUE)
    assert node.run("queues", "set", "acme", text).exit_code == 0
    assert node.asked[-1].body == {"weight": number}


def test_a_queue_that_cannot_be_is_refused_before_it_is_asked_for(node: StandIn) -> None:
    result = node.run("queues", "set", "a\nb", "limit=3")
    assert (result.exit_code, node.asked) == (2, [])
    assert r"queue 'a\nb' is not a queue path: write 1 to 8 segments of ASCII letters" in result.stderr


def test_set_pause_and_resume_send_only_what_changes(node: StandIn) -> None:
    node.answer("PATCH /v1/queues/acme/emails", QUEUE)
    for words in (["set", "acme/emails", "limit=none", "discipline=fifo"], ["pause", "acme/emails"]):
        assert node.run("queues", *words).exit_code == 0
    assert node.run("queues", "resume", "acme/emails").exit_code == 0
    words = ["max_attempts=3", "timeout=90s", 'backoff={"first": 1}', "retention=30d"]
    assert node.run("queues", "set", "acme/emails", *words).exit_code == 0
    assert node.asked.pop().body == {
        "max_attempts": 3, "timeout": "90s", "backoff": {"first": 1}, "retention": "30d",
    }  # fmt: skip
    bodies = [asked.body for asked in node.asked]
    assert bodies == [{"limit": None, "discipline": "fifo"}, {"paused": True}, {"paused": False}]


def test_a_worker_is_attached_to_one_more_queue_and_detached_from_it(node: StandIn) -> None:
    node.answer("GET /v1/workers/w1", WORKER)
    node.answer("PATCH /v1/workers/w1", {**WORKER, "queues": ["acme/*", "b"]})
    assert node.run("queues", "attach", "b", "w1").stdout == "w1 takes jobs of: acme/*, b\n"
    assert node.asked[-1].body == {"queues": ["acme/*", "b"]}
    node.run("queues", "detach", "acme/*", "w1")
    assert node.asked[-1].body == {"queues": []}
    result = node.run("queues", "detach", "acme/x", "w1")
    assert (result.exit_code, "but to: acme/*" in result.stderr) == (1, True)


def test_workers_are_listed_shown_and_drained(node: StandIn) -> None:
    node.answer("GET /v1/workers", {"workers": [WORKER]})
    node.answer("GET /v1/workers/w1", WORKER)
    node.answer("PATCH /v1/workers/w1", WORKER)
    assert (
        node.run("workers", "list")
        .stdout.splitlines()[1]
        .startswith("w1      up         2   0.5       50  acme/*")
    )
    assert "slots        0.5 of 2 busy, 50 attempts" in node.run("workers", "show", "w1").stdout
    assert node.run("workers", "tasks", "w1").stdout == "async shop.send(to: str) -> None\nshop.count\n"
    assert node.run("workers", "drain", "w1").stdout == "w1 takes no more jobs; 50 still run there\n"
    assert node.asked[-1].body == {"draining": True}
    assert node.run("workers", "slots", "w1", "4").stdout == "w1 has 4 slots, 0.5 of them busy\n"
    assert node.asked[-1].body == {"slots": 4}
    assert node.run("workers", "slots", "w1", "0").exit_code == 2


def test_what_is_not_known_of_a_worker_is_a_dash(node: StandIn) -> None:
    unknown = ("slots", "busy", "tags", "adapters", "tasks", "queues", "joined_at", "last_beat_seconds")
    found = {**WORKER, **dict.fromkeys(unknown), "state": "silent", "facts": {}, "versions": {}}
    node.answer("GET /v1/workers", {"workers": [found]})
    node.answer("GET /v1/workers/w1", found)
    row = node.run("workers", "list").stdout.splitlines()[1]
    assert " ".join(row.split()) == "w1 silent - - 50 - - - -"
    shown = [" ".join(text.split()) for text in node.run("workers", "show", "w1").stdout.splitlines()]
    assert {"slots - of - busy, 50 attempts", "queues -", "joined -", "last beat -"} <= set(shown)
    assert node.run("workers", "tasks", "w1").exit_code == 0
    attached = node.run("queues", "attach", "b", "w1")
    assert (attached.exit_code, "is not known" in attached.stderr) == (1, True)
    assert {asked.method for asked in node.asked} == {"GET"}


def test_a_drain_may_have_a_deadline_and_be_waited_for(node: StandIn) -> None:
    node.answer("PATCH /v1/workers/w1", WORKER)
    node.answer("GET /v1/workers/w1", {**WORKER, "running": 0})
    drained = node.run("workers", "drain", "w1", "--deadline", "30s", "--wait")
    assert drained.stdout == "w1 takes no more jobs; nothing runs there\n"
    assert [one.body for one in node.asked if one.body] == [{"draining": True, "deadline": 30.0}]


def test_a_worker_that_left_has_nothing_left(node: StandIn) -> None:
    node.answer("PATCH /v1/workers/w1", WORKER)
    assert "nothing runs there" in node.run("workers", "drain", "w1", "--wait").stdout


def test_a_worker_is_shown_in_words(node: StandIn) -> None:
    node.answer("GET /v1/workers/w1", WORKER)
    shown = [" ".join(text.split()) for text in node.run("workers", "show", "w1").stdout.splitlines()]
    for words in (
        "adapters command, http (httpx 0.28)",
        "versions fairway 0.1.0, python 3.11.7",
        "cpu 2 cores, Fast CPU, load 0.25",
        "memory 4.2 GB of 16.0 GB free",
        "disk 700.0 GB free",
        "stands in aws, eu-1",
        "rack r7",
        "task async shop.send(to: str) -> None",
    ):
        assert words in shown


def test_a_name_cannot_leave_its_place_in_the_path(node: StandIn) -> None:
    node.run("workers", "show", "../jobs?x=1#y")
    assert node.asked[-1].path == "/v1/workers/..%2Fjobs%3Fx%3D1%23y"


def test_an_event_is_one_line_that_obeys_nothing() -> None:
    event = {
        "at": "T",
        "kind": "finished",
        "job": "06abcdefghjkm",
        "queue": "a",
        "worker": "w\x1b",
        "detail": None,
    }
    assert line("17.0", "finished", event) == "T  17.0  finished       06abcdefghjkm  a  worker=w\\x1b"


def test_the_cluster_is_shown_and_steps_down(node: StandIn) -> None:
    cluster = {
        "leader": "n1",
        "term": 3,
        "nodes": [
            {"name": "n1", "url": "http://x", "version": "0.1.0", "role": "leads", "link": None},
            {"name": "n2", "url": "http://y", "role": "does not lead", "link": "store only"},
            {"name": "n3", "url": "http://z"},
        ],
        "history": [{"term": 3, "name": "n1", "elected_at": "2026-01-01T00:00:00Z"}],
    }
    node.answer("GET /v1/cluster", cluster)
    node.answer("POST /v1/cluster/step-down", cluster)
    said = node.run("cluster").stdout
    assert "leader  n1\nterm    3\n" in said
    assert "through the store only" in said and "does not lead" in said and "not known" in said
    assert json.loads(node.run("cluster", "--json").stdout) == cluster
    assert node.run("cluster", "step-down").exit_code == 0


def test_the_doctor_warns_of_what_will_hurt() -> None:
    assert checks.check_python((3, 10, 1)).status == "fail"
    assert checks.check_sqlite("3.40.1").status == "fail"
    assert checks.check_sqlite("3.51.3").status == "ok"
    assert checks.check_open_files(256).status == "warn"
    assert checks.check_open_files(-1).status == "ok"
    assert doctor.check_versions({__version__, "9.9"}).status == "warn"
    assert doctor.check_clock([3.0, None]).status == "ok"
    assert doctor.check_clock([-30.0]).status == "warn"
    assert doctor.check_clock([3600.0]).status == "warn"


@pytest.mark.parametrize(
    ("error", "advice"),
    [
        (unreachable("http://n1:8899", ConnectionRefusedError()), "start one with `fairway up`, or"),
        (timed_out("http://n1:8899", 5.0), "there is one: look at its log"),
        (NoLeader("nobody leads"), "there is one: look at its log"),
        (Refused("send a token", code="token_required"), "give it with --token, or set FAIRWAY_TOKEN"),
        (Refused("not valid", code="token_invalid"), "give it with --token, or set FAIRWAY_TOKEN"),
    ],
)
def test_the_doctor_advises_to_start_a_node_only_if_none_answers(error: FairwayError, advice: str) -> None:
    def ask() -> Any:
        raise error

    (found,) = doctor.check_node(ask)
    assert (found.status, found.check) == ("fail", "node")
    assert found.advice.startswith(advice)


@pytest.mark.parametrize(
    ("code", "says"),
    [("token_required", "the node wants a token"), ("token_invalid", "the token is not the node's")],
)
def test_a_token_that_is_missing_or_wrong_is_asked_for_by_its_option(
    node: StandIn, code: str, says: str
) -> None:
    node.answer(
        "GET /v1/jobs", {"code": code, "detail": "Authorization: Bearer ...", "status": 401}, status=401
    )
    result = node.run("jobs", "list")
    assert result.exit_code == 1
    assert result.stderr == f"fairway: {says}; give it with --token, or set FAIRWAY_TOKEN\n"


def test_the_doctor_is_content_with_a_node_that_leads(node: StandIn, tmp_path: Path) -> None:
    members = [{"name": "n1", "version": __version__, "seen_at": "2026-01-01T00:00:00Z"}]
    node.answer("GET /v1/cluster", {"leader": "n1", "term": 1, "this": "n1", "nodes": members})
    result = node.run("doctor", "--json", "--database", f"sqlite:///{tmp_path}/fairway.db")
    found = {one["check"]: one["status"] for one in json.loads(result.stdout)["findings"]}
    assert found["node"] == found["leader"] == found["version"] == found["python"] == "ok"


def test_the_doctor_tells_what_failed_inside_the_leader(node: StandIn, tmp_path: Path) -> None:
    call = {
        "what": "submit of 1 job to queue 'q'", "error": "KeyError: 'x' at fairway/core/tree.py:3",
        "job": None, "leaders": 2, "refused": True, "first_at": "2026-01-01T00:00:00Z",
        "last_at": "2026-01-01T00:00:01Z", "until": "2026-01-02T00:00:01Z",
    }  # fmt: skip
    failed = {
        "part": "forecast",
        "place": "fairway/core/eta.py:7",
        "error": "ZeroDivisionError",
        "count": 1200,
    }
    job = call | {"what": "job 06abc, stored", "job": "06abc"}
    node.answer("GET /v1/cluster", {"leader": "n1", "term": 1, "this": "n1", "nodes": []})
    node.answer(
        "GET /v1/cluster/troubles",
        {"advisory": [failed], "culprits": [call, job, call | {"leaders": 1, "refused": False}]},
    )
    said = node.run("doctor", "--database", f"sqlite:///{tmp_path}/fairway.db").stdout
    for words in (
        "the forecast failed 1,200 times in this term: ZeroDivisionError at fairway/core/eta.py:7",
        "submit of 1 job to queue 'q' ended 2 leaders: KeyError: 'x' at fairway/core/tree.py:3",
        "it is refused until 2026-01-02T00:00:01Z or an upgrade; please report it",
        "it is set aside: `fairway jobs cancel 06abc` ends it",
        "ended 1 leader: KeyError",
        "if it ends another leader, it is kept out",
    ):
        assert words in said
    node.answer("GET /v1/cluster/troubles", {"advisory": [], "culprits": []})
    found = json.loads(node.run("doctor", "--json", "--database", f"sqlite:///{tmp_path}/fairway.db").stdout)
    assert {one["check"]: one["status"] for one in found["findings"]}.items() >= {
        "advice": "ok",
        "calls": "ok",
    }.items()


def test_a_queue_is_shown_although_the_order_of_its_jobs_cannot_be_told(node: StandIn) -> None:
    node.answer(
        "GET /v1/queues/q", {"path": "q", "waiting": 3, "rates": None, "begun": None, "slot_seconds": 2.0}
    )
    node.answer(
        "GET /v1/queues/q/-/next",
        {"code": "no_advice", "detail": "cannot be told", "status": 500},
        status=500,
    )
    shown = node.run("queues", "show", "q")
    assert shown.exit_code == 0, shown.stderr
    assert "waiting" in shown.stdout and "cannot be told" in shown.stdout


def test_init_creates_a_file_and_leaves_foreign_ones_alone(tmp_path: Path) -> None:
    def check(name: str, exit_code: int) -> None:
        before = (tmp_path / name).read_bytes() if (tmp_path / name).exists() else None
        result = CliRunner().invoke(main, ["init", "--database", f"sqlite:///{tmp_path}/{name}"])
        assert result.exit_code == exit_code, result.stderr
        if exit_code:
            assert (tmp_path / name).read_bytes() == before
            assert len(result.stderr.splitlines()) == 1

    (tmp_path / "letter.db").write_text("Dear all,")
    with sqlite3.connect(tmp_path / "other.db") as other:
        other.execute("CREATE TABLE meta (key TEXT)")
    other.close()
    check("new/fairway.db", 0)
    check("new/fairway.db", 0)
    check("letter.db", 1)
    check("other.db", 1)


def test_init_creates_the_file_of_one_scheduler(tmp_path: Path) -> None:
    line = ["init", "--database", f"sqlite:///{tmp_path}/jobs.db", "--scheduler", "night"]
    assert CliRunner().invoke(main, line).exit_code == 0
    assert [file.name for file in tmp_path.glob("*.db")] == ["jobs-night.db"]


def test_init_answers_with_a_document(tmp_path: Path) -> None:
    line = ["init", "--database", f"sqlite:///{tmp_path}/jobs.db", "--json"]
    for created in (True, False):
        document = json.loads(CliRunner().invoke(main, line).stdout)
        assert document == {"database": f"{tmp_path}/jobs.db", "created": created}


def test_the_doctor_looks_into_the_file_and_leaves_no_trace(tmp_path: Path) -> None:
    def check(name: str, status: str, says: str) -> None:
        before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
        finding = checks.check_database(tmp_path / name)
        assert (finding.status, finding.check) == (status, "database")
        assert says in finding.found
        assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before

    CliRunner().invoke(main, ["init", "--database", f"sqlite:///{tmp_path}/ours.db"])
    (tmp_path / "garbage.db").write_bytes(b"hello, I am no database at all" * 100)
    (tmp_path / "empty.db").touch()
    (tmp_path / "cut.db").write_bytes((tmp_path / "ours.db").read_bytes()[:5000])
    with sqlite3.connect(tmp_path / "other.db") as other:
        other.execute("CREATE TABLE meta (key TEXT)")
    other.close()
    check("ours.db", "ok", "is Fairway's")
    check("empty.db", "ok", "empty")
    check("nowhere.db", "ok", "is not there yet")
    check("garbage.db", "fail", "garbage.db is damaged or no SQLite database: file is not a database")
    check("cut.db", "fail", "cut.db is damaged or no SQLite database")
    check("other.db", "fail", "other.db is not a Fairway database")


def test_the_doctor_fails_on_a_file_that_is_garbage(tmp_path: Path) -> None:
    (tmp_path / "g.db").write_text("garbage")
    result = CliRunner().invoke(main, ["doctor", "--json", "--database", f"sqlite:///{tmp_path}/g.db"])
    found = {one["check"]: one["status"] for one in json.loads(result.stdout)["findings"]}
    assert found["database"] == "fail"


def test_ctrl_c_says_that_the_worker_goes_on_draining(node: StandIn) -> None:
    node.answer("PATCH /v1/workers/w1", WORKER)
    node.answer("GET /v1/workers/w1", WORKER)
    is_waiting, take = threading.Event(), node.take

    def watch(asked: Any) -> Any:
        if asked.method == "GET":
            is_waiting.set()
        return take(asked)

    node.take = watch  # type: ignore[method-assign]
    process = subprocess.Popen(
        [sys.executable, "-m", "fairway.cli", "workers", "drain", "w1", "--wait"],
        env={**os.environ, "FAIRWAY_URL": node.url},
        stderr=subprocess.PIPE,
        text=True,
    )
    assert is_waiting.wait(60)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert said.rstrip() == "w1 goes on draining; give it jobs again with: fairway workers resume w1"
    assert process.returncode == 130
