"""Frames between the adapter and its children: four bytes of length, one byte of kind, msgpack.

To a child: JOBS (a number for the page, a list of assignments), ASK, STOP and FLUSH on the control socket.
From a child: READY (its tasks), FAILED (why it cannot work), RESULTS, LAST: the results that end a bundle,
and NOTES: what attempts say of themselves, always before their results.

What a child says beside that comes on the control socket, where any of its threads may send whatever
the others do: LOG (output) and SEEN (the answer to a LOOK).
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator

JOBS, ASK, STOP, FLUSH = b"j", b"a", b"s", b"f"
READY, FAILED, RESULTS, LAST, NOTES = b"y", b"x", b"r", b"e", b"n"
LOOK, LOG, SEEN = b"l", b"o", b"k"
MOST_BYTES = 1 << 30


def pack(kind: bytes, body: bytes) -> bytes:
    """Write one frame."""
    return struct.pack(">Ic", len(body), kind) + body


class FrameReader:
    """Collects bytes and gives back the frames that are whole."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, received: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Take what came and yield every (kind, body) that it completes."""
        self._buffer += received
        while len(self._buffer) >= 5:
            length, kind = struct.unpack_from(">Ic", self._buffer)
            if length > MOST_BYTES:
                raise ValueError(f"a frame of {length} bytes")
            if len(self._buffer) < 5 + length:
                return
            body = bytes(self._buffer[5 : 5 + length])
            del self._buffer[: 5 + length]
            yield kind, body


def read_frame(connection: socket.socket) -> tuple[bytes, bytes] | None:
    """Wait for one frame on a blocking socket; None when the other end is gone."""
    head = _read_exactly(connection, 5)
    if head is None:
        return None
    length, kind = struct.unpack(">Ic", head)
    body = _read_exactly(connection, length)
    return None if body is None else (kind, body)


def _read_exactly(connection: socket.socket, count: int) -> bytes | None:
    parts = bytearray()
    while len(parts) < count:
        received = connection.recv(count - len(parts))
        if not received:
            return None
        parts += received
    return bytes(parts)
