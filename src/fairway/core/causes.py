"""Failures by cause: what failed alike, whatever ids, numbers and names of things stand in its message.

A cause is the task, the type of the error, its message with everything that changes from job to job replaced
(numbers, ids, times, addresses, quoted values, the changing parts of paths), and the last frame of its
traceback that is the user's own code, without its line: a deploy that moves lines does not make a new cause.
What tells failures apart stays: words, exit codes, HTTP statuses, names of columns and attributes.

One placeholder stands for numbers and for ids of any alphabet, since an id of digits only is no other thing.
The work is bounded: a message is cut first, and no pattern looks at a character more than a few times.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from hashlib import blake2b
from typing import Any, NamedTuple

MOST_MESSAGE = 2000
MOST_TRACEBACK = 50_000
MOST_SHOWN = 500
MOST_TYPE = 200


class Cause(NamedTuple):
    """Why attempts failed; equal causes are one group under *id*."""

    id: str
    task: str
    type: str
    message: str
    frame: str


@lru_cache(maxsize=128)  # of up to 30 KB each
def cause_of(task: str, error: bytes) -> Cause:
    """Return the cause of an error object as workers report it. *task* is the adapter where there is none."""
    said = _read(error)
    type, message = _text(said, "type")[:MOST_TYPE], _text(said, "message")[:MOST_MESSAGE]
    program = _program.match(message)
    if program is not None:
        task = f"{task} {normalise(program[1])}"
    frame = own_frame(_text(said, "traceback"))
    parts = (task, type, normalise(message)[:MOST_SHOWN], frame)
    return Cause(_hash("\0".join(parts)), *parts)


def normalise(message: str) -> str:
    """Replace what changes from job to job."""
    text = _changing.sub(_replace, message[:MOST_MESSAGE])
    return _repeated.sub(r"\1, …", " ".join(text.split()))


def own_frame(traceback: str) -> str:
    """Return `file:function` of the last frame in the user's own code, "" if there is none."""
    own = ""
    for found in _frame.finditer(traceback[-MOST_TRACEBACK:]):
        if not _foreign.search(found[1]):
            own = f"{_file(found[1])}:{found[2]}"
    return own


def _file(path: str) -> str:
    """Name a file by itself and the folder it is in, unless that is a number: a release, a build."""
    parts = path.replace("\\", "/").split("/")
    folder = parts[-2] if len(parts) > 1 else ""
    return f"{folder}/{parts[-1]}" if folder and not any(map(str.isdigit, folder)) else parts[-1]


def _read(error: bytes) -> dict[str, Any]:
    try:
        said = json.loads(error)
    except ValueError:
        return {}
    return said if isinstance(said, dict) else {}


def _text(said: dict[str, Any], name: str) -> str:
    """Return a part as text that any database takes: no NUL, no half of a surrogate pair."""
    return str(said.get(name) or "").encode("utf-8", "replace").decode().replace("\0", "\ufffd")


def _hash(text: str) -> str:
    return blake2b(text.encode(), digest_size=6).hexdigest()


