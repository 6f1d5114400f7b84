"""A study of settings, one at a time around the defaults: which of them matter, and which value is best.

Every training has the same number of steps and a folder of its own:

sweep.json                          what came out
trainings/default/seed-0/           all settings at their defaults; counts for every knob
trainings/ppo.clip=0.1/seed-0/      one knob turned
    score.json                      how the best policy did; written last, so what has it is finished
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import quote

import numpy as np
from scipy.special import stdtrit

from slipstream.errors import InputError
from slipstream.evaluation import compare, evaluate
from slipstream.families.contract import family_of
from slipstream.files.atomic import replace_file
from slipstream.files.confined import refuse_links_out
from slipstream.files.inputs import read_object
from slipstream.learn.files import EXPECTED
from slipstream.learn.run_folder import RunFolder
from slipstream.learn.settings import TrainSettings
from slipstream.learn.study.search_space import Knob, choose_knobs, told
from slipstream.learn.training import Report, train
from slipstream.policies.base import Policy, find
from slipstream.scale.executor import Executor, InProcess
from slipstream.scenario import digest, load

SCORE_SEED = 1_000_000
"""First seed of the episodes that score a training, in the split of evaluation: far from those by which the
training itself picked its best policy, so that a lucky pick earns nothing."""

TRAININGS, SCORE, RESULT = "trainings", "score.json", "sweep.json"


@dataclass(frozen=True)
class Standing:
    """How far a sweep is."""

    training: str
    """Which training is under way."""
    number: int
    trainings: int
    steps: int
    """Steps of all trainings so far."""
    planned_steps: int


@dataclass(frozen=True)
class Training:
    """One training of the sweep."""

    knob: str | None
    value: Any
    seed: int
    settings: TrainSettings

    @property
    def name(self) -> str:
        """How tables and folders call it, but for the seed."""
        return "default" if self.knob is None else f"{self.knob}={told(self.value)}"

    @property
    def key(self) -> tuple[str, int]:
        """What no other training of the sweep shares."""
        return self.name, self.seed


Tell = Callable[[int, Training, int], None]
"""Called with a training's number, the training, and its steps so far."""


