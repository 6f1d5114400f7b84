"""Run a slipstream command under resource limits: `python -m slipstream.dashboard.limits SECONDS MEGABYTES COMMAND...`.

The limits are set by the process itself before it loads anything, so that nothing has to be done between the fork and
the start of another program.
"""

from __future__ import annotations

import runpy
import sys
from contextlib import suppress


def main() -> None:
    """Set the limits, then run the command line."""
    seconds, megabytes = int(sys.argv[1]), int(sys.argv[2])
    with suppress(ImportError):  # Windows has no such limits; the wall-clock limit remains
        import resource

        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))
        resource.setrlimit(resource.RLIMIT_DATA, (megabytes << 20, megabytes << 20))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.argv = ["slipstream", *sys.argv[3:]]
    from slipstream.dashboard.memory import use_huge_pages

    use_huge_pages(True)  # the dashboard disables them, and children inherit that
    runpy.run_module("slipstream", run_name="__main__")


if __name__ == "__main__":
    main()
