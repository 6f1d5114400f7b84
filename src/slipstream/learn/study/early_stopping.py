"""Sweeps with early stopping: a scheduler of Ray Tune stops trainings that others are clearly ahead of."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from slipstream.errors import InputError
from slipstream.learn.study.sweep import Study, Training
from slipstream.learn.training import Report
from slipstream.policies.learned import load_policy
from slipstream.scale.executor import Executor, InProcess

SCHEDULERS = ("none", "asha", "hyperband", "median")
"""No early stopping; asynchronous successive halving; Hyperband; median stopping rule."""
GRACE_SHARE = 0.1
"""Share of the steps before which no training is stopped."""


def score_with_early_stopping(
    study: Study, trainings: Sequence[Training], scheduler: str, executor: Executor | None, steps: int
) -> tuple[dict[tuple[str, int], float], dict[tuple[str, int], int]]:
    """Return the score of every training, and the number of steps of those that were stopped early."""
    if scheduler not in SCHEDULERS:
        raise InputError(f"--scheduler {scheduler}: expected one of {', '.join(SCHEDULERS)}")
    if executor is None or isinstance(executor, InProcess):
        raise InputError(f"--scheduler {scheduler}: belongs to Ray Tune: expected --ray with the address of a cluster")
    from ray import tune

    settings = tune.TuneConfig(metric="reward", mode="max", scheduler=_scheduler(scheduler, steps))
    work = tune.with_resources(tune.with_parameters(_train, study=study, trainings=list(trainings)), {"cpu": 1})
    with TemporaryDirectory() as storage:
        found = tune.Tuner(
            work,
            param_space={"number": tune.grid_search(list(range(len(trainings))))},
            tune_config=settings,
            run_config=tune.RunConfig(storage_path=storage, verbose=0),
        ).fit()
        if found.errors:
            raise found.errors[0]
        last = {row.config["number"]: row.metrics for row in found if row.config is not None}
    scores = {training.key: float(last[number]["reward"]) for number, training in enumerate(trainings)}
    stopped = {
        training.key: int(last[number]["trained"])
        for number, training in enumerate(trainings)
        if int(last[number]["trained"]) < training.settings.planned_steps
    }
    return scores, stopped


def _scheduler(name: str, steps: int) -> Any:
    from ray.tune import schedulers

    least = max(1, int(GRACE_SHARE * steps))
    if name == "asha":
        return schedulers.ASHAScheduler(time_attr="trained", max_t=2 * steps, grace_period=least)
    if name == "hyperband":
        return schedulers.HyperBandScheduler(time_attr="trained", max_t=2 * steps)
    return schedulers.MedianStoppingRule(time_attr="trained", grace_period=least)


def _train(config: dict[str, Any], study: Study, trainings: Sequence[Training]) -> None:
    """Train in a worker of Ray Tune; report the score of the best policy after every evaluation."""
    from ray import tune

    with TemporaryDirectory() as temporary:
        folder = Path(temporary) / "training"
        last_reward: list[float | None] = [None]

        def follow(now: Report) -> None:
            if now.reward is not None and now.reward != last_reward[0]:
                last_reward[0] = now.reward
                tune.report({"reward": study.reward(load_policy(folder / "best")), "trained": now.steps})

        score = study.train(trainings[config["number"]], folder, resume=False, follow=follow)
        tune.report({"reward": score["reward"], "trained": score["steps"]})