# --- what changes, in the order in which it is looked for ---------------------------------------------------
_changing = re.compile(
    r"""
    (?P<keep>
        # Numbers that say what went wrong.
        (?<!\w)(?:exit(?:ed)?|status|answered|errno|signal|HTTP|HTTP/[\d.]{1,4}
          |(?:error|return|response)\ code)
        (?:\ with|\ code|\ status)?[\s:=]{0,3}-?\d{1,3}(?!\w|\.\d)
      | (?<!\w)step\ \d{1,5}(?!\w)
      | (?<!\w)['"]\d{3}\ [A-Za-z' -]{2,40}['"](?!\w)
        # Names of things in code and databases.
      | (?<!\w)(?:constraint|relation|column|table|index|function|attribute|named|argument|module|parameter
          |field|sequence|schema|type)
        \ ['"][A-Za-z_][A-Za-z_.]{0,80}['"](?!\w)
      | (?<!\w)['"][A-Za-z_.]{1,60}['"]\ object(?!\w)
    )
  | (?P<n>(?<!\w)[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}(?!\w))
  | (?P<url>[a-z][a-z0-9+]{1,15}://[^\s'"<>)\]]{1,2000})
  | (?P<value>=\ ?\([^()\n]{0,2000}\))
  | (?P<quoted>(?<!\w)(?:'[^'\n]{0,2000}'|"[^"\n]{0,2000}"|`[^`\n]{0,2000}`|“[^”\n]{0,2000}”)(?!\w))
  | (?P<time>
        (?<!\w)\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d{1,9})?)?(?:Z|\ ?[+-]\d\d:?\d\d)?)?(?!\w)
      | (?<!\w)\d{1,2}:\d\d:\d\d(?:[.,]\d{1,9})?(?!\w)
    )
  | (?P<email>(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8})
  | (?P<address>
        (?<![\w.])\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}(?::\d{1,5})?(?![\w.]\w)
      | (?<![\w:])\[?(?=[0-9a-fA-F]{0,4}:)(?:[0-9a-fA-F]{0,4}:){2,7}[0-9a-fA-F]{0,4}\]?(?![\w:])
    )
  | (?P<path>(?<![\w/.])(?:~|\.{1,2})?/[\w.@+%~-]{1,255}(?:/[\w.@+%~-]{0,255}){1,60})
  | (?P<number>(?<![\w.])[+-]?\d{1,400}(?:[.,]\d{1,400}){0,20}(?:e[+-]?\d{1,4})?
        (?=(?:[nuµm]?s|m|min|h|hr|[kmgt]i?b?|px|st|th|%)?(?![\w-])))
  | (?P<word>(?<![\w-])[\w-]{16,2000}(?![\w-])|\w+(?:-\w+)*)
    """,
    re.VERBOSE | re.IGNORECASE,
)
_repeated = re.compile(r"(<[a-z]+>)(?:,? \1){1,2000}")
_program = re.compile(r"step \d{1,5} '([^']{1,100})'")
_frame = re.compile(r'^[ \t|]{0,40}File "([^"\n]{1,1000})", line \d{1,9}, in (\S{1,200})', re.MULTILINE)
_foreign = re.compile(
    r"^<|[/\\](?:site-packages|dist-packages)[/\\]|[/\\]lib(?:64)?[/\\]python\d|[/\\]Lib[/\\](?:asyncio|concurrent)"
    r"|[/\\]fairway[/\\](?:adapters|client|worker|core|context\.py)"
)
_chunk = re.compile(r"[^\W_]+")
# A hash may have no digit by chance; nearly no word has just these letters.
_hex = re.compile(r"(?!(?:de|ef)faced?$|acceded?$|decade$|facade$)[a-f]{6,}", re.IGNORECASE)
# Long, and small letters, capitals and digits all in one: a key or a token.
_token = re.compile(r"(?=[^a-z]*[a-z])(?=[^A-Z]*[A-Z])(?=\D*\d)")
_named = re.compile(r"([^\W\d_]*[g-zG-Z][^\W\d_]*)\d{1,3}")
_temporary = re.compile(r"tmp\w{6,}")


def _replace(found: re.Match[str]) -> str:
    kind, text = found.lastgroup, found[0]
    if kind == "word":
        return _word(text)
    if kind == "keep":
        return text
    if kind == "url":
        return _url(text)
    if kind == "path":
        return "/".join(map(_part, text.split("/")))
    if kind == "number":
        return "<n>"
    return "=(<value>)" if kind == "value" else "<text>" if kind == "quoted" else f"<{kind}>"


def _word(word: str) -> str:
    """Replace the parts of a word that are no words: numbers, and letters mixed with digits."""
    if word.isalpha():
        return "<n>" if _hex.fullmatch(word) else word
    if len(word) >= 16 and _token.match(word):
        return "<n>"
    return _chunk.sub(_piece, word)


def _piece(found: re.Match[str]) -> str:
    piece = found[0]
    if piece.isalpha():
        return "<n>" if _hex.fullmatch(piece) else piece
    named = _named.fullmatch(piece) if len(piece) <= 7 else None  # utf8, v2, user42
    return f"{named[1]}<n>" if named else "<n>"


def _url(url: str) -> str:
    """Keep where it goes: the host, and the parts of the path that are words."""
    scheme, _, rest = url.partition("://")
    address, _, _ = rest.partition("?")
    host, slash, path = address.partition("#")[0].partition("/")
    host = host.rpartition("@")[2].partition(":")[0]
    host = "<address>" if re.fullmatch(r"[\d.]*|\[.*", host) else _word(host)
    return f"{scheme}://{host}{slash}{'/'.join(map(_part, path.split('/')))}".rstrip(".,;:")


def _part(part: str) -> str:
    """Replace a part of a path if it is none that stays: it has a digit, or is a temporary name."""
    if _temporary.fullmatch(part):
        return "<n>"
    stem, dot, ending = part.rpartition(".")
    if dot and stem and ending.isalpha() and len(ending) <= 5:
        return f"{_part(stem)}.{ending}"
    return "<n>" if any(map(str.isdigit, part)) else part
