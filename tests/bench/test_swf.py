"""The reader of the Standard Workload Format: good lines, bad ones, packed files, and what is no log."""

from __future__ import annotations

import gzip
import subprocess
import sys
from pathlib import Path

import pytest
from bench.fairness.swf import NotSwf, read
from bench.fairness.work import Job

ROOT = Path(__file__).parents[2]
HEADER = "; Version: 2.2\n; Computer: a small one\n;\n; MaxProcs: 128\n"


def line(submit: float, run: float, had: int = 1, wanted: int = -1, user: int = 3, program: int = -1) -> str:
    """Write a job as logs do: 18 fields, most of them unknown."""
    return f"  1 {submit} 17 {run} {had} -1 -1 {wanted} -1 -1 1 {user} 1 {program} 2 -1 -1 -1\n"


def log(path: Path, *lines: str) -> Path:
    """Make a log of these lines."""
    file = path / "small.swf"
    file.write_text(HEADER + "".join(lines))
    return file


def test_jobs_are_as_the_log_says_from_its_first_submit_on(tmp_path: Path) -> None:
    found = read(log(tmp_path, line(1000, 60.5, user=7, program=4), line(1030, 5)))
    assert found.load.jobs == [Job(1, "u7", 0.0, 60.5, "t4"), Job(2, "u3", 30.0, 5.0)]
    assert not found.skipped


def test_jobs_come_in_the_order_of_their_submits(tmp_path: Path) -> None:
    found = read(log(tmp_path, line(1030, 5), line(1000, 60)))
    assert [(job.number, job.submit, job.seconds) for job in found.load.jobs] == [(1, 0, 60), (2, 30, 5)]


def test_what_did_not_run_is_of_nobody_or_cannot_be_read_is_left_out_and_counted(tmp_path: Path) -> None:
    found = read(
        log(
            tmp_path, line(0, 60), line(1, -1), line(2, 0), line(3, 60, user=-1), "4 5 6\n", "\n",
            line(5, 60).replace("17", "x").replace(" 60 ", " much "), line(6, float("nan")), line(7, 60),
        )
    )  # fmt: skip
    assert [job.submit for job in found.load.jobs] == [0, 7]
    assert found.skipped == {
        "without a run time": 2, "without a user or a submit": 1, "no line of the format": 3,
    }  # fmt: skip


def test_a_line_may_be_short_of_what_nobody_needs(tmp_path: Path) -> None:
    found = read(log(tmp_path, " ".join(line(0, 60, program=4).split()[:12]) + "\n"))
    assert found.load.jobs == [Job(1, "u3", 0.0, 60.0)]


def test_a_job_is_one_attempt_or_one_for_each_processor(tmp_path: Path) -> None:
    some = log(tmp_path, line(0, 60, had=3), line(1, 60, had=-1, wanted=2), line(2, 60, had=-1))
    assert len(read(some).load.jobs) == 3
    expanded = read(some, expand=True).load.jobs
    assert [job.submit for job in expanded] == [0, 0, 0, 1, 1, 2]
    assert [job.number for job in expanded] == [1, 2, 3, 4, 5, 6]
    assert len(read(some, jobs=4, expand=True).load.jobs) == 4


def test_only_the_first_so_many_are_read(tmp_path: Path) -> None:
    assert len(read(log(tmp_path, *[line(at, 60) for at in range(9)]), jobs=5).load.jobs) == 5


def test_there_are_as_many_slots_as_the_work_fills_at_least_four(tmp_path: Path) -> None:
    some = log(tmp_path, *[line(at, 95) for at in range(0, 1010, 10)])
    assert read(some).load.slots == 10
    assert read(some, slots=64).load.slots == 64
    assert read(log(tmp_path, line(0, 1), line(1000, 1))).load.slots == 4
    assert read(log(tmp_path, line(0, 1))).load.slots == 4


def test_a_packed_file_is_read_whatever_its_name(tmp_path: Path) -> None:
    packed = tmp_path / "log"
    packed.write_bytes(gzip.compress((HEADER + line(0, 60)).encode()))
    assert read(packed).load.jobs == [Job(1, "u3", 0.0, 60.0)]


@pytest.mark.parametrize(
    "content",
    [b"", HEADER.encode(), b"\x7fELF\x00\x01" * 500, b"job,user\n1,me\n" * 500, gzip.compress(b"1 2 3")[:20]],
    ids=["empty", "comments only", "a program", "another format", "half a packed file"],
)  # fmt: skip
def test_what_is_no_log_is_refused(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "some"
    file.write_bytes(content)
    with pytest.raises(NotSwf, match=str(file)):
        read(file)


def test_the_command_says_so_in_one_line() -> None:
    words = [sys.executable, "-m", "bench.fairness", "no such file"]
    run = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert (run.returncode, run.stdout, run.stderr.count("\n")) == (2, "", 1)
    assert "no such file" in run.stderr
