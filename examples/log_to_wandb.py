"""Log a training to Weights & Biases, here without a connection; `pip install wandb`.

python examples/log_to_wandb.py && wandb sync wandb/offline-run-*
"""

from __future__ import annotations

import wandb

import slipstream
from slipstream.learn.training_run import TrainingEvent

SETTINGS = {"steps": 8_000, "n_envs": 32, "n_steps": 32, "evaluation_episodes": 4, "imitation.rollouts": 3}


def main() -> None:
    with wandb.init(project="slipstream", mode="offline", config=SETTINGS, settings=wandb.Settings(silent=True)) as run:

        def log(event: TrainingEvent) -> None:
            run.log({**event.figures, "phase": event.phase, "seconds": event.seconds}, step=event.steps)

        training = slipstream.train("edge/tiny", SETTINGS, on_update=log, on_evaluation=log, warm_start="edf")
        run.summary["outcome"] = training.outcome.short
    print(f"reward {training.reward:.1f} after {training.steps:,} steps in {run.dir}")


if __name__ == "__main__":
    main()
