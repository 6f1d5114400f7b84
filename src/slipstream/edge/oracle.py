"""The hindsight optimum of one episode: all releases and run times known.

Episodes of a few jobs are scheduled by CP-SAT: the plan is played in the simulator, and where its reward equals the
proven bound, that is the optimum. Otherwise the optimum is bracketed: from the best reward that any policy or plan
reached, to a bound from a relaxation in which every job runs at the best rate that any co-runner allows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np
from ortools.linear_solver import pywraplp
from ortools.sat.python import cp_model

from slipstream.core.bracket import Bracket
from slipstream.core.eventlog import ARRIVAL
from slipstream.core.parts import nanoseconds
from slipstream.core.rng import NAMESPACES, episode_key, exponential, normal, stream_key
from slipstream.core.simulator import Simulator
from slipstream.edge.metrics import metrics
from slipstream.edge.scenario import (
    Closed,
    EdgeScenario,
    ExponentialLatency,
    LognormalLatency,
    Share,
)
from slipstream.errors import InputError
from slipstream.policies.base import find, names

SMALL = 60
"""Most jobs for which a schedule is solved; beyond, only the relaxation is."""
SCALE = 10**9
"""Whole units of reward per 1.0 inside the solver."""
LATENESS_STEPS = 10**6
"""Steps in which the solver counts lateness, from none to a whole relative deadline."""
TOLERANCE = 1e-5
"""Rounding in the solver, always in favour of the bound, stays below this."""


@dataclass(frozen=True)
class Job:
    """One job in hindsight; times in ns."""

    task: int
    index: int
    release: int
    deadline: int
    weight: float
    runs: tuple[int, ...]
    """How long it takes in each variant at rate 1."""
    accuracies: tuple[float, ...]


def bracket(scenario: EdgeScenario, seed: int, namespace: str = "test", seconds: float = 10.0) -> Bracket:
    """Return where the best reward of an episode lies; solving stops after about `seconds`."""
    if any(isinstance(task.arrival, Closed) for task in scenario.tasks):
        raise InputError("oracle: closed-loop tasks release by what the policy does: expected other arrival kinds")
    began = perf_counter()
    simulator = Simulator(scenario)
    source, best, events = _best_policy(simulator, seed, namespace)
    jobs = _jobs(scenario, events, seed, namespace)
    bound, method = _relaxation(scenario, jobs), "relaxation"
    if len(jobs) <= SMALL:
        proven, plan = _schedule(scenario, jobs, seconds)
        if proven < bound:
            bound, method = proven, "schedule"
        # As planned, and with every start as early as it can be: what is best may be easier one way or the other.
        for hurried in (False, True):
            start_times = [(0 if hurried else time, job, variant) for time, job, variant in plan]
            reached = _replay(simulator, start_times, seed, namespace)
            if reached > best:
                source, best = "schedule", reached
    exact = best >= bound - TOLERANCE
    return Bracket(best, best if exact else bound, exact, source, method, perf_counter() - began)


def _best_policy(simulator: Simulator, seed: int, namespace: str) -> tuple[str, float, np.ndarray]:
    best: tuple[str, float, np.ndarray] | None = None
    for name in names("edge"):
        events = simulator.play(find(name, "edge"), seed, namespace)
        reward = metrics(simulator.scenario, events)["reward"]
        if best is None or reward > best[1]:
            best = (name, reward, events)
    assert best is not None
    return best


def _jobs(scenario: EdgeScenario, events: np.ndarray, seed: int, namespace: str) -> list[Job]:
    # Back in Python a 64-bit key is a plain number; compiled code must get it as the word it is.
    key = np.uint64(episode_key(NAMESPACES[namespace], seed))
    jobs = []
    for event in events[events["kind"] == ARRIVAL]:
        number, index, release = int(event["task"]), int(event["job"]), int(event["time"])
        task = scenario.tasks[number]
        factor = _latency_factor(scenario, np.uint64(stream_key(key, 2 + 2 * number)), index)
        jobs.append(
            Job(
                number,
                index,
                release,
                release + nanoseconds(task.relative_deadline_ms),
                task.weight,
                tuple(math.ceil(nanoseconds(variant.latency_ms) * factor) for variant in task.ladder),
                tuple(variant.accuracy for variant in task.ladder),
            )
        )
    return sorted(jobs, key=lambda job: (job.task, job.index))


def _latency_factor(scenario: EdgeScenario, key: Any, index: int) -> float:
    latency = scenario.device.latency
    if isinstance(latency, LognormalLatency):
        variance = math.log(1.0 + latency.cv * latency.cv)
        return math.exp(math.sqrt(variance) * normal(key, index) - variance / 2)
    if isinstance(latency, ExponentialLatency):
        return float(exponential(key, index, 1.0))
    return 1.0


def _loss(scenario: EdgeScenario, job: Job) -> float:
    """Return what a job costs for certain if it never starts."""
    expires = scenario.device.late == "drop" and job.deadline <= nanoseconds(scenario.horizon_ms)
    return scenario.reward.drops * job.weight if expires else 0.0


def _best_utilisation(scenario: EdgeScenario) -> float:
    """Return the most that busy streams can earn."""
    return scenario.reward.utilisation * scenario.horizon_ms / 1e3


def _throughput(scenario: EdgeScenario) -> float:
    """Return the most solo work that all streams together can do per unit of time."""
    interference = scenario.device.interference
    if isinstance(interference, Share):
        return max(1.0, min(interference.total_throughput, float(scenario.device.streams)))
    return float(scenario.device.streams)


def _windows(horizon: int, jobs: list[Job]) -> list[tuple[int, int]]:
    """Return the stretches of time whose capacity the relaxation respects: short ones, long ones, the whole."""
    longest = max((job.deadline - job.release for job in jobs), default=horizon)
    windows = [(0, horizon)]
    length = max(1, longest // 2)
    while length < horizon and horizon // length < 2000:
        windows += [(begin, begin + length) for begin in range(0, horizon, max(1, length // 2))]
        length *= 4
    return windows


def _inside(job: Job, run: int, deadline: int, begin: int, end: int) -> int:
    """Return the work of a run that must fall between `begin` and `end`, whenever it runs from release to deadline."""
    left = run - max(0, begin - job.release) - max(0, deadline - end)
    return max(0, min(left, run, end - begin))


def _relaxation(scenario: EdgeScenario, jobs: list[Job]) -> float:
    """Return a bound by linear programming: work may be split at will, but no window holds more than it can."""
    solver = pywraplp.Solver.CreateSolver("GLOP")
    horizon, throughput = nanoseconds(scenario.horizon_ms), _throughput(scenario)
    windows = _windows(horizon, jobs)
    begins = np.array([begin for begin, _ in windows])
    ends = np.array([end for _, end in windows])
    capacity = [solver.Constraint(-solver.infinity(), throughput * (end - begin) / 1e6) for begin, end in windows]
    objective = solver.Objective()
    objective.SetMaximization()
    constant = _best_utilisation(scenario)
    for job in jobs:
        loss = _loss(scenario, job)
        constant -= loss
        once = solver.Constraint(0.0, 1.0)
        # On time in one of the variants, or started in time and finished late: the cost of that may be next to nothing.
        choices = [
            (run, min(job.deadline, horizon), scenario.reward.on_time_accuracy * job.weight * accuracy + loss)
            for run, accuracy in zip(job.runs, job.accuracies, strict=True)
            if job.release + run <= min(job.deadline, horizon)
        ]
        choices.append((min(job.runs), job.deadline + min(job.runs), loss))
        for run, deadline, value in choices:
            share = solver.NumVar(0.0, 1.0, "")
            objective.SetCoefficient(share, value)
            once.SetCoefficient(share, 1.0)
            near = np.flatnonzero((begins < deadline) & (ends > job.release)) if deadline <= horizon else ()
            for place in near:
                inside = _inside(job, run, deadline, *windows[place])
                if inside > 0:
                    capacity[place].SetCoefficient(share, inside / 1e6)
    if solver.Solve() != pywraplp.Solver.OPTIMAL:
        raise InputError("oracle: the relaxation could not be solved: expected finite latencies and weights")
    return float(constant + objective.Value() + TOLERANCE)


Plan = list[tuple[int, Job, int]]
"""What to start: (time, job, variant), in order of time."""


def _schedule(scenario: EdgeScenario, jobs: list[Job], seconds: float) -> tuple[float, Plan]:
    """Return a proven bound and the best plan found."""
    model = cp_model.CpModel()
    horizon = nanoseconds(scenario.horizon_ms)
    reward = scenario.reward
    intervals, terms, picks, starts, ends, started = [], [], {}, {}, {}, {}
    constant = 0.0
    for place, job in enumerate(jobs):
        last = min(job.deadline, horizon) - 1 if scenario.device.late == "drop" else horizon - 1
        constant -= _loss(scenario, job)
        if last < job.release:
            continue
        longest = max(job.runs)
        start = model.new_int_var(job.release, last, "")
        end = model.new_int_var(job.release, last + longest, "")
        chosen = [model.new_bool_var("") for _ in job.runs]
        begun = model.new_bool_var("")
        model.add(sum(chosen) == begun)
        for variant, run in enumerate(job.runs):
            intervals.append(model.new_optional_interval_var(start, run, end, chosen[variant], ""))
            on_time = model.new_bool_var("")
            model.add_implication(on_time, chosen[variant])
            model.add(end <= min(job.deadline, horizon)).only_enforce_if(on_time)
            terms.append((on_time, reward.on_time_accuracy * job.weight * job.accuracies[variant]))
            picks[place, variant] = chosen[variant]
        # A run that ends late within the episode costs; one that is cut by the horizon costs nothing.
        if job.deadline < horizon:
            ended = model.new_bool_var("")
            tardiness = model.new_int_var(0, last + longest, "")
            capped = model.new_int_var(0, job.deadline - job.release, "")
            share = model.new_int_var(0, LATENESS_STEPS, "")
            model.add_max_equality(tardiness, [0, end - job.deadline])
            model.add_min_equality(capped, [tardiness, job.deadline - job.release])
            model.add_division_equality(share, capped * LATENESS_STEPS, job.deadline - job.release)
            model.add(end > horizon).only_enforce_if([begun, ended.negated()])
            model.add(end <= horizon).only_enforce_if(ended)
            cost = model.new_int_var(0, LATENESS_STEPS, "")
            model.add(cost >= share).only_enforce_if(ended)
            terms.append((cost, -reward.lateness * job.weight / LATENESS_STEPS))
        terms.append((begun, _loss(scenario, job)))
        starts[place], ends[place], started[place] = start, end, begun
    _start_at_events(model, jobs, starts, ends, started)
    _keep_queues(scenario, model, jobs, starts, started, terms)
    model.add_cumulative(intervals, [1] * len(intervals), scenario.device.streams)
    model.maximize(sum(math.ceil(value * SCALE) * literal for literal, value in terms))
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = seconds
    solver.parameters.num_workers = 2
    status = solver.solve(model)
    bound = constant + _best_utilisation(scenario) + solver.best_objective_bound / SCALE
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return bound, []
    order = sorted(
        (solver.value(starts[place]), place, variant) for (place, variant), pick in picks.items() if solver.value(pick)
    )
    return bound, [(time, jobs[place], variant) for time, place, variant in order]


def _start_at_events(
    model: cp_model.CpModel,
    jobs: list[Job],
    starts: dict[int, Any],
    ends: dict[int, Any],
    started: dict[int, Any],
) -> None:
    """Let jobs start only when something happens: a release, an expiry, or the end of another run."""
    moments = cp_model.Domain.from_values([time for job in jobs for time in (job.release, job.deadline)])
    for place, start in starts.items():
        reasons = [model.new_bool_var("")]
        model.add_linear_expression_in_domain(start, moments).only_enforce_if(reasons[0])
        for other, end in ends.items():
            if other != place:
                reasons.append(model.new_bool_var(""))
                model.add(start == end).only_enforce_if(reasons[-1])
                model.add_implication(reasons[-1], started[other])
        model.add_bool_or([*reasons, started[place].negated()])


def _keep_queues(
    scenario: EdgeScenario,
    model: cp_model.CpModel,
    jobs: list[Job],
    starts: dict[int, Any],
    started: dict[int, Any],
    terms: list[tuple[Any, float]],
) -> None:
    """Let jobs of a task start in order of release; one that is passed over has been dropped, at its cost."""
    for place, job in enumerate(jobs):
        later = [other for other in starts if jobs[other].task == job.task and jobs[other].index > job.index]
        for other in later:
            if place in starts:
                model.add(starts[place] <= starts[other]).only_enforce_if([started[place], started[other]])
        if later and place in starts and _loss(scenario, job) == 0.0:
            passed = model.new_bool_var("")
            for other in later:
                model.add_bool_or([started[place], started[other].negated(), passed])
            terms.append((passed, -scenario.reward.drops * job.weight))


def _replay(simulator: Simulator, plan: Plan, seed: int, namespace: str) -> float:
    """Return the reward of starting the jobs as planned, or as soon after as they can."""
    scenario = simulator.scenario
    tasks = len(scenario.tasks)
    width = max(task.num_variants for task in scenario.tasks)
    pieces: list[np.ndarray] = []
    simulator.reset(seed, namespace, pieces.append)
    left = list(plan)
    while simulator.asking:
        action = tasks * width + tasks
        if left and left[0][0] <= simulator.header["now"]:
            _, job, variant = left[0]
            queue = simulator.arrays["tasks"][0, job.task]
            head = simulator.arrays["queue"][0, job.task, queue["head"]]["index"] if queue["length"] > 0 else -1
            if head == job.index:
                action = job.task * width + variant
                left.pop(0)
            elif 0 <= head < job.index:
                action = tasks * width + job.task
            elif head > job.index:
                # It expired or was rejected, which the solver does not know of: go on with the next.
                left.pop(0)
                continue
        simulator.step(action, pieces.append)
    pieces.append(simulator.log())
    return metrics(scenario, np.concatenate(pieces))["reward"]
