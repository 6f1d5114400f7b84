"""Optimal schedule of a short episode by CP-SAT, where runs take their solo time (`hindsight.runs_at_solo_speed`).

The model is a slight relaxation of the simulator: it does not model when a waiting job may be dropped, nor which
decisions become invalid. So its optimum is an upper bound, and equals that of the episode if the plan earns as much in
the simulator.
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
"""Resolution of lateness, up to a whole relative deadline, and of time after the horizon."""
FINEST = 10**12
"""Largest scale of rewards to the solver's integers."""
LARGEST = 10**17
"""Largest value of the whole objective, so that no sum overflows."""

Plan = list[tuple[int, Job, int]]
"""Starts as (time, job, variant), in order of time."""


class _Run:
    """Variables of one job: whether, when and in which variant it runs."""

    def __init__(self, model: cp_model.CpModel, job: Job, first: int, last: int, horizon: int) -> None:
        self.job = job
        # How far a run extends past the horizon matters to no other job.
        self.lengths = [min(run, horizon + 1) for run in job.runs]
        self.longest = max(self.lengths)
        self.start = model.new_int_var(first, last, "")
        self.end = model.new_int_var(first, last + self.longest, "")
        self.started = model.new_bool_var("")
        self.chosen = [model.new_bool_var("") for _ in job.runs]
        model.add(sum(self.chosen) == self.started)
        # Intervals of several lengths that share their end variable make CP-SAT (9.15) exclude feasible schedules.
        pairs = list(zip(self.lengths, self.chosen, strict=True))
        model.add(self.end == self.start + sum(length * chosen for length, chosen in pairs))
        self.intervals = [
            model.new_optional_fixed_size_interval_var(self.start, length, chosen, "") for length, chosen in pairs
        ]


