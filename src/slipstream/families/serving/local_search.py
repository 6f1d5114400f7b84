"""Planners that rehearse: others' plans and the present one, all improved step by step, and the best of them.

What a hosting is worth is not computed but played: each model's accelerators answer a stream of requests at every rate
that may come (`outlook`), by the rules of the default data plane (`rehearsal`). The worth is accuracy on time, per
second. While variants load, only what stays counts. A step gives an accelerator another variant, of its model or of
another, or lets two models exchange accelerators of two kinds; the best step is made until none gains. Bold steps may
concern all accelerators of a model.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import permutations

import numpy as np

from slipstream.families.serving.kernel.lookahead import Demand, Outlook
from slipstream.families.serving.kernel.plan_simulation import rehearse
from slipstream.families.serving.plans import LASTING, NANOSECONDS, Planner, Situation, Target
from slipstream.families.serving.solver import undominated

GAPS = 1024
SWITCH = 1.0
"""Requests that a switch has to bring in, besides those that it costs."""
LEAST_GAIN = 1e-6
PROGRAM_GAP = 0.005
"""Gap of the program that is good enough for a beginning."""


@dataclass(frozen=True)
class Thoroughness:
    """How hostings are rehearsed."""

    fewest: int
    most: int
    """Requests of a rehearsal, at the least and at the most."""
    span: float
    """How long it lasts in between, as a multiple of the SLO."""
    work: int
    """Requests times accelerators that are rehearsed for one plan: large fleets are left as the program wants them."""
    whole: bool
    """Whether every request is followed to its end."""
    bold: bool
    """Whether a step may concern all accelerators of a model: earliest finish ignores a single accurate one among quick
    ones, so that only many at once gain."""
    beyond: float
    """Chance of rates beyond all that was seen: so small that it decides only between hostings that are alike else."""


SHORT = Thoroughness(fewest=300, most=1500, span=15.0, work=2_000_000, whole=False, bold=False, beyond=0.0)
WHOLE = Thoroughness(fewest=300, most=1500, span=15.0, work=4_000_000, whole=True, bold=True, beyond=3e-4)


def even_gaps() -> np.ndarray:
    """Return gaps of mean 1 that are spread as exponential ones are, evenly, in a random order."""
    spread = -np.log1p(-(np.arange(GAPS) + 0.5) / GAPS)
    return np.asarray(np.random.default_rng(7).permutation(spread / spread.mean()))


Step = tuple[float, tuple[tuple[int, int], ...]]
"""A gain, and columns with the accelerators that they get or give."""
NOTHING: Step = (-np.inf, ())


@dataclass(frozen=True)
class _Options:
    """The best that a model could do next, by kind: take an accelerator, give one, or change one for another."""

    take: list[Step]
    give: list[Step]
    change: list[list[Step]]
    """By the kind that it gives and the one that it takes, which may be the same."""
    alone: list[Step]
    """What needs no accelerator of another: one is left idle, or all of the model host the same variant."""


class Rehearsals:
    """The worth of hostings in one situation; nothing is played twice."""

    def __init__(self, now: Situation, demand: Demand, gaps: np.ndarray, thorough: Thoroughness = SHORT) -> None:
        self.now = now
        self.thorough = thorough
        self.work = 0
        self._demand = demand
        self._gaps = gaps
        self._own = [np.flatnonzero(now.model == model) for model in range(now.models)]
        largest = np.maximum(1.0, np.rint(now.peak * now.batch_latency))
        self._members = np.stack((now.latency, now.batch_latency, largest, now.accuracy / 100.0), axis=1)
        self._load = now.load * LASTING / NANOSECONDS / now.interval
        self._played: dict[tuple[int, int, bytes], float] = {}
        self._worth: dict[tuple[int, bytes], float] = {}

    def worth(self, model: int, counts: np.ndarray) -> float:
        """Return the accuracy on time per second of a model, less what its switches cost."""
        own = self._own[model]
        hosting = counts[own]
        key = (model, hosting.tobytes())
        found = self._worth.get(key)
        if found is None:
            kept = hosting if self.now.first else np.minimum(hosting, self.now.hosted[own])
            new = hosting - kept
            loading = min(1.0, float(self._load[own] @ new) / max(1, int(new.sum())))
            found = -SWITCH * float(new.sum()) / self.now.interval
            for place, weight in enumerate(self._demand.weights[:, model].tolist()):
                if weight > 0.0:
                    found += weight * (1.0 - loading) * self._play(model, place, hosting)
                    found += weight * loading * self._play(model, place, kept) if loading > 0.0 else 0.0
            self._worth[key] = found
        return found

    @property
    def tired(self) -> bool:
        """Whether enough was rehearsed for one plan."""
        return self.work > self.thorough.work

    def total(self, counts: np.ndarray) -> float:
        """Return the worth of a whole hosting."""
        return sum(self.worth(model, counts) for model in range(self.now.models))

    def _play(self, model: int, place: int, hosting: np.ndarray) -> float:
        key = (model, place, hosting.tobytes())
        found = self._played.get(key)
        if found is None:
            rate, slo = float(self._demand.rates[place, model]), float(self.now.slo[model])
            how = self.thorough
            requests = int(min(how.most, max(how.fewest, how.span * slo * rate)))
            members = self._members[np.repeat(self._own[model], hosting)]
            self.work += requests * max(1, len(members))
            found = float(rehearse(self._gaps, requests, rate, slo, members, how.whole))
            self._played[key] = found
        return found

    def options(self, model: int, counts: np.ndarray, usable: np.ndarray) -> _Options:
        """Return what a model could do next, as far as there is time to rehearse it."""
        kinds, base = len(self.now.fleet), self.worth(model, counts)
        take, give = [NOTHING] * kinds, [NOTHING] * kinds
        change = [[NOTHING] * kinds for _ in range(kinds)]

        def step(*changes: tuple[int, int]) -> Step:
            after = counts.copy()
            for column, by in changes:
                after[column] += by
            return self.worth(model, after) - base, changes

        own = self._own[model].tolist()
        for new in (column for column in own if usable[column]):
            if self.tired:
                break
            to = int(self.now.kind[new])
            take[to] = max(take[to], step((new, 1)))
            for old in (column for column in own if counts[column] > 0 and column != new):
                at = int(self.now.kind[old])
                change[at][to] = max(change[at][to], step((old, -1), (new, 1)))
        for old in (column for column in own if counts[column] > 0):
            at = int(self.now.kind[old])
            give[at] = max(give[at], step((old, -1)))
        alone = [*give, *(step(*changes) for changes in self._unions(own, counts))] if self.thorough.bold else []
        return _Options(take, give, change, alone)

    def _unions(self, own: list[int], counts: np.ndarray) -> Iterator[tuple[tuple[int, int], ...]]:
        """Yield changes after which all accelerators of a model that can do so host the same variant."""
        for variant in sorted(set(self.now.variant[own].tolist())):
            to = {int(self.now.kind[column]): column for column in own if self.now.variant[column] == variant}
            olds = [old for old in own if counts[old] > 0 and to.get(int(self.now.kind[old]), old) != old]
            if olds and not self.tired:
                gone = [(old, -int(counts[old])) for old in olds]
                yield (*gone, *((to[int(self.now.kind[old])], int(counts[old])) for old in olds))


def improved(rehearsals: Rehearsals, counts: np.ndarray) -> np.ndarray:
    """Return a hosting that no single step makes better, or the best that there was time to find."""
    now, counts = rehearsals.now, counts.copy()
    usable = undominated(now)
    options = [rehearsals.options(model, counts, usable) for model in range(now.models)]
    while True:
        free = now.fleet > np.bincount(now.kind, counts, len(now.fleet))
        gain, changes = max(_steps(options, free), default=NOTHING)
        if gain <= LEAST_GAIN:
            return counts
        for column, by in changes:
            counts[column] += by
        if rehearsals.tired:
            return counts
        for model in {int(now.model[column]) for column, _ in changes}:
            options[model] = rehearsals.options(model, counts, usable)


def _steps(options: list[_Options], free: np.ndarray) -> Iterator[Step]:
    """Yield steps, the best one among them: with a free accelerator, within a model, or of two models."""
    for one in options:
        yield from one.alone
    for at in range(len(free)):
        for one in options:
            yield one.change[at][at]
            if free[at]:
                yield one.take[at]
                yield from (row[at] for row in one.change)
        for one, other in permutations(options, 2):
            yield _both(one.give[at], other.take[at])
            for to in range(at):
                yield _both(one.change[at][to], other.change[to][at])


def _both(one: Step, other: Step) -> Step:
    return one[0] + other[0], one[1] + other[1]


class Rehearsed(Planner):
    """A planner that rehearses, with its memory of an episode.

    Plans of others are where it begins, besides what is hosted.
    """

    def __init__(
        self, name: str, description: str, program: Target, *others: Target, thorough: Thoroughness = SHORT
    ) -> None:
        super().__init__(name, description, self._plan)
        self._program = program
        self._others = others
        self._thorough = thorough
        self._outlook = Outlook(thorough.beyond)
        self._gaps = even_gaps()

    def _plan(self, now: Situation) -> np.ndarray:
        demand = self._outlook.look(now)
        rehearsals = Rehearsals(now, demand, self._gaps, self._thorough)
        # The program cannot do without any demand at all.
        level = np.maximum(demand.level, 1e-3)
        begin = replace(now, demand=level, gap=max(now.gap, PROGRAM_GAP))
        plans = [improved(rehearsals, self._program(begin))]
        if not now.first:
            # Of plans that are worth the same, the first is taken.
            plans.insert(0, improved(rehearsals, now.hosted))
        plans += [improved(rehearsals, other(begin)) for other in self._others]
        return max(plans, key=rehearsals.total)
