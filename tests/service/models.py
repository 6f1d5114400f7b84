"""A model that says what it was given; run as `python:tests.service.models:echo`."""

from __future__ import annotations

import os
import time
from pathlib import Path

WAITS, RAISES = 1000.0, 2000.0
GATE = "SLIPSTREAM_TEST_GATE"
"""Names a file: while it is there, inputs that wait do."""


def echo(kind, variant):
    """Return a model that gives its input back, and the variant; it waits or fails where the first number says so."""

    def model(batch):
        first = float(batch.flatten()[0])
        while first == WAITS and Path(os.environ[GATE]).exists():
            time.sleep(0.01)
        if first == RAISES:
            raise ValueError("this input is too much")
        return batch.float().flatten(1) + variant

    return model
