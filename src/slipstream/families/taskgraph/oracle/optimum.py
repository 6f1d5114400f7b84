"""The hindsight optimum of one episode: bracketed between what was reached and what no policy can exceed.

From the first choice on, or from any other point of it: every policy plays on from there; what no schedule can beat is
proven by paths and work, by CP-SAT, whose schedules count only after the simulator has played them, and by trying the
choices themselves, links, memories and all.
"""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter

import numpy as np

from slipstream.errors import InvariantError
from slipstream.families.shared.bounds import OptimumBounds
from slipstream.families.shared.regret import Hindsight, ValueBounds, heuristics
from slipstream.families.taskgraph.build import compiled_scenario
from slipstream.families.taskgraph.kernel.state import CHOOSE_PROCESSOR
from slipstream.families.taskgraph.oracle.bounds import least_makespan
from slipstream.families.taskgraph.oracle.hindsight import Episode
from slipstream.families.taskgraph.oracle.replay import Replay
from slipstream.families.taskgraph.oracle.schedule import Plan, solve
from slipstream.families.taskgraph.oracle.search import DEPTH, Search
from slipstream.families.taskgraph.oracle.snapshot import Situation, candidates_by_row, places_of
from slipstream.families.taskgraph.scenario import TaskgraphScenario
from slipstream.policies.base import Policy
from slipstream.sim.eventlog import START, TAKE
from slipstream.sim.simulator import Simulator, check_action

MOST_SCHEDULED = 130
"""Tasks of an episode that CP-SAT solves."""
MOST_WITH_LINKS = 60
"""The same, where there are links."""
MOST_SEARCHED = 40
"""Tasks of an episode of which choices are tried."""
FIRST_LOOK = 20_000
"""Choices that are tried before CP-SAT is asked: what is nearly over is solved by then."""
MOST_SECONDS = 86_400.0
"""Nobody waits longer than a day."""
CHOICES_PER_TURN = 100_000
"""Choices that are tried between two looks at the clock."""


@dataclass(frozen=True)
class _Way:
    """A way to go on: when it ends, in ns, its first choice, what found it, and its event log."""

    end: int
    action: int = -1
    source: str = "run"
    events: np.ndarray | None = None


@dataclass(frozen=True)
class _Proof:
    """A time in ns that nothing beats, and what proved it."""

    end: int
    method: str


