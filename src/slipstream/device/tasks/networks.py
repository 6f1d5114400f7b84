"""Networks as programs of worker processes: a worker has one loaded at a time, and runs batches on it."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from slipstream.device.models.addresses import Address, Model, load
from slipstream.device.models.datasets import DatasetType, samples_of
from slipstream.device.tasks.task import Task

SAMPLE_SEED = 20_251
"""Seed of the random inputs."""


class NetworkProgram:
    """A network: a task without requests loads it in place of another, a task with some runs them as one batch."""

    resident: ClassVar[NetworkProgram | None] = None
    """The network that this process has loaded."""

    def __init__(self, address: Address, kind: DatasetType) -> None:
        self._address, self._kind = address, kind
        self._model: Model | None = None
        self._inputs = samples_of(kind, None, SAMPLE_SEED).inputs

    def __call__(self, task: Task) -> None:
        """Load the network, or run a batch of `task.tasks` inputs.

        Raises:
            ArithmeticError: The output is not finite.
        """
        import torch

        with torch.inference_mode():
            model = self._loaded()
            if task.tasks == 0:
                model(torch.from_numpy(self._inputs[:1]))
                return
            chosen = (task.number + np.arange(task.tasks)) % len(self._inputs)
            if not bool(torch.isfinite(model(torch.from_numpy(self._inputs[chosen]))).all()):
                raise ArithmeticError("the output is not finite")

    def _loaded(self) -> Model:
        """Return the network, loaded in place of the one before."""
        if self._model is None:
            if NetworkProgram.resident is not None:
                NetworkProgram.resident._model = None
            self._model = load(self._address, self._kind)
            NetworkProgram.resident = self
        return self._model
