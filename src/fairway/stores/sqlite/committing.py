"""The leader's commit: one transaction, fenced by the term, whole or not at all.

Each kind of record is one statement run over a list of tuples. A fence that does not hold shows as a
count that is too small; then the core is wrong about the world, everything is rolled back and the leader
resigns. A job that was submitted in the same commit and refused (its key was taken) never existed: what
the plan wanted to do with it is left out without a word.
"""

from __future__ import annotations

import json
from array import array
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import apsw
import msgspec

from fairway.core.plan import (
    Batch,
    Begin,
    Begun,
    CauseSeen,
    Drop,
    Edit,
    End,
    Move,
    News,
    Recall,
    Resolve,
    Return,
    Revive,
)
from fairway.errors import Deposed
from fairway.store import Receipt, StoredJob, Submission
from fairway.stores.causing import cause_row, seen_together
from fairway.stores.claiming import until_of
from fairway.stores.notifying import deliveries_of
from fairway.stores.rows import (
    CODES,
    Row,
    begun_from,
    extras_from,
    extras_text,
    losses_blob,
    rules_blob,
    tags_text,
)
from fairway.stores.sqlite.connection import fetch, transaction
from fairway.stores.sqlite.inserting import insert_submissions
from fairway.stores.sqlite.reading import find_jobs
from fairway.stores.sqlite.sql import SQL
from fairway.stores.submitting import Inserted
from fairway.stores.telling import ended_attempts, told, without

_pack = msgspec.msgpack.Encoder().encode


def commit(
    connection: apsw.Connection,
    term: int,
    holder: str,
    batch: Batch,
    submissions: Sequence[Submission],
    now: int,
) -> Receipt:
    """Write everything, or raise Deposed and write nothing."""
    with transaction(connection):
        if not fetch(connection, SQL["check_term"], (term, holder)):
            raise Deposed(f"term {term} of {holder} is over")
        inserted = _insert(connection, submissions, now)
        refused = _refused(submissions, inserted)
        _move(connection, without(batch.moves, refused), now)
        _recall(connection, batch.recalls)
        _end(connection, batch.ends, now)
        _return(connection, batch.returns)
        _edit(connection, [edit for edit in batch.edits if edit.job not in refused], now)
        _run(connection, "unblock_jobs", batch.unblocks)
        _drop(connection, [drop for drop in batch.drops if drop.job not in refused], now)
        revived = _revive(connection, batch.revives, now)
        resolved = _resolve_all(connection, batch.resolves)
        _flag(connection, batch)
        begun = _begin(connection, without(batch.begins, refused))
        _save_queues(connection, batch)
        connection.executemany(SQL["delete_arrival"], [(number,) for number in batch.taken])
        new_causes = _save_causes(connection, batch)
        _save_deliveries(connection, [job for job in batch.notices if job not in refused], resolved, now)
        news = told(batch, begun, refused, revived, resolved, now, new_causes)
        number = _tell(connection, news, now)
        return Receipt(
            begun,
            inserted.accepted,
            sorted(refused),
            revived,
            resolved,
            news,
            number,
            bool(inserted.redrawn),
        )


def _insert(connection: apsw.Connection, submissions: Sequence[Submission], now: int) -> Inserted:
    if not submissions:
        return Inserted()
    return insert_submissions(connection.execute, connection.executemany, submissions, now, arrivals=False)


def _refused(submissions: Sequence[Submission], inserted: Inserted) -> frozenset[int]:
    """Return the submitted ids under which nothing was inserted."""
    asked = {job.id for submission in submissions for job in submission.jobs}
    return frozenset(asked - inserted.stored)


def _run(connection: apsw.Connection, name: str, rows: Sequence[Row]) -> None:
    """Run a fenced statement once per row, each of which must change one."""
    before = connection.total_changes()
    connection.executemany(SQL[name], rows)
    missing = len(rows) - (connection.total_changes() - before)
    if missing:
        raise Deposed(f"{missing} of {len(rows)} records of {name} did not find their job as planned")


def _run_groups(
    connection: apsw.Connection, name: str, groups: Mapping[Row, list[int]], everybody: Any = None
) -> None:
    """Run a fenced statement once per group of jobs that have everything else in common.

    Mostly there is one group, and its array is made already: that of *everybody*.
    """
    for values, jobs in groups.items():
        before = connection.total_changes()
        array_of_jobs = everybody if everybody is not None and len(groups) == 1 else _carray(jobs)
        connection.execute(SQL[name], (array_of_jobs, *values))
        missing = len(jobs) - (connection.total_changes() - before)
        if missing:
            raise Deposed(f"{missing} of {len(jobs)} records of {name} did not find their job as planned")