class Oracle:
    """Looks at one episode, from its beginning or from any point of it."""

    refusal = ""

    def __init__(self, scenario: TaskgraphScenario, seed: int, split: str, seconds: float) -> None:
        """Every look takes up to about `seconds`."""
        self.scenario, self.seconds = scenario, min(seconds, MOST_SECONDS)
        self.weight = scenario.reward.makespan
        self.episode = Episode.of(scenario, seed, split)
        self.own = Simulator(scenario)
        places = places_of(scenario)
        self.place_of = {number: index for index, one in enumerate(places) for number in one.processors}
        self.policies = heuristics(scenario)
        self.searches = self.episode.tasks <= MOST_SEARCHED
        self.search = Search(self.own, self.episode, DEPTH if self.searches else 1)
        drawn = [np.array(job.durations) for job in self.episode.jobs]
        self.least = _Proof(least_makespan(scenario, self.episode.arrived, drawn), "path, area and loads")

    def value_bounds(self, simulator: Simulator, earned: float, known: ValueBounds) -> ValueBounds:
        """Return what can become of the episode from where a simulator is."""
        if not simulator.asking or self.weight <= 0.0:
            reward = self._reward(int(simulator.header["now"]))
            return ValueBounds(reward, reward, method="end")
        self.own.restore(simulator.save())
        best = None if known.best == -np.inf else _Way(self._end(known.best))
        proof = self.least if known.bound == np.inf else _Proof(self._end(known.bound), known.method)
        best, proof = self.solve(best, proof)
        return ValueBounds(self._reward(best.end), self._reward(proof.end), best.action, best.source, proof.method)

    def describe(self, simulator: Simulator, action: int) -> str:
        """Return in a few words what an action does where a simulator is."""
        return describe(simulator, action)

    def solve(self, known: _Way | None, proof: _Proof) -> tuple[_Way, _Proof]:
        """Return the best way to go on from where the own simulator is, and what it is certain that none beats."""
        until = perf_counter() + self.seconds
        played = [self._play(policy) for policy in self.policies]
        best = min(played, key=lambda way: way.end)
        # A policy's way is a schedule to begin with, also where a better end is known.
        hint = best
        if known is not None and known.end <= best.end:
            best = known
        proof = max(proof, _Proof(self.search.bound(), "path and work"), key=lambda one: one.end)
        if best.end > proof.end and self.searches:
            best, proof = self._try(best, proof, FIRST_LOOK)
        if best.end > proof.end and self.seconds > 0.0 and self._fits():
            best, proof = self._schedule(best, proof, hint)
        while best.end > proof.end and self.searches and perf_counter() < until:
            # What is known of states goes on from turn to turn, so each goes on where the one before it was.
            best, proof = self._try(best, proof, CHOICES_PER_TURN)
        if best.end < proof.end:
            told = f"but {proof.end} ns was proven by {proof.method} to be the least"
            raise InvariantError(f"a makespan of {best.end} ns was reached by {best.source}, {told}")
        return best, proof

    def _fits(self) -> bool:
        return self.episode.tasks <= (MOST_SCHEDULED if self.scenario.links is None else MOST_WITH_LINKS)

    def _schedule(self, best: _Way, proof: _Proof, hint: _Way) -> tuple[_Way, _Proof]:
        """Let CP-SAT plan what is left, and play what it plans."""
        # Where there are links a part of the time is left to the search.
        seconds = self.seconds * (0.5 if self.searches and self.scenario.links is not None else 1.0)
        limits = (proof.end, max(best.end, hint.end))
        solution = solve(self.episode, Situation.of(self.own), limits, seconds, self._plan(hint))
        if solution is None:
            return best, proof
        proof = max(proof, _Proof(solution.bound, "schedule"), key=lambda one: one.end)
        for early in (False, True):
            if best.end > proof.end:
                way = self._play(Replay(solution.plan, self.own, early))
                best = way if way.end < best.end else best
        return best, proof

    def _try(self, best: _Way, proof: _Proof, choices: int) -> tuple[_Way, _Proof]:
        """Try so many choices."""
        found = self.search.run(best.end, proof.end, choices)
        if found.makespan < best.end:
            best = _Way(found.makespan, found.action, "search")
        return best, _Proof(best.end, "search") if found.complete and best.end > proof.end else proof

    def _play(self, policy: Policy) -> _Way:
        """Return how a policy goes on; the simulator comes back."""
        own, here = self.own, self.own.save()
        pieces: list[np.ndarray] = []
        action = check_action(policy.choose(*own.observe()))
        own.header["log_rows"] = 0
        own.continue_episode(policy, pieces.append)
        events = np.concatenate([*pieces, own.log()])
        way = _Way(int(own.header["now"]), action, policy.name, events)
        own.restore(here)
        return way

    def _plan(self, way: _Way) -> Plan:
        """Return the schedule that a log shows."""
        taken: dict[int, tuple[int, int]] = {}
        plan: Plan = {}
        assert way.events is not None
        for row in way.events[np.isin(way.events["kind"], (TAKE, START))]:
            task = int(row["job"]) * self.episode.stride + int(row["task"])
            if row["kind"] == TAKE:
                taken[task] = (int(row["time"]), self.place_of[int(row["resource"])])
            elif task in taken:
                plan[task] = (taken[task][0], int(row["time"]), taken[task][1])
        return plan

    def _reward(self, time: int) -> float:
        return -self.weight * time / 1e6

    def _end(self, reward: float) -> int:
        return round(-reward / self.weight * 1e6)


def hindsight(scenario: TaskgraphScenario, seed: int, split: str, seconds: float) -> Hindsight:
    """Return what says what can still become of an episode: exactly if it is small, else an estimate."""
    return Oracle(scenario, seed, split, seconds)


def optimum_bounds(scenario: TaskgraphScenario, seed: int, split: str = "test", seconds: float = 10.0) -> OptimumBounds:
    """Return where the best reward of an episode lies; a small one is solved for about `seconds` at most."""
    began = perf_counter()
    oracle = Oracle(scenario, seed, split, seconds)
    oracle.own.reset(seed, split)
    best, proof = oracle.solve(None, oracle.least)
    reached, bound = (-scenario.reward.makespan * time / 1e6 for time in (best.end, proof.end))
    return OptimumBounds(reached, bound, best.end == proof.end, best.source, proof.method, perf_counter() - began)


def describe(simulator: Simulator, action: int) -> str:
    """Return in a few words what an action does where a simulator is."""
    header, chosen = simulator.header, candidates_by_row(simulator).get(action)
    processors = simulator.family.run_labels(simulator.scenario).resources
    if int(header["phase"]) == CHOOSE_PROCESSOR:
        task = _task(simulator, int(header["asked_task"]))
        return f"{task} waits" if chosen is None else f"{task} goes to {processors[chosen]}"
    asked = processors[int(header["asked"])]
    return f"{asked} waits" if chosen is None else f"{asked} takes {_task(simulator, chosen)}"


def _task(simulator: Simulator, task: int) -> str:
    """Return the name of a task; that of its job too, where there are more."""
    parts = compiled_scenario(simulator.scenario)
    row = parts.spec["tasks"][int(simulator.arrays["tasks"][0, task]["source"])]
    job = int(simulator.arrays["tasks"][0, task]["job"])
    first = int(simulator.arrays["jobs"][0, job]["first_task"])
    template = parts.spec["templates"]["first_task"].tolist().index(first)
    name = parts.library.templates[template].tasks[int(row["number"])].name
    return name if parts.sizes.jobs == 1 else f"{name} of job {job}"
