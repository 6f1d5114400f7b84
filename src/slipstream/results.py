"""Results of played episodes: one policy's metrics, and several policies' on the same episodes, with intervals."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from slipstream import display
from slipstream.errors import InputError
from slipstream.families.contract import FAMILIES
from slipstream.families.shared.bounds import OptimumBounds, share_of_bound
from slipstream.files.inputs import as_object, read_object, show
from slipstream.files.wording import metric_title
from slipstream.sim.kernel.rng import SEED_LIMIT

RESAMPLES = 2000
"""Number of bootstrap resamples of every 95% interval."""

LARGEST_FIGURE = 1e150
"""Largest value in a saved result: sums of larger ones would overflow."""
SHOWN_METRICS = 6
"""Most metrics that a table of a family without headline metrics shows."""


@dataclass(frozen=True)
class Evaluation:
    """A policy's metrics, one value per episode."""

    policy: str
    values: dict[str, np.ndarray]
    kind: str = ""
    """What the policy may know: heuristic, trained, model-based or code; empty if that was not recorded."""

    def mean(self, metric: str) -> float:
        """Return the metric's mean over the episodes."""
        return float(self.of(metric).mean())

    def interval(self, metric: str) -> tuple[float, float]:
        """Return the bootstrap 95% interval of the metric's mean."""
        return bootstrap_interval(self.of(metric))

    def of(self, metric: str) -> np.ndarray:
        """Return the metric's values, one per episode."""
        if metric not in self.values:
            raise InputError(f"unknown metric '{metric}': expected one of {', '.join(self.values)}")
        return self.values[metric]

    def to_dict(self) -> dict[str, Any]:
        """Return the evaluation as JSON-ready data."""
        figures = {}
        for metric, values in self.values.items():
            low, high = self.interval(metric)
            figures[metric] = {"mean": self.mean(metric), "low": low, "high": high, "values": values.tolist()}
        return {"policy": self.policy, "kind": self.kind, "metrics": figures}

    def __repr__(self) -> str:
        count = len(next(iter(self.values.values()), ()))
        reward = f", reward {self._cell('reward')}" if "reward" in self.values else ""
        return f"Evaluation({self.policy!r}, {_episodes(count)}{reward})"

    def _repr_html_(self) -> str:
        rows = [[metric, self._cell(metric)] for metric in self.values]
        return display.html_table(f"{self.policy}: mean ± half the 95% interval", ["metric", "value"], rows)

    def _cell(self, metric: str) -> str:
        return display.with_interval(self.mean(metric), *self.interval(metric), len(self.of(metric)))

    def to_pandas(self) -> Any:
        """Return a DataFrame with a row per episode and a column per metric."""
        return display.data_frame(self.values, index="episode")

    def plot(self, metric: str = "reward") -> Any:
        """Return a plotly figure of the metric's values in all episodes."""
        return display.distribution_figure(self.policy, metric_title(metric), self.of(metric))

    def save(self, path: str | Path) -> Path:
        """Write the evaluation as JSON, without metrics that have no value in an episode; `load` reads it."""
        return display.save_json(path, _with_values(self).to_dict())

    @classmethod
    def load(cls, path: str | Path) -> Evaluation:
        """Return the evaluation at `path`, which `save` wrote.

        Raises:
            InputError: One line: where the file is something else, and what was expected.
        """
        return _evaluation_of(read_object(Path(path), "a saved evaluation"), str(path))


