"""Effect of hindsight on learning: in every family, the same training with and without it, on the same budget.

Every training begins by imitating the same simple heuristic, has one core for `--seconds` seconds, and is judged by its
best network (chosen on evaluation seeds) on test episodes. What differs is what it learns from after the imitation:

- `rewards`: policy gradients on the scenario's own rewards.
- `regret`: the same, but the reward of a step is minus its regret, estimated by games of heuristics to the end.
- `branches`: what every candidate of a choice would have earned on the future that really came.

With `--arms`, further arms can be compared, in a table with a line for each:

- `terminal`: as `rewards`, but all that an episode earns comes at its end.
- `oracle`: instead of the heuristic, imitates what the oracle finds best in hindsight (short episodes only).

Finished trainings stay in `--out`; a run that was stopped goes on there.

    python benchmarks/hindsight.py --out runs/hindsight --json
    python benchmarks/hindsight.py --out runs/hindsight --write docs/hindsight.md
    python benchmarks/hindsight.py --out runs/signals --families taskgraph \
        --arms rewards,terminal,regret,branches,oracle
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import shlex
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from tables import publish

ARMS = ("rewards", "regret", "branches")
MORE_ARMS = ("terminal", "oracle")
COLOURS = {"rewards": "#4c8dd6", "regret": "#d64550", "branches": "#3fa878"}
PANEL = (3.6, 2.7)
"""Inches of the panel of a family."""


@dataclass(frozen=True)
class Subject:
    """What is learned in a family: short episodes, a heuristic to begin with and others to judge by."""

    scenario: str
    change: str
    """What differs in the scenario, as `compare --what-if` takes it."""
    warm_start: str
    judges: str
    settings: dict[str, Any] = field(default_factory=dict)
    rounds: int = 150
    """Rounds of `branches`; what is left of the time goes to policy gradients."""


GRADIENTS = {
    "algo": "reinforce",
    "reinforce.discount_horizon": 100,
    "reinforce.n_epochs": 3,
    "reinforce.batch_size": 2048,
}
ROUTING = {"ppo.discount_horizon": 4, "hindsight.horizon": 1.0}
SUBJECTS = {
    "edge": Subject("edge/heavy", "horizon_ms=500", "edf-fit", "edf-fit"),
    "dag": Subject("dag/small", "", "fair", "sjf-cp", GRADIENTS),
    "serving": Subject("serving/route-bursty", "duration_s=2", "eft", "eft", ROUTING),
    "cluster": Subject("cluster/lublin-256", "episode.jobs=64", "fifo", "sjf", GRADIENTS),
    "taskgraph": Subject("taskgraph/noisy", "graphs.0.n=5", "mct", "mct", GRADIENTS),
}
COMMON = {
    "threads": 1,
    "n_envs": 64,
    "groups": 4,
    "n_steps": 64,
    "imitation.rollouts": 10,
    "imitation.batch_size": 256,
    "ppo.batch_size": 1024,
    "hindsight.batch_size": 1024,
    "evaluate_every": 5,
    "evaluation_episodes": 32,
    "hindsight.horizon": 8.0,
}

ORACLE = {"warm_start": "oracle", "hindsight.rounds": 20, "hindsight.episodes": 1, "hindsight.oracle_seconds": 0.0}
"""The oracle takes its time: few episodes, and of every candidate only what heuristics and a short search find."""


def scenario_of(subject: Subject) -> Any:
    """Return what is played."""
    from slipstream.scenario import changed, load

    return changed(load(subject.scenario), subject.change) if subject.change else load(subject.scenario)


def settings_of(subject: Subject, arm: str, seed: int) -> Any:
    """Return how an arm is trained."""
    from slipstream.learn.settings import TrainSettings

    changes = {**COMMON, **subject.settings, "warm_start": subject.warm_start, "seed": seed}
    if arm == "regret":
        changes["judges"] = subject.judges
    if arm == "branches":
        changes["hindsight.rounds"] = subject.rounds
    if arm == "terminal":
        changes["reinforce.terminal"] = True
    if arm == "oracle":
        changes.update(ORACLE)
    return TrainSettings().with_changes(changes)


def learn(family: str, arm: str, seed: int, seconds: float, episodes: int) -> dict[str, Any]:
    """Train once; return the curve on held-out seeds and the rewards of the test episodes."""
    import slipstream

    subject = SUBJECTS[family]
    scenario = scenario_of(subject)
    training = slipstream.train(scenario, settings_of(subject, arm, seed), minutes=seconds / 60.0)
    tested = slipstream.compare(scenario, [training.policy, subject.warm_start], episodes)
    return {
        "steps": training.steps,
        "seconds": training.seconds,
        "curve": [[line["seconds"], line["steps"], line["reward"]] for line in training.history],
        "reward": tested.evaluations[0].values["reward"].tolist(),
        "warm_start": tested.evaluations[1].values["reward"].tolist(),
        "best_heuristic": [training.heuristic, training.heuristic_reward],
    }


def measure(
    out: Path,
    families: list[str],
    seeds: int,
    seconds: float,
    episodes: int,
    processes: int,
    arms: Sequence[str] = ARMS,
) -> None:
    """Do the trainings that are not done yet, the same number at a time on each core."""
    out.mkdir(parents=True, exist_ok=True)
    due = [(family, arm, seed) for seed in range(seeds) for family in families for arm in arms]
    due = [one for one in due if not place_of(out, *one).exists()]
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, context, max_tasks_per_child=1) as pool:
        found = {pool.submit(learn, *one, seconds, episodes): one for one in due}
        for number, future in enumerate(as_completed(found), 1):
            place = place_of(out, *found[future])
            unfinished = place.with_suffix(".part")
            unfinished.write_text(json.dumps(future.result()), encoding="utf-8")
            unfinished.rename(place)
            print(f"{number} of {len(due)}: {place.stem}", file=sys.stderr, flush=True)


def place_of(out: Path, family: str, arm: str, seed: int) -> Path:
    return out / f"{family}-{arm}-{seed}.json"


def gather(out: Path, family: str, seeds: int, arms: Sequence[str] = ARMS) -> dict[str, list[dict[str, Any]]]:
    """Return what the trainings of a family came to, arm by arm."""
    return {
        arm: [json.loads(place_of(out, family, arm, seed).read_text(encoding="utf-8")) for seed in range(seeds)]
        for arm in arms
    }


def summary(found: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """Return mean test rewards, and how far the arms with hindsight are ahead of `rewards`, seed by seed."""
    rewards = {arm: np.array([np.mean(one["reward"]) for one in runs]) for arm, runs in found.items()}
    figures: dict[str, Any] = {
        "warm_start": float(np.mean([one["warm_start"] for runs in found.values() for one in runs])),
        "best_heuristic": found["rewards"][0]["best_heuristic"],
    }
    for arm, runs in found.items():
        gap = rewards[arm] - rewards["rewards"]
        half = student(len(gap)) * float(gap.std(ddof=1)) / np.sqrt(len(gap))
        figures[arm] = {
            "mean": float(rewards[arm].mean()),
            "seeds": rewards[arm].tolist(),
            "ahead": {"mean": float(gap.mean()), "low": float(gap.mean()) - half, "high": float(gap.mean()) + half},
            "steps": int(np.mean([one["steps"] for one in runs])),
        }
    return figures


def student(count: int) -> float:
    """Return the half width of the 95% t interval of `count` values, in standard errors."""
    from scipy.stats import t

    return float(t.ppf(0.975, count - 1))


def table(figures: dict[str, Any]) -> str:
    """Return the results as a table."""
    head = ["family", "imitated", "reward with `rewards`", "`regret` ahead by", "`branches` ahead by", "verdict"]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for family, own in figures.items():
        cells = [f"{family}, `{SUBJECTS[family].scenario}`", f"`{SUBJECTS[family].warm_start}` {own['warm_start']:.2f}"]
        cells.append(f"{own['rewards']['mean']:.2f} ({own['rewards']['steps'] / 1000:,.0f} k steps)")
        for arm in ARMS[1:]:
            ahead = own[arm]["ahead"]
            text = f"{ahead['mean']:+.2f} [{ahead['low']:+.2f}, {ahead['high']:+.2f}]"
            cells.append(f"{text} ({own[arm]['steps'] / 1000:,.0f} k steps)")
        lines.append(f"| {' | '.join([*cells, verdict(own)])} |")
    return "\n".join(lines)


def table_of_arms(figures: dict[str, Any], arms: Sequence[str]) -> str:
    """Return the results as a table with a line for every arm."""
    lines = ["| family | learned from | reward | ahead of `rewards` by | steps |", "|---|---|---|---|---|"]
    for family, own in figures.items():
        for arm in arms:
            ahead = own[arm]["ahead"]
            text = f"{ahead['mean']:+.2f} [{ahead['low']:+.2f}, {ahead['high']:+.2f}]" if arm != "rewards" else ""
            steps = f"{own[arm]['steps'] / 1000:,.0f} k"
            lines.append(f"| {family} | `{arm}` | {own[arm]['mean']:.2f} | {text} | {steps} |")
    return "\n".join(lines)


def verdict(own: dict[str, Any]) -> str:
    """Return in words what the intervals allow to say."""
    verdicts = []
    for arm in ARMS[1:]:
        ahead = own[arm]["ahead"]
        word = "helps" if ahead["low"] > 0.0 else "harms" if ahead["high"] < 0.0 else "makes no sure difference"
        verdicts.append(f"`{arm}` {word}")
    return ", ".join(verdicts)


def curves_of(runs: list[dict[str, Any]]) -> tuple[np.ndarray, np.ndarray]:
    """Return some seconds, and for each seed the rewards at them."""
    curves = [np.array([[point[0], point[2]] for point in one["curve"]]) for one in runs]
    grid = np.linspace(max(curve[0, 0] for curve in curves), min(curve[-1, 0] for curve in curves), 60)
    return grid, np.array([np.interp(grid, curve[:, 0], curve[:, 1]) for curve in curves])


def draw(out: Path, families: list[str], seeds: int, picture: Path) -> None:
    """Draw the learning curves: the mean over seeds and, thin, every seed, by seconds."""
    from slipstream.reports.figures.plotting import FAINT, handle, head, panels, plot_style, png

    with plot_style():
        figure, axes = panels(len(families), 3, PANEL)
        entries = [handle(arm, colour, "", "-") for arm, colour in COLOURS.items()]
        head(figure, "Reward on evaluation episodes", [*entries, handle("best heuristic", FAINT, "", "--")], 4)
        for ax, family in zip(axes, families, strict=True):
            draw_panel(ax, family, gather(out, family, seeds))
    picture.write_bytes(png(figure))


def draw_panel(ax: Any, family: str, found: dict[str, list[dict[str, Any]]]) -> None:
    """Draw the curves of a family."""
    ax.set_title(f"{family}: {SUBJECTS[family].scenario.partition('/')[2]}")
    ax.axhline(found["rewards"][0]["best_heuristic"][1], color="#5a6475", linestyle="--", linewidth=1.2)
    for arm, runs in found.items():
        grid, rewards = curves_of(runs)
        ax.plot(grid, rewards.T, color=COLOURS[arm], linewidth=0.5)
        ax.plot(grid, rewards.mean(axis=0), color=COLOURS[arm], linewidth=2.5, label=arm, zorder=3)
    ax.grid(axis="y")
    ax.yaxis.set_major_formatter("{x:,g}")
    ax.set_xlim(left=0.0)
    ax.set_xlabel("seconds on one core")


def chosen_arms(text: str) -> tuple[str, ...]:
    """Return the arms that a text names; all are compared with `rewards`."""
    arms = tuple(text.split(","))
    if unknown := set(arms) - {*ARMS, *MORE_ARMS}:
        raise argparse.ArgumentTypeError(f"unknown: {', '.join(sorted(unknown))}")
    if "rewards" not in arms:
        raise argparse.ArgumentTypeError("expected `rewards` among them")
    return arms


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder for what each training came to")
    parser.add_argument("--families", default=",".join(SUBJECTS), help="names separated by commas")
    parser.add_argument("--arms", type=chosen_arms, help="what to learn from, `rewards` among them")
    parser.add_argument("--seeds", type=int, default=5, help="trainings of every arm")
    parser.add_argument("--seconds", type=float, default=60.0, help="budget of a training, on one core")
    parser.add_argument("--episodes", type=int, default=100, help="test episodes")
    parser.add_argument("--processes", type=int, default=2, help="trainings side by side")
    parser.add_argument("--picture", type=Path, help="PNG file for the learning curves")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--write", type=Path, help="page whose table to fill in")
    arguments = parser.parse_args()
    families, arms = arguments.families.split(","), arguments.arms or ARMS
    budget = (arguments.seeds, arguments.seconds, arguments.episodes, arguments.processes)
    measure(arguments.out, families, *budget, arms)
    figures = {family: summary(gather(arguments.out, family, arguments.seeds, arms)) for family in families}
    if arguments.picture is not None:
        draw(arguments.out, families, arguments.seeds, arguments.picture)
    made = f"Made by `{shlex.join(['python', 'benchmarks/hindsight.py', *sys.argv[1:]])}`."
    if arguments.arms is None:
        tables = {"hindsight": f"{table(figures)}\n\n{made}"}
    else:
        tables = {"signals": f"{table_of_arms(figures, arms)}\n\n{made}"}
    publish(figures, tables, arguments.json, arguments.write)


if __name__ == "__main__":
    main()
