"""Tables of what must be refused: requests, bytes that are hardly HTTP, frames of a worker."""
# ruff: noqa: E501 - a table reads better wide than long

from __future__ import annotations

import json
from typing import Any, NamedTuple
from urllib.parse import quote

import msgspec

from fairway.wire.messages import Beat, Held, Hello, LogPiece, Logs, Result, Results

JSON = {"content-type": "application/json"}
JOB = "/v1/jobs/0000000000000"
BODILESS = [
    ("POST", f"{JOB}/retry"), ("POST", f"{JOB}/prefer"), ("POST", f"{JOB}/requeue"), ("DELETE", JOB),
    ("POST", "/v1/cluster/step-down"), ("POST", "/v1/cluster/ring"), ("POST", "/v1/schedules/night/run"),
    ("DELETE", "/v1/queues/acme"), ("GET", "/v1/jobs"),
]  # fmt: skip


class Bad(NamedTuple):
    """A request that must be refused with *code*."""

    code: str
    method: str
    path: str
    body: Any = None
    headers: dict[str, str] = {}  # noqa: RUF012

    def __str__(self) -> str:
        return ascii(f"{self.method} {self.path} {self.body!r:.60} {self.headers}")[1:120]


def job(**spec: Any) -> bytes:
    return json.dumps({"task": "mail.send", **spec}).encode()


def deep(depth: int) -> str:
    return "[" * depth + "]" * depth


def post(code: str, *bodies: Any, path: str = "/v1/jobs", method: str = "POST") -> list[Bad]:
    return [Bad(code, method, path, body if isinstance(body, bytes) else json.dumps(body).encode(), JSON)
            for body in bodies]  # fmt: skip


def get(code: str, *paths: str, method: str = "GET") -> list[Bad]:
    return [Bad(code, method, path) for path in paths]


def search(code: str, *queries: str, path: str = "/v1/jobs") -> list[Bad]:
    return get(code, *(f"{path}?q={quote(query)}" for query in queries))


def commanding(*fields: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"work": {"adapter": "command", "run": [["ls"]], **more}} for more in fields]


def calling(*fields: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"work": {"adapter": "http", "url": "https://example.org/hook", **more}} for more in fields]


def commands(*runs: Any) -> list[bytes]:
    return [json.dumps({"work": {"adapter": "command", "run": run}}).encode() for run in runs]