def sweep(
    scenario: Any,
    out: str | Path,
    knobs: Sequence[Knob] | None = None,
    settings: TrainSettings | None = None,
    seeds: int = 3,
    episodes: int = 100,
    resume: bool = False,
    command: str = "",
    report: Callable[[Standing], None] | None = None,
    executor: Executor | None = None,
    scheduler: str = "none",
    tell_limits: Callable[[str], None] | None = None,
) -> dict[str, Any]:
    """Train with one setting changed at a time, several seeds each; return what `sweep.json` then holds.

    Args:
        scenario: What to train on.
        out: Folder for the trainings and the result.
        knobs: What to turn (`choose_knobs`); by default the usual ones.
        settings: What the knobs are turned around; its seed is the first.
        seeds: Trainings of every value.
        episodes: Held-out episodes that score a training.
        resume: Go on with the sweep in `out`: finished trainings are read back, the one under way goes on.
        command: What to note as the command that made this.
        report: Called after every update; of trainings on an executor, after each of them.
        executor: Where whole trainings run; by default here, one after the other. What comes out is the same.
        scheduler: Who stops hopeless trainings early (`early.SCHEDULERS`), on a Ray cluster. Who is stopped depends on
            who was quick; only scores are kept then.
        tell_limits: Called before the first training with the steps that every one of them ends at, in words.
    """
    base = settings or TrainSettings()
    knobs = choose_knobs(base, None, {}) if knobs is None else knobs
    if seeds < 1 or episodes < 1:
        raise InputError(f"sweep: {seeds} seeds and {episodes} episodes: expected at least 1 of each")
    loaded: Any = load(scenario)
    trainings = _plan(base, knobs, seeds)
    for start in {one.settings.warm_start for one in trainings} - {None}:
        find(str(start), family_of(loaded).name)
    home = Path(out)
    refuse_links_out(home, (TRAININGS, RESULT))
    if resume != (home / TRAININGS).exists():
        problem = "holds no sweep: expected the folder of one" if resume else "holds a sweep: expected a new folder"
        raise InputError(f"{home}: {problem}{', or --resume' if not resume else ''}")
    if tell_limits is not None:
        tell_limits(base.limits(None))
    played = compare(loaded, "all", episodes, SCORE_SEED, "eval").evaluations
    heuristic = max(played, key=lambda evaluation: evaluation.mean("reward"))
    study = Study(loaded, home / TRAININGS, episodes, command)

    def tell(number: int, training: Training, steps: int) -> None:
        if report is not None:
            done = number * base.planned_steps + min(steps, base.planned_steps)
            name = f"{training.name}, seed {training.seed}"
            report(Standing(name, number + 1, len(trainings), done, len(trainings) * base.planned_steps))

    stopped: dict[tuple[str, int], int] = {}
    if scheduler != "none":
        from slipstream.learn.study.early_stopping import scored_early

        scores, stopped = scored_early(study, trainings, scheduler, executor, base.planned_steps)
    elif executor is None or isinstance(executor, InProcess):
        scores = study.scored_here(trainings, tell)
    else:
        scores = study.scored_on(executor, trainings, tell)
    result = {
        "scenario": scenario if isinstance(scenario, str) else f"{loaded.family}/{loaded.name}",
        "scenario_digest": digest(loaded),
        "command": command,
        "steps": base.planned_steps,
        "seeds": [base.seed + index for index in range(seeds)],
        "episodes": episodes,
        "heuristic": {"policy": heuristic.policy, "reward": heuristic.mean("reward")},
        "settings": base.to_dict(),
        "knobs": [_results(knob, trainings, scores, heuristic.mean("reward")) for knob in knobs],
        "scheduler": scheduler,
        "stopped": [{"training": name, "seed": seed, "steps": at} for (name, seed), at in stopped.items()],
    }
    home.mkdir(parents=True, exist_ok=True)  # trainings that a scheduler stops leave nothing there
    replace_file(home / RESULT, (json.dumps(result, indent=2, allow_nan=False) + "\n").encode(), inside=home)
    return result


def _plan(base: TrainSettings, knobs: Sequence[Knob], seeds: int) -> list[Training]:
    """Return all trainings; that of the defaults is shared by the knobs."""
    turned: list[tuple[str | None, Any]] = [(None, None)]
    turned += [(knob.name, value) for knob in knobs for value in knob.values if value != knob.default]
    return [
        Training(knob, value, base.seed + index, _settings_of(base, knob, value, base.seed + index))
        for knob, value in turned
        for index in range(seeds)
    ]


def _settings_of(base: TrainSettings, knob: str | None, value: Any, seed: int) -> TrainSettings:
    changed = base.with_changes({"seed": seed} if knob is None else {"seed": seed, knob: value})
    if knob == "evaluate_every":
        return changed
    # The best policy is the best of all evaluations: larger updates must not mean fewer of them.
    choices = base.evaluate_every * base.lanes * base.rollout
    return changed.with_changes({"evaluate_every": max(1, round(choices / (changed.lanes * changed.rollout)))})