@dataclass(frozen=True)
class Comparison:
    """Evaluations of several policies on the same episodes, so that differences are paired."""

    scenario: str
    episodes: int
    seed: int
    evaluations: tuple[Evaluation, ...]
    optimum_bounds: tuple[OptimumBounds, ...] = ()
    """Bounds of the best reward of each episode, if the oracle was run."""
    title: str = ""
    """The scenario's family and name."""
    scenario_digest: str = ""

    def share_of_bound(self, policy: str) -> float:
        """Return the ratio of the mean reward of `policy` to the mean upper bound."""
        return share_of_bound(
            self.of(policy).mean("reward"), float(np.mean([one.bound for one in self.optimum_bounds]))
        )

    def of(self, policy: str) -> Evaluation:
        """Return the evaluation of the named policy."""
        for evaluation in self.evaluations:
            if evaluation.policy == policy:
                return evaluation
        known = ", ".join(evaluation.policy for evaluation in self.evaluations)
        raise InputError(f"policy '{policy}' was not compared: expected one of {known}")

    def to_dict(self) -> dict[str, Any]:
        """Return the comparison as JSON-ready data, of the same shape in every family."""
        return {
            "scenario": self.scenario,
            "title": self.title,
            "scenario_digest": self.scenario_digest,
            "episodes": self.episodes,
            "seed": self.seed,
            "oracle": self._oracle() if self.optimum_bounds else None,
            "policies": [evaluation.to_dict() for evaluation in self.evaluations],
        }

    def _oracle(self) -> dict[str, Any]:
        known, bound = ([getattr(one, name) for one in self.optimum_bounds] for name in ("best_known", "bound"))
        return {
            "metric": "reward",
            "best_known": {"mean": float(np.mean(known)), "values": known},
            "bound": {"mean": float(np.mean(bound)), "values": bound},
            "exact": sum(bounds.exact for bounds in self.optimum_bounds),
            "seconds": sum(bounds.seconds for bounds in self.optimum_bounds),
            "places": {evaluation.policy: self.share_of_bound(evaluation.policy) for evaluation in self.evaluations},
            "bounds": [bounds.to_dict() for bounds in self.optimum_bounds],
        }

    def difference(self, policy: str, other: str, metric: str) -> tuple[float, float, float]:
        """Return the mean paired difference of two policies and its bootstrap 95% interval."""
        gap = self.of(policy).of(metric) - self.of(other).of(metric)
        return float(gap.mean()), *bootstrap_interval(gap)

    def ranked(self) -> list[Evaluation]:
        """Return the evaluations, highest mean reward first; those without a reward come last."""
        rewards = {id(one): one.mean("reward") if "reward" in one.values else np.nan for one in self.evaluations}
        return sorted(self.evaluations, key=lambda one: -np.nan_to_num(rewards[id(one)], nan=-np.inf))

    def __repr__(self) -> str:
        name, best = self.title or self.scenario, self.ranked()[0].policy
        policies = f"{len(self.evaluations)} {'policy' if len(self.evaluations) == 1 else 'policies'}"
        return f"Comparison({name!r}, {policies}, {_episodes(self.episodes)} from seed {self.seed}, best {best!r})"

    def _repr_html_(self) -> str:
        metrics = self.shown_metrics()
        rows = [[one.policy, one.kind, *(one._cell(metric) for metric in metrics)] for one in self.ranked()]
        columns = ["policy", "kind", *(metric_title(metric) for metric in metrics)]
        if self.optimum_bounds:
            columns.append("of bound")
            rows = [[*row, f"{self.share_of_bound(row[0]):.1%}"] for row in rows]
        interval = ", mean ± half the 95% interval" if self.episodes > 1 else ""
        caption = f"{self.title or self.scenario}: {_episodes(self.episodes)} from seed {self.seed}{interval}"
        return display.html_table(caption, columns, rows)

    def shown_metrics(self) -> tuple[str, ...]:
        """Return the metrics that a short table shows: the reward and the family's headline metrics."""
        known = self._common_metrics()
        family = FAMILIES.get(self.title.partition("/")[0])
        wanted = tuple(known)[:SHOWN_METRICS] if family is None else ("reward", *family.headline)
        return tuple(metric for metric in dict.fromkeys(wanted) if metric in known)

    def _common_metrics(self) -> list[str]:
        """Return the metrics that all policies have."""
        first, *others = self.evaluations
        return [metric for metric in first.values if all(metric in other.values for other in others)]

    def to_pandas(self) -> Any:
        """Return a DataFrame with a row per policy and episode: the policy, the episode's seed and every metric."""
        columns: dict[str, Any] = {
            "policy": np.repeat([one.policy for one in self.evaluations], self.episodes),
            "seed": np.tile(self.seed + np.arange(self.episodes), len(self.evaluations)),
        }
        for metric in self._common_metrics():
            columns[metric] = np.concatenate([one.of(metric) for one in self.evaluations])
        return display.data_frame(columns)

    def plot(self, metric: str = "reward") -> Any:
        """Return a plotly figure of the metric's means with their 95% intervals, in the order of `ranked`.

        If the oracle was run, a line in the figure of the reward is the mean upper bound.
        """
        rows = [(one.policy, one.mean(metric), *one.interval(metric)) for one in self.ranked()]
        limit = None
        if self.optimum_bounds and metric == "reward":
            limit = ("upper bound", float(np.mean([one.bound for one in self.optimum_bounds])))
        title = f"{self.title or self.scenario}: {_episodes(self.episodes)} from seed {self.seed}"
        return display.interval_figure(title, metric_title(metric), rows, limit)

    def save(self, path: str | Path) -> Path:
        """Write the comparison as `slipstream compare --json` prints it, without metrics that have no value.

        `load` reads it, as do `slipstream.report` and the dashboard.
        """
        data = self.to_dict()
        data["policies"] = [_with_values(one).to_dict() for one in self.evaluations]
        return display.save_json(path, data)

    @classmethod
    def load(cls, path: str | Path) -> Comparison:
        """Return the comparison at `path`, which `save` or `slipstream compare --json` wrote.

        Raises:
            InputError: One line: where the file is something else, and what was expected.
        """
        label = str(path)
        data = read_object(Path(path), "a saved comparison")
        for key in ("scenario", "title", "scenario_digest"):
            if not isinstance(data.get(key), str):
                raise InputError(f"{label}: {key}: expected a text, as in a saved comparison")
        for key, least in (("episodes", 1), ("seed", 0)):
            if type(data.get(key)) is not int or not least <= data[key] < SEED_LIMIT:
                raise InputError(f"{label}: {key}: expected a whole number from {least} on, as in a saved comparison")
        listed = data.get("policies")
        if not isinstance(listed, list) or not listed:
            raise InputError(f"{label}: policies: expected a list of policies, got {show(listed)}")
        evaluations = tuple(_evaluation_of(one, f"{label}: policies[{number}]") for number, one in enumerate(listed))
        bounds = tuple(_bounds_of(data["oracle"], f"{label}: oracle")) if data.get("oracle") is not None else ()
        episodes = data["episodes"]
        if {len(values) for one in evaluations for values in one.values.values()} != {episodes}:
            raise InputError(f"{label}: policies: expected a value for each of {episodes} episodes in every metric")
        if bounds and len(bounds) != episodes:
            raise InputError(f"{label}: oracle.bounds: expected those of {episodes} episodes, got {len(bounds)}")
        parts = (data["title"], data["scenario_digest"])
        return cls(data["scenario"], episodes, data["seed"], evaluations, bounds, *parts)


