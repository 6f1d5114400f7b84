"""Profiler of a device: measures every variant alone, every pair co-running, and the noise of the machine.

A measurement consists of cells, each of a second or less. Finished cells are kept in a file beside the profile, so that
an interrupted measurement resumes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from slipstream.device.backends.streams import RunRequest, Streams, now
from slipstream.device.measurement.noise import noise_of, others_share, time_reference_kernel
from slipstream.device.workers.pool import cores_for
from slipstream.device.workload import Workload
from slipstream.errors import DeviceError, InputError
from slipstream.families.edge.scenario import EdgeScenario
from slipstream.families.edge.workload.measured import MeasuredProfile, MeasuredVariant
from slipstream.files.atomic import replace_file
from slipstream.files.inputs import as_object, read_object

Progress = Callable[[int, int], None]

TRIMMED_PERCENT = 99.0
"""Runs above this percentile are excluded from means: one stall of the machine would outweigh a hundred runs."""
IDLE_S = 0.5
REST_EVERY = 8
"""Cells between two samples of the machine's noise."""


@dataclass(frozen=True)
class Effort:
    """Amount of measurement."""

    runs: int = 60
    """Runs of every variant alone."""
    pair_seconds: float = 0.4
    """Duration of the loop of each pair, and of each variant alone."""
    patience_s: float = 0.0
    """Longest time for repeating the runs alone until the machine is quiet."""


@dataclass(frozen=True)
class Subject:
    """A variant to measure: its name in the scenario, and its run request on the device."""

    model: str
    dataset: str
    variant: int
    request: RunRequest


def subjects_of(scenario: EdgeScenario, workload: Workload) -> list[Subject]:
    """Return the distinct variants of a scenario."""
    found: dict[tuple[str, str, int], Subject] = {}
    for index, task in enumerate(scenario.tasks):
        for rank in range(task.num_variants):
            request = RunRequest(workload.model_of[index][rank], workload.set_of[index], 0)
            found.setdefault((task.model, task.dataset, rank), Subject(task.model, task.dataset, rank, request))
    return list(found.values())


class Cells:
    """Results of finished cells by name, stored in a file that is replaced after each."""

    def __init__(self, path: Path | None, key: str) -> None:
        self._path = path
        self._key = key
        self.found: dict[str, Any] = {}
        if path is not None and path.is_file():
            with suppress(InputError):  # a damaged file: measure again
                stored = read_object(path)
                cells = as_object(stored.get("cells"), "cells")
                intact = stored.get("key") == key and stored.get("sha256") == _sha256(cells)
                self.found = cells if intact else {}

    def keep(self, name: str, value: Any) -> None:
        """Store the result of a cell."""
        self.found[name] = value
        if self._path is not None:
            stored = {"key": self._key, "sha256": _sha256(self.found), "cells": self.found}
            replace_file(self._path, json.dumps(stored).encode())

    def forget(self) -> None:
        """Remove the file: the profile has all results."""
        if self._path is not None:
            self._path.unlink(missing_ok=True)


def _sha256(cells: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(cells).encode()).hexdigest()