BAD: list[Bad] = [
    # Not JSON, or not the same JSON to everybody.
    *post(
        "bad_json",
        b"", b" ", b"{", b"nope", b"{'task':'a'}", b'{"task":"a",}', b'{"task":"a"} {}', b'{"task":"a","task":"b"}',
        b'{"task":"a","kwargs":{"x":1,"x":2}}', b'{"task":"a","args":[NaN]}', b'{"task":"a","args":[Infinity]}',
        b'{"task":"a","args":[-Infinity]}', b'{"task":"\xff"}', b'{"task":"a\xc3"}', b"\xef\xbb\xbf{}", b"\x00",
        '{"task":"a"}'.encode("utf-16"), '{"task":"a"}'.encode("utf-32"), b'{"task":"a\x01"}', b'{"args":[01]}',
        b'{"args":[' + b"9" * 5000 + b"]}", b'{"args":["\\x41"]}', b"[1,]", b"undefined",
    ),
    # The wrong kind of JSON.
    *post("invalid", [], None, 1, "job", True, {}, [{}], {"jobs": []}, {"nosuch": 1}, b'{"task":"a","TASK":"b"}'),
    *post("too_deep", b"[" * 100_000, job(args=[]).replace(b"[]", deep(80).encode())),
    *post("invalid", b'{"task":"a","args":[1e999]}', job(args=[2**64]), job(args=[-(2**63) - 1]), job(args=[10**400])),
    # Names outside their grammars.
    *post(
        "invalid",
        *(job(queue=path) for path in ("", "/", "a/", "a//b", ".", "..", "-", "a/-/next", "a b", "é", "a\0", "a" * 65,
                                       "/".join("abcdefghi"), "../../etc/passwd", "a\nb", "<b>", "{{7*7}}", "\ud800")),
        *(job(task=name) for name in ("", "1a", "a b", "a.", "os.system('x')", "a" * 201, "a\0", "\ud800", "é")),
        *(job(flow=text) for text in ("", "a\0", "\ud800", "a" * 201)),
        *(job(unique=text) for text in ("", "a\0", "\udfff", "a" * 201)),
        *(job(tags=tags) for tags in ("gpu", [1], [""], ["a\0"], ["a" * 601], ["*a" * 9], ["a"] * 33, [None])),
    ),
    # Counts, numbers, times, durations.
    *post(
        "invalid",
        *(job(max_attempts=count) for count in (0, -1, True, 1.0, 1.5, "3", 10**7, 2**70)),
        *(job(max_crashes=count) for count in (0, -1, False, 1.0, "3")),
        *(job(concurrency=count) for count in (0, -1, True, 1.0, "3", 2**70)),
        *(job(priority=number) for number in (32768, -32769, 1.5, "1", None, True, 2**70, "\ud800")),
        *(job(run_at=time) for time in ("", "soon", "2027-01-15", "2027-01-15T08:00:00", "2027-13-01T00:00:00Z",
                                        "1969-12-31T23:59:59Z", "9999-12-31T23:59:59-23:59", 5, "10000-01-01T00:00:00Z")),
        *(job(delay=duration) for duration in ("", "5x", "-1s", -1, 1e300, "1e5", True, "999999999999w")),
        *(job(timeout=duration) for duration in (0, "0s", -1, "x", False)),
        *(job(deadline=time) for time in (0, "0s", -1, "x", False, "2020-01-01T00:00:00Z", "2027-01-15", [])),
        job(deadline="1m", delay="2m"),
        *(job(backoff=backoff) for backoff in (1, {"first": -1}, {"first": "2h", "max": "1h"}, {"base": 2})),
        job(delay=1, run_at="2027-01-15T08:00:00Z"),
    ),
    # What contradicts itself.
    *post(
        "invalid",
        {"task": None}, {"task": "a", "work": {"adapter": "command", "run": [["ls"]]}}, {"args": [1]},
        job(delivery="exactly_once"), job(delivery="at_most_once", max_attempts=2), job(kwargs=[]), job(args={}),
        job(delivery="at_most_once", max_attempts=None), job(nosuch=1), job(id="0000000000000"), job(state="running"),
    ),
    # Work that cannot run; argv as one string.
    *post(
        "invalid",
        {"work": {}}, {"work": []}, {"work": {"adapter": "shell"}}, {"work": {"adapter": "command"}},
        {"work": {"adapter": "command", "run": [["ls"]], "shell": True}}, {"work": {"adapter": {"a": 1}}},
        {"work": {"adapter": "node"}}, {"work": {"adapter": "node", "task": "a", "args": 1}},
        {"work": {"adapter": "rails", "job": "A", "call": "A.b"}}, {"work": {"adapter": "rails", "call": "A"}},
        {"work": {"adapter": "command", "run": [["ls"]], "env": {"A": 1}}},
        {"work": {"adapter": "command", "run": [["ls"]], "env": {"A=B": "1"}}},
        {"work": {"adapter": "command", "run": [["ls"]], "cwd": 7}},
        *commands("ls -l", ["ls -l"], [], [[]], [[""]], [["ls", 1]], [["ls\0"]], [["ls", None]], {"0": ["ls"]},
                  [["ls", "\ud800"]], [["ls", ["-l"]]], [["ls"]] * 101, [{}], [{"argv": "ls"}], [{"argv": []}],
                  [{"argv": ["ls"], "timeout": 0}], [{"argv": ["ls"], "timeout": "x"}], [{"argv": ["ls"], "shell": True}]),
        *commanding(
            {"env": []}, {"env": {"": "x"}}, {"env": {"A": None}}, {"env": {"A\0": "x"}}, {"env": {"A": "x\0"}},
            {"secrets": {"A": 1}}, {"secrets": "x"}, {"secrets": {"A": "***"}}, {"env": {"API_TOKEN": "***"}},
            {"env": {"A": "1"}, "secrets": {"A": "2"}}, {"cwd": ""}, {"cwd": []}, {"stdin": 7}, {"stdin": {"a": 1}},
            {"stdin": "a", "input": 1}, {"exit_codes": [75]}, {"exit_codes": {"retry": 75}}, {"exit_codes": {"retry": []}},
            {"exit_codes": {"retry": [256]}}, {"exit_codes": {"retry": [-1]}}, {"exit_codes": {"retry": ["75"]}},
            {"exit_codes": {"retry": [True]}}, {"exit_codes": {"later": [1]}}, {"exit_codes": {"permanent": [0]}},
            {"exit_codes": {"retry": [2], "permanent": [2]}}, {"result": "first_line"}, {"result": {}}, {"result": []},
            {"result": {"file": ""}}, {"result": {"file": 1}}, {"result": {"file": None}}, {"result": {"file": "a\0"}},
            {"result": {"file": "a", "more": 1}}, {"user": ""}, {"user": 0}, {"group": ["wheel"]}, {"limits": 5},
            {"limits": {"cpu": 1}}, {"limits": {"cpu_seconds": 0}}, {"limits": {"cpu_seconds": 1.5}},
            {"limits": {"memory_bytes": 1024}}, {"limits": {"memory_bytes": "1GB"}}, {"limits": {"files": True}},
            {"limits": {"processes": -1}}, {"url": "https://example.org"},
        ),
        *calling(
            {"url": None}, {"url": ""}, {"url": 5}, {"url": "example.org"}, {"url": "ftp://example.org"}, {"url": "https://"},
            {"url": "https:///x"}, {"url": "file:///etc/passwd"}, {"url": "https://user:pw@example.org"}, {"url": "http://a b"},
            {"url": "http://example.org/\r\nX: y"}, {"url": "http://éxample.org"}, {"url": "http://example.org:99999"},
            {"url": "http://example.org:0"}, {"url": "http://[::1"}, {"url": "http://example.org/" + "a" * 8000},
            {"method": "get"}, {"method": "BREW"}, {"method": ""}, {"method": None}, {"method": ["GET"]}, {"headers": []},
            {"headers": {"A": 1}}, {"headers": {"A b": "x"}}, {"headers": {"": "x"}}, {"headers": {"A:": "x"}},
            {"headers": {"A": "x\r\nB: y"}}, {"headers": {"A": "é"}}, {"headers": {"A": "x" * 8193}}, {"headers": {"A": None}},
            {"headers": {"Host": "internal"}}, {"headers": {"content-length": "5"}}, {"headers": {"Transfer-Encoding": "chunked"}},
            {"headers": {"X": "1", "x": "2"}}, {"headers": {f"H{number}": "x" for number in range(101)}},
            {"headers": {"Authorization": "***"}}, {"body": 5}, {"body": {"a": 1}}, {"body": "a\0"}, {"body": "a", "json": 1},
            {"timeout": 0}, {"timeout": "x"}, {"timeout": -1}, {"expect": 200}, {"expect": []}, {"expect": ["200"]},
            {"expect": [99]}, {"expect": [600]}, {"follow": "yes"}, {"follow": 1}, {"follow": None}, {"run": [["ls"]]},
            {"proxy": "http://p"},
        ),
    ),
    # Many at once.
    *post("invalid", {}, {"jobs": {}}, {"jobs": []}, {"jobs": [1]}, {"jobs": [{"task": "a"}, {}]},
          {"jobs": [{"task": "a"}, {"task": "a", "queue": "-"}]}, {"jobs": [{"task": "a"}], "more": 1},
          {"jobs": [{"task": "a"}] * 10_001}, path="/v1/jobs/bulk"),
    *post("too_deep", b'{"jobs":[{"task":"a"},{"task":"a","args":' + deep(70).encode() + b"}]}", path="/v1/jobs/bulk"),
    # Too large: said beforehand, found out while reading, or inside one job.
    Bad("too_large", "POST", "/v1/jobs", b"x" * (2 * 1024 * 1024 + 1), JSON),
    Bad("too_large", "POST", "/v1/jobs/bulk", b"x" * (16 * 1024 * 1024 + 1), JSON),
    *post("too_large", job(args=["x" * 1024 * 1024])),
    *post("too_large", {"jobs": [{"task": "a"}, {"task": "a", "args": ["x" * 1024 * 1024]}]}, path="/v1/jobs/bulk"),
    # Not JSON by its own word, or compressed.
    *(Bad("not_json", "POST", "/v1/jobs", job(), {"content-type": media})
      for media in ("", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "text/json",
                    "application/json; charset=latin-1", "application/xml", "application/jsonp", "application/x-yaml")),
    Bad("not_json", "POST", "/v1/jobs", b""),
    *(Bad("compressed_body", "POST", "/v1/jobs", job(), {**JSON, "content-encoding": coding})
      for coding in ("gzip", "br", "zstd", "deflate", "identity, gzip")),
    # Keys.
    *(Bad("invalid", "POST", "/v1/jobs", job(), {**JSON, "idempotency-key": key}) for key in ("", "a b", "a\tb", "k" * 256)),
    # Methods and paths.
    *get("method_not_allowed", "/v1/jobs", "/v1/jobs/bulk", "/v1/queues", "/healthz", "/v1/events", method="DELETE"),
    *get("method_not_allowed", "/v1/jobs", "/v1/cluster", "/", method="PUT"),
    *get("method_not_allowed", "/v1/jobs", JOB, method="OPTIONS"),
    *get("method_not_allowed", "/v1/jobs", JOB, method="TRACE"),
    *get("method_not_allowed", "/v1/jobs/bulk", "/v1/cluster/step-down", f"{JOB}/retry"),
    *get("not_found", "/v2/jobs", "/v1", "/v1/", "/v1/jobs/", "/v1/nosuch", "/%00", "/v1/jobs%0A", "/v1/jobs/x/y/z", "/..%2f..%2fetc",
         "/v1/jobs/%ff", "/v1/jobs/' OR 1=1 --", "/v1/jobs/00000000000000", "/v1/jobs/000000000000u", "/v1/jobs/ｏｏｏ"),
    *get("no_such_job", JOB, f"{JOB}?wait=1s", f"{JOB}/log", f"{JOB}/log?follow=true", "/v1/jobs/7zzzzzzzzzzzz"),
    *get("no_such_job", JOB, f"{JOB}?force=true", method="DELETE"),
    *get("not_found", "/v1/jobs/8000000000000", "/v1/jobs/zzzzzzzzzzzzz"),  # more than 63 bits
    *get("websocket_only", "/v1/worker"),
    # Queries of the URL.
    *get("invalid", "/v1/jobs?nosuch=1", "/v1/jobs?q=a&q=b", "/v1/jobs?limit=0", "/v1/jobs?limit=501", "/v1/jobs?limit=x",
         "/v1/jobs?limit=-1", "/v1/jobs?limit=1e3", "/v1/jobs?limit=true", "/v1/jobs?limit=",
         f"{JOB}?wait=61s", f"{JOB}?wait=x", f"{JOB}?wait=-1", f"{JOB}?wait=", f"{JOB}?wait=nan", f"{JOB}/log?attempt=0",
         f"{JOB}/log?attempt=x", f"{JOB}/log?follow=maybe", f"{JOB}/log?attempt=99999999999999999999", "/healthz?x=1",
         "/v1/queues/a/-/next?n=0", "/v1/queues/a/-/next?n=99999", "/v1/events?after=junk", "/v1/events?after=1",
         "/v1/events?after=-1.0", "/v1/events?after=1.0.0", f"/v1/events?after={'9' * 30}.0", "/v1/jobs?%00=1"),
    *get("invalid", f"{JOB}?force=perhaps", f"{JOB}?force=2", method="DELETE"),
    *get("bad_sort", "/v1/jobs?sort=", "/v1/jobs?sort=nosuch", "/v1/jobs?sort=payload", "/v1/jobs?sort=id;DROP TABLE job"),
    *get("bad_cursor", "/v1/jobs?cursor=junk", "/v1/jobs?cursor=", "/v1/jobs?cursor=%00x", "/v1/jobs?cursor=e30", "/v1/jobs?cursor=é",
         "/v1/jobs?cursor=WyJhIiwxLDJd", "/v1/jobs?cursor=" + "A" * 1999),
    *get("bad_query_string", "/v1/jobs?q=%ff", "/v1/jobs?" + "&".join("a=1" for _ in range(60))),
    Bad("invalid", "GET", "/v1/events", None, {"last-event-id": "junk"}),
    # The search grammar.
    *search("bad_query", "nosuch:1", "state:", "state:gone", "queue:>3", '"open', "priority:x", "age:10m", "age:>1h,2h",
            "task:" + "*" * 9, "task:" + "a*" * 9 + "b", "a " * 31, "x" * 2001, "a\\", '""', "-", "kind:job.ended",
            "flow:" + ",".join("a" * 51), "priority:>99999999999999999999", "args.:x", "id:>3", "state:Failed"),
    *search("invalid", "a\0b", "age:>soon", "age:>99999w"),
    *search("bad_query", "flow:u1", "age:>1m", "priority:1", "nosuch:1", "state:gone", path="/v1/events"),
    # Tokens in URLs, foreign hosts and pages.
    *get("token_in_url", "/v1/jobs?token=x", "/v1/jobs?access_token=x", "/v1/jobs?q=a&TOKEN=x", "/v1/events?token=", "/?token=x"),
    *(Bad("bad_host", "GET", "/v1/jobs", None, {"host": host})
      for host in ("evil.example", "127.0.0.1.evil.example", "localhost.evil:80", "", "evil:8899", "127.0.0.2", "[::2]:80")),
    *(Bad("bad_origin", "POST", "/v1/jobs", job(), {**JSON, "origin": origin})
      for origin in ("http://evil.example", "null", "http://localhost:1", "http://127.0.0.1", "", "file://")),
    # Settings of queues and workers.
    *post("invalid", {"limit": -1}, {"limit": "3"}, {"limit": True}, {"limit": 1.5}, {"paused": "yes"}, {"paused": None},
          {"discipline": "nosuch"}, {"discipline": ""}, {"discipline": 1}, {"nosuch": 1}, [], None, {"limit": 2**70},
          path="/v1/queues/acme", method="PUT"),
    *post("invalid", {"max_attempts": 0}, {"max_crashes": 0}, {"timeout": 0}, {"timeout": "x"}, {"retention": 0},
          {"retention": "11y"}, {"backoff": 5}, {"backoff": {"first": 9, "max": 1}}, {"backoff": {"base": 1}},
          {"max_attempts": "3"}, {"retention": True}, {"grace": "2h"}, {"grace": "x"}, path="/v1/queues/acme", method="PUT"),
    *post("invalid", {}, path="/v1/queues/acme", method="PATCH"),
    *(Bad("invalid", "PUT", f"/v1/queues/{path}", b"{}", JSON)
      for path in ("a//b", "-", "a/-", "%20", "a%00", "a%0Ab", "a%0A", "..%2f..", "a" * 65, "a/b/c/d/e/f/g/h/i", "é")),
    *get("invalid", "/v1/queues/a//b", "/v1/queues/-/next", "/v1/queues/a%20b/-/next", "/v1/queues/a%0Ab", "/v1/queues/a%0A"),
    *post("invalid", {}, {"draining": "yes"}, {"queues": "acme"}, {"queues": [""]}, {"queues": ["*a" * 9]}, {"slots": 0},
          {"queues": ["a"] * 33}, {"queues": ["a b"]}, {"slots": 10_001}, {"slots": "4"}, {"slots": None}, {"deadline": "30s"},
          {"draining": False, "deadline": 30}, {"draining": True, "deadline": "soon"}, {"draining": True, "deadline": -1},
          path="/v1/workers/w1", method="PATCH"),
    *post("not_found", {"draining": True}, path="/v1/workers/%3Cscript%3E", method="PATCH"),
    # Changes of jobs.
    *post("invalid", {}, {"queue": "-"}, {"queue": None}, {"priority": None}, {"priority": 10**6}, {"flow": ""}, {"run_at": 5},
          {"tags": "gpu"}, {"max_attempts": 0}, {"delay": "x"}, {"delay": 1, "run_at": "2027-01-15T08:00:00Z"},
          {"deadline": 0}, {"deadline": "2020-01-01T00:00:00Z"}, {"deadline": "x"}, {"grace": -1}, {"grace": "2h"},
          {"state": "succeeded"}, {"attempt": 7}, {"task": "other"}, path=JOB, method="PATCH"),
    *post("invalid", {"worker": ""}, {"worker": "a b"}, {"worker": 1}, {"worker": ["w1"]}, {"worker": "a\0"}, {"worker": "é"},
          {"away": "w1"}, {"away": None}, {"away": [""]}, {"away": ["a/b"]}, {"away": [1]}, {"away": ["w"] * 33},
          {"timeout": 0}, {"timeout": "x"}, {"timeout": -1}, {"adapter": None}, {"adapter": ""}, {"adapter": "a b"},
          {"adapter": 5}, {"adapter": "command"}, {"pinned_to": "w1"}, path=JOB, method="PATCH"),
    *post("no_such_job", {"worker": "w1"}, {"away": []}, {"timeout": None}, {"adapter": "warm"}, path=JOB, method="PATCH"),
    # Jobs sent elsewhere.
    *post("invalid", {}, [], None, {"to": "w1", "away": True}, {"to": ""}, {"to": "a b"}, {"to": None}, {"to": 1},
          {"to": "a" * 129}, {"to": "a\0"}, {"away": False}, {"away": "w1"}, {"away": 1}, {"away": None},
          {"to": "w1", "force": True}, {"worker": "w1"}, path=f"{JOB}/relocate"),
    *post("no_such_job", {"to": "w1"}, {"away": True}, path=f"{JOB}/relocate"),
    *post("no_such_job", {}, path=f"{JOB}/prefer"),
    *post("no_such_job", {}, path=f"{JOB}/requeue"),
    *get("method_not_allowed", f"{JOB}/relocate", f"{JOB}/prefer", f"{JOB}/requeue"),

    # actions on everything that matches
    *post("invalid", {}, [], {"q": "queue:a"}, {"action": "cancel"}, {"q": "", "action": "cancel"}, {"q": "  ", "action": "delete"},
          {"q": "queue:a", "action": "explode"}, {"q": 7, "action": "cancel"}, {"q": "queue:a", "action": "cancel", "all": True},
          {"q": "queue:a", "action": "cancel", "force": True}, {"q": "queue:a", "action": "cancel", "dry_run": "yes"},
          {"q": "queue:a", "action": "edit"}, {"q": "queue:a", "action": "move", "changes": {}},
          {"q": "queue:a", "action": "move", "changes": {"colour": 1}}, {"q": "queue:a", "action": "edit", "changes": {"priority": "x"}},
          {"q": "queue:a", "action": "cancel", "changes": {"priority": 1}},
          {"q": "queue:a", "action": "relocate"}, {"q": "queue:a", "action": "relocate", "to": "w1", "away": True},
          {"q": "queue:a", "action": "relocate", "away": False}, {"q": "queue:a", "action": "retry", "to": "w1"},
          {"q": "queue:a", "action": "cancel", "canary": 5}, {"q": "queue:a", "action": "retry", "canary_pass": 0.5},
          {"q": "queue:a", "action": "retry", "canary_timeout": "1m"},
          *({"q": "queue:a", "action": "retry", "canary": size} for size in (0, -1, 1001, 1.5, "0%", "101%", "5", "x%", "", True, None)),
          *({"q": "queue:a", "action": "retry", "canary": 5, "canary_pass": share} for share in (0, 1.1, -1, "0.5")),
          *({"q": "queue:a", "action": "retry", "canary": 5, "canary_timeout": time} for time in (0, "8d", -1, [])),
          path="/v1/jobs/actions"),
    *post("bad_query", {"q": "nosuch:1", "action": "cancel"}, {"q": "state:dead", "action": "cancel", "dry_run": True},
          {"q": 'queue:"a', "action": "cancel"}, path="/v1/jobs/actions"),
    *get("method_not_allowed", "/v1/jobs/actions"),
    *get("method_not_allowed", "/v1/operations", method="DELETE"),
    *get("not_found", "/v1/operations/x", "/v1/operations/zzzzzzzzzzzzz"),
    *get("not_found", "/v1/operations/x", method="DELETE"),
    *get("no_such_operation", "/v1/operations/0000000000000"),
    *get("no_such_operation", "/v1/operations/0000000000000", method="DELETE"),
    *post("invalid", *(job(worker=name) for name in ("", "a b", "-a", "a" * 129, "é", "a\0", "\ud800", 5, ["w1"])),
          job(away=["w1"])),
    *post("no_such_job", {"priority": 1}, path=JOB, method="PATCH"),
    *post("invalid", {}, {"succeeded": 1}, {"succeeded": "true"}, {"succeeded": False, "value": 1}, {"value": 1},
          path=f"{JOB}/resolve"),
    *post("no_such_job", {"succeeded": True, "value": "x"}, path=f"{JOB}/resolve"),
    # A body where none is asked for.
    *(Bad("not_json", method, path, b"x", {"content-type": "application/x-www-form-urlencoded"}) for method, path in BODILESS),
    *(Bad("not_json", method, path, b"{}") for method, path in BODILESS),
    *(bad for method, path in BODILESS for bad in post("bad_json", b"garbage", path=path, method=method)),
    *(bad for method, path in BODILESS for bad in post("invalid", {"force": True}, [], None, path=path, method=method)),
    *post("no_such_job", {}, path=f"{JOB}/retry"),
]  # fmt: skip


