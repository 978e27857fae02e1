"""What the tests of disciplines stand on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.acceptance.tenants import Stage, open_stage


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """A node of ten slots for the tests of a file; each of their examples has its own branch."""
    with open_stage(tmp_path_factory.mktemp("ten"), 10) as stage:
        yield stage