@dataclass(frozen=True)
class Study:
    """What all trainings of a sweep share."""

    scenario: Any
    folder: Path
    episodes: int
    command: str

    def folder_of(self, training: Training) -> Path:
        """Return where a training is kept.

        Raises:
            ConfinementError: A link at this place leads out of the folder of all trainings.
        """
        name = quote(training.name, safe="=")
        refuse_links_out(self.folder, (name, f"{name}/seed-{training.seed}"))
        return self.folder / name / f"seed-{training.seed}"

    def scored_here(self, trainings: Sequence[Training], tell: Tell) -> dict[tuple[str, int], float]:
        """Train one after the other, in this process; each goes on where it was."""
        scores = {}
        for number, training in enumerate(trainings):
            folder = self.folder_of(training)
            score = self.known_score(training)
            if score is None:
                tell(number, training, 0)
                begun = RunFolder(folder).exists

                def follow(now: Report, number: int = number, training: Training = training) -> None:
                    tell(number, training, now.steps)

                score = self.train(training, folder, begun, follow)
                _write_score(folder, score)
            else:
                tell(number, training, training.settings.planned_steps)
            scores[training.key] = float(score["reward"])
        return scores

    def scored_on(self, executor: Executor, trainings: Sequence[Training], tell: Tell) -> dict[tuple[str, int], float]:
        """Train on an executor, side by side; what comes back is written here."""
        known = {training.key: self.known_score(training) for training in trainings}
        scores = {key: float(score["reward"]) for key, score in known.items() if score is not None}
        due = [training for training in trainings if training.key not in scores]
        for training, (score, files) in zip(due, executor.map(_Elsewhere(self), due), strict=True):
            folder = self.folder_of(training)
            for name, content in files.items():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                replace_file(folder / name, content, inside=folder)
            _write_score(folder, score)
            scores[training.key] = float(score["reward"])
            tell(len(scores) - 1, training, training.settings.planned_steps)
        return scores

    def known_score(self, training: Training) -> dict[str, Any] | None:
        """Return the score of a training that is finished; refuse a folder that holds another one."""
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
        """Train, and return how the best policy did on held-out episodes."""
        result = train(
            self.scenario, training.settings, folder, resume=resume, command=self.command, report=follow or _nobody
        )
        found = {"reward": self.reward(result.policy), "episodes": self.episodes}
        return {**found, "steps": result.steps, "seconds": result.seconds}

    def reward(self, policy: Policy) -> float:
        """Return the mean reward of a policy on the episodes that score trainings."""
        return evaluate(self.scenario, policy, self.episodes, SCORE_SEED, "eval").mean("reward")


@dataclass(frozen=True)
class _Elsewhere:
    """The work of one training in a worker: its score and its files come back."""

    study: Study

    def __call__(self, training: Training) -> tuple[dict[str, Any], dict[str, bytes]]:
        with TemporaryDirectory() as place:
            folder = Path(place) / "training"
            score = self.study.train(training, folder, resume=False)
            files = [path for path in folder.rglob("*") if path.is_file()]
            return score, {str(path.relative_to(folder)): path.read_bytes() for path in files}


def _nobody(_: Report) -> None:
    """Tell nobody."""


def _write_score(folder: Path, score: dict[str, Any]) -> None:
    replace_file(folder / SCORE, (json.dumps(score, indent=2) + "\n").encode(), inside=folder)


def _results(
    knob: Knob, trainings: Sequence[Training], scores: dict[tuple[str, int], float], heuristic: float
) -> dict[str, Any]:
    """Return what came of a knob: for each value the reward of every seed, and how it compares."""

    def rewards(value: Any) -> np.ndarray:
        kept = None if value == knob.default else knob.name
        same = [one for one in trainings if one.knob == kept and (kept is None or one.value == value)]
        return np.array([scores[one.name, one.seed] for one in same])

    means = [float(rewards(value).mean()) for value in knob.values]
    values = []
    for value, mean in zip(knob.values, means, strict=True):
        found = rewards(value)
        values.append(
            {
                "value": value,
                "label": told(value),
                "default": value == knob.default,
                "best": mean == max(means),
                "rewards": found.tolist(),
                "mean": mean,
                "half_width": half_width(found),
                "to_default": float((found - rewards(knob.default)).mean()),
                "to_default_half_width": half_width(found - rewards(knob.default)),
                "to_heuristic": mean - heuristic,
            }
        )
    return {"knob": knob.name, "default": knob.default, "values": values}


def half_width(values: np.ndarray) -> float | None:
    """Return half of Student's 95% interval of the mean; a single value has none.

    Seeds are few, and a bootstrap of three values is far too sure of itself.
    """
    if len(values) < 2:
        return None
    return float(stdtrit(len(values) - 1, 0.975) * values.std(ddof=1) / np.sqrt(len(values)))
