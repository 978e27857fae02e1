"""The store in plain dicts: the reference for what a store means, and a fast one for simulations."""

from __future__ import annotations

from fairway.stores.memory.store import MemoryStore

__all__ = ["MemoryStore"]
