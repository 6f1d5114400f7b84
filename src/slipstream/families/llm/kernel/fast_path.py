"""Fast loop of the first in the queue, compiled: no row is written for a decision.

For every scenario it writes the same event log as the loop that scores all rows by `fcfs`, which
`tests/llm/test_fast_path.py` checks.
"""

from __future__ import annotations

from slipstream.families.llm.kernel.events import act, resume
from slipstream.families.llm.kernel.state import ADMITS
from slipstream.jit.decorators import entry
from slipstream.sim.kernel.lanes import ASKING, LOG_FULL


@entry
def run_first(spec, state, lane, buffer, form, address, choices):
    """Admit the first request of the queue and leave all else to the engine; `lanes.run` says when it returns."""
    header, wait = state.lanes[lane], spec.machine[0].all_rows - 1
    midway = header.status == LOG_FULL
    while midway or (header.status == ASKING and choices > 0):
        if not midway:
            act(spec, state, lane, 0 if header.kind == ADMITS else wait)
            choices -= 1
        midway = False
        resume(spec, state, lane)
    return header.status
