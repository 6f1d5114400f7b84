"""Hindsight optimum of one episode, from its start or from any decision: best reward reached and an upper bound.

Every heuristic completes the episode from the present state. Lower bounds of the makespan come from paths and area,
from CP-SAT, whose schedules count only after replay in the simulator, and from branch and bound over the simulator.
"""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter

import numpy as np

from slipstream.errors import InvariantError
from slipstream.families.shared.bounds import OptimumBounds
from slipstream.families.shared.regret import Hindsight, ValueBounds, heuristics
from slipstream.families.taskgraph.oracle.bounds import least_makespan
from slipstream.families.taskgraph.oracle.hindsight import Episode
from slipstream.families.taskgraph.oracle.replay import Replay
from slipstream.families.taskgraph.oracle.schedule import Plan, solve
from slipstream.families.taskgraph.oracle.search import DEPTH, Search
from slipstream.families.taskgraph.oracle.snapshot import Snapshot, processor_groups
from slipstream.families.taskgraph.scenario import TaskgraphScenario
from slipstream.policies.base import Policy
from slipstream.sim.eventlog import START, TAKE
from slipstream.sim.simulator import Simulator, check_action

MOST_SCHEDULED = 130
"""Most tasks of an episode for CP-SAT."""
MOST_WITH_LINKS = 60
"""Most tasks of an episode with links for CP-SAT."""
MOST_SEARCHED = 40
"""Most tasks of an episode for branch and bound."""
FIRST_CHOICES = 20_000
"""Decisions tried by branch and bound before CP-SAT, which solves episodes that are nearly over."""
MOST_SECONDS = 86_400.0
"""Upper limit of the time per solve: one day."""
CHOICES_PER_RUN = 100_000
"""Decisions tried by branch and bound between two checks of the time limit."""


@dataclass(frozen=True)
class _Completion:
    """A completion of the episode: end in ns, first action, the policy or solver that found it, and its event log."""

    end: int
    action: int = -1
    source: str = "run"
    events: np.ndarray | None = None


@dataclass(frozen=True)
class _Proof:
    """Proven lower bound of the end in ns, and the method."""

    end: int
    method: str


