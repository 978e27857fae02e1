"""Called wrong: exit code 2, one or two lines on stderr, and nothing is sent anywhere."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from fairway import __version__
from fairway.cli.main import COMMANDS, describe, main
from fairway.cli.output import clean
from fairway.errors import FairwayError

NOWHERE = "http://127.0.0.1:1"  # nothing listens there: a call would end with 1, not 2


def check(line: str, says: str, exit_code: int = 2) -> None:
    """`fairway` with this line of arguments ends with *exit_code* and says so on stderr."""
    result = CliRunner().invoke(main, line.split(), env={"FAIRWAY_URL": NOWHERE})
    assert says in result.stderr
    assert result.exit_code == exit_code
    assert result.stdout == ""
    assert len(result.stderr.splitlines()) <= 2
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("jbos", "No such command 'jbos'"),
        ("jobs list --limit 0", "--limit"),
        ("jobs list --limit x", "--limit"),
        ("jobs show", "Missing argument 'ID'"),
        ("jobs wait 06abcdefghjkm --timeout soon", "not a duration"),
        ("jobs cancel state:failed", "--all-matching"),
        ("jobs retry", "Missing argument"),
        ("jobs kill", "Missing argument"),
        ("jobs kill state:running", "--all-matching"),
        ("jobs move 06abcdefghjkm", "say where to"),
        ("jobs move 06abcdefghjkm --delay 5m --at 2026-01-01T00:00:00Z", "exclude each other"),
        ("jobs move 06abcdefghjkm --priority high", "--priority"),
        ("jobs relocate 06abcdefghjkm", "say where to"),
        ("jobs relocate 06abcdefghjkm --to w1 --away", "say where to"),
        ("jobs relocate worker:w1 --away", "--all-matching"),
        ("jobs prefer state:queued", "--all-matching"),
        ("jobs requeue", "Missing argument"),
        ("jobs delete state:failed", "--all-matching"),
        ("jobs retry 06abcdefghjkm --canary 5", "--all-matching"),
        ("jobs retry queue:a --all-matching --canary-pass 0.5", "belong to --canary"),
        ("jobs retry queue:a --all-matching --canary 5 --canary-pass 2", "--canary-pass"),
        ("jobs cancel 06abcdefghjkm --detach", "--all-matching"),
        ("operations show", "Missing argument 'ID'"),
        ("operations abort ..", "is no name"),
        ("jobs show ..", "is no name"),
        ("submit", "give one of"),
        ("submit --task a.b -- echo", "give one of"),
        ("submit --delay 5m --at 2026-01-01T00:00:00Z -- true", "exclude each other"),
        ("submit --at tomorrow -- true", "RFC 3339"),
        ("submit --at 2026-01-01T00:00:00 -- true", "RFC 3339"),
        ("submit --delay -5 -- true", "not a duration"),
        ("submit --attempts 0 -- true", "--attempts"),
        ("submit --concurrency 0 -- true", "--concurrency"),
        ("submit --delivery exactly_once -- true", "--delivery"),
        ("submit --args [1] -- true", "belong to --task"),
        ("submit --task a.b --args [1", "is not JSON"),
        ("submit --task a.b --args [NaN]", "NaN"),
        ("submit --task a.b --args [1e999]", "has a number that is not finite"),
        ('submit --task a.b --kwargs {"n":-1e999}', "has a number that is not finite"),
        ('submit --task a.b --args ["\\ud800"]', "has a lone surrogate"),
        ('submit --task a.b --kwargs {"\\ud800":1}', "has a lone surrogate"),
        ('queues set acme flow_weights={"\\ud800":1}', "flow_weights has a lone surrogate"),
        ("submit -- echo \udcff", "argument 4 has bytes that are not UTF-8"),
        ("submit --queue a\udcff -- true", "argument 3 has bytes that are not UTF-8"),
        ("jobs show \udcff", "argument 3 has bytes that are not UTF-8"),
        ("jobs list \udcff", "argument 3 has bytes that are not UTF-8"),
        ("submit --task a.b --args {}", "is no list"),
        ("submit --task a.b --kwargs []", "is no object"),
        ("submit --file nowhere.json", "cannot be read"),
        ("submit --file nowhere.yaml", "cannot be read"),
        ("queues set acme", "Missing argument"),
        ("queues set acme limit", "write KEY=VALUE"),
        ("queues set acme colour=3", "there is no setting 'colour'; there are limit, assured, lend"),
        ("queues set acme limit=3 weight=2 limit=4", "limit is given twice"),
        (
            "queues set a//b limit=3",
            "fairway: queue 'a//b' is not a queue path: write 1 to 8 segments of",
        ),
        ("queues set /a limit=3", "fairway: queue '/a' is not a queue path"),
        ("queues show ünï/çödé", "fairway: queue 'ünï/çödé' is not a queue path"),
        ("schedules show x/y", "fairway: schedule name 'x/y' is not a schedule's name"),
        ("queues set acme limit=", "limit is empty; write a value, or limit=none to clear the setting"),
        ("queues set acme timeout=", "timeout=null to clear the setting"),
        ("queues set acme paused=", "write paused=true or paused=false"),
        ("queues set acme weight=1e999", "weight is a number that is not finite: 1e999"),
        ("jobs resolve 06abcdefghjkm", "say how it went: --succeeded or --failed"),
        ("queues set acme flow_weights={", "flow_weights is not JSON"),
        ("schedules apply nowhere.yaml", "cannot be read"),
        ("schedules show ..", "fairway: schedule name '..' is not a schedule's name: write ASCII letters"),
        ("schedules run", "Missing argument"),
        ("up --listen 8899", "write HOST:PORT"),
        ("up --listen 127.0.0.1:99999", "write HOST:PORT"),
        ("up --slots 0", "--slots"),
        ("up --app shop", "write MODULE:APP"),
        ("up --adapter node", "write NAME=COMMAND"),
        ("up --adapter Node=node", "cannot be its name"),
        ("up --adapter rails=ruby", "cannot be its name"),
        ("up --adapter node='node", "cannot be taken apart"),
        ("up --adapter a=x --adapter a=y", "given twice"),
        ("up --rails /nowhere/at/all", "--rails"),
        ("worker --join http://127.0.0.1:1 --adapter command=ls", "cannot be its name"),
        ("up --max-jobs-per-child 0", "--max-jobs-per-child"),
        ("up --max-child-memory lots", "write one such as 512MB"),
        ("up --max-child-memory 0MB", "write one such as 512MB"),
        ("worker --join http://x --max-child-age 0s", "longer than nothing"),
        ("jobs stack", "Missing argument 'ID'"),
        ("up --scheduler a.b", "cannot name a scheduler"),
        ("up --scheduler a --scheduler a", "a scheduler is named twice"),
        ("up --scheduler a --scheduler v1", "cannot share a listener"),
        ("worker", "--join"),
        ("worker --join somewhere", "http://"),
        ("init --database mysql://x", "sqlite:///"),
        ("up --database=", "fairway: database is empty; name sqlite:///"),
        ("init --database=", "fairway: database is empty"),
        ("doctor --database=", "fairway: database is empty"),
        ("init --scheduler ../x", "cannot name a scheduler"),
        ("--url ftp://x jobs list", "http://host:port"),
        ("--url http://[ jobs list", "'http://[' is not the address of a node"),
        ("--url http://x:99999 jobs list", "is not the address of a node"),
        ("--url http://a..b jobs list", "is not the address of a node"),
        ("--url http://x/ü jobs list", "is not the address of a node"),
        ("worker --join http://[", "--join 'http://[' is not the address of a node"),
    ],
)
def test_a_wrong_call_is_explained(line: str, says: str) -> None:
    check(line, says)


@pytest.mark.parametrize("text", ["", "   ", "\t"])
@pytest.mark.parametrize("verb", ["cancel", "kill", "retry", "delete", "prefer", "requeue"])
def test_a_query_that_is_empty_does_not_mean_every_job(verb: str, text: str) -> None:
    line = ["jobs", verb, text, "--all-matching", "--yes"]
    result = CliRunner().invoke(main, line, env={"FAIRWAY_URL": NOWHERE})
    assert "if you mean that, write 'queue:*'" in result.stderr
    assert result.exit_code == 2


@pytest.mark.parametrize("token", ["abc\r", "a\nb", "two words", "ümlaut", "x" * 513])
def test_a_token_that_no_header_carries_is_refused_and_not_shown(token: str) -> None:
    for line, variable in ((["--token", token, "jobs", "list"], ""), (["jobs", "list"], token)):
        result = CliRunner().invoke(main, line, env={"FAIRWAY_URL": NOWHERE, "FAIRWAY_TOKEN": variable})
        assert "the token (FAIRWAY_TOKEN, unless another was given) must be" in result.stderr
        assert result.exit_code == 2
        assert clean(token) not in result.stderr


def test_a_token_of_bytes_is_not_shown_either() -> None:
    result = CliRunner().invoke(main, ["--token", "s3cret\udcff", "jobs", "list"])
    assert result.stderr.startswith("fairway: argument 2 has bytes that are not UTF-8\n")


@pytest.mark.parametrize("name", ["job.json", "job.yaml"])
@pytest.mark.parametrize("command", ["submit --file", "queues apply", "schedules apply"])
@pytest.mark.parametrize("text", ['{"name": "\\ud800"}', '{"queues": {"\\udc00": {}}}'])
def test_half_a_character_in_a_file_is_no_text(tmp_path: Path, name: str, command: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    check(f"{command} {tmp_path / name}", f"{name} has a lone surrogate, which is not text")


def test_without_stdout_nothing_is_done() -> None:
    line = f"exec {sys.executable} -m fairway.cli --url {NOWHERE} jobs list >&-"
    done = subprocess.run(["sh", "-c", line], stderr=subprocess.PIPE, text=True, timeout=30)
    assert done.stderr.startswith("fairway: stdout is closed; send it to /dev/null")
    assert done.returncode == 2


@pytest.mark.parametrize(
    ("line", "command"),
    [
        ("submit --task", "submit"),
        ("--json jobs list --limit", "jobs list"),
        ("jobs list --wait", "jobs list"),
        ("jobs show", "jobs show"),
        ("jobs cancel state:failed", "jobs cancel"),
    ],
)
def test_the_help_that_is_named_is_that_of_the_command(line: str, command: str) -> None:
    check(line, f" {command} --help\n")


@pytest.mark.parametrize("command", ["up", "init", "doctor"])
def test_a_variable_that_is_empty_names_no_database(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRWAY_DATABASE", "")
    check(command, "fairway: FAIRWAY_DATABASE is empty; name sqlite:///")


def test_a_node_that_is_not_there_is_the_worlds_fault() -> None:
    check("jobs list", "no node answers at http://127.0.0.1:1; start one with `fairway up`", exit_code=1)


def test_a_file_that_holds_no_job_is_explained(tmp_path: Path) -> None:
    file = tmp_path / "work.json"
    file.write_text("[1]")
    check(f"submit --file {file}", "holds no job")
    file.write_text('{"queue": "a", "queue": "b"}')
    check(f"submit --file {file}", "twice")


def test_the_version_is_the_packages() -> None:
    assert CliRunner().invoke(main, ["--version"]).stdout == f"fairway {__version__}\n"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself(name: str) -> None:
    result = CliRunner().invoke(main, [name, "--help"])
    assert result.exit_code == 0
    assert f"fairway {name}" in result.stdout.replace("main ", "fairway ", 1)


def test_help_imports_no_command_and_nothing_heavy() -> None:
    program = """
