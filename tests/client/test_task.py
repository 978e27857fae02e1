"""Tasks: names, options, and arguments that come back as what they were."""

from __future__ import annotations

import asyncio
import enum
import json
import subprocess
import sys
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal, NamedTuple
from uuid import UUID

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fairway
from fairway.errors import Conflict, InvalidRequest

app = fairway.App(url="http://127.0.0.1:1")


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Point:
    x: int
    at: datetime


class Mail(msgspec.Struct):
    to: str
    copies: list[UUID] = []


class Pair(NamedTuple):
    left: Decimal
    right: date


@app.task
def everything(
    when: datetime,
    key: UUID,
    price: Decimal,
    colour: Colour,
    point: Point,
    mail: Mail,
    pair: Pair,
    names: set[str],
    counts: dict[int, timedelta],
    data: bytes,
    maybe: date | None = None,
    *,
    choice: Literal["a", "b"] = "a",
    other: Later | None = None,
) -> tuple[Point, Decimal]:
    return point, price


class Later(msgspec.Struct):
    """Defined below the task that names it."""

    number: int


def payload_of(request: fairway.JobRequest[Any]) -> bytes:
    """Write a job's payload as the store keeps it."""
    return b'{"args":' + request.args + b',"kwargs":' + request.kwargs + b"}"


def round_trip(task: fairway.Task[..., Any], *args: Any, **kwargs: Any) -> Any:
    return task.load(payload_of(task.job(*args, **kwargs)))


times = st.datetimes(datetime(1970, 1, 1), datetime(9999, 1, 1), timezones=st.just(UTC))
points = st.builds(Point, st.integers(-(2**63), 2**63 - 1), times)
decimals = st.decimals(allow_nan=False, allow_infinity=False)
spans = st.timedeltas(timedelta(days=-100_000), timedelta(days=100_000))


@given(
    st.tuples(
        times,
        st.uuids(),
        decimals,
        st.sampled_from(Colour),
        points,
        st.builds(Mail, st.text(), st.lists(st.uuids())),
        st.builds(Pair, decimals, st.dates()),
        st.sets(st.text()),
        st.dictionaries(st.integers(-(2**63), 2**63 - 1), spans),
        st.binary(),
        st.none() | st.dates(),
    ),
    st.fixed_dictionaries(
        {}, optional={"choice": st.sampled_from("ab"), "other": st.builds(Later, st.integers(0, 9))}
    ),
)
def test_arguments_come_back_as_they_were(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    assert round_trip(everything, *args, **kwargs) == (args, kwargs)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.text()
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)  # fmt: skip


@app.task
def anything(*args: Any, **kwargs: Any) -> Any:
    return args, kwargs


@given(st.lists(json_values), st.dictionaries(st.text(min_size=1), json_values))
def test_plain_values_come_back_as_they_were(args: list[Any], kwargs: dict[str, Any]) -> None:
    assert anything.load(json.dumps({"args": args, "kwargs": kwargs}).encode()) == (tuple(args), kwargs)


@app.task
def spread(*times: datetime, **keys: UUID) -> None: ...


def test_starred_parameters_are_converted_too() -> None:
    moment, key = datetime(2026, 1, 2, tzinfo=UTC), UUID(int=7)
    assert round_trip(spread, moment, moment, a=key) == ((moment, moment), {"a": key})


@pytest.mark.parametrize(
    ("payload", "says"),
    [
        (b"{", "truncated"),
        (b'{"args": 3}', "Expected `array`"),
        (b'{"args": ["yesterday"], "kwargs": {}}', "'moment' does not fit datetime"),
        (b'{"args": [], "kwargs": {"moment": 3.5}}', "'moment' does not fit datetime"),
    ],
)
def test_what_never_fits_is_a_permanent_failure(payload: bytes, says: str) -> None:
    local = fairway.App()

    @local.task
    def timed(moment: datetime) -> None: ...

    with pytest.raises(fairway.PermanentFailure, match=says):
        timed.load(payload)


def test_a_value_goes_out_as_json() -> None:
    assert json.loads(everything.dump((Point(1, datetime(2026, 1, 1, tzinfo=UTC)), Decimal("1.50")))) == [
        {"x": 1, "at": "2026-01-01T00:00:00Z"},
        "1.50",
    ]


def test_what_json_cannot_carry_is_refused_where_it_is_given() -> None:
    with pytest.raises(TypeError, match=r"an argument of [\w.]*test_task\.anything"):
        anything.job(object())
    with pytest.raises(TypeError, match=r"test_task\.anything returned"):
        anything.dump(object())


def test_a_hint_that_json_cannot_carry_is_refused_by_name() -> None:
    local = fairway.App()

    @local.task
    def reads(path: Path) -> None: ...

    with pytest.raises(TypeError, match="argument 'path': JSON cannot carry Path"):
        reads.load(b'{"args":["x"],"kwargs":{}}')


def test_a_request_does_not_change_with_its_arguments() -> None:
    names = ["a"]
    request = anything.job(names)
    names.append("b")
    assert anything.load(payload_of(request)) == ((["a"],), {})


