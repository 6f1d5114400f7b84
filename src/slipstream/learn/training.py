"""`slipstream.train`: train a policy on a scenario, judged on held-out episodes beside the best heuristic."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from slipstream.errors import InputError
from slipstream.families.contract import Scenario, ScenarioLike
from slipstream.learn.clock import TrainingClock
from slipstream.learn.defaults import (
    AUTO,
    DEFAULT_MINUTES,
    TimeShares,
    default_settings,
    general_settings,
    parse_warm_start,
    resolve_warm_start,
    sized_to,
)
from slipstream.learn.files import RUN
from slipstream.learn.generated.scenarios import GeneratedScenarios
from slipstream.learn.generated.scores import experts_of, find_general_reference, race_rules
from slipstream.learn.networks.own_settings import consented, fit_settings
from slipstream.learn.outcome import OUTCOME_EPISODES, Outcome
from slipstream.learn.race import Race, race, warm_start_of
from slipstream.learn.reference import Reference, find_reference
from slipstream.learn.run_folder import RunFolder
from slipstream.learn.settings import TrainSettings
from slipstream.learn.trainer import Trainer, find_experts
from slipstream.learn.training_run import OUTCOME_SECONDS, Callback, Report, TrainingCallbacks, TrainingRun
from slipstream.networks.import_path import path_of
from slipstream.policies.compiled.network_policy import CompiledPolicy
from slipstream.policies.torch_policy import TorchPolicy
from slipstream.scale.executor import Executor
from slipstream.scenario import digest, dump, load

__all__ = ["Report", "Training", "train"]

NEW_NOTES: Mapping[str, Any] = {"best": None, "excess": 0.0, "seconds": 0.0, "episodes": None}
"""What a training has to remember before its first update: reward of the best policy and its excess over a constraint,
time, episodes of an evaluation."""


@dataclass(frozen=True, repr=False)
class Training:
    """Result of a training."""

    policy: CompiledPolicy | TorchPolicy
    """Network with the best evaluation."""
    reward: float
    """Its mean reward on the held-out seeds that selected it."""
    heuristic: str
    """The best heuristic on the same seeds."""
    heuristic_reward: float
    steps: int
    seconds: float
    history: list[dict[str, Any]]
    """Every evaluation: steps, seconds, reward and the statistics of the last update."""
    folder: Path | None
    outcome: Outcome
    """The policy beside the best heuristic, on held-out seeds that neither selected."""
    scenario: str
    """Family and name of the scenario."""
    settings: TrainSettings
    """The settings that it was trained with."""

    def __repr__(self) -> str:
        where = "in memory; pass `out` to keep it" if self.folder is None else self.folder / "best"
        return f"Training({self.scenario}: {self.outcome.short}; {self.steps:,} steps; policy: {where})"

    @property
    def code(self) -> str:
        """What follows the folder of the policy where commands play it: the network's class if torch plays it."""
        return f"@{self.settings.network.module}" if isinstance(self.policy, TorchPolicy) else ""

    def to_dict(self) -> dict[str, Any]:
        """Return the result as JSON-ready data, without the weights."""
        return {
            "out": None if self.folder is None else str(self.folder),
            "policy": None if self.folder is None else f"{self.folder / 'best'}{self.code}",
            "steps": self.steps,
            "seconds": self.seconds,
            "warm_start": self.settings.warm_start,
            "algo": self.settings.algo,
            "reward": self.reward,
            "heuristic": self.heuristic,
            "heuristic_reward": self.heuristic_reward,
            "outcome": self.outcome.to_dict(),
            "history": self.history,
        }


