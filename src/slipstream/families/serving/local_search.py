"""Planners by local search: plans of others and the present one, improved move by move; the best one is used.

The value of a deployment is simulated: each model's accelerators answer a stream of requests at every rate that may
come (`kernel.lookahead`), by the rules of the default data plane (`kernel.plan_simulation`). It is on-time accuracy per
second. While variants load, only the replicas that stay count. A move gives an accelerator another variant, of its
model or of another, or exchanges accelerators of two kinds between two models; the best move is made until none gains.
Whole-model moves change all accelerators of a model.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import permutations

import numpy as np

from slipstream.families.serving.kernel.lookahead import DemandModel, DemandScenarios, certain
from slipstream.families.serving.kernel.plan_simulation import simulate_plan
from slipstream.families.serving.plans import NANOSECONDS, PLAN_HORIZON, PlanFunction, Planner, PlanningState
from slipstream.families.serving.solver import undominated

GAP_COUNT = 1024
SWITCH_COST = 1.0
"""Requests that a switch must gain, besides those that it loses."""
LEAST_GAIN = 1e-6
PROGRAM_GAP = 0.005
"""Relative gap of the program that is small enough for a starting plan."""


@dataclass(frozen=True)
class SearchSettings:
    """Settings of the simulations and moves of a search."""

    min_requests: int
    max_requests: int
    """Least and greatest number of requests of a simulation."""
    duration: float
    """Simulated time between these limits, as a multiple of the SLO."""
    budget: int
    """Requests times accelerators simulated for one plan: plans of large fleets stay as the program returns them."""
    drain: bool
    """Whether every request is followed to its end."""
    whole_model_moves: bool
    """Whether a move may change all accelerators of a model: earliest finish ignores a single accurate one among quick
    ones, so that only many at once gain."""
    unseen_probability: float
    """Probability of rates above all peaks: so small that it only breaks ties between deployments."""


FAST = SearchSettings(
    min_requests=300,
    max_requests=1500,
    duration=15.0,
    budget=2_000_000,
    drain=False,
    whole_model_moves=False,
    unseen_probability=0.0,
)
THOROUGH = SearchSettings(
    min_requests=300,
    max_requests=1500,
    duration=15.0,
    budget=4_000_000,
    drain=True,
    whole_model_moves=True,
    unseen_probability=3e-4,
)


def stratified_gaps() -> np.ndarray:
    """Return gaps of mean 1 at the quantiles of the exponential distribution, in a random order."""
    spread = -np.log1p(-(np.arange(GAP_COUNT) + 0.5) / GAP_COUNT)
    return np.asarray(np.random.default_rng(7).permutation(spread / spread.mean()))


Move = tuple[float, tuple[tuple[int, int], ...]]
"""A gain, and changes of the number of accelerators by column."""
NO_MOVE: Move = (-np.inf, ())


@dataclass(frozen=True)
class _Moves:
    """The best next moves of a model, by kind: add an accelerator, remove one, or exchange one for another."""

    add: list[Move]
    remove: list[Move]
    exchange: list[list[Move]]
    """By the kind of the removed and of the added accelerator, which may be the same."""
    own_moves: list[Move]
    """Moves without another model: one accelerator is left idle, or all of the model host the same variant."""


class PlanEvaluator:
    """Values of deployments in one planning state; every simulation is run once."""

    def __init__(
        self, state: PlanningState, demand: DemandScenarios, gaps: np.ndarray, settings: SearchSettings = FAST
    ) -> None:
        self.state = state
        self.settings = settings
        self.work = 0
        self._demand = demand
        self._gaps = gaps
        self._own = [np.flatnonzero(state.model == model) for model in range(state.models)]
        largest = np.maximum(1.0, np.rint(state.peak * state.batch_latency))
        self._replicas = np.stack((state.latency, state.batch_latency, largest, state.accuracy / 100.0), axis=1)
        self._load = state.load * PLAN_HORIZON / NANOSECONDS / state.interval
        self._simulated: dict[tuple[int, int, bytes], float] = {}
        self._values: dict[tuple[int, bytes], float] = {}

    def value(self, model: int, counts: np.ndarray) -> float:
        """Return the on-time accuracy per second of a model, less the cost of its switches."""
        own = self._own[model]
        deployment = counts[own]
        key = (model, deployment.tobytes())
        found = self._values.get(key)
        if found is None:
            kept = deployment if self.state.first else np.minimum(deployment, self.state.hosted[own])
            new = deployment - kept
            loading = min(1.0, float(self._load[own] @ new) / max(1, int(new.sum())))
            found = -SWITCH_COST * float(new.sum()) / self.state.interval
            for scenario, weight in enumerate(self._demand.weights[:, model].tolist()):
                if weight > 0.0:
                    found += weight * (1.0 - loading) * self._simulate(model, scenario, deployment)
                    found += weight * loading * self._simulate(model, scenario, kept) if loading > 0.0 else 0.0
            self._values[key] = found
        return found

    @property
    def exhausted(self) -> bool:
        """Whether the simulation budget of one plan is used up."""
        return self.work > self.settings.budget

    def total_value(self, counts: np.ndarray) -> float:
        """Return the value of a deployment, summed over models."""
        return sum(self.value(model, counts) for model in range(self.state.models))

    def _simulate(self, model: int, scenario: int, deployment: np.ndarray) -> float:
        key = (model, scenario, deployment.tobytes())
        found = self._simulated.get(key)
        if found is None:
            rate, slo = float(self._demand.rates[scenario, model]), float(self.state.slo[model])
            settings = self.settings
            requests = int(min(settings.max_requests, max(settings.min_requests, settings.duration * slo * rate)))
            replicas = self._replicas[np.repeat(self._own[model], deployment)]
            self.work += requests * max(1, len(replicas))
            found = float(simulate_plan(self._gaps, requests, rate, slo, replicas, settings.drain))
            self._simulated[key] = found
        return found

    def moves(self, model: int, counts: np.ndarray, usable: np.ndarray) -> _Moves:
        """Return the best next moves of a model, as far as the budget allows to simulate them."""
        kinds, base = len(self.state.fleet), self.value(model, counts)
        add, remove = [NO_MOVE] * kinds, [NO_MOVE] * kinds
        exchange = [[NO_MOVE] * kinds for _ in range(kinds)]

        def move(*changes: tuple[int, int]) -> Move:
            after = counts.copy()
            for column, by in changes:
                after[column] += by
            return self.value(model, after) - base, changes

        own = self._own[model].tolist()
        for new in (column for column in own if usable[column]):
            if self.exhausted:
                break
            to = int(self.state.kind[new])
            add[to] = max(add[to], move((new, 1)))
            for old in (column for column in own if counts[column] > 0 and column != new):
                at = int(self.state.kind[old])
                exchange[at][to] = max(exchange[at][to], move((old, -1), (new, 1)))
        for old in (column for column in own if counts[column] > 0):
            at = int(self.state.kind[old])
            remove[at] = max(remove[at], move((old, -1)))
        own_moves = (
            [*remove, *(move(*changes) for changes in self._unified_variants(own, counts))]
            if self.settings.whole_model_moves
            else []
        )
        return _Moves(add, remove, exchange, own_moves)

    def _unified_variants(self, own: list[int], counts: np.ndarray) -> Iterator[tuple[tuple[int, int], ...]]:
        """Yield changes after which all accelerators of a model that can do so host the same variant."""
        for variant in sorted(set(self.state.variant[own].tolist())):
            to = {int(self.state.kind[column]): column for column in own if self.state.variant[column] == variant}
            olds = [old for old in own if counts[old] > 0 and to.get(int(self.state.kind[old]), old) != old]
            if olds and not self.exhausted:
                gone = [(old, -int(counts[old])) for old in olds]
                yield (*gone, *((to[int(self.state.kind[old])], int(counts[old])) for old in olds))


def improve(evaluator: PlanEvaluator, counts: np.ndarray) -> np.ndarray:
    """Return the local optimum reached from `counts`, or the best deployment found within the budget."""
    state, counts = evaluator.state, counts.copy()
    usable = undominated(state)
    moves = [evaluator.moves(model, counts, usable) for model in range(state.models)]
    while True:
        free = state.fleet > np.bincount(state.kind, counts, len(state.fleet))
        gain, changes = max(_candidate_moves(moves, free), default=NO_MOVE)
        if gain <= LEAST_GAIN:
            return counts
        for column, by in changes:
            counts[column] += by
        if evaluator.exhausted:
            return counts
        for model in {int(state.model[column]) for column, _ in changes}:
            moves[model] = evaluator.moves(model, counts, usable)


def _candidate_moves(moves: list[_Moves], free: np.ndarray) -> Iterator[Move]:
    """Yield moves, the best one among them: to a free accelerator, within a model, or between two models."""
    for one in moves:
        yield from one.own_moves
    for at in range(len(free)):
        for one in moves:
            yield one.exchange[at][at]
            if free[at]:
                yield one.add[at]
                yield from (row[at] for row in one.exchange)
        for one, other in permutations(moves, 2):
            yield _combined(one.remove[at], other.add[at])
            for to in range(at):
                yield _combined(one.exchange[at][to], other.exchange[to][at])


def _combined(one: Move, other: Move) -> Move:
    return one[0] + other[0], one[1] + other[1]


class LocalSearchPlanner(Planner):
    """A planner by local search, with the demand history of an episode.

    It starts from the plans of `program` and `others`, and from what is hosted.
    """

    def __init__(
        self, name: str, description: str, program: PlanFunction, *others: PlanFunction, settings: SearchSettings = FAST
    ) -> None:
        super().__init__(name, description, self._plan)
        self._program = program
        self._others = others
        self._settings = settings
        self._demand_model = DemandModel(settings.unseen_probability)
        self._gaps = stratified_gaps()

    def _plan(self, state: PlanningState) -> np.ndarray:
        demand = self._demand_model.predict(state) if self._known_demand is None else certain(state.demand)
        evaluator = PlanEvaluator(state, demand, self._gaps, self._settings)
        # The program is undefined without any demand.
        expected = np.maximum(demand.expected, 1e-3)
        start_state = replace(state, demand=expected, gap=max(state.gap, PROGRAM_GAP))
        plans = [improve(evaluator, self._program(start_state))]
        if not state.first:
            # Of plans of equal value the first is taken, so that nothing is switched needlessly.
            plans.insert(0, improve(evaluator, state.hosted))
        plans += [improve(evaluator, other(start_state)) for other in self._others]
        return max(plans, key=evaluator.total_value)