@app.task
def spread_needs(*, name: str) -> str:
    return name


def test_wrong_arguments_are_refused_at_the_call() -> None:
    wrong: list[tuple[Any, tuple[int, ...]]] = [(everything, ()), (spread_needs, ()), (spread_needs, (1,))]
    for task, args in wrong:
        with pytest.raises(TypeError, match=f"{task.__name__}.*(required|too many)"):
            task.submit(*args)


def test_a_task_is_still_its_function() -> None:
    assert spread_needs(name="x") == "x"
    assert (spread_needs.__name__, spread_needs.name) == ("spread_needs", f"{__name__}.spread_needs")
    assert spread_needs.signature == "(*, name: 'str') -> 'str'"


def test_an_async_task_is_still_its_coroutine_function() -> None:
    local = fairway.App()

    @local.task
    async def double(number: int) -> int:
        return 2 * number

    assert double.is_async
    assert asyncio.run(double(4)) == 8


def test_two_tasks_cannot_have_one_name() -> None:
    local = fairway.App()
    local.task(name="mail.send")(lambda: None)
    with pytest.raises(Conflict, match=r"two tasks are named 'mail.send': .*test_task.py:\d+ and ") as raised:
        local.task(name="mail.send")(lambda: None)
    assert raised.value.code == "duplicate_task"


@pytest.mark.parametrize("name", ["a b", "1", "x" * 201, "a..b"])
def test_what_cannot_be_a_name_is_refused(name: str) -> None:
    with pytest.raises(InvalidRequest, match="is not a task name"):
        fairway.App().task(name=name)(lambda: None)


def test_a_lambda_needs_a_name() -> None:
    with pytest.raises(InvalidRequest, match="give name="):
        fairway.App().task(lambda: None)


def test_a_script_names_its_tasks_as_a_worker_that_imports_it(tmp_path: Path) -> None:
    script = tmp_path / "jobs.py"
    script.write_text("import fairway\napp = fairway.App()\n@app.task\ndef f(): ...\nprint(f.name)\n")
    for command in ([str(script)], ["-m", "jobs"], ["-c", "import jobs"]):
        run = subprocess.run(
            [sys.executable, *command], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True
        )
        assert run.stdout == "jobs.f\n", command


def options_of(task: fairway.Task[..., Any]) -> dict[str, Any]:
    body = task.job().body()
    return {name: value for name, value in body.items() if name not in ("task", "args", "kwargs")}


def test_options_are_sent_as_the_node_names_them() -> None:
    local = fairway.App(queue="acme")

    @local.task(timeout="5m", backoff={"first": timedelta(seconds=2), "max": "1h"}, max_attempts=None)
    def send() -> None: ...

    base = {"queue": "acme", "timeout": 300.0, "backoff": {"first": 2.0, "max": 3600.0}, "max_attempts": None}
    assert options_of(send) == base
    moment = datetime(2030, 1, 1, tzinfo=UTC)
    copy = send.options(queue="other", at=moment, tags=("gpu",), flow="u7", unique="k", concurrency=2)
    assert options_of(copy) == {
        **base,
        "queue": "other",
        "run_at": "2030-01-01T00:00:00+00:00",
        "tags": ["gpu"],
        "flow": "u7",
        "unique": "k",
        "concurrency": 2,
    }
    assert options_of(copy.options(delay=5))["delay"] == 5.0
    deadlines = (timedelta(minutes=1), "2h", moment, "2030-01-01T00:00:00Z", None)
    sent = [options_of(send.options(deadline=one))["deadline"] for one in deadlines]
    assert sent == [60.0, 7200.0, "2030-01-01T00:00:00+00:00", "2030-01-01T00:00:00Z", None]
    assert "run_at" not in options_of(copy.options(delay=5))
    assert options_of(send) == base


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"colour": "red"}, "colour"),
        ({"delay": "soon"}, "delay"),
        ({"delay": -1}, "delay"),
        ({"delay": 1, "run_at": "2030-01-01T00:00:00Z"}, "delay"),
        ({"run_at": datetime(2030, 1, 1)}, "run_at"),
        ({"run_at": 5}, "run_at"),
        ({"deadline": "soon"}, "deadline"),
        ({"deadline": datetime(2030, 1, 1)}, "deadline"),
        ({"priority": "high"}, "priority"),
        ({"priority": True}, "priority"),
        ({"concurrency": None}, "concurrency"),
        ({"tags": "gpu"}, "tags"),
        ({"queue": 3}, "queue"),
        ({"backoff": 3}, "backoff"),
        ({"backoff": {"last": 3}}, "backoff"),
    ],
)
def test_a_wrong_option_is_refused_by_name(options: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidRequest) as raised:
        anything.options(**options)
    assert raised.value.field == field


def test_url_and_database_exclude_each_other() -> None:
    with pytest.raises(InvalidRequest, match="not both"):
        fairway.App(url="http://127.0.0.1:8899", database="sqlite:///x.db")
