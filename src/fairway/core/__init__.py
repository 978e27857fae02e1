"""The scheduling core: a deterministic state machine with no IO, no clock and no randomness."""
