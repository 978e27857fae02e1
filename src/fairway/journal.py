"""What a node or a worker writes to its log: one event, one line, with its time and the facts about it.

Modules log a fixed message and give the facts as `extra` fields; here they become `name=value` behind it.
A program that embeds Fairway and has set up logging itself is left alone.
"""

from __future__ import annotations

import json
import logging
import re
import sys
import time

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_plain = re.compile(r"[\w.:/@+-]+", re.ASCII)
_control = re.compile(r"[\x00-\x1f\x7f-\x9f]")


class Lines(logging.Formatter):
    """Writes `2026-11-17T04:31:12.345Z warning fairway.engine the term is over term=7`."""

    def format(self, record: logging.LogRecord) -> str:
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        head = f"{moment}.{int(record.msecs):03d}Z {record.levelname.lower()} {record.name}"
        facts = "".join(
            f" {name}={_shown(value)}" for name, value in vars(record).items() if name not in _STANDARD
        )
        line = f"{head} {_tame(record.getMessage())}{facts}"
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return line


def write_to_stderr() -> None:
    """Let our own events be written from now on, and of others' what is a warning."""
    root = logging.getLogger()
    if root.handlers:
        return
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Lines())
    root.addHandler(handler)
    logging.getLogger("fairway").setLevel(logging.INFO)


def _shown(value: object) -> str:
    text = str(value)
    return text if _plain.fullmatch(text) else json.dumps(text)


def _tame(text: str) -> str:
    """Return a text on one line, without what a terminal would take for an order."""
    return _control.sub(lambda found: f"\\x{ord(found[0]):02x}", text)