def train(
    scenario: ScenarioLike,
    settings: TrainSettings | Mapping[str, Any] | None = None,
    out: str | Path | None = None,
    minutes: float | None = None,
    resume: bool = False,
    command: str = "",
    report: Callable[[Report], None] | None = None,
    executor: Executor | None = None,
    tell_limits: Callable[[str], None] | None = None,
    warm_start: str | None = None,
    tell: Callable[[str], None] | None = None,
    general: bool = False,
    network: str | type[torch.nn.Module] | None = None,
    on_rollout: Callback | None = None,
    on_update: Callback | None = None,
    on_evaluation: Callback | None = None,
) -> Training:
    """Train a policy: race the heuristics, imitate the best one, improve on it, and judge the result.

    Args:
        scenario: Scenario to train on, or a family with `general`; with `resume`, that of the folder is used.
        settings: Settings to use as they are, or changes of the family's defaults, as `{"ppo.clip_range": 0.1}`. With
            `resume` only its steps are used, if it has any.
        out: Folder for checkpoints and history; without it nothing is written. One process at a time trains there.
        minutes: Time limit; as many steps are planned as fit into it, measured at the first updates, and at most those
            of the settings. Default: 5 where neither minutes nor settings are given. Compilation does not count. With
            `resume`, the time before is included.
        resume: Continue the training in `out` from its last saved state, with its limits unless others are given.
        command: Command that made the policy, for its card.
        report: Called during the race of the heuristics, and after every update.
        executor: Where lanes play; by default in this process. The policy is the same.
        tell_limits: Called before the first update with the limits of the training, in words.
        warm_start: Heuristic to imitate first; "auto" for the best one of a race on training episodes, "oracle", or
            "none" for random weights. Default: that of the settings, "auto" where these are defaults.
        tell: Called with what the user should know about the warm start and the network, in one sentence each.
        general: Train on generated scenarios of a family, hundreds of them, and judge on others; rewards are then
            scores, 0 for `random` and 100 for the best rule of each scenario.
        network: Network of your own (`slipstream.networks`), a class or its path, "FILE.py:CLASS" or
            "package.module:CLASS"; its code is run. A training with one is resumed with the same.
        on_rollout: Called after every rollout, before the network learns from it.
        on_update: Called after every update, with its losses.
        on_evaluation: Called after every evaluation, with the rewards on held-out episodes.
    """
    torch.set_num_threads(1)  # Threads share the work above torch.
    callbacks = _Callbacks(report, tell_limits, TrainingCallbacks(on_rollout, on_update, on_evaluation))
    module = None if network is None else path_of(network)
    if resume:
        if out is None:
            raise InputError("resume without a folder: expected the one of the training to go on with")
        if not isinstance(settings, TrainSettings):
            settings = TrainSettings().with_changes({"warm_start": AUTO, **(settings or {})})
        return _resume(Path(out), settings.steps, minutes, executor, callbacks, module)
    generated = GeneratedScenarios.of(str(scenario)) if general else None
    loaded = load(scenario) if generated is None else generated.scenario("selection", 0)
    exact = isinstance(settings, TrainSettings)
    changes: dict[str, Any] = {} if warm_start is None else {"warm_start": parse_warm_start(warm_start)}
    if module is not None:
        changes["network.module"] = module
    if isinstance(settings, TrainSettings):
        given: Mapping[str, Any] = changes
        chosen = settings.with_changes(changes)
    else:
        given = {**(settings or {}), **changes}
        chosen = default_settings(loaded, given) if generated is None else general_settings(loaded.family, given)
        if minutes is None and chosen.steps is None:
            minutes = DEFAULT_MINUTES
    if chosen.warm_start != AUTO:
        find_experts(chosen, loaded.family)  # a name that means nothing is refused before the race
    chosen = fit_settings(loaded, chosen, given, tell)
    source = str(scenario) if isinstance(scenario, str | Path) else f"{loaded.family}/{loaded.name}"
    folder = RunFolder(Path(out)) if out is not None else None
    with ExitStack() as stack:
        if folder is not None:
            stack.enter_context(folder.lock(resume=False))
        clock = stack.enter_context(TrainingClock())
        found = _race(loaded, generated, minutes, clock, callbacks)
        if chosen.warm_start == AUTO:
            start = warm_start_of(found, tell) if generated is None else experts_of(found, tell)
            chosen = resolve_warm_start(chosen, start)
        if minutes is not None and not exact and generated is None:
            left = 60.0 * minutes - clock.seconds
            chosen = sized_to(loaded, chosen, given, left, found.episode_choices, lambda: clock.seconds)
        reference = _reference(loaded, generated, found, chosen, minutes, clock, executor, callbacks)
        trainer = Trainer(loaded, chosen, executor, generated)
        about = {
            "scenario": f"{loaded.family}/{loaded.name}" if generated is None else generated.label,
            "scenario_digest": digest(loaded),
            "command": command,
            "settings": chosen.to_dict(),
            "limits": {"steps": chosen.steps, "minutes": minutes},
            "source": source if generated is None else f"{loaded.family} --general",
            "reference": reference.to_dict(),
            "scenario_file": json.loads(dump(loaded)),
            "general": general,
            **_versions(),
        }
        if folder is not None:
            folder.create(about)
        notes = {
            **NEW_NOTES,
            "planned": minutes is None,
            "hindsight_planned": minutes is None or exact or "hindsight.rounds" in given,
        }
        if tell_limits is not None:
            tell_limits(chosen.limits(minutes))
        run = TrainingRun(
            loaded, trainer, reference, about, notes, folder, minutes, clock, executor, report, callbacks.of_user
        )
        return _finish(run)


