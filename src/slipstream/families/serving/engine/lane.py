"""How worker processes run a serving scenario: what accelerators do, and how the end of it enters the lane."""

from __future__ import annotations

import math

import numpy as np

from slipstream.errors import InputError
from slipstream.families.contract import NO_PROGRAM, Processes, Work
from slipstream.families.serving.build import compiled_scenario
from slipstream.families.serving.engine.fitting import fitted
from slipstream.families.serving.scenario import ServingScenario
from slipstream.sim.kernel.reported import ReportedEnds

ATTEMPTS = 4
"""How often a batch or a load is tried before a run is given up."""


def programs(scenario: ServingScenario) -> tuple[str, ...]:
    """Return the addresses of the networks, one for each variant that has one: 'model:DATASET|RANK|ADDRESS'."""
    return tuple(
        f"model:{model.dataset}|{rank}|{variant.model}"
        for model in compiled_scenario(scenario).models
        for rank, variant in enumerate(model.variants)
        if variant.model is not None
    )


def program_of(scenario: ServingScenario) -> list[int]:
    """Return the index of each variant's program, NO_PROGRAM for stand-ins."""
    found, count = [], 0
    for variant in compiled_scenario(scenario).variants:
        found.append(NO_PROGRAM if variant.model is None else count)
        count += variant.model is not None
    return found


def longest(scenario: ServingScenario) -> int:
    """Return the longest time in ns that a batch or a load may take."""
    spec = compiled_scenario(scenario).spec
    spread = float(spec["machine"]["spread"][0])
    batch = float(spec["service"].max()) * math.exp(6.0 * min(spread, 1.0))
    return math.ceil(max(batch, float(spec["variants"]["load"].max())))


class ServingEngineLane(ReportedEnds):
    """Accelerators of a lane that follows worker processes.

    A batch or load that failed is repeated by its worker; its requests become late, and none is lost.
    """

    def __init__(self, scenario: ServingScenario, arrays: dict[str, np.ndarray]) -> None:
        if scenario.compat == "proteus":
            raise InputError("compat is 'proteus': expected 'strict' to execute")
        super().__init__(arrays)
        self._program = program_of(scenario)
        self._accelerators = arrays["accelerators"][0]
        self._busy, self._loading = self._accelerators["busy"], self._accelerators["loading"]

    def running(self, resource: int) -> Work | None:
        """Return the batch or the load of an accelerator, None if it is idle or its end was reported."""
        busy = self._busy.item(resource)
        if not (busy or self._loading.item(resource)) or self.waits(resource):
            return None
        own = self._accelerators[resource]
        variant, requests = int(own["ran" if busy else "variant"]), int(own["running"]) if busy else 0
        return Work(int(own["piece"]), variant, requests, int(own["planned"]), self._program[variant])


def preloads(scenario: ServingScenario, arrays: dict[str, np.ndarray]) -> dict[int, Work]:
    """Return the loads of the networks that accelerators hold from the beginning."""
    program = program_of(scenario)
    held = enumerate(arrays["accelerators"][0]["holds"].tolist())
    return {
        index: Work(0, variant, 0, 0, program[variant])
        for index, variant in held
        if variant >= 0 and program[variant] != NO_PROGRAM
    }


PROCESSES = Processes[ServingScenario](
    noun="accelerator",
    count=lambda scenario: sum(kind.count for kind in scenario.accelerators),
    longest=longest,
    attempts=lambda _scenario: ATTEMPTS,
    programs=programs,
    fitted=fitted,
    preloads=preloads,
)