import sys
from fairway.cli.main import main
try:
    main(["--help"])
except SystemExit:
    pass
heavy = {"rich", "httpx", "msgspec", "asyncio", "apsw", "starlette", "uvicorn", "fairway.cli.jobs"}
sys.exit(", ".join(sorted(heavy & set(sys.modules))) or 0)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stderr) == (0, "")


def test_an_error_of_several_lines_keeps_them_and_a_terminal_obeys_none() -> None:
    error = FairwayError("cannot import x:app: No module\n\nTraceback:\n  line\x1b\n")
    assert [clean(line) for line in describe(error)] == [
        "fairway: cannot import x:app: No module",
        "",
        "Traceback:",
        r"  line\x1b",
    ]


def test_an_app_that_cannot_be_imported_is_explained_line_by_line(tmp_path: Path) -> None:
    place = ["--data-dir", str(tmp_path), "--database", f"sqlite:///{tmp_path}/fairway.db"]
    line = [sys.executable, "-m", "fairway.cli", "up", "--listen", "127.0.0.1:0", "--app", "nope:app", *place]
    done = subprocess.run(line, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "\nfairway: cannot import nope:app" in done.stderr  # behind what the log has
    assert "\\n" not in done.stderr
    assert "\nModuleNotFoundError: No module named 'nope'\n" in done.stderr


def test_an_unforeseen_error_is_one_line_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FAIRWAY_DEBUG", raising=False)
    monkeypatch.setitem(COMMANDS, "broken", ("fairway.cli.nowhere:broken", ""))
    check("broken", "a bug in fairway: ModuleNotFoundError", exit_code=1)


@pytest.mark.parametrize("command", ["init", "up --listen 127.0.0.1:0"])
def test_without_the_library_of_postgresql_it_is_said_how_to_get_it(command: str, tmp_path: Path) -> None:
    line = [*command.split(), "--database", "postgresql://127.0.0.1:1/x"]
    program = f"import sys; sys.modules['asyncpg'] = None; from fairway.cli.main import main; main({line!r})"
    environment = {**os.environ, "FAIRWAY_HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, env=environment
    )
    assert "fairway: PostgreSQL needs asyncpg: pip install 'fairway[postgres]'" in done.stderr
    assert done.returncode == 1
