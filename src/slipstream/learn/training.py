"""`slipstream.train`: train a policy on a scenario, evaluated on held-out seeds next to the best heuristic."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Any

import torch

from slipstream.errors import InputError
from slipstream.evaluation import compare, evaluate
from slipstream.families.contract import Scenario, ScenarioLike
from slipstream.learn.files import RUN
from slipstream.learn.run_folder import RunFolder
from slipstream.learn.settings import TrainSettings
from slipstream.learn.trainer import Trainer
from slipstream.policies.compiled.network_policy import CompiledPolicy
from slipstream.scale.executor import Executor
from slipstream.scenario import digest, dump, load

HELD_OUT_SEED = 0
"""Seed of the first evaluation episode, in the evaluation split, which is disjoint from training."""


@dataclass(frozen=True)
class Report:
    """Progress of a training after an update."""

    steps: int
    planned_steps: int
    seconds: float
    phase: str
    """`imitation`, `hindsight`, `ppo` or `reinforce`."""
    figures: dict[str, float]
    reward: float | None
    """Mean reward of the last evaluation on held-out seeds."""
    best_reward: float | None
    heuristic: str
    heuristic_reward: float


@dataclass(frozen=True)
class Training:
    """Result of a training."""

    policy: CompiledPolicy
    """Network with the best evaluation."""
    reward: float
    """Its mean reward on held-out seeds."""
    heuristic: str
    """The best heuristic on the same seeds."""
    heuristic_reward: float
    steps: int
    seconds: float
    history: list[dict[str, Any]]
    """Every evaluation: steps, seconds, reward and the statistics of the last update."""
    folder: Path | None


def best_heuristic(scenario: Scenario, episodes: int, executor: Executor | None = None) -> tuple[str, float]:
    """Return the family's heuristic with the highest mean reward on the held-out seeds, and that reward."""
    played = compare(scenario, "all", episodes, HELD_OUT_SEED, "eval", executor=executor).evaluations
    best = max(played, key=lambda evaluation: evaluation.mean("reward"))
    return best.policy, best.mean("reward")


def train(
    scenario: ScenarioLike,
    settings: TrainSettings | None = None,
    out: str | Path | None = None,
    minutes: float | None = None,
    resume: bool = False,
    command: str = "",
    report: Callable[[Report], None] | None = None,
    executor: Executor | None = None,
    tell_limits: Callable[[str], None] | None = None,
) -> Training:
    """Train a policy.

    Args:
        scenario: Scenario to train on; with `resume`, that of the folder is used.
        settings: Settings, by default those of `TrainSettings()`. With `resume` only its steps are used, if it has any.
        out: Folder for checkpoints and history; without it nothing is written.
        minutes: Time limit; as many steps are planned as fit into it, measured at the first updates, and at most those
            of the settings. With `resume`, the time before is included.
        resume: Continue the training in `out` from its last saved state, with its limits unless others are given.
        command: Command that made the policy, for its card.
        report: Called after every update.
        executor: Where lanes play; by default in this process. The policy is the same.
        tell_limits: Called before the first update with the limits of the training, in words.
    """
    run = _Run(scenario, settings or TrainSettings(), out, minutes, resume, command, executor)
    if tell_limits is not None:
        tell_limits(run.trainer.settings.limits(run.minutes))
    return run.go(report)


