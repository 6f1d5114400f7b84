"""Small edge scenarios worked out by hand, as data: any simulator with the reference's interface can be put to them.

Times are in milliseconds here. An action is a row index: with T tasks and ladders of at most V variants, row
task * V + variant dispatches, row T * V + task drops, and row T * V + T waits. With preemption on S streams, row
T * V + (task * V + variant) * S + stream preempts; T * V * (S + 1) + task drops, and T * V * (S + 1) + T waits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from slipstream.families.edge.scenario import EdgeScenario

ARRIVAL, START, FINISH, EXPIRE, REJECT, DROP, END, PREEMPT, READY, EVICT = range(10)

Json = dict[str, Any]
LogRow = tuple[float, int, int, int, int, int]
Seen = Mapping[str | tuple[int, str], float]
"""What is observed at a choice: globals by name, cells of the rows by (row, column). In nanoseconds."""


class Simulator(Protocol):
    """What a simulator must offer to be put to the cases."""

    now: int
    asked: int
    terminated: bool
    truncated: bool
    terms: dict[str, float]
    reward: float
    illegal: bool
    elapsed: int
    log: list[tuple[int, int, int, int, int, int]]

    def mask(self) -> list[int]:
        """Return the legal rows as 0/1."""

    def rows(self) -> list[dict[str, float]]:
        """Return the raw observation rows."""

    def globals(self) -> dict[str, float]:
        """Return the raw observation of the whole."""

    def step(self, action: int) -> None:
        """Take the action and go on to the next choice."""


@dataclass(frozen=True)
class Step:
    """One choice: when it is asked and for which stream, the action taken, and what came of it where stated."""

    time: float
    stream: int
    action: int
    seen: Seen = field(default_factory=dict)
    mask: Sequence[int] | None = None
    illegal: bool = False
    terms: Mapping[str, float] = field(default_factory=dict)
    reward: float | None = None


@dataclass(frozen=True)
class Case:
    """A scenario, what is done in it, and everything that must happen."""

    name: str
    scenario: Json
    steps: Sequence[Step]
    log: Sequence[LogRow]
    ends: str


def ns(milliseconds: float) -> int:
    """Return whole nanoseconds."""
    return round(milliseconds * 1e6)


def check(case: Case, build: Callable[[EdgeScenario], Simulator]) -> None:
    """Play the case and compare each choice, each outcome and the whole log with what was worked out."""
    edge = build(EdgeScenario.model_validate(case.scenario))
    for number, step in enumerate(case.steps):
        where = f"{case.name}, choice {number}"
        assert (edge.now, edge.asked) == (ns(step.time), step.stream), where
        _check_observation(edge, step, where)
        edge.step(step.action)
        assert edge.illegal == step.illegal, where
        assert edge.elapsed == edge.now - ns(step.time), where
        for term, value in step.terms.items():
            assert edge.terms[term] == value, f"{where}: {term}"
        assert step.reward is None or edge.reward == step.reward, where
    assert edge.asked == -1, f"{case.name}: another choice is asked at {edge.now} ns"
    assert (edge.terminated, edge.truncated) == (case.ends == "terminated", case.ends == "truncated"), case.name
    assert edge.log == [(ns(time), *rest) for time, *rest in case.log], case.name


def _check_observation(edge: Simulator, step: Step, where: str) -> None:
    if step.mask is not None:
        assert list(edge.mask()) == list(step.mask), where
    if step.seen:
        rows, whole = edge.rows(), edge.globals()
        for key, value in step.seen.items():
            found = whole[key] if isinstance(key, str) else rows[key[0]][key[1]]
            assert found == value, f"{where}: {key}"


def scenario(horizon: float, tasks: list[Json], reward: Json | None = None, **device: Any) -> Json:
    """Return a scenario of one stream without interference or chance, unless told otherwise."""
    plain: Json = {"streams": 1, "interference": {"kind": "none"}, "latency": {"kind": "fixed"}}
    named = [{"name": f"task-{index}", **task} for index, task in enumerate(tasks)]
    return {
        "family": "edge",
        "horizon_ms": horizon,
        "device": plain | device,
        "reward": reward or {},
        "tasks": named,
    }


def task(
    arrival: Json,
    latencies: list[float],
    deadline: float | None = 1000.0,
    demand: float = 1.0,
    ladder: Mapping[str, Any] | None = None,
    **more: Any,
) -> Json:
    """Return a task whose variants have accuracy 0.5, 0.75, ... from the fastest on, and all the same demand.

    What `ladder` holds is added to every variant.
    """
    variants = [
        {"latency_ms": latency, "accuracy": min(1.0, 0.5 + 0.25 * rank), "demand": demand, **(ladder or {})}
        for rank, latency in enumerate(latencies)
    ]
    required = {"model": "builtin:resnet", "dataset": "cifar10", "num_variants": len(variants)}
    return {**required, "arrival": arrival, "deadline_ms": deadline, "variants": variants, **more}


def trace(*times: float) -> Json:
    """Return an arrival at listed times."""
    return {"kind": "trace", "times_ms": list(times)}


def share(total_throughput: float) -> Json:
    """Return the interference of streams that share the device."""
    return {"kind": "share", "total_throughput": total_throughput}
