"""What holds for all tests: properties are not judged by the clock of a busy machine."""

from __future__ import annotations

import os
import signal

from hypothesis import HealthCheck, settings

settings.register_profile("steady", deadline=None, suppress_health_check=[HealthCheck.too_slow])
# A run that nobody watches draws the same examples each time; new ones are drawn at the desk.
settings.register_profile("unwatched", parent=settings.get_profile("steady"), derandomize=True)
settings.load_profile("unwatched" if os.environ.get("CI") else "steady")

# Started in the background (`make test &`) all of us would ignore Ctrl-C, and so would what we start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