class Profiler:
    """Measures the variants of a scenario on streams that are ready."""

    def __init__(
        self, scenario: EdgeScenario, workload: Workload, streams: Streams, backend: str, effort: Effort | None = None
    ) -> None:
        if streams.count < 2:
            raise DeviceError(f"the device has {streams.count} stream: expected at least 2, to measure pairs")
        self._workload = workload
        self._streams = streams
        self._backend = backend
        self._effort = effort or Effort()
        self.subjects = subjects_of(scenario, workload)
        self._rng = np.random.default_rng(0)
        self._cores = [core for share in cores_for(streams.count) for core in share]

    def key(self) -> str:
        """Return a digest of what identifies this measurement: device, backend, effort and variants."""
        about = [self._streams.device, self._backend, vars(self._effort), [str(one) for one in self.subjects]]
        return hashlib.sha256(json.dumps(about).encode()).hexdigest()

    def measure(self, kept_in: Path | None = None, progress: Progress | None = None) -> MeasuredProfile:
        """Measure the cells that `kept_in` does not have; return the profile."""
        cells = Cells(kept_in, self.key())
        plan = self._plan()
        for done, (name, measure) in enumerate(plan.items()):
            if name not in cells.found:
                with self._streams.controller_migration():
                    value = measure()
                if done % REST_EVERY == 0 or "yardstick" not in cells.found:
                    cells.found.setdefault("others", []).append(others_share())
                    cells.found.setdefault("yardstick", []).append(time_reference_kernel(self._cores))
                cells.keep(name, value)
            if progress is not None:
                progress(done + 1, len(plan))
        profile = self._profile(cells.found)
        cells.forget()
        return profile

    def _plan(self) -> dict[str, Callable[[], Any]]:
        """Return the measurement function of every cell, by name."""
        count = len(self.subjects)
        plan: dict[str, Callable[[], Any]] = {"idle": self._idle, "solo": self._solo_when_quiet}
        plan |= {f"row {index}": partial(self._loop_alone, index) for index in range(count)}
        for one in range(count):
            plan |= {f"pair {one} {other}": partial(self._loop_pair, one, other) for other in range(one, count)}
        if any(samples.labels is not None for samples in self._workload.sets):
            plan["accuracy"] = self._accuracies
        return plan

    # Cells

    def _idle(self) -> float | None:
        """Return the power of the idle device, None without a meter."""
        return self._watts(lambda: self._streams.wait(IDLE_S))[1]

    def _watts(self, action: Callable[[], Any]) -> tuple[Any, float | None]:
        """Return the result of `action` and the mean power during it, None without a meter."""
        before, began = self._streams.joules(), now()
        result = action()
        after = self._streams.joules()
        return result, None if before is None or after is None else (after - before) / ((now() - began) / 1e9)

    def _run(self, stream: int, subject: Subject, turn: int) -> float:
        """Make one run alone; return its time in ms."""
        began = now()
        self._streams.submit(stream, self._run_request(subject, turn))
        while True:
            for completion in self._streams.wait(60.0):
                if completion.error:
                    raise DeviceError(f"variant {subject.variant} of '{subject.model}' failed: {completion.error}")
                return (completion.ended - began) / 1e6

    def _run_request(self, subject: Subject, turn: int) -> RunRequest:
        count = len(self._workload.sets[subject.request.samples].inputs)
        return RunRequest(subject.request.model, subject.request.samples, turn % count)

    def _solo_when_quiet(self) -> list[list[float]]:
        """Return the times of every variant alone, from the first quiet measurement, or else the last one."""
        until = now() + int(self._effort.patience_s * 1e9)
        while True:
            times = self._solo()
            if now() >= until or noise_of([others_share()], [np.array(one) for one in times], []).quiet:
                return times

    def _solo(self) -> list[list[float]]:
        """Return the times of every variant alone.

        Variants run in random order with random pauses, on all streams in turn: as in real use, other runs have changed
        the caches.
        """
        times: list[list[float]] = [[] for _ in self.subjects]
        pause = 0.0
        for turn in range(self._effort.runs):
            for index in self._rng.permutation(len(self.subjects)):
                self._streams.wait(pause)
                times[index].append(self._run(turn % self._streams.count, self.subjects[index], turn))
                pause = float(self._rng.uniform(0, 2 * times[index][-1])) / 1e3
        return times

    def _loop_alone(self, index: int) -> dict[str, Any]:
        """Return the mean time of a variant in a loop, on each of the first two streams, and its power."""

        def loops() -> list[float]:
            return [self._mean(self._loops({stream: index})[stream]) for stream in range(2)]

        means, watts = self._watts(loops)
        return {"means": means, "watts": watts}

    def _loop_pair(self, one: int, other: int) -> list[float]:
        """Return the mean times of two variants in concurrent loops."""
        times = self._loops({0: one, 1: other})
        return [self._mean(times[0]), self._mean(times[1])]

    def _mean(self, times: list[float]) -> float:
        return float(np.mean(trimmed(np.array(times))))

    def _loops(self, subjects: dict[int, int]) -> dict[int, list[float]]:
        """Run variants in loops, by stream; return their times in ms.

        The first run of each loop is left out, and so is the last, beside which the other may have ended.
        """
        until = now() + int(self._effort.pair_seconds * 1e9)
        times: dict[int, list[float]] = {stream: [] for stream in subjects}
        began: dict[int, int] = {}
        for stream, index in subjects.items():
            began[stream] = now()
            self._streams.submit(stream, self._run_request(self.subjects[index], 0))
        while began:
            for completion in self._streams.wait(60.0):
                stream, subject = completion.stream, self.subjects[subjects[completion.stream]]
                if completion.error:
                    raise DeviceError(f"variant {subject.variant} of '{subject.model}' failed: {completion.error}")
                times[stream].append((completion.ended - began.pop(stream)) / 1e6)
                # All loops continue until each has enough runs: none may be measured beside an idle stream.
                if now() < until or any(len(one) < 4 for one in times.values()):
                    began[stream] = now()
                    self._streams.submit(stream, self._run_request(subject, len(times[stream])))
        return {stream: one[1:-1] for stream, one in times.items()}

    def _accuracies(self) -> list[float | None]:
        """Return the accuracy of each variant, None without labels."""
        return [self._accuracy(subject) for subject in self.subjects]

    def _accuracy(self, subject: Subject) -> float | None:
        labels = self._workload.sets[subject.request.samples].labels
        if labels is None:
            return None
        right = 0
        for turn, label in enumerate(labels):
            self._run(0, subject, turn)
            right += int(self._streams.output(0).argmax()) == int(label)
        return right / len(labels)

    # The profile

    def _profile(self, cells: dict[str, Any]) -> MeasuredProfile:
        solo = [np.array(times) for times in cells["solo"]]
        accuracies = cells.get("accuracy", [None] * len(self.subjects))
        rows = [cells[f"row {index}"] for index in range(len(self.subjects))]
        return MeasuredProfile(
            device=self._streams.device,
            backend=self._backend,
            streams=self._streams.count,
            noise=noise_of(cells["others"], solo, cells["yardstick"]),
            idle_w=cells["idle"],
            variants=[
                self._variant(subject, times, _added(row["watts"], cells["idle"]), accuracy)
                for subject, times, row, accuracy in zip(self.subjects, solo, rows, accuracies, strict=True)
            ],
            slowdowns=self._slowdowns(cells, rows),
        )

    def _variant(
        self, subject: Subject, times: np.ndarray, watts: float | None, accuracy: float | None
    ) -> MeasuredVariant:
        stored = trimmed(times)
        p50, p95, p99 = (float(value) for value in np.percentile(times, (50, 95, 99)))
        return MeasuredVariant(
            model=subject.model,
            dataset=subject.dataset,
            variant=subject.variant,
            latency_ms=float(stored.mean()),
            p50_ms=p50,
            p95_ms=p95,
            p99_ms=p99,
            cv=float(stored.std() / stored.mean()),
            runs=len(times),
            memory_mb=self._streams.memory_mb[subject.request.model],
            power_w=watts,
            accuracy=accuracy,
        )

    def _slowdowns(self, cells: dict[str, Any], rows: list[dict[str, Any]]) -> list[list[float]]:
        """Return the slowdown of each variant beside each variant, relative to its loop alone on the same stream."""
        count = len(self.subjects)
        table = np.ones((count, count))
        for one in range(count):
            for other in range(one, count):
                beside = cells[f"pair {one} {other}"]
                first, second = beside[0] / rows[one]["means"][0], beside[1] / rows[other]["means"][1]
                if one == other:
                    first = second = (first + second) / 2
                table[one, other], table[other, one] = first, second
        slowdowns: list[list[float]] = table.clip(0.01, 100.0).tolist()
        return slowdowns


def _added(watts: float | None, idle: float | None) -> float | None:
    return None if watts is None or idle is None else max(0.0, watts - idle)


def trimmed(times: np.ndarray) -> np.ndarray:
    """Return the times up to the percentile TRIMMED_PERCENT."""
    return np.asarray(times[times <= np.percentile(times, TRIMMED_PERCENT)])
