"""The page that an agent and one sync child share: which job runs, and how far the child may go.

Three 64-bit numbers. The child writes STARTED and INDEX first, *then* looks whether INDEX is below ALLOWED,
and only then runs the job. So an agent that has stopped the child with SIGSTOP reads what is surely running,
can set ALLOWED behind it, and knows that nothing after it will start, even if user code holds the GIL.

The agent numbers the jobs of a child through all its life, and leaves out one number behind each bundle: that
is where the child stands between two bundles.
"""

from __future__ import annotations

import mmap
import os
import tempfile

INDEX, ALLOWED, STARTED = 0, 1, 2
#: INDEX before the first job of all has begun.
NONE_YET = -1

Page = memoryview


def make_page() -> tuple[int, Page]:
    """Make a page; return a descriptor to pass on, and our view of it."""
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("fairway-page")
    else:
        fd, path = tempfile.mkstemp(prefix="fairway-page-")
        os.unlink(path)  # noqa: PTH108
    try:
        os.ftruncate(fd, mmap.PAGESIZE)
        page = map_page(fd)
    except OSError:
        os.close(fd)
        raise
    page[INDEX] = NONE_YET
    return fd, page


def map_page(fd: int) -> Page:
    """Return a view of a page as 64-bit numbers."""
    return memoryview(mmap.mmap(fd, mmap.PAGESIZE)).cast("q")
