"""Training in progress: its folder, its clock, its evaluations and its best policy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from slipstream.families.contract import Constraint, Scenario
from slipstream.learn.clock import TrainingClock
from slipstream.learn.constraints import ConstraintCheck, check_constraints, greatest_excess
from slipstream.learn.defaults import TimeShares
from slipstream.learn.files import EXCESS
from slipstream.learn.generated.scores import general_scores
from slipstream.learn.networks.own import OwnNetwork
from slipstream.learn.outcome import OUTCOME_SEED, Outcome, judge_outcome, suggest
from slipstream.learn.race import metrics_within, rewards_within
from slipstream.learn.reference import HELD_OUT_SEED, Reference
from slipstream.learn.run_folder import RunFolder
from slipstream.learn.trainer import Trainer
from slipstream.policies.compiled.network_policy import CompiledPolicy
from slipstream.policies.learned import load_policy, shipped
from slipstream.policies.torch_policy import TorchPolicy, load_torch_policy
from slipstream.scale.executor import Executor

OUTCOME_SECONDS = 60.0
"""Time of the outcome's episodes in a training without a time limit."""
HINDSIGHT_SHARE = 0.5
"""Share of the time after the warm start in which a training with a time limit learns from hindsight."""
STEPS_MARGIN = 0.93
"""Share of the time left for which steps are planned; the rest is for evaluations."""
MOST_RESERVED = 0.35
"""Greatest share of the time that is kept for the last evaluation and the outcome."""
PATIENCE = 10.0
"""Multiple of an evaluation's time that passes before the next one, in a training with a time limit."""


@dataclass(frozen=True)
class Report:
    """Progress of a training: during the race of the heuristics, and after an update."""

    steps: int
    planned_steps: int
    seconds: float
    phase: str
    """`race` and `reference`, in which heuristics play training and held-out episodes; `imitation`, `hindsight`, `ppo`
    or `reinforce`; `outcome`, in which the result plays held-out episodes."""
    figures: dict[str, float]
    reward: float | None
    """Mean reward of the last evaluation on held-out seeds."""
    best_reward: float | None
    heuristic: str
    """The best heuristic; before the first update, the one that plays."""
    heuristic_reward: float
    progress: float = 0.0
    """Share of the training that is done, from 0 to 1."""
    seconds_left: float | None = None
    """Estimate of the time that is left; None if unknown."""


@dataclass(frozen=True)
class TrainingEvent:
    """State of a training after a rollout, an update or an evaluation."""

    update: int
    """Number of the update, from 1."""
    steps: int
    """Choices that were made."""
    seconds: float
    """Time since the training began, compilation excluded."""
    phase: str
    """`imitation`, `hindsight`, `ppo` or `reinforce`."""
    figures: dict[str, float]
    """What was measured, by name."""
    policy: Path | None = None
    """After an evaluation, the folder of the best policy; None without one."""


Callback = Callable[[TrainingEvent], None]


@dataclass(frozen=True)
class TrainingCallbacks:
    """Functions that a training calls; what they raise ends it."""

    on_rollout: Callback | None = None
    """Called after every rollout, before the network learns from it, with its reward rate and candidates."""
    on_update: Callback | None = None
    """Called after every update, with its losses and what the rollout gave."""
    on_evaluation: Callback | None = None
    """Called after every evaluation, with the rewards on held-out episodes and the last losses."""


def call(callback: Callback | None, event: TrainingEvent) -> None:
    """Call `callback`, if there is one."""
    if callback is not None:
        callback(event)


