"""`fairway doctor`: what on this machine, or between it and the node, will make trouble.

Exits with 1 if something is found that will not work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import click

from fairway import __version__
from fairway.cli.calling import TOKEN_ADVICE, TOKEN_PROBLEMS, current, talks
from fairway.cli.checks import (
    Finding,
    check_database,
    check_file_system,
    check_open_files,
    check_python,
    check_space,
    check_sqlite,
    check_webhooks,
)
from fairway.cli.moments import seconds_since, show_seconds
from fairway.cli.output import COLOURS, clean, say, show_json
from fairway.cli.parsing import database_address
from fairway.cli.postgres_checks import check_postgres
from fairway.cli.troubles import check_troubles
from fairway.errors import FairwayError
from fairway.places import data_directory, is_postgres, sqlite_file

#: A node writes itself down every few seconds; beyond this the two clocks differ.
CLOCK_AHEAD_SECONDS, CLOCK_BEHIND_SECONDS = 60.0, 5.0


@click.command()
@click.option("--database", callback=database_address, metavar="URL", help="The database to look at.")
@talks
def doctor(database: str | None) -> int:
    """Check this machine and the node, and say what to do."""
    findings = list(examine(database))
    if current().json:
        show_json({"findings": [finding._asdict() for finding in findings]})
    else:
        for finding in findings:
            _show(finding)
    return 1 if any(finding.status == "fail" for finding in findings) else 0


def _show(finding: Finding) -> None:
    status = click.style(finding.status.ljust(4), fg=COLOURS[finding.status])
    say(f"{status}  {finding.check.ljust(12)}  {clean(finding.found)}")
    if finding.advice:
        say(f"{'':20}{clean(finding.advice)}")


def examine(database: str | None) -> Iterator[Finding]:
    """Yield a finding for each check."""
    yield check_python()
    if database and is_postgres(database):
        yield from check_postgres(database)
    else:
        file = sqlite_file(database) if database else data_directory() / "fairway.db"
        sqlite = check_sqlite()
        yield sqlite
        if sqlite.status != "fail":
            yield check_database(file)
        yield check_file_system(file)
        yield check_space(file)
    yield check_open_files()
    yield check_webhooks()
    yield from check_node(lambda: current().transport().call("GET", "/cluster", timeout=5.0))
    yield from check_troubles(lambda: current().transport().call("GET", "/cluster/troubles", timeout=5.0))


def check_node(ask: Callable[[], Any]) -> Iterator[Finding]:
    """Is there a node, does somebody lead, is it as old as we are, and is it the same time there?"""
    try:
        cluster = ask()
    except FairwayError as error:
        yield _no_use(error)
        return
    nodes = cluster.get("nodes") or []
    here = f"{cluster.get('this') or 'a node'} at {current().url}"
    yield Finding("ok", "node", here)
    if cluster.get("leader"):
        yield Finding("ok", "leader", f"{cluster['leader']}, term {cluster.get('term')}")
    else:
        yield Finding("fail", "leader", "nobody leads", "wait 10 s; if it stays so, look at the nodes' logs")
    yield check_versions({str(node.get("version")) for node in nodes})
    yield check_clock([seconds_since(node.get("seen_at")) for node in nodes])


def _no_use(error: FairwayError) -> Finding:
    """Say why a node is of no use to us; whether there is one decides what to do."""
    code = getattr(error, "code", "")
    if code in TOKEN_PROBLEMS:
        return Finding("fail", "node", TOKEN_PROBLEMS[code], TOKEN_ADVICE)
    if code == "unreachable":
        return Finding("fail", "node", str(error), "start one with `fairway up`, or name one with --url")
    return Finding("fail", "node", str(error), "there is one: look at its log, and at --url")


def check_versions(versions: set[str]) -> Finding:
    """Nodes of another version may not know what this one asks."""
    if versions <= {__version__}:
        return Finding("ok", "version", f"{__version__} here and there")
    others = ", ".join(sorted(versions))
    return Finding("warn", "version", f"{__version__} here, {others} there", "install the same everywhere")


def check_clock(ages: list[float | None]) -> Finding:
    """*ages* are the seconds, by our clock, since each node wrote itself down by its own."""
    known = [age for age in ages if age is not None]
    if not known:
        return Finding("warn", "clock", "the node does not say what time it is there")
    age = min(known)
    advice = "let both machines keep time (NTP)"
    if age < -CLOCK_BEHIND_SECONDS:
        return Finding("warn", "clock", f"{show_seconds(-age)} behind the node's", advice)
    if age > CLOCK_AHEAD_SECONDS:
        return Finding("warn", "clock", f"{show_seconds(age)} ahead of the node's, or no node beats", advice)
    return Finding("ok", "clock", "agrees with the node's")
