"""Trial on worker processes or in StarPU: the same arrivals run for real and simulated, and why metrics differ."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from slipstream.device.engine import Execution, on_device
from slipstream.device.measurement.noise import others_share
from slipstream.device.measurement.trial import side_by_side
from slipstream.device.measurement.validation import Cause
from slipstream.device.starpu.machine import StarpuMachine
from slipstream.device.starpu.runtime import StarpuRuntime
from slipstream.device.tasks.processes import TaskProcesses
from slipstream.device.tasks.runtime import TaskRuntime, processes_of
from slipstream.families.contract import Scenario, family_of
from slipstream.policies.base import Policy
from slipstream.sim.eventlog import FAIL, FINISH, START
from slipstream.sim.simulator import Simulator

LENGTH_S = 10.0
"""Time that an episode of stand-ins takes by default."""

TASKS = "mean time of a task on its worker, against its drawn time"
DISPATCH = "mean time from the start of a task in the log to its work, and from its end to the log"
PLACES = "tasks that began on another resource than simulated: small differences in time lead to other choices"


@dataclass(frozen=True)
class TaskTrial:
    """Result of a trial."""

    executions: list[Execution]
    simulated: np.ndarray
    """The event log of the simulation."""
    result: dict[str, Any]
    """All metrics and causes, as JSON data."""


def usual_scale(scenario: Scenario, policy: Policy, seed: int) -> float:
    """Return seconds per second of the scenario: 1 where tasks run programs; else so that the episode takes 10 s."""
    if processes_of(scenario).programs(scenario):
        return 1.0
    end = int(Simulator(scenario).play(on_device(policy), seed)["time"][-1]) / 1e9
    return min(1.0, float(f"{LENGTH_S / end:.2g}")) if end else 1.0


def runtime_on(
    machine: TaskProcesses | StarpuMachine, scenario: Scenario, time_scale: float, watchdog_ms: float | None
) -> TaskRuntime[Scenario] | StarpuRuntime:
    """Return the runtime that executes a scenario on a machine."""
    if isinstance(machine, StarpuMachine):
        return StarpuRuntime(scenario, machine)
    return TaskRuntime(scenario, machine, time_scale, watchdog_ms)


def run_task_trial(
    scenario: Scenario,
    processes: TaskProcesses | StarpuMachine,
    policy: Policy,
    seed: int,
    runs: int,
    time_scale: float,
    watchdog_ms: float | None = None,
) -> TaskTrial:
    """Execute a scenario `runs` times, simulate it, and compare the metrics."""
    policy = on_device(policy)
    family = family_of(scenario)
    others, executions = [others_share()], []
    for _ in range(runs):
        executions.append(runtime_on(processes, scenario, time_scale, watchdog_ms).play(policy, seed))
        others.append(others_share())
        if executions[-1].interrupted:
            break
    simulated = Simulator(scenario).play(policy, seed)
    expected = family.metrics(scenario, simulated)
    measured = [family.metrics(scenario, execution.events) for execution in executions]
    unmodelled = family.unmodelled_metrics(scenario)
    shown = [metric for metric in family.summary or family.headline if metric not in unmodelled]
    table = side_by_side(shown, measured, expected)
    found = _causes(executions[0], simulated, time_scale, float(np.mean(others)))
    result = {
        "policy": policy.name,
        "seed": seed,
        "runs": len(executions),
        "device": processes.device,
        "time_scale": time_scale,
        "headline": next(iter(table)),
        "noise": {"others_around_runs": float(np.mean(others))},
        "metrics": table,
        "causes": [asdict(cause) for cause in found],
        "residual": executions[0].residual,
        "faults": sum(len(execution.faults) for execution in executions),
        "dispatch_p50_us": _percentile_us(executions, 50),
        "dispatch_p99_us": _percentile_us(executions, 99),
    }
    return TaskTrial(executions, simulated, result)


def _percentile_us(executions: list[Execution], percent: float) -> float:
    """Return a percentile of the time from when a decision was due to the submission of what it starts."""
    times = [time for execution in executions for time in execution.dispatch_ns]
    return float(np.percentile(times, percent)) / 1e3 if times else 0.0


def _causes(execution: Execution, simulated: np.ndarray, time_scale: float, others: float) -> list[Cause]:
    """Return the causes of the difference, largest first; times are real ones."""
    worked = _mean([time for _, _, time in execution.service_ns])
    planned = _mean(execution.planned_ns)
    logged = _run_times(execution.events) * time_scale
    handed = float(logged.mean()) - worked if len(logged) else 0.0
    strayed = _strayed(execution.events, simulated)
    tasks = max(1, len(execution.service_ns))
    failed = float(((execution.events["kind"] == FAIL) & (execution.events["resource"] >= 0)).sum())
    run = max(planned, 1.0)
    found = [
        Cause("tasks", worked / 1e6, planned / 1e6, "ms", TASKS, abs(worked - planned) / run),
        Cause("dispatch", handed / 1e6, 0.0, "ms", DISPATCH, abs(handed) / run),
        Cause("other choices", strayed, 0.0, "share", PLACES, strayed),
        Cause("failed tasks", failed, 0.0, "tasks", "attempts that were repeated", failed / tasks),
        Cause("other programs", others, 0.0, "share", "of the processor time, around the run", others),
    ]
    return sorted(found, key=lambda cause: -cause.size)


def _mean(times: list[int]) -> float:
    return float(np.mean(times)) if times else 0.0


def _run_times(events: np.ndarray) -> np.ndarray:
    """Return the time of each task that finished, from the event log."""
    rows = events[np.isin(events["kind"], (START, FINISH, FAIL)) & (events["resource"] >= 0)]
    rows = rows[np.argsort(rows["resource"], kind="stable")]
    ends = np.flatnonzero(rows["kind"] == FINISH)
    return np.asarray(rows["time"][ends] - rows["time"][ends - 1])


def _strayed(events: np.ndarray, simulated: np.ndarray) -> float:
    """Return the share of tasks that began on another resource than simulated."""
    sides = []
    for log in (events, simulated):
        rows = log[log["kind"] == START]
        sides.append(Counter(zip(*(rows[name].tolist() for name in ("job", "task", "resource")), strict=True)))
    count = max(side.total() for side in sides)
    return 1.0 - (sides[0] & sides[1]).total() / count if count else 0.0
