"""OS locks: the dead of this machine are known at once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from fairway.errors import InvalidRequest
from fairway.stores.sqlite.locks import FileLock, WorkerLocks, leader_lock

HOLD = """
import sys
from pathlib import Path
from fairway.stores.sqlite.locks import FileLock
print(FileLock(Path(sys.argv[1])).try_lock(), flush=True)
sys.stdin.read()
"""


def hold_elsewhere(lock: FileLock) -> subprocess.Popen[str]:
    """Let another process hold the lock until it is killed."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(lock.path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout and process.stdout.readline() == "True\n"
    return process


def kill(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate(timeout=30)


def test_one_holds_the_leaders_lock(tmp_path: Path) -> None:
    mine, yours = leader_lock(tmp_path / "f.db"), leader_lock(tmp_path / "f.db")
    assert not mine.held_by_other()
    assert mine.try_lock() and mine.try_lock()
    assert not yours.try_lock()
    assert yours.held_by_other() and not mine.held_by_other()
    mine.release()
    assert not yours.held_by_other() and yours.try_lock()
    yours.release()


def test_a_killed_leaders_lock_is_free_at_once(tmp_path: Path) -> None:
    lock = leader_lock(tmp_path / "f.db")
    process = hold_elsewhere(lock)
    assert lock.held_by_other() and not lock.try_lock()
    kill(process)
    assert not lock.held_by_other() and lock.try_lock()
    lock.release()


def test_a_killed_worker_is_known_to_be_dead(tmp_path: Path) -> None:
    locks = WorkerLocks(tmp_path / "f.db")
    process = hold_elsewhere(locks.lock_of("w-1"))
    assert not locks.is_free("w-1")
    kill(process)
    assert locks.is_free("w-1")


def test_nothing_is_known_of_a_worker_without_a_lock(tmp_path: Path) -> None:
    assert not WorkerLocks(tmp_path / "f.db").is_free("elsewhere")


def test_stale_locks_are_removed_but_those_still_needed(tmp_path: Path) -> None:
    locks = WorkerLocks(tmp_path / "f.db")
    alive = locks.lock_of("alive")
    assert alive.try_lock()
    for name in ("dead", "wanted"):
        lock = locks.lock_of(name)
        assert lock.try_lock()
        lock.release()
    assert locks.remove_stale(keep=["wanted"]) == ["dead"]
    assert sorted(path.name for path in locks.folder.iterdir()) == ["alive.lock", "wanted.lock"]
    alive.release(remove=True)
    assert [path.name for path in locks.folder.iterdir()] == ["wanted.lock"]


@pytest.mark.parametrize("name", ["../x", "a/b", "", ".", "x" * 65, "a\x00b"])
def test_a_name_from_outside_stays_inside_the_folder(tmp_path: Path, name: str) -> None:
    locks = WorkerLocks(tmp_path / "f.db")
    with pytest.raises(InvalidRequest):
        locks.lock_of(name)
    assert not locks.is_free(name)
