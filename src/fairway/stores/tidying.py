"""How long what is kept for a while is kept, whatever the store."""

from __future__ import annotations

EVENT_SECONDS = 86_400
EVENT_BYTES = 1 << 30
NODE_SECONDS = 3_600
CHANGES_KEPT = 1_000  # of queues, the newest
CHANGES_KEPT_EACH = 20  # and of each queue that there is
