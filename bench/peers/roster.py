"""The peers: how each is run, what it keeps, and where its jobs stand.

Every setting here and in `programs/` is the peer's default or what its own documentation advises for
throughput; of batch sizes and concurrency the one that was fastest here. Never a setting that gives up
durability.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from bench.peers.peer import Peer, Tables
from bench.peers.program import Program
from bench.peers.redis_peers import RedisPeer
from bench.peers.server import Server
from bench.peers.side import Side

GRAPHILE_TABLES = Tables("graphile_worker._private_jobs")
QUIET = {"NO_LOG_SUCCESS": "1"}
#: For jobs that hold their process: two processes, one job at a time in each, and prefetching as it comes.
TWO_SLOTS = {
    "procrastinate": {"BENCH_CONCURRENCY": "1"},
    "pgqueuer": {"BENCH_BATCH": "10"},
    "graphile": {},
    "celery": {"BENCH_PREFETCH": "4"},
    "dramatiq": {"BENCH_CONCURRENCY": "1"},
}


def postgres_peers(server: Server) -> list[Peer]:
    """Return the peers that keep their jobs in PostgreSQL."""
    return [
        Peer(
            "procrastinate",
            "keeps every job and an event for each of its steps",
            Program("procrastinate_program.py"),
            Tables(
                "procrastinate_jobs WHERE status IN ('todo', 'doing')",
                "procrastinate_jobs WHERE status = 'succeeded'",
            ),
            server,
        ),
        Peer(
            "pgqueuer",
            "deletes the job, keeps a log line for each of its steps, folded into statistics",
            Program("pgqueuer_program.py"),
            Tables("pgqueuer"),
            server,
        ),
        Peer(
            "graphile",
            "deletes the job, keeps no history; default settings, one job at a time in each process",
            Program("graphile.mjs", QUIET),
            GRAPHILE_TABLES,
            server,
        ),
        Peer(
            "graphile-best",
            "deletes the job, keeps no history; local queue of 500, batched completion, 24 at a time",
            Program("graphile.mjs", {**QUIET, "BENCH_BEST": "1"}),
            GRAPHILE_TABLES,
            server,
        ),
        Peer(
            "pg-boss",
            "keeps every job (7 days); batches of 1,000, LISTEN/NOTIFY on",
            Program("pgboss.mjs"),
            Tables("pgboss.job WHERE state < 'completed'", "pgboss.job WHERE state = 'completed'"),
            server,
        ),
    ]


def with_two_slots(sides: Sequence[Side]) -> list[Side]:
    """Return the sides that can be asked how busy they keep two slots, set to have so many."""
    found: list[Side] = []
    for side in sides:
        if isinstance(side, Peer | RedisPeer) and (settings := TWO_SLOTS.get(side.name)) is not None:
            program = replace(side.program, settings={**side.program.settings, **settings})
            found.append(replace(side, program=program))
        elif side.name == "fairway":
            found.append(side)
    return found
