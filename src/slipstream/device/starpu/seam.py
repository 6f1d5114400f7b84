"""The functions of a lane that StarPU's policy calls: compiled code where there is some, Python otherwise."""

from __future__ import annotations

import ctypes
from typing import Any

from slipstream.device.lane import DeviceLane
from slipstream.device.starpu.library import LaneFunctions
from slipstream.families.taskgraph.build import compiled_scenario
from slipstream.families.taskgraph.kernel.tasks import running_task
from slipstream.families.taskgraph.scenario import TaskgraphScenario
from slipstream.jit.funcptr import bound_address, callback_address
from slipstream.policies.base import CompiledEpisodes, Policy
from slipstream.sim.kernel.lanes import PENDING
from slipstream.sim.kernel.reported import next_timer, report_end, set_clock

FAILED = -1
"""What a function returns that raised an exception."""


class Seam:
    """What C calls of a lane under a policy; an exception of Python code is kept in `error`."""

    def __init__(self, lane: DeviceLane[TaskgraphScenario], policy: Policy) -> None:
        self.error: BaseException | None = None
        self._lane = lane
        self._policy = policy
        self._clock = 0
        parts = compiled_scenario(lane.scenario)
        self._tasks = int(parts.spec["machine"]["tasks"][0])
        self._owners: list[Any] = []
        compiled = self._compiled()
        self.is_compiled = bool(compiled)
        """Whether decisions are made without Python."""
        found = {
            name: self._callback(getattr(self, f"_{name}")) for name in LaneFunctions.names if name not in compiled
        }
        self.functions = LaneFunctions(**{name: self._kept(parts) for name, parts in (found | compiled).items()})

    def _kept(self, parts: tuple[int, int, Any]) -> Any:
        """Return the two addresses of a function as C wants them, and keep alive what they need."""
        self._owners.append(parts[2])
        return (ctypes.c_void_p * 2)(*parts[:2])

    def _compiled(self) -> dict[str, tuple[int, int, Any]]:
        """Return the addresses of compiled functions by name; none where the policy or the compiler has none."""
        lane = self._lane
        if not isinstance(self._policy, CompiledEpisodes):
            return {}
        arguments = (lane.spec, lane.state, 0)
        wanted = {
            "report": (report_end, arguments, 2),
            "set_clock": (set_clock, arguments, 1),
            "decide": (*self._policy.entry_point(lane), 1),
            "running": (running_task, arguments, 1),
            "next_timer": (next_timer, arguments, 0),
        }
        found = {name: bound_address(*one) for name, one in wanted.items()}
        return {name: parts for name, parts in found.items() if parts is not None}

    def _callback(self, function: Any) -> tuple[int, int, Any]:
        def guarded(first: int, second: int) -> int:
            try:
                return int(function(first, second))
            except BaseException as error:  # C code calls this: the run ends, and Python raises it then
                self.error = error
                return FAILED

        return callback_address(guarded)

    def _report(self, processor: int, time: int) -> int:
        self._lane.end(processor, time)
        return 0

    def _set_clock(self, time: int, _unused: int) -> int:
        self._clock = time
        return 0

    def _decide(self, _choices: int, _unused: int) -> int:
        if self._lane.header["status"] == PENDING:
            self._lane.follow(self._clock)
        while self._lane.asking:
            self._lane.decide(self._policy)
        return int(self._lane.header["status"])

    def _running(self, processor: int, _unused: int) -> int:
        work = self._lane.running(processor)
        return -1 if work is None else work[0] * self._tasks + work[1]

    def _next_timer(self, _first: int, _second: int) -> int:
        return self._lane.next_timer

    def _flush(self, _first: int, _second: int) -> int:
        self._lane.take_log()
        return 0