class _Run:
    """Training in progress, with its folder, its clock and its best evaluation."""

    def __init__(
        self,
        scenario: ScenarioLike,
        settings: TrainSettings,
        out: str | Path | None,
        minutes: float | None,
        resume: bool,
        command: str,
        executor: Executor | None,
    ) -> None:
        if resume and out is None:
            raise InputError("resume without a folder: expected the one of the training to go on with")
        self.folder = RunFolder(Path(out)) if out is not None else None
        self.minutes, self.executor = minutes, executor
        self.notes: dict[str, Any] = {"best": None, "seconds": 0.0, "planned": minutes is None}
        new_limits: dict[str, Any] | None = None
        if resume and self.folder is not None:
            self.about = self.folder.about()
            scenario = self.about["scenario_file"]
            limits = self.about.get("limits", {"steps": self.about["settings"]["steps"], "minutes": None})
            if settings.steps is not None or minutes is not None:
                new_limits = {
                    "steps": limits["steps"] if settings.steps is None else settings.steps,
                    "minutes": minutes,
                }
                self.about["settings"] |= {"steps": new_limits["steps"]}
                self.about["limits"] = new_limits
            settings = TrainSettings.from_dict(self.about["settings"], f"{self.folder.folder / RUN}: settings")
        self.scenario = load(scenario)
        torch.set_num_threads(1)  # Threads share the work above torch.
        self.trainer = Trainer(self.scenario, settings, executor)
        if resume and self.folder is not None:
            self.notes = {**self.notes, **self.folder.restore(self.trainer)}
            if new_limits is not None:
                self.notes["planned"] = minutes is None
                self.folder.rewrite(self.about)
            elif not self.notes["planned"]:
                # The training ended before its steps were planned from its speed.
                self.minutes = limits["minutes"]
                self.notes["planned"] = self.minutes is None
        else:
            self.about = {
                "scenario": f"{self.scenario.family}/{self.scenario.name}",
                "scenario_digest": digest(self.scenario),
                "command": command,
                "settings": settings.to_dict(),
                "limits": {"steps": settings.steps, "minutes": minutes},
                "scenario_file": json.loads(dump(self.scenario)),
                **_versions(),
            }
            if self.folder is not None:
                self.folder.create(self.about)
        self.history = self.folder.history() if self.folder is not None else []
        self.began = perf_counter() - float(self.notes["seconds"])
        self.best_policy: CompiledPolicy | None = None
        self.last_reward: float | None = None

    @property
    def seconds(self) -> float:
        return perf_counter() - self.began

    def go(self, report: Callable[[Report], None] | None) -> Training:
        trainer = self.trainer
        episodes = trainer.settings.evaluation_episodes
        heuristic, heuristic_reward = best_heuristic(self.scenario, episodes, self.executor)
        writer = _scalars(self.folder.folder / "tensorboard") if self.folder is not None else None
        speed_from: tuple[float, int] | None = None
        while trainer.progress < 1.0 and not self._out_of_time():
            phase = trainer.phase
            figures = trainer.update()
            if not self.notes["planned"] and phase == trainer.settings.algo:
                if speed_from is None:
                    # The first update also compiles, so the clock starts after it.
                    speed_from = (perf_counter(), trainer.steps)
                elif perf_counter() - speed_from[0] > 5.0:
                    self._plan(speed_from)
            due = trainer.update_number % trainer.settings.evaluate_every == 0 or trainer.progress >= 1.0
            if due or self._out_of_time():
                self._evaluate(figures, heuristic_reward, phase, writer)
            if report is not None:
                best = self.notes["best"]
                progress = (trainer.steps, trainer.settings.planned_steps, self.seconds, phase, figures)
                report(Report(*progress, self.last_reward, best, heuristic, heuristic_reward))
        if writer is not None:
            writer.close()
        policy = self._best()
        return Training(
            policy,
            float(self.notes["best"]),
            heuristic,
            heuristic_reward,
            trainer.steps,
            self.seconds,
            self.history,
            self.folder.folder if self.folder is not None else None,
        )

    def _out_of_time(self) -> bool:
        return self.minutes is not None and self.seconds > 60.0 * self.minutes

    def _plan(self, speed_from: tuple[float, int]) -> None:
        """Set the number of steps that fit into the remaining time; from then on, schedules count steps."""
        trainer = self.trainer
        speed = (trainer.steps - speed_from[1]) / (perf_counter() - speed_from[0])
        left = 60.0 * (self.minutes or 0.0) - self.seconds
        # A margin for evaluations.
        planned = max(trainer.steps + 1, trainer.steps + int(0.93 * max(0.0, left) * speed))
        given = trainer.settings.steps
        trainer.settings = replace(trainer.settings, steps=planned if given is None else min(planned, given))
        self.notes["planned"] = True
        self.about["settings"] = trainer.settings.to_dict()
        if self.folder is not None:
            self.folder.rewrite(self.about)

    def _evaluate(self, figures: dict[str, float], heuristic_reward: float, phase: str, writer: Any) -> None:
        """Play the held-out seeds, and write history and checkpoints."""
        trainer = self.trainer
        policy = trainer.policy()
        episodes = trainer.settings.evaluation_episodes
        found = evaluate(self.scenario, policy, episodes, HELD_OUT_SEED, "eval", executor=self.executor)
        reward = self.last_reward = found.mean("reward")
        line = {
            "update": trainer.update_number,
            "steps": trainer.steps,
            "seconds": round(self.seconds, 3),
            "phase": phase,
            "reward": reward,
            "heuristic_reward": heuristic_reward,
            **figures,
        }
        self.history.append(line)
        improved = self.notes["best"] is None or reward > self.notes["best"]
        if improved:
            self.notes["best"] = reward
            self.best_policy = policy
        self.notes["seconds"] = self.seconds
        if self.folder is not None:
            self.folder.append(line)
            card = {
                **{key: self.about[key] for key in ("scenario", "scenario_digest", "command", "version", "settings")},
                "algorithm": trainer.settings.algo,
                "steps": trainer.steps,
                "held_out_reward": reward,
            }
            if improved:
                self.folder.save_policy("best", trainer, card)
            self.folder.save_policy("last", trainer, card)
            # Written last, so that a saved state never refers to a policy that is missing.
            self.folder.save_state(trainer, self.notes)
        if writer is not None:
            for name, value in line.items():
                if isinstance(value, float):
                    writer.add_scalar(name, value, trainer.steps)
            writer.flush()

    def _best(self) -> CompiledPolicy:
        if self.best_policy is not None:
            return self.best_policy
        if self.folder is not None and (self.folder.folder / "best").exists():
            from slipstream.policies.learned import load_policy

            return load_policy(self.folder.folder / "best")
        raise InputError("the time was over before the first evaluation: expected more minutes or steps")


def _versions() -> dict[str, str]:
    from slipstream import __version__

    return {"version": __version__, "torch": str(torch.__version__)}


def _scalars(folder: Path) -> Any:
    from torch.utils.tensorboard import SummaryWriter

    return SummaryWriter(str(folder))