@dataclass(frozen=True)
class _Callbacks:
    """What a training calls to show its progress."""

    report: Callable[[Report], None] | None
    tell_limits: Callable[[str], None] | None
    of_user: TrainingCallbacks

    def show(self, phase: str, heuristic: str, clock: TrainingClock) -> None:
        """Report that `heuristic` plays, before the first update."""
        if self.report is not None:
            self.report(Report(0, 1, clock.seconds, phase, {}, None, None, heuristic, np.nan))


def _resume(
    path: Path,
    steps: int | None,
    minutes: float | None,
    executor: Executor | None,
    callbacks: _Callbacks,
    module: str | None,
) -> Training:
    """Continue the training in the folder `path`, with new limits if there are any."""
    folder = RunFolder(path)
    with folder.lock(resume=True), TrainingClock() as clock:
        about = folder.about()
        limits = about.get("limits", {"steps": about["settings"]["steps"], "minutes": None})
        new_limits = steps is not None or minutes is not None
        if new_limits:
            about["limits"] = {"steps": limits["steps"] if steps is None else steps, "minutes": minutes}
            about["settings"] |= {"steps": about["limits"]["steps"]}
        settings = TrainSettings.from_dict(about["settings"], f"{path / RUN}: settings")
        settings = consented(settings, module, str(path))
        scenario = load(about["scenario_file"])
        generated = GeneratedScenarios.of(scenario.family) if about.get("general") else None
        trainer = Trainer(scenario, settings, executor, generated)
        notes: dict[str, Any] = {**NEW_NOTES, "planned": minutes is None, "hindsight_planned": True}
        notes |= folder.restore(trainer)
        clock.add(float(notes["seconds"]))
        if new_limits:
            notes["planned"] = minutes is None
            folder.rewrite(about)
        elif not notes["planned"]:
            # The training ended before its steps were planned from its speed.
            minutes = limits["minutes"]
            notes["planned"] = minutes is None
        if "reference" in about:
            reference = Reference.from_dict(about["reference"], f"{path / RUN}: reference")
        else:
            found = _race(scenario, generated, minutes, clock, callbacks)
            reference = _reference(scenario, generated, found, settings, minutes, clock, executor, callbacks)
            about["reference"] = reference.to_dict()
        if callbacks.tell_limits is not None:
            callbacks.tell_limits(settings.limits(minutes))
        shown = (callbacks.report, callbacks.of_user)
        run = TrainingRun(scenario, trainer, reference, about, notes, folder, minutes, clock, executor, *shown)
        return _finish(run)


def _finish(run: TrainingRun) -> Training:
    """Train to the end, and return the result."""
    policy, outcome = run.go()
    return Training(
        policy,
        float(run.notes["best"]),
        run.reference.heuristic,
        run.reference.reward,
        run.trainer.steps,
        run.clock.seconds,
        run.history,
        run.folder.folder if run.folder is not None else None,
        outcome,
        str(run.about["scenario"]),
        run.trainer.settings,
    )


def _race(
    scenario: Scenario,
    generated: GeneratedScenarios | None,
    minutes: float | None,
    clock: TrainingClock,
    callbacks: _Callbacks,
) -> Race:
    """Return the result of the race of the heuristics."""
    limit = None if minutes is None else TimeShares(60.0 * minutes).race

    def notify(name: str) -> None:
        callbacks.show("race", name, clock)

    if generated is not None:
        return race_rules(generated, lambda: clock.seconds, notify)
    return race(scenario, limit, lambda: clock.seconds, notify)


def _reference(
    scenario: Scenario,
    generated: GeneratedScenarios | None,
    found: Race,
    settings: TrainSettings,
    minutes: float | None,
    clock: TrainingClock,
    executor: Executor | None,
    callbacks: _Callbacks,
) -> Reference:
    """Return the heuristic that the training is measured against, on held-out episodes."""
    limit = OUTCOME_SECONDS if minutes is None else TimeShares(60.0 * minutes).reference
    # Of an evaluation of a few episodes, twice as many give an interval; a timed one has as many as its time allows.
    most = OUTCOME_EPISODES if minutes is not None else min(OUTCOME_EPISODES, 2 * settings.evaluation_episodes)
    episodes = (settings.evaluation_episodes, most)
    callbacks.show("reference", found.best, clock)
    if generated is not None:
        return find_general_reference(
            generated,
            found,
            settings.evaluation_episodes,
            lambda: clock.seconds,
            lambda name: callbacks.show("reference", name, clock),
        )
    return find_reference(scenario, found, episodes, limit, lambda: clock.seconds, executor)


def _versions() -> dict[str, str]:
    from slipstream import __version__

    return {"version": __version__, "torch": str(torch.__version__)}
