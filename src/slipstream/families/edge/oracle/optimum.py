"""The hindsight optimum of one episode: all releases and run times known.

Short episodes are solved: CP-SAT plans them where runs take their solo time, and where its plan does not earn as much
as its bound in the simulator, or where runs slow each other down, a search tries the choices themselves. Otherwise the
optimum is bracketed: from the best reward that any policy or plan reached, to the best bound that was proven.
"""

from __future__ import annotations

from time import perf_counter

from slipstream.errors import InputError, InvariantError
from slipstream.families.edge.build import spec_arrays
from slipstream.families.edge.labels import run_labels
from slipstream.families.edge.oracle.hindsight import Job, jobs_of, plain
from slipstream.families.edge.oracle.relaxation import relaxation
from slipstream.families.edge.oracle.schedule import Schedule, play
from slipstream.families.edge.oracle.search import search
from slipstream.families.edge.scenario import Closed, EdgeScenario
from slipstream.families.shared.bounds import OptimumBounds
from slipstream.families.shared.regret import Hindsight, Rollouts, ValueBounds
from slipstream.families.shared.search import best_policy
from slipstream.policies.base import find
from slipstream.sim.simulator import Simulator

SHORT = 60
"""Most jobs of an episode that is solved; beyond, only the relaxation is."""
TOLERANCE = 1e-5
"""The two ends of a bracket meet if they are this close: solvers round, always in favour of the bound."""


def optimum_bounds(scenario: EdgeScenario, seed: int, split: str = "test", seconds: float = 10.0) -> OptimumBounds:
    """Return where the best reward of an episode lies; a short one is solved for about `seconds` at most."""
    _check_open(scenario)
    began = perf_counter()
    simulator = Simulator(scenario)
    source, best, events = best_policy(simulator, seed, split)
    jobs = jobs_of(scenario, events, seed, split)
    bound, method = relaxation(scenario, jobs), "relaxation"
    short = len(jobs) <= SHORT
    if short and plain(scenario):
        # Half of the time is left to the search.
        planned, plan = Schedule(scenario, jobs).solve(seconds / 2)
        if planned < bound:
            bound, method = planned, "schedule"
        # As planned, and with every start as early as it can be: what is best may be easier one way or the other.
        for start_times in (plan, [(0, job, variant) for _, job, variant in plan]):
            reached = play(simulator, start_times, seed, split)
            if reached > best:
                source, best = "schedule", reached
    if short and best < bound - TOLERANCE:
        fresh = Simulator(scenario, log_rows=0)
        fresh.reset(seed, split)
        found, searched, _ = search(fresh, jobs, best, bound, began + seconds)
        if found > best:
            source, best = "search", found
        if searched < bound:
            bound, method = searched, "search"
    if best > bound + TOLERANCE * max(1.0, abs(bound)):
        raise InvariantError(f"a reward of {best} was reached, but {bound} was proven by {method} to be the most")
    exact = best >= bound - TOLERANCE
    return OptimumBounds(best, best if exact else bound, exact, source, method, perf_counter() - began)


def hindsight(scenario: EdgeScenario, seed: int, split: str, seconds: float) -> Hindsight:
    """Return what says what can still become of an episode: exactly if it is short, else an estimate."""
    _check_open(scenario)
    events = Simulator(scenario).play(find("edf", "edge"), seed, split)
    jobs = jobs_of(scenario, events, seed, split)
    if len(jobs) > SHORT:
        long = f"oracle: an episode of {len(jobs)} jobs is not solved choice by choice: expected {SHORT} jobs at most"
        return Rollouts(scenario, long)
    return Remainder(jobs, seconds)


class Remainder:
    """What can still become of a short episode, by trying all choices."""

    refusal = ""

    def __init__(self, jobs: list[Job], seconds: float) -> None:
        self.jobs, self.seconds = jobs, seconds

    def value_bounds(self, simulator: Simulator, earned: float, known: ValueBounds) -> ValueBounds:
        """Return what can become of the episode from where a simulator is that keeps no log."""
        if not simulator.asking:
            return ValueBounds(earned, earned, method="end")
        here = simulator.save()
        until = perf_counter() + self.seconds
        best, bound, action = search(simulator, self.jobs, known.best - earned, known.bound - earned, until)
        simulator.restore(here)
        return ValueBounds(earned + best, earned + bound, action, "run" if action < 0 else "search", "search")

    def describe(self, simulator: Simulator, action: int) -> str:
        """Return in a few words what an action does where a simulator is."""
        return describe(simulator, action)


def describe(simulator: Simulator, action: int) -> str:
    """Return in a few words what an action does where a simulator is."""
    names_of = run_labels(simulator.scenario)
    spec = spec_arrays(simulator.scenario)
    tasks, variants = spec["variants"].shape
    first_drop, streams = int(spec["device"]["first_drop"][0]), int(spec["device"]["streams"][0])
    asked = names_of.resources[int(simulator.header["asked"])]
    if not 0 <= action < first_drop + tasks:
        return f"{asked} waits"
    if action >= first_drop:
        return f"drop a job of {names_of.tasks[action - first_drop]}"
    pair, stream = (action, -1) if action < tasks * variants else divmod(action - tasks * variants, streams)
    task, variant = divmod(pair, variants)
    what = f"{names_of.tasks[task]} as {names_of.variants[task][variant]}"
    return f"{asked} runs {what}" if stream < 0 else f"{names_of.resources[stream]} is interrupted for {what}"


def _check_open(scenario: EdgeScenario) -> None:
    if any(isinstance(task.arrival, Closed) for task in scenario.tasks):
        raise InputError("oracle: closed-loop tasks release by what the policy does: expected other arrival kinds")