HEAD = b"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
RAW = {
    "no request at all": b"\x00\x01\x02\x03\r\n\r\n",
    "a TLS hello": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    "another protocol": b"SSH-2.0-OpenSSH_9.0\r\n\r\n",
    "no version": b"GET /\r\n\r\n",
    "a strange method": b"BREW /v1/jobs HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a header without a name": b"GET /v1/jobs HTTP/1.1\r\nHost: localhost\r\n: x\r\n\r\n",
    "a space in a header's name": b"GET /v1/jobs HTTP/1.1\r\nHost: localhost\r\nA B: x\r\n\r\n",
    "headers without end": b"GET /v1/jobs HTTP/1.1\r\nHost: localhost\r\n"
    + b"X: "
    + b"y" * 200_000
    + b"\r\n\r\n",
    "many headers": b"GET /v1/jobs HTTP/1.1\r\nHost: localhost\r\n"
    + b"X: yyyyyyyyyyyyyyyy\r\n" * 9000
    + b"\r\n",
    "a URL without end": b"GET /v1/jobs?q=" + b"a" * 200_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a negative length": HEAD + b"Content-Length: -1\r\n\r\n{}",
    "a length in words": HEAD + b"Content-Length: two\r\n\r\n{}",
    "two lengths": HEAD + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
    "a length and chunks": HEAD + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "a length beyond all": HEAD + b"Content-Length: 99999999999999999999999\r\n\r\n",
    "a length of a terabyte": HEAD + b"Content-Length: 1099511627776\r\n\r\n",
    "chunks that are none": HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
    "chunks without end": HEAD
    + b"Transfer-Encoding: chunked\r\n\r\n"
    + (b"10000\r\n" + b"x" * 65536 + b"\r\n") * 40,
    "no host": b"GET /v1/jobs HTTP/1.1\r\n\r\n",
    "no host, old version": b"GET /v1/jobs HTTP/1.0\r\n\r\n",
    "a whole URL of another host": b"GET http://evil.example/v1/jobs HTTP/1.1\r\nHost: evil.example\r\n\r\n",
    "an upgrade to something else": b"GET /v1/worker HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n",
}

