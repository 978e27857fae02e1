"""The leader's commit: one transaction, fenced by the term, whole or not at all.

Each kind of record is one statement over arrays. A fence that does not hold shows as a count that is too
small; then the core is wrong about the world, everything is rolled back and the leader resigns.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any

import asyncpg

from fairway.core.plan import (
    Batch,
    Begin,
    Begun,
    CauseSeen,
    Edit,
    End,
    Move,
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
from fairway.stores.postgres.books import Books
from fairway.stores.postgres.connection import Connection
from fairway.stores.postgres.inserting import insert_submissions
from fairway.stores.postgres.runs import Run, split_runs
from fairway.stores.postgres.sql import array_of, inlined
from fairway.stores.rows import (
    CODES,
    Row,
    begun_from,
    extras_from,
    extras_text,
    losses_blob,
    rules_blob,
    stored_from,
    tags_text,
)
from fairway.stores.submitting import Inserted
from fairway.stores.telling import ended_attempts, told, without

#: How long a key that somebody's open transaction claims is waited for, when it is the leader who waits.
KEY_SECONDS = 0.3

#: Up to so many groups of jobs to which the same happens are told apart by a number.
FEW_GROUPS = 8

Sql = Mapping[str, str]


async def commit(
    connection: Connection,
    sql: Sql,
    term: int,
    batch: Batch,
    submissions: Sequence[Submission],
    now: int,
    books: Books,
    schema: str,
    after: Awaitable[object] | None,
) -> Receipt:
    """Write everything inside the transaction that has checked the term, or raise Deposed.

    What touches jobs may run beside the commit before this one; the books are written in turn.
    """
    inserted = await _insert(connection, sql, submissions, now, schema)
    asked = {job.id for submission in submissions for job in submission.jobs}
    refused = frozenset(asked - inserted.stored)
    await _move(connection, sql, without(batch.moves, refused), now)
    await _recall(connection, sql, batch.recalls)
    await _end(connection, sql, batch.ends, now)
    await _return(connection, sql, batch.returns)
    for edit in batch.edits:
        if edit.job not in refused:
            await _edit(connection, sql, edit, now)
    await _run(connection, sql, "unblock_jobs", batch.unblocks)
    drops = [drop for drop in batch.drops if drop.job not in refused]
    await _run(connection, sql, "drop_jobs", [(one.job, CODES[one.state], *one[2:]) for one in drops])
    revived = await _revive(connection, sql, batch.revives, now)
    resolved = await _resolve(connection, sql, batch.resolves)
    await _flag(connection, sql, batch)
    begun = await _begin(connection, sql, without(batch.begins, refused))
    await _save_queues(connection, sql, batch)
    await _save_deliveries(
        connection, sql, [job for job in batch.notices if job not in refused], resolved, now
    )
    if after is not None:
        await asyncio.shield(after)  # whoever lets go of this one lets the other be
    new_causes = await _save_causes(connection, sql, batch)
    news = told(batch, begun, refused, revived, resolved, now, new_causes)
    books.begin(term)
    if batch.ends or batch.returns or begun:
        over = [*(job for end in batch.ends for job in end.jobs), *(one.job for one in batch.returns)]
        await books.roll.write(connection, sql, over, [one.job for one in begun], books.last_words)
    if batch.taken:
        books.last_words.append(inlined(sql["delete_arrivals"], batch.taken))
    number = await books.scribe.write(connection, sql, news, now)
    return Receipt(
        begun, inserted.accepted, sorted(refused), revived, resolved, news, number, bool(inserted.redrawn)
    )


async def _insert(
    connection: Connection, sql: Sql, submissions: Sequence[Submission], now: int, schema: str
) -> Inserted:
    if not submissions:
        return Inserted()
    return await insert_submissions(connection, sql, submissions, now, arrivals=False, schema=schema)


async def _run(connection: Connection, sql: Sql, name: str, rows: Sequence[Row]) -> None:
    """Run a fenced statement over many rows, each of which must change one."""
    if rows:
        columns = [list(column) for column in zip(*rows, strict=True)]
        _check(name, len(rows), await connection.execute(sql[name], *columns))


def _check(name: str, asked: int, status: str) -> None:
    missing = asked - int(status.rpartition(" ")[2])
    if missing:
        raise Deposed(f"{missing} of {asked} records of {name} did not find their job as planned")


async def _move(connection: Connection, sql: Sql, moves: Sequence[Move], now: int) -> None:
    for jobs, queue in moves:
        for job, before, unique, created_at, extras in await connection.fetch(
            sql["find_keys"], [*jobs], queue
        ):
            until = until_of(created_at, extras_from(extras))
            if not await _move_key(connection, sql, job, before, queue, unique, until, now):
                await connection.execute(sql["drop_key"], job)
        _check("move_jobs", len(jobs), await connection.execute(sql["move_jobs"], [*jobs], queue))


async def _end(connection: Connection, sql: Sql, ends: Sequence[End], now: int) -> None:
    if not ends:
        return
    groups: dict[Row, list[int]] = defaultdict(list)
    failed: list[Row] = []
    for some, attempt, incarnation, state, outcome, ended_at, tries, crashes, _, _, cause, started_at in ends:
        values = attempt, incarnation, CODES[state], outcome, ended_at, tries, crashes, started_at
        if cause is None:
            groups[values] += some
        else:
            failed += [(job, *values, cause) for job in some]
    if failed:
        jobs, *columns = map(list, zip(*failed, strict=True))
        status = await connection.execute(sql["end_failed"], array_of(jobs), *columns)
        _check("end_failed", len(failed), status)
    runs, rest = _with_runs(groups)
    for (first, last), values in runs:
        status = await connection.execute(sql["end_run"], first, last, *values)
        _check("end_run", last - first + 1, status)
    if rest:
        name = "end_jobs" if len(rest) <= FEW_GROUPS else "end_each"
        count, arguments = _arranged(rest)
        _check(name, count, await connection.execute(sql[name], *arguments))
    keys = [(end.queue, end.unique, job) for end in ends if end.unique is not None for job in end.jobs]
    if keys:
        keys.sort()  # in the order in which those that replace jobs take them
        columns = [list(column) for column in zip(*keys, strict=True)]
        freed = await connection.execute(sql["free_key"], *columns, now)
        if freed != f"DELETE {len(keys)}":  # the others are taken for longer, or have gone to newer jobs
            await connection.execute(sql["keep_key"], *columns)


def _with_runs(groups: Mapping[Row, list[int]]) -> tuple[list[tuple[Run, Row]], dict[Row, list[int]]]:
    """Return the long runs of ids in groups of jobs, and the groups of what is left."""
    runs: list[tuple[Run, Row]] = []
    rest: dict[Row, list[int]] = {}
    for values, members in groups.items():
        found, others = split_runs(members)
        runs += [(run, values) for run in found]
        if others:
            rest[values] = others
    return runs, rest


def _arranged(groups: Mapping[Row, list[int]]) -> tuple[int, list[Any]]:
    """Return how many jobs there are, and the arguments that say to which of them what happens.

    Few groups: the jobs, to which group each belongs, and the groups by columns. Many (outcomes that all
    differ): what belongs to each job beside it, for a database would compare every job with every group.
    """
    jobs = [job for members in groups.values() for job in members]
    sizes = [len(members) for members in groups.values()]
    if len(groups) <= FEW_GROUPS:
        numbers = [number for number, size in enumerate(sizes, start=1) for _ in range(size)]
        return len(jobs), [array_of(jobs), array_of(numbers), *map(list, zip(*groups, strict=True))]
    rows = [values for values, size in zip(groups, sizes, strict=True) for _ in range(size)]
    return len(jobs), [array_of(jobs), *map(list, zip(*rows, strict=True))]


async def _recall(connection: Connection, sql: Sql, recalls: Sequence[Recall]) -> None:
    """Of those of one attempt the last counts: one statement changes a row once."""
    last = {one.job: (*one[:4], extras_text(one.extras)) for one in recalls}
    await _run(connection, sql, "recall_jobs", list(last.values()))


async def _return(connection: Connection, sql: Sql, returns: Sequence[Return]) -> None:
    rows = [(*one[:7], losses_blob(one.losses), one.outcome) for one in returns]
    await _run(connection, sql, "return_jobs", rows)


async def _edit(connection: Connection, sql: Sql, edit: Edit, now: int) -> None:
    found = await connection.fetchrow(sql["find_waiting"], edit.job)
    if found is None:
        raise Deposed(f"job {edit.job} is not waiting, so it cannot be edited")
    queue, unique, created_at, extras = found
    if unique is not None and queue != edit.queue:
        # The key goes along; where the new queue has it already, the job goes on without one.
        await connection.execute(sql["give_key_up"], queue, unique, edit.job)
        until = until_of(created_at, extras_from(extras))
        unique = unique if await _claim(connection, sql, edit.queue, unique, edit.job, until, now) else None
    rules, text = rules_blob(edit.rules), extras_text(edit.extras)
    row = (*edit[:4], tags_text(edit.tags), edit.run_at, edit.place, rules, unique, text, edit.adapter)
    await connection.execute(sql["edit_job"], *row)


async def _move_key(
    connection: Connection,
    sql: Sql,
    job: int,
    before: str,
    queue: str,
    unique: str,
    until: int | None,
    now: int,
) -> bool:
    """Take the unique key along with a branch; where the new queue has it already, the job goes on without.

    One whose key has gone to a newer job gets no other, for that one goes the same way: it was replaced.
    """
    if await connection.execute(sql["give_key_up"], before, unique, job) == "DELETE 0":
        return True
    return await _claim(connection, sql, queue, unique, job, until, now)


async def _claim(
    connection: Connection, sql: Sql, queue: str, unique: str, job: int, until: int | None, now: int
) -> bool:
    """Try to get a key, which may still be the job's own from its last life.

    One in somebody's open transaction counts as taken: the leader does not wait.
    """
    await connection.execute(f"SAVEPOINT claim; SET LOCAL lock_timeout = {int(KEY_SECONDS * 1000)}")
    try:
        await connection.execute(sql["clear_key"], queue, unique, job, now)
        claimed = await connection.fetch(sql["claim_key"], [queue], [unique], [job], [until])
        await connection.execute("RELEASE SAVEPOINT claim")
    except asyncpg.LockNotAvailableError:
        await connection.execute("ROLLBACK TO SAVEPOINT claim")
        return False
    return bool(claimed)


async def _revive(connection: Connection, sql: Sql, revives: Sequence[Revive], now: int) -> list[StoredJob]:
    """Bring ended jobs back; one that is gone, or whose unique key is taken, stays as it is."""
    revived = []
    for revive in revives:
        found = await connection.fetchrow(sql["find_ended_key"], revive.job)
        if found is None:
            continue
        queue, unique, created_at, extras = found
        until = until_of(created_at, extras_from(extras))
        if unique is None or await _claim(connection, sql, queue, unique, revive.job, until, now):
            await connection.execute(sql["revive_job"], *revive)
            await connection.execute(sql["drop_checkpoints"], revive.job)
            revived.append(revive.job)
    return await _find(connection, sql, revived)


async def _resolve(connection: Connection, sql: Sql, resolves: Sequence[Resolve]) -> list[StoredJob]:
    done = []
    for one in resolves:
        row = (one.job, one.attempt, one.incarnation, CODES[one.state], one.outcome, one.ended_at)
        if await connection.execute(sql["resolve_job"], *row) == "UPDATE 1":
            done.append(one.job)
    return await _find(connection, sql, done)


async def _find(connection: Connection, sql: Sql, jobs: list[int]) -> list[StoredJob]:
    return [stored_from(row) for row in await connection.fetch(sql["find_jobs"], jobs)] if jobs else []


async def _flag(connection: Connection, sql: Sql, batch: Batch) -> None:
    """Mark attempts as being cancelled; one that this very commit ends needs no mark."""
    if batch.flags:
        over = ended_attempts(batch)
        await _run(connection, sql, "flag_jobs", [flag for flag in batch.flags if flag[:2] not in over])


async def _begin(connection: Connection, sql: Sql, begins: Sequence[Begin]) -> list[Begun]:
    if not begins:
        return []
    groups: dict[Row, list[int]] = defaultdict(list)
    for some, incarnation, worker, started_at, *_ in begins:
        groups[incarnation, worker, started_at] += some
    runs, rest = _with_runs(groups)
    rows: list[Row] = []
    for (first, last), values in runs:
        rows += await connection.fetch(sql["begin_run"], first, last, *values)
    if rest:
        name = "begin_jobs" if len(rest) <= FEW_GROUPS else "begin_each"
        rows += await connection.fetch(sql[name], *_arranged(rest)[1])
    count = sum(map(len, groups.values()))
    if len(rows) != count:
        raise Deposed(f"{count - len(rows)} of {count} jobs that were to begin are not waiting")
    found = {row[0]: row for row in rows}
    return begun_from(found[job] for begin in begins for job in begin.jobs)


async def _save_causes(connection: Connection, sql: Sql, batch: Batch) -> list[CauseSeen]:
    """Count failures by their causes, and return those causes that are new.

    In turn with the commit before it: each would wait for a row that the other has counted up.
    """
    seen = seen_together(batch.causes)
    if not seen:
        return []
    columns = [list(column) for column in zip(*map(cause_row, seen), strict=True)]
    new = {cause for cause, is_new in await connection.fetch(sql["save_causes"], *columns) if is_new}
    return [one for one in seen if one.cause.id in new]


async def _save_deliveries(
    connection: Connection, sql: Sql, notices: list[int], resolved: Sequence[StoredJob], now: int
) -> None:
    """Write down the calls that ended jobs ask for."""
    if not (notices or resolved):
        return
    calls = list(deliveries_of([*await _find(connection, sql, notices), *resolved], now))
    if calls:
        columns = [list(column) for column in zip(*calls, strict=True)]
        await connection.execute(sql["save_deliveries"], *columns)


async def _save_queues(connection: Connection, sql: Sql, batch: Batch) -> None:
    for queue in batch.queues:
        if queue.settings is None:
            await connection.execute(sql["delete_queue"], queue.path)
        else:
            await connection.execute(sql["save_queue"], *queue)
    if batch.changes:
        columns = [list(column) for column in zip(*batch.changes, strict=True)]
        await connection.execute(sql["save_changes"], *columns)
