"""Outcome of a training: the trained policy beside the best heuristic on held-out episodes, and what to try next."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from slipstream.evaluation import bootstrap_interval
from slipstream.learn.constraints import ConstraintCheck

OUTCOME_SEED = 2_000_000
"""First seed of the episodes of an outcome, in the evaluation split: disjoint from those that selected the policy."""
OUTCOME_EPISODES = 64
"""Most episodes of an outcome."""
MINUTES_FACTOR = 4
"""Multiple of the minutes of a training that a longer one is suggested with."""

Verdict = Literal["ahead", "level", "behind"]


@dataclass(frozen=True)
class Outcome:
    """Paired comparison of a trained policy with the best heuristic."""

    verdict: Verdict
    """`ahead` or `behind` if the interval of the difference lies on one side of 0, else `level`."""
    heuristic: str
    reward: float
    """Mean reward of the trained policy."""
    heuristic_reward: float
    difference: float
    """Mean paired difference: trained policy less heuristic."""
    low: float | None
    """Lower end of the 95% interval of the difference; None for a single episode."""
    high: float | None
    episodes: int
    seed: int
    """Seed of the first episode; the next ones follow."""
    split: str
    suggestions: tuple[str, ...]
    """What to try where the policy is not ahead."""
    constraints: tuple[ConstraintCheck, ...] = ()
    """Metrics that the policy may not pay for its reward with, beside their limits."""

    def to_dict(self) -> dict[str, Any]:
        """Return the outcome as JSON-ready data."""
        constraints = [check.to_dict() for check in self.constraints]
        return {**asdict(self), "suggestions": list(self.suggestions), "constraints": constraints}

    @property
    def short(self) -> str:
        """Verdict and difference in a few words."""
        relation = {"ahead": "ahead of", "level": "level with", "behind": "behind"}[self.verdict]
        interval = "" if self.low is None else f" [{self.low:+,.4g}, {self.high:+,.4g}]"
        return f"{relation} {self.heuristic} by {self.difference:+,.4g}{interval}"

    def sentences(self) -> list[str]:
        """Return the outcome in sentences, one a line."""
        rewards = (
            f"reward {self.reward:,.1f} against {self.heuristic_reward:,.1f} of {self.heuristic}, the best heuristic"
        )
        if self.low is None or self.high is None:
            interval = "one episode, so no interval"
        else:
            interval = f"95% interval {self.low:+,.1f} to {self.high:+,.1f}, {self.episodes} held-out episodes"
        words = {
            "ahead": f"Ahead: {rewards}, better by {self.difference:,.1f} ({interval}).",
            "level": f"Level: {rewards}, a difference of {self.difference:+,.1f} ({interval}).",
            "behind": f"Behind: {rewards}, worse by {-self.difference:,.1f} ({interval}).",
        }
        tries = [f"Try: {'; '.join(self.suggestions)}."] if self.suggestions else []
        broken = [f"Broken constraint: {check.words(self.heuristic)}." for check in self.constraints if not check.kept]
        return [words[self.verdict], *broken, *tries]


def judge_outcome(
    heuristic: str,
    trained: np.ndarray,
    reference: np.ndarray,
    suggestions: list[str],
    constraints: tuple[ConstraintCheck, ...] = (),
) -> Outcome:
    """Return the outcome of the paired rewards `trained` of the policy and `reference` of the heuristic."""
    episodes = min(len(trained), len(reference))
    trained, reference = trained[:episodes], reference[:episodes]
    gap = trained - reference
    low, high = bootstrap_interval(gap) if episodes > 1 else (None, None)
    verdict: Verdict = "level"
    if low is not None and high is not None:
        verdict = "ahead" if low > 0.0 else "behind" if high < 0.0 else "level"
    return Outcome(
        verdict,
        heuristic,
        float(trained.mean()),
        float(reference.mean()),
        float(gap.mean()),
        low,
        high,
        episodes,
        OUTCOME_SEED,
        "eval",
        () if verdict == "ahead" else tuple(suggestions),
        constraints,
    )


def suggest(
    source: str,
    out: str | None,
    heuristic: str,
    warm_start: str | None,
    minutes: float | None,
    *,
    shipped: bool,
    imitable: bool,
) -> list[str]:
    """Return what to try after a training of the scenario `source` that is not ahead of `heuristic`.

    A warm start is suggested only where the race found a heuristic that is `imitable`: elsewhere `auto` finds none.
    """
    tries = []
    if minutes is not None:
        longer = f"--minutes {MINUTES_FACTOR * minutes:g}"
        tries.append(f"more time (slipstream train {source} {longer}{f' --resume --out {out}' if out else ''})")
    else:
        tries.append("more steps")
    if warm_start is None and imitable:
        tries.append("a warm start (--warm-start auto, or the name of a heuristic)")
    elif warm_start is not None:
        tries.append(f"another warm start than {warm_start} (--warm-start NAME)")
    if shipped:
        tries.append(f"the policies that come with the package (slipstream compare {source} --policies all,learned)")
    tries.append(f"{heuristic} itself (--policy {heuristic})")
    return tries