class TrainingRun:
    """Updates, evaluations and checkpoints of one training, until its steps or its time are over."""

    def __init__(
        self,
        scenario: Scenario,
        trainer: Trainer,
        reference: Reference,
        about: dict[str, Any],
        notes: dict[str, Any],
        folder: RunFolder | None,
        minutes: float | None,
        clock: TrainingClock,
        executor: Executor | None,
        report: Callable[[Report], None] | None,
        callbacks: TrainingCallbacks,
    ) -> None:
        """`about` is the description of the training in its folder, `notes` what its saved state holds of it."""
        self.scenario, self.trainer, self.reference, self.folder = scenario, trainer, reference, folder
        self.about, self.notes, self.clock, self.executor = about, notes, clock, executor
        self.report, self.callbacks = report, callbacks
        trainer.on_rollout = self._after_rollout
        self.limit = None if minutes is None else 60.0 * minutes
        self.history = folder.history() if folder is not None else []
        self.best_policy: CompiledPolicy | TorchPolicy | None = None
        self.last_reward: float | None = None
        self._evaluated_at = (-1, clock.seconds, 0.0)
        """Update of the last evaluation, when it ended, and how long it took."""
        self._update_seconds = 0.0
        self._hindsight_from: tuple[float, int] | None = None
        self._speed_from: tuple[float, int] | None = None

    def go(self) -> tuple[CompiledPolicy | TorchPolicy, Outcome]:
        """Train to the end; return the best network and the outcome."""
        trainer = self.trainer
        writer = _scalars(self.folder.folder / "tensorboard") if self.folder is not None else None
        figures: dict[str, float] = {}
        phase = trainer.phase
        while trainer.progress < 1.0 and (trainer.update_number == 0 or not self._out_of_time()):
            phase, began = trainer.phase, self.clock.seconds
            figures = trainer.update()
            self._update_seconds = self.clock.seconds - began
            call(self.callbacks.on_update, self._event(phase, figures))
            self._plan(phase)
            if self._evaluation_is_due(phase):
                self._evaluate(figures, phase, writer)
            self._report(phase, figures)
        if self.notes["best"] is None or (figures and self._evaluated_at[0] != trainer.update_number):
            self._evaluate(figures, phase, writer)
        if writer is not None:
            writer.close()
        self._report("outcome", {})
        policy = self._best()
        return policy, self._judge(policy)

    def _after_rollout(self, made: int, figures: dict[str, float]) -> None:
        event = self._event(self.trainer.phase, figures)
        call(self.callbacks.on_rollout, replace(event, update=event.update + 1, steps=event.steps + made))

    def _event(self, phase: str, figures: dict[str, float]) -> TrainingEvent:
        """Return an event at the present number of updates and steps."""
        return TrainingEvent(self.trainer.update_number, self.trainer.steps, self.clock.seconds, phase, dict(figures))

    # Time

    def _out_of_time(self) -> bool:
        return self.limit is not None and self.clock.seconds + self._update_seconds > self.limit - self._reserved()

    def _reserved(self) -> float:
        """Return the seconds that the last evaluation and the outcome take."""
        if self.limit is None:
            return 0.0
        shares, (update, _, took) = TimeShares(self.limit), self._evaluated_at
        needed = shares.evaluation + shares.outcome
        if update >= 0:
            episodes = int(self.notes["episodes"] or 1)
            needed = took / episodes * (episodes + len(self.reference.outcome))
        return min(1.2 * needed, MOST_RESERVED * self.limit)

    def _plan(self, phase: str) -> None:
        """Set, once they are known, the hindsight rounds and the steps that fit into the time.

        From then on, schedules count rounds and steps.
        """
        trainer, now = self.trainer, self.clock.seconds
        if self.limit is None:
            return
        left = max(0.0, self.limit - self._reserved() - now)
        measured = min(5.0, 0.05 * self.limit)
        if phase == "hindsight" and not self.notes["hindsight_planned"]:
            # The first update also compiles, so speeds are measured after it.
            if self._hindsight_from is None:
                self._hindsight_from = (now, trainer.update_number)
                return
            began, first = self._hindsight_from
            if now - began > 0.4 * measured:
                affordable = int(HINDSIGHT_SHARE * left * (trainer.update_number - first) / (now - began))
                made = trainer.update_number - trainer.settings.imitation_rollouts
                trainer.plan_hindsight(min(trainer.settings.hindsight.rounds, made + affordable))
                self._write_plan("hindsight_planned")
        if phase == trainer.settings.algo and not self.notes["planned"]:
            if self._speed_from is None:
                self._speed_from = (now, trainer.steps)
                return
            began, first = self._speed_from
            if now - began > measured:
                planned = trainer.steps + max(1, int(STEPS_MARGIN * left * (trainer.steps - first) / (now - began)))
                given = trainer.settings.steps
                trainer.settings = replace(trainer.settings, steps=planned if given is None else min(planned, given))
                self._write_plan("planned")

    def _write_plan(self, what: str) -> None:
        self.notes[what] = True
        self.about["settings"] = self.trainer.settings.to_dict()
        if self.folder is not None:
            self.folder.rewrite(self.about)

    def _report(self, phase: str, figures: dict[str, float]) -> None:
        if self.report is None:
            return
        trainer, seconds = self.trainer, self.clock.seconds
        progress = trainer.progress
        left = seconds * (1.0 - progress) / progress if progress > 0.0 else None
        if self.limit is not None:
            progress = min(1.0, max(seconds / self.limit, progress if self.notes["planned"] else 0.0))
            left = min(max(0.0, self.limit - seconds), left if left is not None and self.notes["planned"] else np.inf)
        self.report(
            Report(
                trainer.steps,
                trainer.settings.planned_steps,
                seconds,
                phase,
                figures,
                self.last_reward,
                self.notes["best"],
                self.reference.heuristic,
                self.reference.reward,
                progress,
                left,
            )
        )

    # Evaluation

    def _evaluation_is_due(self, phase: str) -> bool:
        """Return whether the network is evaluated now: at the end of imitation, and regularly."""
        trainer = self.trainer
        if phase == "imitation" and trainer.phase != "imitation":
            return True
        counted = trainer.update_number % trainer.settings.evaluate_every == 0
        if self.limit is None:
            return counted or trainer.progress >= 1.0
        _, when, took = self._evaluated_at
        passed = self.clock.seconds - when
        return (counted and passed > PATIENCE * took) or passed > TimeShares(self.limit).between_evaluations

    def _evaluate(self, figures: dict[str, float], phase: str, writer: Any) -> None:
        """Play the held-out seeds, and write history and checkpoints."""
        trainer, began = self.trainer, self.clock.seconds
        policy = trainer.policy()
        # All evaluations have the same episodes, or the best network would be that of the easiest ones.
        episodes, end = self.notes["episodes"], np.inf
        if episodes is None:
            episodes = trainer.settings.evaluation_episodes
            end = np.inf if self.limit is None else began + TimeShares(self.limit).evaluation
        seeds = range(HELD_OUT_SEED, HELD_OUT_SEED + episodes)
        rewards, checks = self._judged(policy, seeds, end, "selection")
        self.notes["episodes"], excess = len(rewards), greatest_excess(checks)
        reward = self.last_reward = float(rewards.mean())
        self._evaluated_at = (trainer.update_number, self.clock.seconds, self.clock.seconds - began)
        line = {
            "update": trainer.update_number,
            "steps": trainer.steps,
            "seconds": round(self.clock.seconds, 3),
            "phase": phase,
            "reward": reward,
            "heuristic_reward": self.reference.reward,
            **{check.metric: check.value for check in checks},
            **({EXCESS: excess} if checks else {}),
            **figures,
        }
        self.history.append(line)
        best, least = self.notes["best"], self.notes["excess"]
        improved = best is None or (excess, -reward) < (least, -best)
        if improved:
            self.notes["best"], self.notes["excess"] = reward, excess
            self.best_policy = policy
        self.notes["seconds"] = self.clock.seconds
        if self.folder is not None:
            self._write_checkpoint(self.folder, line, improved)
        if writer is not None:
            for name, value in line.items():
                if isinstance(value, float):
                    writer.add_scalar(name, value, trainer.steps)
            writer.flush()
        judged = {"reward": reward, "best_reward": self.notes["best"], "heuristic_reward": self.reference.reward}
        best = None if self.folder is None else self.folder.folder / "best"
        call(self.callbacks.on_evaluation, replace(self._event(phase, {**judged, **figures}), policy=best))

    @property
    def _constraints(self) -> tuple[Constraint, ...]:
        """The family's constraints, if this training checks them; scores of generated scenarios have none."""
        trainer = self.trainer
        checked = trainer.settings.constraints and trainer.generated is None and bool(self.reference.constrained)
        return trainer.family.constraints if checked else ()

    def _judged(
        self, policy: CompiledPolicy | TorchPolicy, seeds: range, end: float, part: str
    ) -> tuple[np.ndarray, tuple[ConstraintCheck, ...]]:
        """Return rewards and checks of constraints in the held-out episodes of `part` that are over at `end`."""
        constraints = self._constraints
        if not constraints:
            return self._rewards(policy, seeds, end), ()
        names = ("reward", *(constraint.metric for constraint in constraints))
        now, executor = (lambda: self.clock.seconds), self.executor
        played = metrics_within(self.scenario, policy, seeds, "eval", end, now, executor, names)
        return played["reward"], check_constraints(constraints, played, self.reference.constrained[part])

    def _rewards(self, policy: CompiledPolicy | TorchPolicy, seeds: range, end: float) -> np.ndarray:
        """Return the rewards of `policy` in the held-out episodes over at `end`, as scores if scenarios vary."""
        generated = self.trainer.generated
        if generated is not None:
            return general_scores(generated, self.reference, policy, seeds, end, lambda: self.clock.seconds)
        return rewards_within(self.scenario, policy, seeds, "eval", end, lambda: self.clock.seconds, self.executor)

    def _write_checkpoint(self, folder: RunFolder, line: dict[str, Any], improved: bool) -> None:
        trainer = self.trainer
        folder.append(line)
        card = {
            **{key: self.about[key] for key in ("scenario", "scenario_digest", "command", "version", "settings")},
            "algorithm": trainer.settings.algo,
            "steps": trainer.steps,
            "held_out_reward": line["reward"],
        }
        if improved:
            folder.save_policy("best", trainer, card)
        folder.save_policy("last", trainer, card)
        # Written last, so that a saved state never refers to a policy that is missing.
        folder.save_state(trainer, self.notes)

    def _best(self) -> CompiledPolicy | TorchPolicy:
        if self.best_policy is None:
            assert self.folder is not None  # without one, this run made all evaluations
            best, network = self.folder.folder / "best", self.trainer.network
            if isinstance(network, OwnNetwork) and network.not_compilable:
                return load_torch_policy(best, network.path)
            return load_policy(best)
        return self.best_policy

    def _judge(self, policy: CompiledPolicy | TorchPolicy) -> Outcome:
        """Play the outcome's episodes by the best network, and write how it compares with the heuristic."""
        now, seeds = self.clock.seconds, range(OUTCOME_SEED, OUTCOME_SEED + len(self.reference.outcome))
        end = now + OUTCOME_SECONDS
        if self.limit is not None:
            end = max(self.limit, now + TimeShares(self.limit).outcome)
        rewards, checks = self._judged(policy, seeds, end, "outcome")
        out = None if self.folder is None else str(self.folder.folder)
        warm_start = self.trainer.settings.warm_start
        minutes = None if self.limit is None else self.limit / 60.0
        source = str(self.about["source"] if "source" in self.about else self.about["scenario"])
        reference = self.reference
        tries = suggest(
            source,
            out,
            reference.heuristic,
            warm_start,
            minutes,
            shipped=self.trainer.generated is None and bool(shipped(self.scenario.family)),
            imitable=reference.race.get("warm_start") is not None,
        )
        outcome = judge_outcome(reference.heuristic, rewards, reference.outcome, tries, checks)
        self.about["outcome"] = outcome.to_dict()
        if self.folder is not None:
            self.folder.rewrite(self.about)
        return outcome


def _scalars(folder: Path) -> Any:
    from torch.utils.tensorboard import SummaryWriter

    return SummaryWriter(str(folder))
