"""Workload of a device: the models of a scenario's tasks, and samples of their inputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from slipstream.device.models.addresses import Address, parse
from slipstream.device.models.datasets import DatasetType, Samples, dataset_type, samples_of
from slipstream.errors import DeviceError, ModelError
from slipstream.families.contract import FAMILIES, Scenario
from slipstream.families.edge.scenario import EdgeScenario, Task

SAMPLE_SEED = 20_251
"""Seed of random samples: inputs do not depend on the seed of a run, so that runs can be compared."""


@dataclass(frozen=True)
class DeviceModel:
    """A variant of a model, and the type of its inputs."""

    address: Address
    dataset: DatasetType


@dataclass(frozen=True)
class Workload:
    """Models and samples of a scenario, shared between tasks."""

    models: tuple[DeviceModel, ...]
    sets: tuple[Samples, ...]
    model_of: tuple[tuple[int, ...], ...]
    """By task and variant: index into the models."""
    set_of: tuple[int, ...]
    """By task: index into the sets of samples."""

    def samples(self, task: int) -> int:
        """Return the number of samples of a task; its jobs use them in turn."""
        return len(self.sets[self.set_of[task]].inputs)

    def label(self, task: int, job: int) -> int | None:
        """Return the class of a job's sample, None without labels."""
        labels = self.sets[self.set_of[task]].labels
        return None if labels is None else int(labels[job % self.samples(task)])


def workload_of(
    scenario: EdgeScenario, data: Mapping[str, Path] | None = None, allow_code: bool = False, folder: Path | None = None
) -> Workload:
    """Return the workload of a scenario; `data` gives folders of samples by task name.

    Files are relative to `folder`, by default that of the scenario.

    Raises:
        ModelError: One line: the task, and what is wrong with its model or its inputs.
    """
    home = folder if folder is not None else scenario._folder
    folders = dict(data or {})
    names = [task.name for task in scenario.tasks]
    for name in folders:
        if name not in names:
            raise ModelError(f"data of task '{name}': no such task: expected one of {', '.join(names)}")
    models: dict[DeviceModel, int] = {}
    sets: dict[tuple[str, Path | None], tuple[int, Samples]] = {}
    model_of, set_of = [], []
    for task in scenario.tasks:
        try:
            kind = dataset_type(task.dataset)
            addresses = _ladder(task, home, allow_code)
            key = (task.dataset, folders.get(task.name))
            if key not in sets:
                sets[key] = (len(sets), samples_of(kind, key[1], SAMPLE_SEED + len(sets)))
        except ModelError as error:
            raise ModelError(f"task '{task.name}': {error}") from None
        set_of.append(sets[key][0])
        variants = [DeviceModel(address, kind) for address in addresses]
        model_of.append(tuple(models.setdefault(variant, len(models)) for variant in variants))
    return Workload(tuple(models), tuple(samples for _, samples in sets.values()), tuple(model_of), tuple(set_of))


def _ladder(task: Task, home: Path, allow_code: bool) -> list[Address]:
    """Return the addresses of a task's variants; equal ones are an error."""
    addresses = [parse(task.model, rank, home, allow_code) for rank in range(task.num_variants)]
    if len(set(addresses)) < len(addresses):
        raise ModelError(
            f"model '{task.model}' is one model for {task.num_variants} variants: expected {{variant}} in a file name"
        )
    return addresses


def check_device(scenario: Scenario) -> EdgeScenario:
    """Return `scenario`; raise a DeviceError if it needs features that only the simulator has."""
    if not isinstance(scenario, EdgeScenario):
        known = [f"'{name}'" for name, family in FAMILIES.items() if family.members.engine_lane is not None]
        raise DeviceError(
            f"a scenario of the family '{scenario.family}': expected one of {', '.join(known)}, which run for real"
        )
    if scenario.device.preemption.kind != "none":
        raise DeviceError(
            f"device.preemption is '{scenario.device.preemption.kind}': expected 'none': a run cannot be taken back"
        )
    if scenario.device.memory_mb is not None or scenario.has_load_times:
        raise DeviceError("device.memory_mb or load_ms is set: expected neither: all weights stay loaded here")
    if scenario.most_jobs > 1:
        raise DeviceError("a task has batches: expected none: a stream runs one job at a time here")
    return scenario


def bytes_of(samples: Samples) -> np.ndarray:
    """Return the inputs as flat bytes, for shared memory."""
    return np.ascontiguousarray(samples.inputs).reshape(-1).view(np.uint8)