def _move(connection: apsw.Connection, moves: Sequence[Move], now: int) -> None:
    for jobs, queue in moves:
        keys = fetch(connection, SQL["find_keys"], (_carray([*jobs]), queue))
        for job, before, unique, created_at, extras in keys:
            until = until_of(created_at, extras_from(extras))
            if not _move_key(connection, job, before, queue, unique, until, now):
                connection.execute(SQL["drop_key"], (job,))
        _run_groups(connection, "move_jobs", {(queue,): [*jobs]})


def _end(connection: apsw.Connection, ends: list[End], now: int) -> None:
    if not ends:
        return
    groups: dict[Row, list[int]] = defaultdict(list)
    failed: dict[Row, list[int]] = defaultdict(list)
    for jobs, attempt, incarnation, state, outcome, ended_at, tries, crashes, _, _, cause, started_at in ends:
        values = attempt, incarnation, CODES[state], outcome, ended_at, tries, crashes, started_at
        if cause is None:
            groups[values] += jobs
        else:
            failed[*values, cause] += jobs
    over = _carray([job for end in ends for job in end.jobs])
    _run_groups(connection, "end_jobs", groups, None if failed else over)
    _run_groups(connection, "end_failed", failed, None if groups else over)
    connection.execute(SQL["delete_jobs"], (over,))
    connection.execute(SQL["delete_live"], (over,))
    keys = [(end.queue, end.unique, job) for end in ends if end.unique is not None for job in end.jobs]
    _free(connection, keys, now)


def _free(connection: apsw.Connection, keys: Sequence[Row], now: int) -> None:
    """Free the keys of jobs that have ended, but for those that are taken for longer."""
    connection.executemany(SQL["free_key"], [(*key, now) for key in keys])
    connection.executemany(SQL["keep_key"], keys)


def _recall(connection: apsw.Connection, recalls: list[Recall]) -> None:
    """Later ones of one attempt count: they are run in their order."""
    _run(connection, "recall_jobs", [(*one[:4], extras_text(one.extras)) for one in recalls])


def _return(connection: apsw.Connection, returns: list[Return]) -> None:
    rows = [(*one[:7], losses_blob(one.losses), one.outcome) for one in returns]
    _run(connection, "return_jobs", rows)
    if returns:
        connection.execute(SQL["delete_live"], (_carray([one.job for one in returns]),))


def _drop(connection: apsw.Connection, drops: list[Drop], now: int) -> None:
    rows = [(drop.job, CODES[drop.state], *drop[2:]) for drop in drops]
    _run(connection, "drop_jobs", rows)
    _free(
        connection, [key for drop in drops for key in fetch(connection, SQL["key_of_job"], (drop.job,))], now
    )
    if drops:
        connection.execute(SQL["delete_jobs"], (_carray([drop.job for drop in drops]),))


def _edit(connection: apsw.Connection, edits: list[Edit], now: int) -> None:
    for edit in edits:
        found = fetch(connection, SQL["find_waiting"], (edit.job,))
        if not found:
            raise Deposed(f"job {edit.job} is not waiting, so it cannot be edited")
        [(queue, unique, created_at, extras)] = found
        if unique is not None and queue != edit.queue:
            # The key goes along; where the new queue has it already, the job goes on without one.
            fetch(connection, SQL["give_key_up"], (queue, unique, edit.job))
            until = until_of(created_at, extras_from(extras))
            unique = unique if _claim(connection, edit.queue, unique, edit.job, until, now) else None
        rules, text = rules_blob(edit.rules), extras_text(edit.extras)
        row = (*edit[:4], tags_text(edit.tags), edit.run_at, edit.place, rules, unique, text, edit.adapter)
        connection.execute(SQL["edit_job"], row)


def _move_key(
    connection: apsw.Connection, job: int, before: str, queue: str, unique: str, until: int | None, now: int
) -> bool:
    """Take the unique key along with a branch; where the new queue has it already, the job goes on without.

    One whose key has gone to a newer job gets no other, for that one goes the same way: it was replaced.
    """
    if not fetch(connection, SQL["give_key_up"], (before, unique, job)):
        return True
    return _claim(connection, queue, unique, job, until, now)


def _claim(
    connection: apsw.Connection, queue: str, unique: str, job: int, until: int | None, now: int
) -> bool:
    """Try to get a key, which may still be the job's own from its last life."""
    connection.execute(SQL["clear_key"], (queue, unique, job, now))
    return bool(fetch(connection, SQL["claim_key"], (queue, unique, job, until)))


