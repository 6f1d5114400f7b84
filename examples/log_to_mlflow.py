"""Log a training to MLflow, here to the folder mlruns; `pip install mlflow-skinny`.

python examples/log_to_mlflow.py && mlflow ui
"""

from __future__ import annotations

import os

import mlflow

import slipstream
from slipstream.learn.training_run import TrainingEvent

SETTINGS = {"steps": 8_000, "n_envs": 32, "n_steps": 32, "evaluation_episodes": 4, "imitation.rollouts": 3}


def log(event: TrainingEvent) -> None:
    mlflow.log_metrics(event.figures, step=event.steps)


def main() -> None:
    os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow.set_tracking_uri("file:mlruns")
    mlflow.set_experiment("slipstream")
    with mlflow.start_run() as run:
        mlflow.log_params(SETTINGS)
        training = slipstream.train("edge/tiny", SETTINGS, on_update=log, on_evaluation=log, warm_start="edf")
        mlflow.set_tag("outcome", training.outcome.short)
    logged = mlflow.get_run(run.info.run_id).data
    print(f"reward {logged.metrics['reward']:.1f} after {training.steps:,} steps, {len(logged.metrics)} metrics")


if __name__ == "__main__":
    main()
