"""StarPU's workers on this machine, the kernels and their tiles, and one run of them."""

from __future__ import annotations

import ctypes
import os
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import numpy as np

from slipstream.device.backends.cpu import counted, processor_name
from slipstream.device.backends.streams import now
from slipstream.device.engine import LONGEST_SLEEP_NS
from slipstream.device.starpu.library import KERNELS, LaneFunctions, Run, library, starpu_environment
from slipstream.device.tasks.tiles import TileSpace, checked_graph
from slipstream.errors import DeviceError
from slipstream.families.contract import Scenario
from slipstream.families.taskgraph.build import compiled_scenario
from slipstream.families.taskgraph.scenario import TaskgraphScenario

RUNS, DONE, KERNEL_FAILED, LANE_FAILED = range(4)
"""State of a run: what `slipstream_wait` returns."""
TILE_SIDE = 256
"""Rows and columns of a tile where nothing is said."""


@dataclass(frozen=True)
class Record:
    """What StarPU did: times in ns since the clock started, by task."""

    began: np.ndarray
    ended: np.ndarray
    dispatch: np.ndarray
    """From when its worker asked to the decision that starts it; -1 where StarPU decided."""
    worker: np.ndarray
    zero: int
    """When the clock started, on that of `now()`."""

    @property
    def makespan(self) -> int:
        """Time from the start of the clock to the last end."""
        return int(self.ended.max())


class StarpuMachine:
    """StarPU's workers on this machine, the kernels, and the tiles of all jobs of a scenario; a context manager."""

    engine = "starpu"

    def __init__(self, scenario: Scenario, side: int) -> None:
        graph = checked_graph(scenario, "--engine starpu")
        assert isinstance(scenario, TaskgraphScenario)
        self._library, self._version = library()
        self.count = scenario.processor_count
        """Number of CPU workers."""
        self.kernels = [task.kernel for task in compiled_scenario(scenario).library.templates[0].tasks]
        """Kernel of each task of a job."""
        cores = len(os.sched_getaffinity(0))
        if self.count > cores:
            text = f"{self.count} processors on {counted(cores, 'core')}"
            raise DeviceError(f"{text}: expected no more: each is a CPU worker of StarPU with a core of its own")
        self.tiles = TileSpace(scenario, self.count, side)
        """Matrices on which tasks run."""
        parts = compiled_scenario(scenario)
        self._jobs, template = parts.sizes.jobs, parts.library.templates[0]
        offsets, count = template.used.offsets, len(template.tile_names)
        jobs = np.arange(self._jobs)[:, None]
        self._arrays: dict[str, np.ndarray] = {
            "numbers": self.tiles.numbers,
            "kernels": np.tile([KERNELS[graph.kind, kernel] for kernel in self.kernels], self._jobs).astype(np.int32),
            "accesses": np.append(offsets[:-1] + jobs * offsets[-1], self._jobs * offsets[-1]).astype(np.int32),
            "tile": (template.used.values + jobs * count).ravel().astype(np.int32),
            "mode": np.tile(template.modes, self._jobs).astype(np.int32),
        }
        self._tile_count = self._jobs * count

    @property
    def device(self) -> str:
        """Return StarPU's version and the number of its workers."""
        return f"StarPU {self._version}, {counted(self.count, 'CPU worker')}, kernels on tiles"

    @property
    def hardware(self) -> str:
        """Return the processor and its cores."""
        return f"{processor_name()}, {counted(os.cpu_count() or 1, 'core')}"

    def open(
        self,
        expected_us: np.ndarray,
        lane: LaneFunctions | None = None,
        scheduler: str = "",
        workers: int | None = None,
    ) -> StarpuSession:
        """Start StarPU for one run of all tasks, decided by a lane or by a scheduler of StarPU itself."""
        tasks = self._jobs * len(self.kernels)
        results = {name: np.full(tasks, -1, np.int64) for name in ("began", "ended", "dispatch_ns")}
        results["ran_on"] = np.full(tasks, -1, np.int32)
        arrays = {**self._arrays, "expected_us": np.tile(expected_us, self._jobs), **results}
        run = Run(
            workers=workers or self.count,
            tasks=tasks,
            tiles=self._tile_count,
            side=self.tiles.side,
            lane=None if lane is None else ctypes.pointer(lane),
            scheduler=scheduler.encode(),
            **{name: arrays[name].ctypes.data for name in Run.pointers},
        )
        return StarpuSession(self._library, run, arrays)

    def kernel_times(self, sweeps: int) -> dict[str, float]:
        """Return the median time in ms of each kernel on a single worker, over `sweeps` runs after one warms up."""
        found: dict[str, list[int]] = {}
        for sweep in range(1 + sweeps):
            self.tiles.fill()
            with self.open(np.ones(len(self.kernels)), scheduler="eager", workers=1) as session:
                session.begin()
                while session.wait(now() + LONGEST_SLEEP_NS) == RUNS:
                    continue
            if sweep:
                record = session.record()
                for kernel, time in zip(self.kernels * self._jobs, (record.ended - record.began).tolist(), strict=True):
                    found.setdefault(kernel, []).append(time)
        return {kernel: float(np.median(times)) / 1e6 for kernel, times in found.items()}

    def close(self) -> None:
        """Free the tiles."""
        self._arrays.clear()
        self.tiles.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class StarpuSession:
    """StarPU from its start to its end, for one run; a context manager."""

    def __init__(self, library: ctypes.CDLL, run: Run, arrays: dict[str, np.ndarray]) -> None:
        self._library, self._run, self._arrays = library, run, arrays
        self._zero = 0
        self.failed_task = -1
        """Task whose kernel failed."""

    def __enter__(self) -> Self:
        with starpu_environment():
            found = self._library.slipstream_open(ctypes.byref(self._run))
        if found <= 0:
            reason = "no memory" if found == 0 else os.strerror(-found)
            raise DeviceError(f"StarPU does not start: {reason}: expected a machine on which it runs")
        if found < self._run.workers:
            self._library.slipstream_close()
            text = f"{counted(self._run.workers, 'processor')} for {counted(found, 'CPU worker')} of StarPU"
            raise DeviceError(f"{text}: expected no more than it has on this machine")
        return self

    def begin(self) -> int:
        """Submit all tasks and start the clock; return when, on that of `now()`."""
        self._zero = self._library.slipstream_begin()
        if self._zero < 0:
            raise DeviceError(
                f"StarPU refuses a task: {os.strerror(-self._zero)}: expected one that its workers can run"
            )
        return self._zero

    def wait(self, until: int) -> int:
        """Wait until the run is over or the time `until` has come; return its state."""
        return int(self._library.slipstream_wait(until))

    def cancel(self) -> None:
        """Have tasks that have not begun do nothing."""
        self._library.slipstream_cancel()

    def record(self) -> Record:
        """Return what each task did."""
        arrays, zero = self._arrays, self._zero
        began, ended = (np.where(arrays[name] < 0, -1, arrays[name] - zero) for name in ("began", "ended"))
        return Record(began, ended, arrays["dispatch_ns"], arrays["ran_on"], zero)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self.cancel()
        self.failed_task = self._library.slipstream_close()