def _revive(connection: apsw.Connection, revives: list[Revive], now: int) -> list[StoredJob]:
    """Bring ended jobs back; one that is gone, or whose unique key is taken, stays as it is."""
    revived = []
    for revive in revives:
        for queue, unique, created_at, extras in fetch(connection, SQL["find_ended_key"], (revive.job,)):
            until = until_of(created_at, extras_from(extras))
            if unique is None or _claim(connection, queue, unique, revive.job, until, now):
                connection.execute(SQL["revive_job"], revive)
                connection.execute(SQL["delete_ended"], (revive.job,))
                connection.execute(SQL["drop_checkpoints"], (revive.job,))
                revived.append(revive.job)
    return find_jobs(connection, revived) if revived else []


def _resolve_all(connection: apsw.Connection, resolves: list[Resolve]) -> list[StoredJob]:
    done = [resolve.job for resolve in resolves if _resolve(connection, resolve)]
    return find_jobs(connection, done) if done else []


def _resolve(connection: apsw.Connection, one: Resolve) -> bool:
    row = (one.job, one.attempt, one.incarnation, CODES[one.state], one.outcome, one.ended_at)
    connection.execute(SQL["resolve_job"], row)
    return connection.changes() == 1


def _flag(connection: apsw.Connection, batch: Batch) -> None:
    """Mark attempts as being cancelled; one that this very commit ends needs no mark."""
    if batch.flags:
        over = ended_attempts(batch)
        _run(connection, "flag_jobs", [flag for flag in batch.flags if flag[:2] not in over])


def _begin(connection: apsw.Connection, begins: Sequence[Begin]) -> list[Begun]:
    jobs = [job for begin in begins for job in begin.jobs]
    if not jobs:
        return []
    all_jobs = _carray(jobs)
    found = {one.job: one for one in begun_from(fetch(connection, SQL["read_begun"], (all_jobs,)))}
    if len(found) < len(jobs):
        raise Deposed(f"{len(jobs) - len(found)} of {len(jobs)} jobs that were to begin are not waiting")
    _run_groups(connection, "begin_jobs", _by_attempt(begins, found), all_jobs)
    return [found[job] for job in jobs]


def _by_attempt(begins: Sequence[Begin], begun: Mapping[int, Begun]) -> dict[Row, list[int]]:
    """Group jobs by what their attempts have in common; mostly all of them are the first."""
    groups: dict[Row, list[int]] = defaultdict(list)
    for some, incarnation, worker, started_at, *_ in begins:
        found = {begun[job].attempt for job in some}
        if len(found) == 1:
            groups[(*found, incarnation, worker, started_at)] += some
        else:
            for job in some:
                groups[begun[job].attempt, incarnation, worker, started_at].append(job)
    return groups


def _carray(jobs: list[int]) -> Any:
    # In their order: the turns of many queues jump about in a table, and each jump is a search from its root.
    return apsw.carray(array("q", sorted(jobs)))


def _save_queues(connection: apsw.Connection, batch: Batch) -> None:
    for queue in batch.queues:
        if queue.settings is None:
            connection.execute(SQL["delete_queue"], (queue.path,))
        else:
            connection.execute(SQL["save_queue"], queue)
    connection.executemany(SQL["save_change"], batch.changes)


def _save_causes(connection: apsw.Connection, batch: Batch) -> list[CauseSeen]:
    """Count failures by their causes, and return those causes that are new."""
    seen = seen_together(batch.causes)
    if not seen:
        return []
    known = fetch(connection, SQL["known_causes"], (json.dumps([one.cause.id for one in seen]),))
    connection.executemany(SQL["save_cause"], [cause_row(one) for one in seen])
    return [one for one in seen if (one.cause.id,) not in known]


def _save_deliveries(
    connection: apsw.Connection, notices: list[int], resolved: Sequence[StoredJob], now: int
) -> None:
    """Write down the calls that ended jobs ask for."""
    ended = find_jobs(connection, notices) if notices else []
    if ended or resolved:
        connection.executemany(SQL["save_delivery"], list(deliveries_of([*ended, *resolved], now)))


def _tell(connection: apsw.Connection, news: list[News], now: int) -> int | None:
    """Write the news as one row and return its number."""
    if not news:
        return None
    [(number,)] = fetch(connection, SQL["save_events"], (now, _pack(news)))
    return int(number)
