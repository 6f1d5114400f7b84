"""The best plan for a short episode by CP-SAT, where runs take their solo time (`hindsight.plain`).

The model allows all that the simulator allows, and a little more where saying it exactly would take a model of every
choice: when a waiting job can be dropped, and which choices become stale. So its optimum is a bound, and is the
optimum of the episode wherever the plan, played in the simulator, earns as much.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from ortools.sat.python import cp_model

from slipstream.families.edge.metrics import metrics
from slipstream.families.edge.oracle.hindsight import Job, drop_cost, expires, on_time_value
from slipstream.families.edge.scenario import EdgeScenario
from slipstream.families.shared.schema import nanoseconds
from slipstream.sim.simulator import Simulator

STEPS = 10**6
"""Steps in which the solver counts lateness, from none to a whole relative deadline, and time after the horizon."""
FINEST = 10**12
"""Most units of reward per 1.0 inside the solver."""
LARGEST = 10**17
"""Most units in the whole objective, so that no sum overflows."""

Plan = list[tuple[int, Job, int]]
"""What to start: (time, job, variant), in order of time."""


class _Run:
    """The variables of one job: whether, when and in which variant it runs."""

    def __init__(self, model: cp_model.CpModel, job: Job, first: int, last: int, horizon: int) -> None:
        self.job = job
        # To run past the horizon by a moment or for long is the same to every other job.
        self.lengths = [min(run, horizon + 1) for run in job.runs]
        self.longest = max(self.lengths)
        self.start = model.new_int_var(first, last, "")
        self.end = model.new_int_var(first, last + self.longest, "")
        self.begun = model.new_bool_var("")
        self.chosen = [model.new_bool_var("") for _ in job.runs]
        model.add(sum(self.chosen) == self.begun)
        self.intervals = [
            model.new_optional_interval_var(self.start, length, self.end, chosen, "")
            for length, chosen in zip(self.lengths, self.chosen, strict=True)
        ]


class Schedule:
    """The model of one episode."""

    def __init__(self, scenario: EdgeScenario, jobs: list[Job]) -> None:
        self.scenario = scenario
        self.jobs = jobs
        self.horizon = nanoseconds(scenario.horizon_ms)
        self.decision_time = nanoseconds(scenario.device.decision_time_ms)
        self.model = cp_model.CpModel()
        self.constant = 0.0
        self.terms: list[tuple[Any, float, int]] = []
        """(variable, reward per unit, largest value)"""
        self.runs: dict[int, _Run] = {}
        for place, job in enumerate(jobs):
            last = min(job.deadline, self.horizon) - 1 if scenario.device.late == "drop" else self.horizon - 1
            # A choice takes the decision time, and a job can be chosen from its release on.
            first = job.release + self.decision_time
            if first <= last:
                self.runs[place] = _Run(self.model, job, first, last, self.horizon)
        for run in self.runs.values():
            self._value(run)
        self._share_streams()
        self._keep_queues()
        if self.decision_time == 0:
            self._start_at_events()
        else:
            self._choose_one_by_one()

    def solve(self, seconds: float) -> tuple[float, Plan]:
        """Return a proven bound and the best plan found."""
        largest = sum(abs(value) * most for _, value, most in self.terms)
        scale = min(float(FINEST), LARGEST / max(largest, 1.0))
        # Rounded up: in favour of the bound.
        self.model.maximize(sum(math.ceil(value * scale) * variable for variable, value, _ in self.terms))
        solver = cp_model.CpSolver()
        solver.parameters.max_time_in_seconds = seconds
        solver.parameters.num_workers = 2
        status = solver.solve(self.model)
        if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            return math.inf, []
        plan = [
            (solver.value(run.start), place, variant)
            for place, run in self.runs.items()
            for variant, chosen in enumerate(run.chosen)
            if solver.value(chosen)
        ]
        bound = self.constant + solver.best_objective_bound / scale
        return bound, [(time, self.jobs[place], variant) for time, place, variant in sorted(plan)]

    def _value(self, run: _Run) -> None:
        """Add what a run earns and costs."""
        model, job, reward = self.model, run.job, self.scenario.reward
        for variant, chosen in enumerate(run.chosen):
            on_time = model.new_bool_var("")
            model.add_implication(on_time, chosen)
            model.add(run.end <= min(job.deadline, self.horizon)).only_enforce_if(on_time)
            self.terms.append((on_time, on_time_value(self.scenario, job, variant), 1))
        # A run that ends late within the episode costs; one that is cut by the horizon costs nothing.
        ended = model.new_bool_var("")
        model.add(run.end <= self.horizon).only_enforce_if(ended)
        model.add(run.end > self.horizon).only_enforce_if([run.begun, ended.negated()])
        if reward.lateness > 0.0:
            relative = job.deadline - job.release
            step = -(-relative // STEPS)
            late = model.new_int_var(0, relative // step, "")
            whole = model.new_bool_var("")
            model.add(late == relative // step).only_enforce_if([run.begun, ended, whole])
            tardiness = run.end - job.deadline
            model.add(step * (late + 1) > tardiness).only_enforce_if([run.begun, ended, whole.negated()])
            self.terms.append((late, -reward.lateness * job.weight * step / relative, relative // step))
        if reward.utilisation > 0.0:
            per_ns = reward.utilisation / (self.scenario.device.streams * 1e9)
            for length, chosen in zip(run.lengths, run.chosen, strict=True):
                self.terms.append((chosen, per_ns * length, 1))
            step = -(-run.longest // STEPS)
            over = model.new_int_var(0, run.longest // step, "")
            model.add(step * (over + 1) > run.end - self.horizon).only_enforce_if([run.begun, ended.negated()])
            self.terms.append((over, -per_ns * step, run.longest // step))

    def _share_streams(self) -> None:
        intervals = [interval for run in self.runs.values() for interval in run.intervals]
        self.model.add_cumulative(intervals, [1] * len(intervals), self.scenario.device.streams)

    def _keep_queues(self) -> None:
        """Let jobs of a task start in order of release, wait to the end, or be lost, and find room in the queue."""
        model = self.model
        for task in range(len(self.scenario.tasks)):
            ahead: list[tuple[_Run | None, Any]] = []
            for place, job in enumerate(self.jobs):
                if job.task != task:
                    continue
                run = self.runs.get(place)
                kept = model.new_bool_var("")
                cost = drop_cost(self.scenario, job)
                self.constant -= cost
                self.terms.append((kept, cost, 1))
                if expires(self.scenario, job):
                    model.add(kept == 0)
                if run is not None:
                    self.terms.append((run.begun, cost, 1))
                    model.add_implication(run.begun, kept.negated())
                    for earlier, earlier_kept in ahead:
                        model.add_implication(run.begun, earlier_kept.negated())
                        if earlier is not None:
                            model.add(earlier.start <= run.start).only_enforce_if([earlier.begun, run.begun])
                self._find_room(job, run, kept, ahead)
                ahead.append((run, kept))

    def _find_room(self, job: Job, run: _Run | None, kept: Any, ahead: list[tuple[_Run | None, Any]]) -> None:
        """Let a job run or wait only if few enough of those before it waited when it was released."""
        limit = self.scenario.device.queue_limit
        if len(ahead) < limit:
            return
        waiting = []
        for earlier, earlier_kept in ahead:
            waiting.append(earlier_kept)
            if earlier is not None:
                waits = self.model.new_bool_var("")
                # A choice made at the very release comes after it.
                self.model.add(earlier.start < job.release).only_enforce_if([earlier.begun, waits.negated()])
                waiting.append(waits)
        for stays in [kept] if run is None else [kept, run.begun]:
            self.model.add(sum(waiting) < limit).only_enforce_if(stays)

    def _start_at_events(self) -> None:
        """Let jobs start only when something happens: a release, an expiry, or the end of another run."""
        model = self.model
        releases = cp_model.Domain.from_values([job.release for job in self.jobs])
        for place, run in self.runs.items():
            at_release = model.new_bool_var("")
            model.add_linear_expression_in_domain(run.start, releases).only_enforce_if(at_release)
            reasons = [at_release, run.begun.negated()]
            for other, job in enumerate(self.jobs):
                if other == place:
                    continue
                if other in self.runs:
                    at_end = model.new_bool_var("")
                    model.add(run.start == self.runs[other].end).only_enforce_if(at_end)
                    model.add_implication(at_end, self.runs[other].begun)
                    reasons.append(at_end)
                if expires(self.scenario, job):
                    at_expiry = model.new_bool_var("")
                    model.add(run.start == job.deadline).only_enforce_if(at_expiry)
                    if other in self.runs:
                        model.add_implication(at_expiry, self.runs[other].begun.negated())
                    reasons.append(at_expiry)
            model.add_bool_or(reasons)

    def _choose_one_by_one(self) -> None:
        """Let the decision time before each start overlap no other's: one choice is made at a time."""
        self.model.add_no_overlap(
            self.model.new_optional_interval_var(
                run.start - self.decision_time, self.decision_time, run.start, run.begun, ""
            )
            for run in self.runs.values()
        )


def play(simulator: Simulator, plan: Plan, seed: int, split: str) -> float:
    """Return the reward of starting the jobs as planned, or as soon after as they can."""
    scenario = simulator.scenario
    tasks = len(scenario.tasks)
    width = max(task.num_variants for task in scenario.tasks)
    decision_time = nanoseconds(scenario.device.decision_time_ms)
    pieces: list[np.ndarray] = []
    simulator.reset(seed, split, pieces.append)
    left = list(plan)
    while simulator.asking:
        action = tasks * width + tasks
        if left and left[0][0] <= simulator.header["now"] + decision_time:
            _, job, variant = left[0]
            queue = simulator.arrays["tasks"][0, job.task]
            head = simulator.arrays["queue"][0, queue["head"], job.task]["index"] if queue["length"] > 0 else -1
            if head == job.index:
                action = job.task * width + variant
                left.pop(0)
            elif 0 <= head < job.index:
                action = tasks * width + job.task
            elif head > job.index:
                # It expired or was rejected, which the plan did not expect: go on with the next.
                left.pop(0)
                continue
        simulator.step(action, pieces.append)
    pieces.append(simulator.log())
    return metrics(scenario, np.concatenate(pieces))["reward"]
