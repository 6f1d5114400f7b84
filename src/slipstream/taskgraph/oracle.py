"""The hindsight optimum of one episode: bracketed between what was reached and what no policy can exceed.

Every policy plays the episode. Small ones are then solved by CP-SAT as if tiles were everywhere, with the durations
that the episode draws: that is a bound and, where there are no links, a schedule, which is replayed in the simulator
before it counts. Of the smallest, all choices are tried.
"""

from __future__ import annotations

from time import perf_counter

import numpy as np

from slipstream.core.bracket import Bracket
from slipstream.core.eventlog import ARRIVAL
from slipstream.core.job_stream import FIRST_JOB_STREAM
from slipstream.core.rng import NAMESPACES, episode_key, stream_key
from slipstream.core.search import search
from slipstream.core.simulator import Simulator
from slipstream.errors import LawError
from slipstream.policies.base import find, names
from slipstream.taskgraph.bounds import least_makespan
from slipstream.taskgraph.build import built
from slipstream.taskgraph.hindsight import Replay, durations_of_job
from slipstream.taskgraph.metrics import end_of, tasks_of
from slipstream.taskgraph.scenario import AllVisible, TaskgraphScenario
from slipstream.taskgraph.schedule import Solution, Work, solve

MOST_TASKS = 130
"""Tasks of an episode that is solved."""
MOST_SEARCHED = 12
"""Tasks of an episode of which all choices are tried, transfers and memories included."""


def bracket(scenario: TaskgraphScenario, seed: int, namespace: str = "test", seconds: float = 10.0) -> Bracket:
    """Return where the best reward of an episode lies; a small one is solved for about `seconds` at most."""
    began = perf_counter()
    simulator = Simulator(scenario)
    source, best, events = _best_policy(simulator, seed, namespace)
    arrivals = events[events["kind"] == ARRIVAL]
    bound, method = least_makespan(scenario, arrivals), "path, area and loads"
    jobs = work_of_episode(scenario, arrivals, seed, namespace)
    if sum(len(job.durations) for job in jobs) <= MOST_TASKS and best > bound:
        tasks = tasks_of(events)
        columns = (column.tolist() for column in (tasks.job, tasks.task, tasks.start, tasks.variant))
        hint = {(job, task): (start, kind) for job, task, start, kind in zip(*columns, strict=True)}
        solution = solve(jobs, [kind.count for kind in scenario.processors], best, seconds, hint)
        if solution is not None:
            if solution.bound > bound:
                bound, method = solution.bound, "schedule"
            if scenario.links is None and solution.makespan < best:
                best, source = _replayed(simulator, solution, seed, namespace, best, source)
    if sum(len(job.durations) for job in jobs) <= MOST_SEARCHED and scenario.reward.makespan > 0.0 and best > bound:
        best, source, complete = _searched(simulator, seed, namespace, best, source, began + 2.0 * seconds)
        if complete:
            bound, method = best, "search"
    if best < bound:
        raise LawError(f"a makespan of {best} ns was reached, but {bound} ns was proven by {method} to be the least")
    weight = scenario.reward.makespan
    seconds_taken = perf_counter() - began
    return Bracket(-weight * best / 1e6, -weight * bound / 1e6, best == bound, source, method, seconds_taken)


def work_of_episode(scenario: TaskgraphScenario, arrivals: np.ndarray, seed: int, namespace: str) -> list[Work]:
    """Return the jobs of an episode with the durations that it draws."""
    key = np.uint64(episode_key(NAMESPACES[namespace], seed))
    library = built(scenario).library
    jobs = []
    for number, (time, graph) in enumerate(zip(arrivals["time"].tolist(), arrivals["task"].tolist(), strict=True)):
        times = durations_of_job(scenario, graph, np.uint64(stream_key(key, FIRST_JOB_STREAM + number)))
        parents = [task.parents for task in library.templates[graph].tasks]
        jobs.append(Work(time, times, parents))
    return jobs


def _replayed(
    simulator: Simulator, solution: Solution, seed: int, namespace: str, best: int, source: str
) -> tuple[int, str]:
    """Return the makespan of a schedule as the simulator plays it, if that is better than the best so far."""
    scenario = simulator.scenario
    if scenario.mode != "pull" or scenario.pipeline != 1 or not isinstance(scenario.visibility, AllVisible):
        return best, source
    replay = Replay(solution, simulator)
    simulator.reset(seed, namespace)
    while simulator.asking:
        simulator.step(replay.choose())
    reached = int(simulator.header["now"])
    return (reached, "schedule") if reached < best else (best, source)


def _searched(
    simulator: Simulator, seed: int, namespace: str, best: int, source: str, deadline: float
) -> tuple[int, str, bool]:
    """Return the least makespan that trying all choices finds, and whether all were tried."""
    weight = simulator.scenario.reward.makespan
    found = search(simulator, seed, namespace, -weight * best / 1e6, deadline)
    reached = round(-found.reward / weight * 1e6)
    return (reached, "search", found.complete) if reached < best else (best, source, found.complete)


def _best_policy(simulator: Simulator, seed: int, namespace: str) -> tuple[str, int, np.ndarray]:
    played = {name: simulator.play(find(name, "taskgraph"), seed, namespace) for name in names("taskgraph")}
    best = min(played, key=lambda name: end_of(played[name]))
    return best, end_of(played[best]), played[best]
