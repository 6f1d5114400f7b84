"""The command line: `slipstream <command>`. It imports little, so that a Ctrl-C is handled from the start."""

from __future__ import annotations

import signal
import sys
from contextlib import suppress

from slipstream import interrupts

SIGNALLED = 128
"""Added to the number of the signal that ended a command, as shells have it: 130 after a Ctrl-C, 143 after SIGTERM."""


def main() -> None:
    """Run the command line; bad input ends with exit code 2, a signal with one line and 128 + its number."""
    interrupts.ignore_at_exit()
    with interrupts.handled():
        code = 0
        try:
            from slipstream.cli.application import run_command

            code = run_command()
        except KeyboardInterrupt:
            code = SIGNALLED + signal.SIGINT
        except BaseException:
            # Libraries may turn the exception of a signal into another error.
            if interrupts.received() is None:
                raise
        interrupts.ignore_from_now_on()
        number = interrupts.received()
        code = code if number is None else SIGNALLED + number
        if code > SIGNALLED:
            with suppress(OSError, ValueError):  # standard error may be closed
                print("interrupted" if code == SIGNALLED + signal.SIGINT else "terminated", file=sys.stderr, flush=True)
    sys.exit(code)
