"""Gymnasium spaces of any family: a flat dictionary of finite boxes, and a discrete choice among candidates."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

from slipstream.core.family import Family
from slipstream.core.features import FeatureTable


def _box(features: FeatureTable, rows: int | None = None) -> spaces.Box:
    low, high = features.image()[1:].astype(np.float32)
    if rows is not None:
        low, high = np.tile(low, (rows, 1)), np.tile(high, (rows, 1))
    return spaces.Box(low, high, dtype=np.float32)


def action_space(family: Family, scenario: Any) -> spaces.Discrete:
    """Return the choice among all candidate rows, wait last."""
    return spaces.Discrete(family.candidate_rows(scenario))


def observation_space(family: Family, scenario: Any, mask_in_observation: bool) -> spaces.Dict:
    """Return the dictionary of `globals`, `candidates` and, when asked for, `action_mask`."""
    rows = family.candidate_rows(scenario)
    boxes: dict[str, spaces.Space[Any]] = {
        "globals": _box(family.global_features.observed),
        "candidates": _box(family.candidate_features.observed, rows),
    }
    if mask_in_observation:
        boxes["action_mask"] = spaces.Box(0, 1, (rows,), np.int8)
    return spaces.Dict(boxes)
