"""Validation trial: the same arrivals on the device and in the simulator, compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from slipstream.device.backends.streams import Streams
from slipstream.device.engine import Execution, on_device
from slipstream.device.measurement.noise import others_share
from slipstream.device.measurement.validation import causes, compared
from slipstream.device.runtime import Runtime
from slipstream.device.workload import Workload
from slipstream.families.contract import family_of
from slipstream.families.edge.scenario import EdgeScenario
from slipstream.families.edge.workload.measured import MeasuredProfile, with_profile
from slipstream.policies.base import Policy
from slipstream.sim.simulator import Simulator


@dataclass(frozen=True)
class Trial:
    """Result of a validation trial."""

    scenario: EdgeScenario
    """The scenario with the measured profile."""
    executions: list[Execution]
    simulated: np.ndarray
    """The event log of the simulation."""
    result: dict[str, Any]
    """All metrics and causes, as JSON data."""


def side_by_side(
    metrics: Sequence[str], measured: Sequence[Mapping[str, float]], simulated: Mapping[str, float]
) -> dict[str, dict[str, float]]:
    """Return mean and deviation over the runs of each metric beside its simulated value."""
    table = {}
    for metric in metrics:
        values = np.array([figures[metric] for figures in measured])
        deviation = float(values.std(ddof=1)) if len(values) > 1 else 0.0
        table[metric] = {"measured": float(values.mean()), "deviation": deviation, "simulated": simulated[metric]}
    return table


def run_trial(
    scenario: EdgeScenario,
    profile: MeasuredProfile,
    workload: Workload,
    streams: Streams,
    policy: Policy,
    seed: int,
    runs: int = 1,
    watchdog: float | None = None,
) -> Trial:
    """Execute a profiled scenario `runs` times, simulate it, and compare the metrics."""
    profiled, policy = with_profile(scenario, profile), on_device(policy)
    others = [others_share()]
    executions = []
    for _ in range(runs):
        executions.append(Runtime(profiled, workload, streams, watchdog).play(policy, seed))
        others.append(others_share())
        if executions[-1].interrupted:
            break
    simulated = Simulator(profiled).play(policy, seed)
    measure = family_of(profiled).metrics
    measured = [measure(profiled, execution.events) for execution in executions]
    expected = measure(profiled, simulated)
    table = side_by_side(compared([task.name for task in profiled.tasks]), measured, expected)
    found = causes(profiled, executions[0].events, simulated, float(np.mean(others)))
    result = {
        "policy": policy.name,
        "seed": seed,
        "runs": len(executions),
        "device": streams.device,
        "noise": {**profile.noise.model_dump(mode="json"), "others_around_runs": float(np.mean(others))},
        "metrics": table,
        "causes": [asdict(cause) for cause in found],
        "faults": sum(len(execution.faults) for execution in executions),
    }
    return Trial(profiled, executions, simulated, result)
