"""HEFT and PEFT once more, from their papers and the tie rules in docs/taskgraph.md, on plain dictionaries.

Topcuoglu, Hariri, Wu, IEEE TPDS 2002 (HEFT); Arabnejad, Barbosa, IEEE TPDS 2014 (PEFT). `times[task][processor]` are
durations, `edges[parent, child]` gives what moves between two processors as a function of both.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache

Delay = Callable[[int, int], int]


@dataclass
class Graph:
    """Tasks in an order in which parents come first."""

    times: list[list[int]]
    edges: dict[tuple[int, int], Delay]
    start: dict[int, int] = field(default_factory=dict)
    where: dict[int, int] = field(default_factory=dict)

    def mean_delay(self, edge: tuple[int, int]) -> Fraction:
        everywhere = range(len(self.times[0]))
        pairs = [(source, target) for source in everywhere for target in everywhere if source != target]
        return Fraction(sum(self.edges[edge](*pair) for pair in pairs), len(pairs)) if pairs else Fraction(0)

    def children(self, task: int) -> list[int]:
        return [child for parent, child in self.edges if parent == task]

    def parents(self, task: int) -> list[int]:
        return [parent for parent, child in self.edges if child == task]

    def finish(self, task: int) -> int:
        return self.start[task] + self.times[task][self.where[task]]

    def earliest_start(self, task: int, processor: int, exact_fit: bool) -> int:
        """Return the begin of the first gap of a processor that is long enough, after all data have come."""
        ready = max(
            (self.finish(one) + self.edges[one, task](self.where[one], processor) for one in self.parents(task)),
            default=0,
        )
        busy = sorted((self.start[one], self.finish(one)) for one, at in self.where.items() if at == processor)
        begin = ready
        for from_, to in busy:
            needed = self.times[task][processor] + (0 if exact_fit else 1)
            if to > ready and begin + needed <= from_:
                break
            begin = max(begin, to)
        return begin

    def place(self, task: int, processor: int, exact_fit: bool) -> None:
        self.start[task], self.where[task] = self.earliest_start(task, processor, exact_fit), processor

    @property
    def makespan(self) -> int:
        return max(map(self.finish, self.start))


def heft(graph: Graph) -> Graph:
    """Place tasks by falling upward rank, each where it finishes first."""

    @cache
    def rank(task: int) -> Fraction:
        mean = Fraction(sum(graph.times[task]), len(graph.times[task]))
        return mean + max(
            (graph.mean_delay((task, one)) + rank(one) for one in graph.children(task)), default=Fraction(0)
        )

    for task in sorted(range(len(graph.times)), key=lambda one: (-rank(one), -one)):
        finish = [graph.earliest_start(task, p, False) + time for p, time in enumerate(graph.times[task])]
        graph.place(task, finish.index(min(finish)), False)
    return graph


def peft(graph: Graph) -> Graph:
    """Place the ready task of the greatest mean optimistic cost where finish plus optimistic cost is least."""

    @cache
    def cost(task: int, processor: int) -> Fraction:
        worst = Fraction(0)
        for child in graph.children(task):
            delay = graph.mean_delay((task, child))
            ways = (
                cost(child, p) + time + (delay if p != processor else 0) for p, time in enumerate(graph.times[child])
            )
            worst = max(worst, min(ways))
        return worst

    processors = range(len(graph.times[0]))
    left = set(range(len(graph.times)))
    while left:
        ready = [task for task in left if not left & set(graph.parents(task))]
        task = min(ready, key=lambda one: (-sum(cost(one, p) for p in processors), one))
        after = [graph.earliest_start(task, p, True) + graph.times[task][p] + cost(task, p) for p in processors]
        graph.place(task, after.index(min(after)), True)
        left.remove(task)
    return graph