def _episodes(count: int) -> str:
    return f"{count:,} {'episode' if count == 1 else 'episodes'}"


def _with_values(evaluation: Evaluation) -> Evaluation:
    """Return `evaluation` without the metrics that are not a number in some episode: JSON has no such value."""
    kept = {metric: values for metric, values in evaluation.values.items() if np.isfinite(values).all()}
    return Evaluation(evaluation.policy, kept, evaluation.kind)


def _evaluation_of(data: Any, label: str) -> Evaluation:
    """Return the evaluation whose `to_dict` gave `data`; an InputError names the place of what is something else."""
    found = as_object(data, label)
    if not isinstance(found.get("policy"), str):
        raise InputError(f"{label}.policy: expected a text, got {show(found.get('policy'))}")
    if not isinstance(found.get("kind", ""), str):
        raise InputError(f"{label}.kind: expected a text, got {show(found['kind'])}")
    values = {
        metric: _numbers(as_object(figures, f"{label}.metrics.{metric}").get("values"), f"{label}.metrics.{metric}")
        for metric, figures in as_object(found.get("metrics"), f"{label}.metrics").items()
    }
    if len({len(own) for own in values.values()}) != 1:
        raise InputError(f"{label}.metrics: expected at least one metric, and as many episodes in each")
    return Evaluation(found["policy"], values, found.get("kind", ""))


def _numbers(values: Any, label: str) -> np.ndarray:
    if not isinstance(values, list) or not values or not all(map(_is_figure, values)):
        raise InputError(f"{label}.values: expected numbers, one for each episode")
    return np.array(values, np.float64)


def _is_figure(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) <= LARGEST_FIGURE


def _bounds_of(oracle: Any, label: str) -> list[OptimumBounds]:
    """Return the bounds of each episode from the key `oracle` of a saved comparison."""
    listed = as_object(oracle, label).get("bounds")
    if not isinstance(listed, list) or not listed:
        raise InputError(f"{label}.bounds: expected the bounds of each episode, got {show(listed)}")
    found = [OptimumBounds.from_dict(one, f"{label}.bounds[{number}]") for number, one in enumerate(listed)]
    for number, bounds in enumerate(found):
        if not all(map(_is_figure, (bounds.best_known, bounds.bound, bounds.seconds))):
            raise InputError(f"{label}.bounds[{number}]: expected numbers of at most {LARGEST_FIGURE:g}")
    return found


def bootstrap_interval(values: np.ndarray) -> tuple[float, float]:
    """Return the percentile bootstrap 95% interval of the mean; the resampling is seeded, so it repeats."""
    if len(values) < 2 or np.all(values == values[0]):
        return float(values.mean()), float(values.mean())
    picks = np.random.default_rng(0).integers(len(values), size=(RESAMPLES, len(values)))
    low, high = np.percentile(values[picks].mean(axis=1), (2.5, 97.5))
    return float(low), float(high)
