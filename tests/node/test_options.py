"""What a node is started with: nonsense is refused with a sentence, the rest is found where it was left."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fairway.core.model import Timers
from fairway.errors import InvalidRequest
from fairway.node.app import Node
from fairway.node.databases import choose_database
from fairway.node.options import NodeOptions, scaled_timers, time_scale
from fairway.node.program import _farewell, _greeting
from fairway.store import Leadership


def check(message: str | None, **options: Any) -> None:
    """Options are fine, or refused with a message that says why."""
    if message is None:
        NodeOptions(**options).check()
        return
    with pytest.raises(InvalidRequest, match=re.escape(message)):
        NodeOptions(**options).check()


def test_the_usual_options_are_fine() -> None:
    check(None)


@pytest.mark.parametrize(
    ("beat", "lease", "message"),
    [
        (2.0, 10.0, None),
        (2.0, 4.1, None),
        (2.0, 4.0, "a lease of 4 s must be longer than two beats of 2 s"),
        (2.0, 1.0, "must be longer than two beats"),
        (0.0, 0.0, "must be longer than two beats"),
    ],
)
def test_a_lease_is_longer_than_two_beats(beat: float, lease: float, message: str | None) -> None:
    check(message, timers=Timers(beat=beat, lease=lease))


@pytest.mark.parametrize("name", ["a", "node-1", "Rack_3.left", "x" * 64])
def test_a_good_name(name: str) -> None:
    check(None, name=name)
    assert NodeOptions(name=name).node_name() == name


@pytest.mark.parametrize("name", ["", "x" * 65, "a b", "a/b", "ü", "a\n", "<b>"])
def test_a_bad_name(name: str) -> None:
    check("must be 1–64 of", name=name)


def test_a_node_without_a_name_makes_one_that_is_good(monkeypatch: pytest.MonkeyPatch) -> None:
    for host in ("web1.example.org", "büro rechner", "x" * 200, "."):
        monkeypatch.setattr("socket.gethostname", lambda host=host: host)
        names = {NodeOptions().node_name() for _ in range(3)}
        assert len(names) > 1  # two nodes on one machine are told apart
        for name in names:
            check(None, name=name)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"slots": 1}, None),
        ({"slots": 10_000}, None),
        ({"slots": None}, None),
        ({"slots": 0}, "slots must be 1 to 10,000"),
        ({"slots": -1}, "slots must be 1 to 10,000"),
        ({"slots": 10_001}, "slots must be 1 to 10,000"),
        ({"async_per_slot": 1}, None),
        ({"async_per_slot": 0}, "async_per_slot must be 1 to 1,000,000"),
        ({"async_per_slot": 1_000_001}, "async_per_slot must be 1 to 1,000,000"),
    ],
)
def test_slots_are_a_number_that_makes_sense(options: dict[str, Any], message: str | None) -> None:
    check(message, **options)


@pytest.mark.parametrize(
    ("listen", "message"),
    [
        ("127.0.0.1:8899", None),
        ("127.0.0.1:0", None),
        ("127.3.2.1:80", None),
        ("localhost:8899", None),
        ("[::1]:8899", None),
        (":8899", None),
        ("127.0.0.1", "not of the form HOST:PORT"),
        ("8899", "not of the form HOST:PORT"),
        ("", "not of the form HOST:PORT"),
        ("127.0.0.1:", "not of the form HOST:PORT"),
        ("127.0.0.1:x", "not of the form HOST:PORT"),
        ("127.0.0.1:-1", "not of the form HOST:PORT"),
        ("127.0.0.1:65536", "not of the form HOST:PORT"),
        ("127.0.0.1:²", "not of the form HOST:PORT"),
        ("0.0.0.0:8899", "would open the scheduler to others"),
        ("[::]:8899", "would open the scheduler to others"),
        ("*:8899", "would open the scheduler to others"),
        ("10.0.0.7:8899", "would open the scheduler to others"),
        ("example.org:8899", "would open the scheduler to others"),
        ("127.evil.example:8899", "would open the scheduler to others"),
        ("128.0.0.1:8899", "would open the scheduler to others"),
    ],
)
def test_a_node_without_a_token_listens_on_this_machine_only(
    listen: str, message: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("FAIRWAY_TOKEN", raising=False)
    check(message, listen=listen)
    monkeypatch.setenv("FAIRWAY_TOKEN", "")
    check(message, listen=listen)


@pytest.mark.parametrize(
    "listen", ["0.0.0.0:8899", "[::]:0", "10.0.0.7:8899", "example.org:8899", "127.0.0.1:0"]
)
def test_with_a_token_it_listens_anywhere(listen: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRWAY_TOKEN", "s3cret")
    check(None, listen=listen)
    assert "s3cret" not in repr(NodeOptions())


@pytest.mark.parametrize("token", ["two words", "tab\t", "ümlaut", "line\n", "x" * 513])
def test_a_token_is_one_word_and_never_shown(token: str) -> None:
    with pytest.raises(InvalidRequest, match="printable ASCII") as refused:
        NodeOptions(token=token).check()
    assert token not in str(refused.value)


@pytest.mark.parametrize(
    ("url", "good"),
    [
        ("http://node-1:8899", True),
        ("https://fairway.example.org", True),
        ("http://10.0.0.7:8899/", True),
        ("http://[fd00::1]:8899", True),
        ("node-1:8899", False),
        ("ftp://node-1", False),
        ("http://", False),
        ("http://user:word@node-1", False),
        ("http://node-1:99999", False),
        ("http://node-1/path", False),
        ("http://node-1?token=x", False),
        ("", False),
    ],
)
def test_what_a_node_advertises_is_an_address(url: str, good: bool) -> None:
    check(None if good else "is not of the form http://host:port", advertise=url)


def test_others_reach_a_node_where_it_listens_unless_it_says_otherwise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "node-1")
    assert NodeOptions().advertised("127.0.0.1", 8899) == "http://127.0.0.1:8899"
    assert NodeOptions().advertised("::1", 8899) == "http://[::1]:8899"
    assert NodeOptions().advertised("0.0.0.0", 8899) == "http://node-1:8899"
    assert NodeOptions(advertise="http://lb:80/").advertised("0.0.0.0", 8899) == "http://lb:80"


@pytest.mark.parametrize(
    ("address", "file"),
    [
        ("sqlite:///data/jobs.db", "data/jobs.db"),
        ("sqlite:////var/lib/jobs.db", "/var/lib/jobs.db"),
        ("jobs.db", "jobs.db"),
        ("/var/lib/jobs.db", "/var/lib/jobs.db"),
    ],
)
def test_a_database_is_a_file(address: str, file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FAIRWAY_DATABASE", raising=False)
    assert NodeOptions(address).database_path() == Path(file)
    monkeypatch.setenv("FAIRWAY_DATABASE", address)
    assert NodeOptions().database_path() == Path(file)
    assert NodeOptions("other.db").database_path() == Path("other.db")  # what is said goes before


@pytest.mark.parametrize("address", ["", " "])
def test_an_empty_address_is_no_wish_for_the_default(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FAIRWAY_DATABASE", raising=False)
    check("database is empty", database=address)
    check(None)
    monkeypatch.setenv("FAIRWAY_DATABASE", address)
    check("FAIRWAY_DATABASE is empty")
    check(None, database="other.db")


@pytest.mark.parametrize("address", ["postgresql://host/db", "sqlite:///", "sqlite://jobs.db", "http://x"])
def test_an_address_that_is_no_file_is_refused(address: str) -> None:
    with pytest.raises(InvalidRequest, match="not of the form sqlite:///"):
        NodeOptions(address).database_path()


def test_without_an_address_the_database_is_in_the_data_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("FAIRWAY_DATABASE", raising=False)
    monkeypatch.setenv("FAIRWAY_HOME", str(tmp_path / "home"))
    assert NodeOptions().database_path() == tmp_path / "home" / "fairway.db"
    assert NodeOptions(data_dir=tmp_path).database_path() == tmp_path / "fairway.db"


@pytest.mark.parametrize(("text", "scale"), [("1", 1.0), ("0.05", 0.05), ("100", 100.0)])
def test_all_timers_are_scaled_together(text: str, scale: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRWAY_TIME_SCALE", text)
    options = NodeOptions()
    usual = Timers()
    assert (options.timers.beat, options.timers.lease) == (usual.beat * scale, usual.lease * scale)
    assert options.leader_ttl == 5.0 * scale and options.timers == scaled_timers(scale)
    options.check()


@pytest.mark.parametrize("text", ["0", "-1", "101", "fast", "nan", "inf", ""])
def test_a_scale_that_makes_no_sense_is_refused(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRWAY_TIME_SCALE", text)
    with pytest.raises(InvalidRequest, match="must be a number from"):
        time_scale()


def test_a_node_greets_with_where_it_is_and_what_to_try() -> None:
    about = {"name": "n1", "url": "http://127.0.0.1:8899", "path": Path("jobs.db"), "prefix": ""}
    node = SimpleNamespace(**about, engine=object())
    first, *rest = _greeting([node])  # type: ignore[list-item]
    assert first.startswith("fairway ") and first.endswith(", node n1")
    assert "http://127.0.0.1:8899" in rest[0] and "jobs.db" in rest[1]
    assert any(line.endswith("submit --wait -- echo hello") for line in rest)
    assert not any("--url" in line for line in rest)


def test_a_node_that_stands_by_says_who_leads_and_how_to_reach_itself() -> None:
    node = Node(NodeOptions("f", name="n1"))
    node.url = "http://127.0.0.1:7"
    assert "  stands by: nobody leads just now\n" in list(_greeting([node]))
    node.link.see(Leadership(3, "holder", "n2", "http://127.0.0.1:8", 0, 5))
    lines = list(_greeting([node]))
    assert "  stands by: n2 at http://127.0.0.1:8 leads\n" in lines
    assert any("--url http://127.0.0.1:7 submit" in line for line in lines)


def test_schedulers_of_one_process_are_greeted_with_one_by_one() -> None:
    nodes = [
        SimpleNamespace(
            name="n1", url=f"http://127.0.0.1:7/{name}", path=Path(name), engine=object(), prefix=f"/{name}",
            options=SimpleNamespace(scheduler=name),
        )
        for name in ("day", "night")
    ]  # fmt: skip
    lines = list(_greeting(nodes))  # type: ignore[arg-type]
    assert [line.partition(", ")[2] for line in lines if line.startswith("fairway ")] == [
        "scheduler day: node n1",
        "scheduler night: node n1",
    ]
    assert any("--url http://127.0.0.1:7/day submit" in line for line in lines)


@pytest.mark.parametrize(
    ("left", "sentence"),
    [
        ({}, "stopped; another node leads"),
        ({"handed_back": 2}, "stopped; another node leads"),
        ({"waiting": 0, "running": 0}, "stopped; nothing is left"),
        (
            {"waiting": 3, "running": 0},
            "stopped; left: 3 waiting. Nothing is lost: they go on at the next start",
        ),
        (
            {"waiting": 3, "running": 0, "handed_back": 2},
            "stopped; left: 3 waiting, 2 of them handed back by this node's worker. "
            "Nothing is lost: they go on at the next start",
        ),
        (
            {"waiting": 0, "running": 4},
            "stopped; left: 0 waiting, 4 running on other workers. "
            "Nothing is lost: they go on at the next start",
        ),
        (
            {"waiting": 3, "running": 0, "handed_back": 2, "failed": 1},
            "stopped; left: 3 waiting, 2 of them handed back by this node's worker. "
            "1 failed meanwhile; the others go on at the next start",
        ),
        ({"waiting": 0, "running": 0, "failed": 1}, "stopped; nothing is left, 1 failed meanwhile"),
    ],
)
def test_a_node_says_what_it_leaves_behind(left: dict[str, int], sentence: str) -> None:
    assert _farewell(left) == sentence


def test_a_node_with_nonsense_options_is_not_made() -> None:
    with pytest.raises(InvalidRequest):
        Node(NodeOptions(slots=0))


def test_a_scheduler_has_a_file_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FAIRWAY_DATABASE", raising=False)
    assert NodeOptions(data_dir=tmp_path, scheduler="night").database_path() == tmp_path / "fairway-night.db"
    assert NodeOptions("x/jobs.db", scheduler="night").database_path() == Path("x/jobs-night.db")
    assert NodeOptions("x/jobs.db", scheduler="fairway").database_path() == Path("x/jobs.db")  # the default
    check("cannot name a scheduler", scheduler="../x")


@pytest.mark.parametrize(
    ("address", "scheduler", "schema"),
    [
        ("postgresql://host/db", None, "fairway"),
        ("postgresql://host/db", "night", "night"),
        ("postgres://u:pass@host,other:5433/db?scheduler=day&sslmode=require", None, "day"),
        ("postgres://u:pass@host,other:5433/db?scheduler=day", "night", "night"),
    ],
)
def test_a_scheduler_has_a_schema_of_its_own(address: str, scheduler: str | None, schema: str) -> None:
    database = choose_database(NodeOptions(address, scheduler=scheduler))
    assert database.store.kind == "postgres" and database.lock is None
    assert database.store.schema == schema  # type: ignore[attr-defined]
    assert "pass" not in str(database.shown)
