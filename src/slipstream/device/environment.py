"""The Gymnasium environment whose lane follows a device."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from slipstream.device.backends.registry import open_streams
from slipstream.device.engine import Execution
from slipstream.device.stepping import SteppedRuntime
from slipstream.device.workload import check_device, workload_of
from slipstream.envs.env import SchedulingEnv, load_for
from slipstream.errors import DeviceError
from slipstream.families.contract import FAMILIES, ScenarioLike
from slipstream.render.scene import Scene
from slipstream.sim.kernel import lanes
from slipstream.sim.kernel.rng import SPLITS, next_seed

SPLIT_NAMES = {code: name for name, code in SPLITS.items()}


class DeviceEnv(SchedulingEnv):
    """An environment in real time: jobs run on the streams of a `device`, and `step` lasts until a decision is due.

    Observation, action, reward and info are those of the simulated environment. The clock never stands still: what
    happens while the agent decides, or learns, has happened when its action takes effect. An action that is not
    possible any more by then has no effect, as with `decision_time_ms` in a simulation.

    `data`, `allow_code` and `watchdog_ms` mean what they mean in `slipstream execute`; all other options are those of
    the simulated environment. `reset` waits for the runs of the last episode and starts another; `close` stops the
    workers. Such an environment cannot be copied or pickled.
    """

    def __init__(
        self,
        family: str,
        scenario: ScenarioLike | None = None,
        *,
        device: str = "cpu",
        data: Mapping[str, str | Path] | None = None,
        allow_code: bool = False,
        watchdog_ms: float | None = None,
        **options: Any,
    ) -> None:
        loaded = check_device(load_for(FAMILIES[family], scenario))
        folders = {task: Path(folder) for task, folder in (data or {}).items()}
        workload = workload_of(loaded, folders, allow_code)
        streams = open_streams(device, workload, loaded.device.streams, loaded.device.stream_priorities)
        self._close_streams = weakref.finalize(self, streams.close)
        try:
            self.runtime = SteppedRuntime(loaded, workload, streams, watchdog_ms)
            self._drawn = 0
            """Rows of the event log that the scene shows."""
            super().__init__(family, loaded, **options)
            self._warm_up()
        except BaseException:
            self._close_streams()
            raise

    def _warm_up(self) -> None:
        """Make a decision on the lane alone, so that everything is compiled before the clock runs."""
        lane = self.runtime.lane
        lane.begin(0, SPLIT_NAMES[self._split])
        while not (lane.asking or lane.over):
            lane.follow(lane.next_timer)
        if lane.asking:
            lane.act(self.family.candidate_rows(self.scenario) - 1, int(lane.header["now"]) + 1)
            lane.follow(int(lane.header["now"]) + 1)
        lanes.report_lane(*self._structs[:2], 0, self._structs[2], False)
        next_seed(0)

    @property
    def execution(self) -> Execution:
        """Faults, restarts and times of the present episode."""
        return self.runtime.execution

    def events(self) -> np.ndarray:
        """Return the event log of the present episode."""
        return np.concatenate(self.runtime.pieces())

    def _state_arrays(self, log_rows: int) -> dict[str, np.ndarray]:
        return self.runtime.lane.arrays

    def _lane_structs(self) -> tuple[Any, Any]:
        return self.runtime.lane.spec, self.runtime.lane.state

    def _begin(self, seed: int, split: int) -> None:
        self._check_open()
        self._drawn = 0
        self.runtime.start(int(next_seed(self.runtime.lane.header["seed"])) if seed < 0 else seed, SPLIT_NAMES[split])
        self._report(stepped=False)

    def _advance(self, action: int) -> None:
        self._check_open()
        stepped = self.runtime.lane.asking
        if stepped:
            self.runtime.step(action)
        self._report(stepped)

    def _report(self, stepped: bool) -> None:
        spec, state, buffer = self._structs
        lanes.report_lane(spec, state, 0, buffer, stepped)

    def _update_scene(self, scene: Scene, stepped: bool) -> None:
        events = self.events()
        scene.update(events[self._drawn :])
        self._drawn = len(events)
        scene.advance_to(int(self.runtime.lane.header["now"]))

    def _check_open(self) -> None:
        if not self._close_streams.alive:
            raise DeviceError("the environment was closed, and its device with it: expected one that is open")

    def close(self) -> None:
        """Stop the workers of the device; runs that have not ended are lost."""
        self._close_streams()
        super().close()

    def __getstate__(self) -> dict[str, Any]:
        raise DeviceError("an environment on a device cannot be copied, nor can the device: expected a simulated one")
