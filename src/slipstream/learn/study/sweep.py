"""Sweep over settings, one at a time around the defaults: which of them matter, and which value is best.

Every training has the same number of steps and a folder of its own:

sweep.json                                result
trainings/default/seed-0/                 all settings at their defaults; shared by all parameters
trainings/ppo.clip_range=0.1/seed-0/      one setting changed
    score.json                            score of the best policy; written last, so it marks a finished training
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any
from urllib.parse import quote

import numpy as np
from scipy.special import stdtrit

from slipstream.errors import InputError
from slipstream.evaluation import compare, evaluate
from slipstream.families.contract import Scenario, ScenarioLike, family_of
from slipstream.files.atomic import replace_file
from slipstream.files.confined import refuse_links_out
from slipstream.files.inputs import read_object
from slipstream.files.lock import LOCK, FolderLock
from slipstream.learn.defaults import AUTO, resolve_warm_start
from slipstream.learn.files import EXPECTED
from slipstream.learn.race import race, warm_start_of
from slipstream.learn.run_folder import RunFolder
from slipstream.learn.settings import TrainSettings
from slipstream.learn.study.search_space import Parameter, format_value, make_search_space
from slipstream.learn.training import Report, train
from slipstream.policies.base import Policy, find
from slipstream.scale.executor import Executor, InProcess
from slipstream.scenario import digest, load

SCORE_SEED = 1_000_000
"""First seed of the episodes that score a training, in the evaluation split: disjoint from those that selected its best
policy, so that the score is unbiased."""

TRAININGS, SCORE, RESULT = "trainings", "score.json", "sweep.json"


@dataclass(frozen=True)
class SweepProgress:
    """Progress of a sweep."""

    training: str
    """Name and seed of the current training."""
    number: int
    trainings: int
    steps: int
    """Steps done, of all trainings."""
    planned_steps: int


@dataclass(frozen=True)
class Training:
    """One training of the sweep."""

    setting: str | None
    value: Any
    seed: int
    settings: TrainSettings

    @property
    def name(self) -> str:
        """Name in tables and folders, without the seed."""
        return "default" if self.setting is None else f"{self.setting}={format_value(self.value)}"

    def with_warm_start(self, name: str | None) -> Training:
        """Return the training with the warm start `auto` resolved to `name`."""
        return (
            self
            if self.settings.warm_start != AUTO
            else replace(self, settings=resolve_warm_start(self.settings, name))
        )

    @property
    def key(self) -> tuple[str, int]:
        """Name and seed, which identify the training."""
        return self.name, self.seed


Notify = Callable[[int, Training, int], None]
"""Callback with the number of a training, the training, and its steps done."""


def sweep(
    scenario: ScenarioLike,
    out: str | Path,
    search_space: Sequence[Parameter] | None = None,
    settings: TrainSettings | None = None,
    seeds: int = 3,
    episodes: int = 100,
    resume: bool = False,
    command: str = "",
    report: Callable[[SweepProgress], None] | None = None,
    executor: Executor | None = None,
    scheduler: str = "none",
    tell_limits: Callable[[str], None] | None = None,
    tell: Callable[[str], None] | None = None,
) -> dict[str, Any]:
    """Train with one setting changed at a time, several seeds each; return the content of `sweep.json`.

    Args:
        scenario: Scenario to train on.
        out: Folder for the trainings and the result.
        search_space: Settings and their values (`make_search_space`); by default those of `GRIDS`.
        settings: Settings of all trainings but for the one changed; its seed is the first.
        seeds: Trainings per value.
        episodes: Held-out episodes that score a training.
        resume: Continue the sweep in `out`: finished trainings are read back, an unfinished one is resumed.
        command: Command line, for the record.
        report: Called after every update; with an executor, after every training.
        executor: Where trainings run; by default in this process, one at a time. The result is the same.
        scheduler: Early stopping of trainings on a Ray cluster (`early_stopping.SCHEDULERS`). Which are stopped depends
            on the order in which they report; only scores are kept.
        tell_limits: Called before the first training with the limit of each, in words.
        tell: Called with the choice of the warm start `auto`, which is the same for all trainings, in one sentence.
    """
    base = settings or TrainSettings()
    search_space = make_search_space(base, None, {}) if search_space is None else search_space
    if seeds < 1 or episodes < 1:
        raise InputError(f"sweep: {seeds} seeds and {episodes} episodes: expected at least 1 of each")
    loaded = load(scenario)
    trainings = _plan(base, search_space, seeds)
    if any(one.settings.warm_start == AUTO for one in trainings):
        name = warm_start_of(race(loaded, None, perf_counter), tell)
        trainings = [one.with_warm_start(name) for one in trainings]
        base = trainings[0].settings
    for start in {one.settings.warm_start for one in trainings} - {None}:
        find(str(start), family_of(loaded).name)
    folder = Path(out)
    refuse_links_out(folder, (TRAININGS, RESULT))
    with FolderLock(folder, "running a sweep"):
        if resume != (folder / TRAININGS).exists():
            problem = "holds no sweep: expected the folder of one" if resume else "holds a sweep: expected a new folder"
            raise InputError(f"{folder}: {problem}{', or --resume' if not resume else ''}")
        if tell_limits is not None:
            tell_limits(base.limits(None))
        played = compare(loaded, "all", episodes, SCORE_SEED, "eval").evaluations
        heuristic = max(played, key=lambda evaluation: evaluation.mean("reward"))
        study = Study(loaded, folder / TRAININGS, episodes, command)

        def notify(number: int, training: Training, steps: int) -> None:
            if report is not None:
                done = number * base.planned_steps + min(steps, base.planned_steps)
                name = f"{training.name}, seed {training.seed}"
                report(SweepProgress(name, number + 1, len(trainings), done, len(trainings) * base.planned_steps))

        stopped: dict[tuple[str, int], int] = {}
        if scheduler != "none":
            from slipstream.learn.study.early_stopping import score_with_early_stopping

            scores, stopped = score_with_early_stopping(study, trainings, scheduler, executor, base.planned_steps)
        elif executor is None or isinstance(executor, InProcess):
            scores = study.scored_here(trainings, notify)
        else:
            scores = study.scored_on(executor, trainings, notify)
        result = {
            "scenario": scenario if isinstance(scenario, str) else f"{loaded.family}/{loaded.name}",
            "scenario_digest": digest(loaded),
            "command": command,
            "steps": base.planned_steps,
            "seeds": [base.seed + index for index in range(seeds)],
            "episodes": episodes,
            "heuristic": {"policy": heuristic.policy, "reward": heuristic.mean("reward")},
            "settings": base.to_dict(),
            "knobs": [_results(parameter, trainings, scores, heuristic.mean("reward")) for parameter in search_space],
            "scheduler": scheduler,
            "stopped": [{"training": name, "seed": seed, "steps": at} for (name, seed), at in stopped.items()],
        }
        replace_file(folder / RESULT, (json.dumps(result, indent=2, allow_nan=False) + "\n").encode(), inside=folder)
        return result


def _plan(base: TrainSettings, search_space: Sequence[Parameter], seeds: int) -> list[Training]:
    """Return all trainings; those of the defaults are shared by all parameters."""
    changes: list[tuple[str | None, Any]] = [(None, None)]
    changes += [(one.name, value) for one in search_space for value in one.values if value != one.default]
    return [
        Training(setting, value, base.seed + index, _settings_of(base, setting, value, base.seed + index))
        for setting, value in changes
        for index in range(seeds)
    ]


def _settings_of(base: TrainSettings, setting: str | None, value: Any, seed: int) -> TrainSettings:
    changed = base.with_changes({"seed": seed} if setting is None else {"seed": seed, setting: value})
    if setting == "evaluate_every":
        return changed
    # The best policy is the best of all evaluations, so their number must not depend on the size of an update.
    choices = base.evaluate_every * base.n_envs * base.n_steps
    return changed.with_changes({"evaluate_every": max(1, round(choices / (changed.n_envs * changed.n_steps)))})


@dataclass(frozen=True)
class Study:
    """What all trainings of a sweep share."""

    scenario: Scenario
    folder: Path
    episodes: int
    command: str

    def folder_of(self, training: Training) -> Path:
        """Return the folder of a training.

        Raises:
            ConfinementError: A link at this path leads out of the folder of all trainings.
        """
        name = quote(training.name, safe="=")
        refuse_links_out(self.folder, (name, f"{name}/seed-{training.seed}"))
        return self.folder / name / f"seed-{training.seed}"

    def scored_here(self, trainings: Sequence[Training], notify: Notify) -> dict[tuple[str, int], float]:
        """Return the scores of `trainings`, run one at a time in this process; unfinished ones are resumed."""
        scores = {}
        for number, training in enumerate(trainings):
            folder = self.folder_of(training)
            score = self.known_score(training)
            if score is None:
                notify(number, training, 0)
                begun = RunFolder(folder).exists

                def follow(now: Report, number: int = number, training: Training = training) -> None:
                    if now.figures:  # after an update
                        notify(number, training, now.steps)

                score = self.train(training, folder, begun, follow)
                _write_score(folder, score)
            else:
                notify(number, training, training.settings.planned_steps)
            scores[training.key] = float(score["reward"])
        return scores

    def scored_on(
        self, executor: Executor, trainings: Sequence[Training], notify: Notify
    ) -> dict[tuple[str, int], float]:
        """Return the scores of `trainings`, run in parallel on `executor`; their files are written here."""
        known = {training.key: self.known_score(training) for training in trainings}
        scores = {key: float(score["reward"]) for key, score in known.items() if score is not None}
        due = [training for training in trainings if training.key not in scores]
        for training, (score, files) in zip(due, executor.map(_RemoteCall(self), due), strict=True):
            folder = self.folder_of(training)
            for name, content in files.items():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                replace_file(folder / name, content, inside=folder)
            _write_score(folder, score)
            scores[training.key] = float(score["reward"])
            notify(len(scores) - 1, training, training.settings.planned_steps)
        return scores

    def known_score(self, training: Training) -> dict[str, Any] | None:
        """Return the score of a finished training, None if it is not finished; refuse a folder of another training."""
        folder = self.folder_of(training)
        run = RunFolder(folder)
        if not run.exists:
            return None
        about = run.about()
        same = TrainSettings.from_dict(about["settings"], f"{folder}: settings") == training.settings
        if not same or about["scenario_digest"] != digest(self.scenario):
            raise InputError(f"{folder}: was trained on another scenario or with other settings: expected the same")
        if not (folder / SCORE).exists():
            return None
        score = read_object(folder / SCORE, EXPECTED, folder=folder)
        if any(type(score.get(key)) not in (int, float) for key in ("reward", "episodes")):
            raise InputError(f"{folder / SCORE}: reward and episodes: expected numbers")
        return score if score["episodes"] == self.episodes else None

    def train(
        self, training: Training, folder: Path, resume: bool, follow: Callable[[Report], None] | None = None
    ) -> dict[str, Any]:
        """Train, and return the score of the best policy on held-out episodes."""
        result = train(
            self.scenario, training.settings, folder, resume=resume, command=self.command, report=follow or _ignore
        )
        found = {"reward": self.reward(result.policy), "episodes": self.episodes}
        return {**found, "steps": result.steps, "seconds": result.seconds}

    def reward(self, policy: Policy) -> float:
        """Return the mean reward of a policy on the episodes that score trainings."""
        return evaluate(self.scenario, policy, self.episodes, SCORE_SEED, "eval").mean("reward")


@dataclass(frozen=True)
class _RemoteCall:
    """Training in a worker: returns its score and its files."""

    study: Study

    def __call__(self, training: Training) -> tuple[dict[str, Any], dict[str, bytes]]:
        with TemporaryDirectory() as temporary:
            folder = Path(temporary) / "training"
            score = self.study.train(training, folder, resume=False)
            files = [path for path in folder.rglob("*") if path.is_file() and path.name != LOCK]
            return score, {str(path.relative_to(folder)): path.read_bytes() for path in files}


def _ignore(_: Report) -> None:
    """Ignore a report."""


def _write_score(folder: Path, score: dict[str, Any]) -> None:
    replace_file(folder / SCORE, (json.dumps(score, indent=2) + "\n").encode(), inside=folder)


def _results(
    parameter: Parameter, trainings: Sequence[Training], scores: dict[tuple[str, int], float], heuristic: float
) -> dict[str, Any]:
    """Return, for each value of `parameter`, the rewards of all seeds, and differences to default and heuristic."""

    def rewards(value: Any) -> np.ndarray:
        kept = None if value == parameter.default else parameter.name
        same = [one for one in trainings if one.setting == kept and (kept is None or one.value == value)]
        return np.array([scores[one.name, one.seed] for one in same])

    means = [float(rewards(value).mean()) for value in parameter.values]
    values = []
    for value, mean in zip(parameter.values, means, strict=True):
        found = rewards(value)
        values.append(
            {
                "value": value,
                "label": format_value(value),
                "default": value == parameter.default,
                "best": mean == max(means),
                "rewards": found.tolist(),
                "mean": mean,
                "half_width": half_width(found),
                "to_default": float((found - rewards(parameter.default)).mean()),
                "to_default_half_width": half_width(found - rewards(parameter.default)),
                "to_heuristic": mean - heuristic,
            }
        )
    return {"knob": parameter.name, "default": parameter.default, "values": values}


def half_width(values: np.ndarray) -> float | None:
    """Return half of Student's 95% interval of the mean; None for a single value.

    Seeds are few, and a bootstrap of three values gives intervals that are far too narrow.
    """
    if len(values) < 2:
        return None
    return float(stdtrit(len(values) - 1, 0.975) * values.std(ddof=1) / np.sqrt(len(values)))
