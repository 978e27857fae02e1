"""Replays of work through the real core on a virtual clock, judged beside a fluid oracle."""
