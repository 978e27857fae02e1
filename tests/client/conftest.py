from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.client.scripted_peer import Peer, running_peer


@pytest.fixture
def peer() -> Iterator[Peer]:
    with running_peer() as peer:
        yield peer