class Schedule:
    """CP-SAT model of one episode."""

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
        for index, job in enumerate(jobs):
            last = min(job.deadline, self.horizon) - 1 if scenario.device.late == "drop" else self.horizon - 1
            # A decision takes the decision time, and a job can be chosen from its release on.
            first = job.release + self.decision_time
            if first <= last:
                self.runs[index] = _Run(self.model, job, first, last, self.horizon)
        for run in self.runs.values():
            self._add_reward(run)
        self._share_streams()
        self._order_queues()
        if self.decision_time == 0:
            self._start_at_events()
        else:
            self._serialise_decisions()

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
            (solver.value(run.start), index, variant)
            for index, run in self.runs.items()
            for variant, chosen in enumerate(run.chosen)
            if solver.value(chosen)
        ]
        bound = self.constant + solver.best_objective_bound / scale
        return bound, [(time, self.jobs[index], variant) for time, index, variant in sorted(plan)]

    def _add_reward(self, run: _Run) -> None:
        """Add the reward terms of `run` to the objective."""
        model, job, reward = self.model, run.job, self.scenario.reward
        for variant, chosen in enumerate(run.chosen):
            on_time = model.new_bool_var("")
            model.add_implication(on_time, chosen)
            model.add(run.end <= min(job.deadline, self.horizon)).only_enforce_if(on_time)
            self.terms.append((on_time, on_time_value(self.scenario, job, variant), 1))
        # A late run costs only if it ends within the episode.
        ended = model.new_bool_var("")
        model.add(run.end <= self.horizon).only_enforce_if(ended)
        model.add(run.end > self.horizon).only_enforce_if([run.started, ended.negated()])
        if reward.lateness > 0.0:
            relative = job.deadline - job.release
            step = -(-relative // STEPS)
            late = model.new_int_var(0, relative // step, "")
            whole = model.new_bool_var("")
            model.add(late == relative // step).only_enforce_if([run.started, ended, whole])
            tardiness = run.end - job.deadline
            model.add(step * (late + 1) > tardiness).only_enforce_if([run.started, ended, whole.negated()])
            self.terms.append((late, -reward.lateness * job.weight * step / relative, relative // step))
        if reward.utilisation > 0.0:
            per_ns = reward.utilisation / (self.scenario.device.streams * 1e9)
            for length, chosen in zip(run.lengths, run.chosen, strict=True):
                self.terms.append((chosen, per_ns * length, 1))
            step = -(-run.longest // STEPS)
            over = model.new_int_var(0, run.longest // step, "")
            model.add(step * (over + 1) > run.end - self.horizon).only_enforce_if([run.started, ended.negated()])
            self.terms.append((over, -per_ns * step, run.longest // step))

    def _share_streams(self) -> None:
        intervals = [interval for run in self.runs.values() for interval in run.intervals]
        self.model.add_cumulative(intervals, [1] * len(intervals), self.scenario.device.streams)

    def _order_queues(self) -> None:
        """Add the constraints of each queue: jobs start in order of release, wait to the end, or are lost."""
        model = self.model
        for task in range(len(self.scenario.tasks)):
            earlier_jobs: list[tuple[_Run | None, Any]] = []
            for index, job in enumerate(self.jobs):
                if job.task != task:
                    continue
                run = self.runs.get(index)
                waits_to_end = model.new_bool_var("")
                cost = drop_cost(self.scenario, job)
                self.constant -= cost
                self.terms.append((waits_to_end, cost, 1))
                if expires(self.scenario, job):
                    model.add(waits_to_end == 0)
                if run is not None:
                    self.terms.append((run.started, cost, 1))
                    model.add_implication(run.started, waits_to_end.negated())
                    for earlier, earlier_waits in earlier_jobs:
                        model.add_implication(run.started, earlier_waits.negated())
                        if earlier is not None:
                            model.add(earlier.start <= run.start).only_enforce_if([earlier.started, run.started])
                self._respect_queue_limit(job, run, waits_to_end, earlier_jobs)
                earlier_jobs.append((run, waits_to_end))

    def _respect_queue_limit(
        self, job: Job, run: _Run | None, waits_to_end: Any, earlier_jobs: list[tuple[_Run | None, Any]]
    ) -> None:
        """Allow `job` to run or wait only if fewer than the queue limit of earlier jobs waited at its release."""
        limit = self.scenario.device.queue_limit
        if len(earlier_jobs) < limit:
            return
        waiting = []
        for earlier, earlier_waits in earlier_jobs:
            waiting.append(earlier_waits)
            if earlier is not None:
                waits = self.model.new_bool_var("")
                # A decision at the instant of a release comes after it.
                self.model.add(earlier.start < job.release).only_enforce_if([earlier.started, waits.negated()])
                waiting.append(waits)
        for stays in [waits_to_end] if run is None else [waits_to_end, run.started]:
            self.model.add(sum(waiting) < limit).only_enforce_if(stays)

    def _start_at_events(self) -> None:
        """Restrict starts to the times of events: a release, an expiry, or the end of another run."""
        model = self.model
        releases = cp_model.Domain.from_values([job.release for job in self.jobs])
        for index, run in self.runs.items():
            at_release = model.new_bool_var("")
            model.add_linear_expression_in_domain(run.start, releases).only_enforce_if(at_release)
            reasons = [at_release, run.started.negated()]
            for other, job in enumerate(self.jobs):
                if other == index:
                    continue
                if other in self.runs:
                    at_end = model.new_bool_var("")
                    model.add(run.start == self.runs[other].end).only_enforce_if(at_end)
                    model.add_implication(at_end, self.runs[other].started)
                    reasons.append(at_end)
                if expires(self.scenario, job):
                    at_expiry = model.new_bool_var("")
                    model.add(run.start == job.deadline).only_enforce_if(at_expiry)
                    if other in self.runs:
                        model.add_implication(at_expiry, self.runs[other].started.negated())
                    reasons.append(at_expiry)
            model.add_bool_or(reasons)

    def _serialise_decisions(self) -> None:
        """Forbid overlap of the decision times before starts: decisions are made one at a time."""
        self.model.add_no_overlap(
            self.model.new_optional_fixed_size_interval_var(
                run.start - self.decision_time, self.decision_time, run.started, ""
            )
            for run in self.runs.values()
        )


def play(simulator: Simulator[EdgeScenario], plan: Plan, seed: int, split: str) -> float:
    """Return the reward of starting the jobs of `plan` at their times, or as soon as possible after."""
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
                # It expired or was rejected, unlike in the plan: continue with the next job.
                left.pop(0)
                continue
        simulator.step(action, pieces.append)
    pieces.append(simulator.log())
    return metrics(scenario, np.concatenate(pieces))["reward"]
