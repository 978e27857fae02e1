"""Fairway: a durable, fair job scheduler. Queue, scheduler and worker in one program."""

__version__ = "0.1.0"