HELLO = Hello(1, "w1", "life", 1, ["python"])
pack = msgspec.msgpack.encode
#: What a worker sends, one frame after the other, and the code it is refused with.
SOCKET: dict[str, tuple[str, list[bytes | str]]] = {
    "nothing but junk": ("bad_frame", [b"junk"]),
    "an empty frame": ("bad_frame", [b""]),
    "an empty text": ("bad_frame", [""]),
    "JSON of another kind": ("bad_frame", ['{"hello":1}']),
    "an unknown message": ("bad_frame", ['["reboot"]']),
    "a message meant for workers": ("bad_frame", ['["begin",1,[]]']),
    "a text in a binary frame": ("bad_frame", [b'["hello",1,"w1","life",1,["python"]]']),
    "a truncated hello": ("bad_frame", [pack(HELLO)[:-5]]),
    "a hello with wrong types": ("bad_frame", ['["hello","1","w1","life",1,["python"]]']),
    "a hello of another version": ("protocol_version", [pack(Hello(99, "w1", "life", 1, ["python"]))]),
    "a hello without a name": ("bad_frame", [pack(Hello(1, "", "life", 1, ["python"]))]),
    "a hello with markup for a name": ("bad_frame", [pack(Hello(1, "<script>", "life", 1, ["python"]))]),
    "a hello with no slots": ("bad_frame", [pack(Hello(1, "w1", "life", 0, ["python"]))]),
    "a hello with a million slots": ("bad_frame", [pack(Hello(1, "w1", "life", 1_000_000, ["python"]))]),
    "a hello with a hostile glob": ("bad_frame", [pack(Hello(1, "w1", "life", 1, ["python"], queues=["a*" * 40 + "b"]))]),
    "a beat before the hello": ("hello_first", [pack(Beat([]))]),
    "two hellos": ("bad_frame", [pack(HELLO), pack(HELLO)]),
    "junk after the hello": ("bad_frame", [pack(HELLO), b"\xc1"]),
    "deep junk": ("bad_frame", [pack(HELLO), b"\x91" * 5000]),
    "deep JSON": ("bad_frame", [pack(HELLO), "[" * 5000]),
    "a length that lies": ("bad_frame", [pack(HELLO), b"\xdd\xff\xff\xff\xff"]),
    "a job beyond 63 bits": ("bad_frame", [pack(HELLO), pack(Beat([Held(2**63, 1)]))]),
    "a negative attempt": ("bad_frame", [pack(HELLO), pack(Beat([Held(1, -1)]))]),
    "a result of no kind": ("bad_frame", [pack(HELLO), pack(Results([Result(1, 1, "won", b"1", 0)]))]),
    "a result that is not JSON": ("bad_frame", [pack(HELLO), pack(Results([Result(1, 1, "ok", b"{", 0)]))]),
    "a result after NaN seconds": ("bad_frame", [pack(HELLO), pack(Results([Result(1, 1, "ok", b"1", float("nan"))]))]),
    "output to nowhere": ("bad_frame", [pack(HELLO), pack(Logs([LogPiece(1, 1, 0, 0, "tape", "")]))]),
    "facts that are not finite": ("bad_frame", [pack(HELLO), pack(Beat([], {"x": float("inf")}))]),
}  # fmt: skip