class Oracle:
    """Solver of one episode, from its start or from any decision."""

    refusal = ""

    def __init__(self, scenario: TaskgraphScenario, seed: int, split: str, seconds: float) -> None:
        """Prepare the episode of `seed`; each solve takes up to about `seconds`."""
        self.scenario, self.seconds = scenario, min(seconds, MOST_SECONDS)
        self.weight = scenario.reward.makespan
        self.episode = Episode.of(scenario, seed, split)
        self.simulator = Simulator(scenario)
        groups = processor_groups(scenario)
        self.group_of = {number: index for index, one in enumerate(groups) for number in one.processors}
        self.policies = heuristics(scenario)
        self.searches = self.episode.tasks <= MOST_SEARCHED
        self.search = Search(self.simulator, self.episode, DEPTH if self.searches else 1)
        drawn = [np.array(job.durations) for job in self.episode.jobs]
        self.root_proof = _Proof(least_makespan(scenario, self.episode.arrival_rows, drawn), "path, area and loads")

    def value_bounds(self, simulator: Simulator[TaskgraphScenario], earned: float, known: ValueBounds) -> ValueBounds:
        """Return best reward and bound of the episode from the state of `simulator`."""
        if not simulator.asking or self.weight <= 0.0:
            reward = self._reward(int(simulator.header["now"]))
            return ValueBounds(reward, reward, method="end")
        self.simulator.restore(simulator.save())
        best = None if known.best == -np.inf else _Completion(self._end(known.best))
        proof = self.root_proof if known.bound == np.inf else _Proof(self._end(known.bound), known.method)
        best, proof = self.solve(best, proof)
        return ValueBounds(self._reward(best.end), self._reward(proof.end), best.action, best.source, proof.method)

    def solve(self, known: _Completion | None, proof: _Proof) -> tuple[_Completion, _Proof]:
        """Return the best completion from the state of `self.simulator` and a proven lower bound of the end."""
        until = perf_counter() + self.seconds
        played = [self._play(policy) for policy in self.policies]
        best = min(played, key=lambda completion: completion.end)
        # The best heuristic's schedule is the CP-SAT hint, even if a better end is known.
        hint = best
        if known is not None and known.end <= best.end:
            best = known
        proof = max(proof, _Proof(self.search.bound(), "path and work"), key=lambda one: one.end)
        if best.end > proof.end and self.searches:
            best, proof = self._search(best, proof, FIRST_CHOICES)
        if best.end > proof.end and self.seconds > 0.0 and self._fits():
            best, proof = self._schedule(best, proof, hint)
        while best.end > proof.end and self.searches and perf_counter() < until:
            # The transposition table is kept between runs, so each continues the one before.
            best, proof = self._search(best, proof, CHOICES_PER_RUN)
        if best.end < proof.end:
            text = f"but {proof.end} ns was proven by {proof.method} to be the least"
            raise InvariantError(f"a makespan of {best.end} ns was reached by {best.source}, {text}")
        return best, proof

    def _fits(self) -> bool:
        return self.episode.tasks <= (MOST_SCHEDULED if self.scenario.links is None else MOST_WITH_LINKS)

    def _schedule(self, best: _Completion, proof: _Proof, hint: _Completion) -> tuple[_Completion, _Proof]:
        """Solve the rest of the episode by CP-SAT and replay its schedule."""
        # With links, half of the time is reserved for branch and bound.
        seconds = self.seconds * (0.5 if self.searches and self.scenario.links is not None else 1.0)
        optimum_bounds = (proof.end, max(best.end, hint.end))
        solution = solve(self.episode, Snapshot.of(self.simulator), optimum_bounds, seconds, self._plan(hint))
        if solution is None:
            return best, proof
        proof = max(proof, _Proof(solution.bound, "schedule"), key=lambda one: one.end)
        for early in (False, True):
            if best.end > proof.end:
                completion = self._play(Replay(solution.plan, self.simulator, early))
                best = completion if completion.end < best.end else best
        return best, proof

    def _search(self, best: _Completion, proof: _Proof, choices: int) -> tuple[_Completion, _Proof]:
        """Run branch and bound for at most `choices` decisions; return the improved completion and bound."""
        found = self.search.run(best.end, proof.end, choices)
        if found.makespan < best.end:
            best = _Completion(found.makespan, found.action, "search")
        return best, _Proof(best.end, "search") if found.complete and best.end > proof.end else proof

    def _play(self, policy: Policy) -> _Completion:
        """Return the completion of the episode by `policy`; the simulator's state is restored."""
        simulator, saved = self.simulator, self.simulator.save()
        logs: list[np.ndarray] = []
        action = check_action(policy.choose(*simulator.observe()))
        simulator.header["log_rows"] = 0
        simulator.continue_episode(policy, logs.append)
        events = np.concatenate([*logs, simulator.log()])
        completion = _Completion(int(simulator.header["now"]), action, policy.name, events)
        simulator.restore(saved)
        return completion

    def _plan(self, completion: _Completion) -> Plan:
        """Return the schedule in the event log of a completion."""
        taken: dict[int, tuple[int, int]] = {}
        plan: Plan = {}
        assert completion.events is not None
        for row in completion.events[np.isin(completion.events["kind"], (TAKE, START))]:
            task = int(row["job"]) * self.episode.stride + int(row["task"])
            if row["kind"] == TAKE:
                taken[task] = (int(row["time"]), self.group_of[int(row["resource"])])
            elif task in taken:
                plan[task] = (taken[task][0], int(row["time"]), taken[task][1])
        return plan

    def _reward(self, time: int) -> float:
        return -self.weight * time / 1e6

    def _end(self, reward: float) -> int:
        return round(-reward / self.weight * 1e6)


def hindsight(scenario: TaskgraphScenario, seed: int, split: str, seconds: float) -> Hindsight[TaskgraphScenario]:
    """Return the solver of an episode: exact for small episodes, otherwise bounds."""
    return Oracle(scenario, seed, split, seconds)


def optimum_bounds(scenario: TaskgraphScenario, seed: int, split: str = "test", seconds: float = 10.0) -> OptimumBounds:
    """Return bounds of the best reward of an episode; small ones are solved within about `seconds`."""
    began = perf_counter()
    oracle = Oracle(scenario, seed, split, seconds)
    oracle.simulator.reset(seed, split)
    best, proof = oracle.solve(None, oracle.root_proof)
    reached, bound = (-scenario.reward.makespan * time / 1e6 for time in (best.end, proof.end))
    return OptimumBounds(reached, bound, best.end == proof.end, best.source, proof.method, perf_counter() - began)
