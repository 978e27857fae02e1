"""What failed alike is one cause; what failed otherwise is another."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairway.core.causes import MOST_MESSAGE, MOST_SHOWN, Cause, cause_of, normalise, own_frame

UUID = "9f8e7d6c-1234-4abc-9def-0123456789ab"

#: Messages of each row are one cause.
ALIKE = [
    ["'user-42'", "'user-43'", "'ann'"],  # what KeyError says
    ["no order 17", "no order 9000000", "no order -3", f"no order {UUID}", "no order 7f3a9c"],
    ["user cus_Nffrf8sd9f is gone", "user cus_9aXk2 is gone", "user cus_123 is gone"],
    ["timed out after 30 s", "timed out after 31.25 s", "timed out after 1e3 s"],
    ["took 30s", "took 31.5s", "took 1,250s"],
    [
        'duplicate key value violates unique constraint "users_email_key"\n'
        "DETAIL:  Key (email)=(a@x.org) already exists.",
        'duplicate key value violates unique constraint "users_email_key"\n'
        "DETAIL:  Key (email)=(b@y.org) already exists.",
    ],
    [
        "404 Client Error: Not Found for url: https://api.example.org/v1/users/4711?token=abc",
        "404 Client Error: Not Found for url: https://api.example.org/v1/users/4712",
    ],
    [
        "Client error '404 Not Found' for url 'https://example.org/1'",
        "Client error '404 Not Found' for url 'https://example.org/2'",
    ],
    ["connect to 10.1.2.3:5432 failed", "connect to 10.1.2.4:5433 failed", "connect to 8.8.8.8 failed"],
    ["connect to [2001:db8::1] failed", "connect to [fe80::17] failed"],
    ["<Row object at 0x7f8a9c001230> is stale", "<Row object at 0x7f11> is stale"],
    ["failed at 2024-01-02T03:04:05Z", "failed at 2025-12-31 23:59:59.123+01:00"],
    ["mail to ann.b+c@example.co.uk bounced", "mail to bob@example.org bounced"],
    ["cannot read /var/data/2024/a9/part_77.csv", "cannot read /var/data/2025/b7/part_1.csv"],
    ["cannot write /tmp/tmpab12cd/out.csv", "cannot write /tmp/tmpzz99kk3_/out.csv"],
    ["bad rows [1, 2, 3]", "bad rows [1, 2]", "bad rows [7, 8, 9, 10]"],
    ["bad rows ['a', 'b', 'c']", "bad rows ['x', 'y']"],
    ["job 01jabc2def3gh was lost", "job 01jxyz9def3gz was lost"],
    ["read  1024\nbytes", "read 77 bytes"],
    ["hash e3b0c44298fc1c149afbf4c8996fb924 differs", "hash d41d8cd98f00b204e9800998ecf8427e differs"],
    [
        "commit deadbeef is gone",
        "commit 00f3ab12 is gone",
        "commit 87339bae is gone",
        "commit 1234567d is gone",
        "commit fedcba is gone",
    ],
    ["the value `a` is odd", "the value `bc` is odd"],
    ["can't open user's file", "can't open user's file"],
]

#: Every message here is a cause of its own.
APART = [
    "step 1 'make' exited with 1",
    "step 1 'make' exited with 2",
    "step 2 'make' exited with 2",
    "step 1 'make' was killed by SIGKILL",
    "step 1 'make' was killed by SIGSEGV",
    "Command 'x' returned non-zero exit status 1.",
    "Command 'x' returned non-zero exit status 2.",
    "HTTP 500 from upstream",
    "HTTP 503 from upstream",
    "status code: 404",
    "status code: 403",
    "Client error '404 Not Found' for url 'https://example.org/1'",
    "Client error '403 Forbidden' for url 'https://example.org/1'",
    "no order 1",
    "no user 1",
    "no decade 1",
    "no facade 1",
    "connection refused",
    "connection reset",
    'column "email" does not exist',
    'column "name" does not exist',
    "'NoneType' object has no attribute 'split'",
    "'NoneType' object has no attribute 'strip'",
    "'str' object has no attribute 'strip'",
    "No module named 'yaml'",
    "No module named 'numpy'",
    "[Errno 2] No such file or directory: 'a'",
    "[Errno 13] Permission denied: 'a'",
    "https://api.example.org/v1 is down",
    "https://api.example.com/v1 is down",
]


def error(message: str, type: str = "ValueError", traceback: str = "") -> bytes:
    return json.dumps({"type": type, "message": message, "traceback": traceback}).encode()


def trace(*frames: tuple[str, int, str]) -> str:
    lines = [f'  File "{file}", line {line}, in {function}\n    code()\n' for file, line, function in frames]
    return "Traceback (most recent call last):\n" + "".join(lines) + "ValueError: x"


@pytest.mark.parametrize("messages", ALIKE, ids=lambda messages: messages[0][:30])
def test_what_changes_from_job_to_job_does_not_make_a_cause(messages: list[str]) -> None:
    assert len({normalise(message) for message in messages}) == 1, [*map(normalise, messages)]


def test_different_words_and_codes_are_different_causes() -> None:
    found = [cause_of("t", error(message)) for message in APART]
    assert len({cause.id for cause in found}) == len(APART), sorted(cause.message for cause in found)


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("user 42 of 'acme' has no mail", "user <n> of <text> has no mail"),
        ("https://ann:pw@api-7.example.org:8443/v1/users/42?k=secret", "https://api-<n>.example.org/<n>/users/<n>"),
        ("std::vector failed at x::y", "std::vector failed at x::y"),
        ("utf8 in v2 of user42 and s3", "utf<n> in v<n> of user<n> and s<n>"),
        ("", ""),
    ],
)  # fmt: skip
def test_a_message_can_still_be_read(message: str, shown: str) -> None:
    assert normalise(message) == shown


def test_task_type_and_frame_tell_causes_apart() -> None:
    frame = trace(("/app/mail.py", 3, "send"))
    causes = [
        cause_of("mail.send", error("x", traceback=frame)),
        cause_of("mail.read", error("x", traceback=frame)),
        cause_of("mail.send", error("x", type="KeyError", traceback=frame)),
        cause_of("mail.send", error("x", traceback=trace(("/app/mail.py", 3, "receive")))),
    ]
    assert len({cause.id for cause in causes}) == 4
    assert causes[0] == Cause(causes[0].id, "mail.send", "ValueError", "x", "app/mail.py:send")


def test_a_deploy_that_moves_lines_or_folders_makes_no_new_cause() -> None:
    old = cause_of("t", error("x", traceback=trace(("/srv/releases/20240101/mail.py", 3, "send"))))
    new = cause_of("t", error("x", traceback=trace(("/srv/releases/20250607/mail.py", 99, "send"))))
    assert old == new and old.frame == "mail.py:send"


def test_an_id_stays_the_same_for_ever() -> None:
    # Stored in databases: another way of making them would split every group at an upgrade.
    assert cause_of("mail.send", error("no user 7")).id == "ff6403ad6a8b"


def test_the_own_top_frame_is_the_last_that_is_no_library() -> None:
    frames = [
        ("/app/tasks.py", 10, "send"),
        ("/app/lib/mail.py", 20, "deliver"),
        ("/app/venv/lib/python3.12/site-packages/httpx/_client.py", 900, "post"),
        ("/usr/lib/python3.12/ssl.py", 1, "read"),
        ("/usr/lib/python3/dist-packages/x.py", 1, "y"),
        ("<frozen importlib._bootstrap>", 1, "_load"),
        ("/srv/fairway/src/fairway/adapters/python/child.py", 5, "run"),
    ]
    assert own_frame(trace(*frames)) == "lib/mail.py:deliver"
    assert own_frame(trace(*frames[2:])) == ""
    assert own_frame("no traceback at all") == ""
    assert own_frame(trace(("/home/me/fairway/app.py", 1, "go"))) == "fairway/app.py:go"


def test_frames_of_a_group_of_exceptions_are_seen() -> None:
    text = '  + Exception Group Traceback:\n  | File "/app/a.py", line 1, in outer\n'
    text += '    |   File "/app/b.py", line 2, in go'
    assert own_frame(text) == "app/b.py:go"


def test_commands_are_told_apart_by_their_program() -> None:
    one, other = (cause_of("command", error(f"step 1 '{name}' exited with 1")) for name in ("make", "pytest"))
    assert (one.task, other.task) == ("command make", "command pytest")


@pytest.mark.parametrize("body", [b"", b"null", b"[]", b'"x"', b"not json", b'{"type": 5, "message": ["a"]}'])
def test_an_error_object_of_any_kind_has_a_cause(body: bytes) -> None:
    assert len(cause_of("t", body).id) == 12


def test_what_no_database_takes_as_text_is_replaced() -> None:
    cause = cause_of("t", b'{"type":"a\\u0000b","message":"half \\ud800 of a pair\\u0000","traceback":""}')
    assert "\0" not in "".join(cause)
    assert "".join(cause).encode()


@given(st.text(alphabet="ab01'\"`“”()[]<>=/:.,@-_+% \n\\é", max_size=3000))
def test_any_message_has_a_short_cause_without_delay(message: str) -> None:
    cause = cause_of("t", error(message))
    assert len(cause.message) <= MOST_SHOWN
    assert normalise(message) == normalise(message[:MOST_MESSAGE])


@pytest.mark.parametrize(
    "part",
    ["'", '"', "a-", "1.", "1,", "/a", ":", "a:", "=(", "a@", "a.", "exit ", "-1-", "http://", "'a ", "<n> "],
)
def test_a_message_made_to_be_slow_is_not(part: str) -> None:
    # Each takes milliseconds; a pattern that tries every split would not end within the life of this test.
    assert len(normalise(part * MOST_MESSAGE)) <= 4 * MOST_MESSAGE
