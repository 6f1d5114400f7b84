"""Gymnasium spaces of any family: a dictionary of finite boxes, and a discrete action space of candidate rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

from slipstream.families.contract import Family, Scenario
from slipstream.families.shared.features import FeatureTable


def _box(features: FeatureTable, rows: int | None = None) -> spaces.Box:
    low, high = features.image()[1:].astype(np.float32)
    if rows is not None:
        low, high = np.tile(low, (rows, 1)), np.tile(high, (rows, 1))
    return spaces.Box(low, high, dtype=np.float32)


_BUFFER_NAMES = {"candidates": "rows", "action_mask": "mask"}
"""Arrays of the buffer whose names differ from the keys of an observation."""


def observed_keys(space: spaces.Dict) -> list[tuple[str, str]]:
    """Return the keys of `space`, each with the name of the buffer array that holds its value."""
    return [(key, _BUFFER_NAMES.get(key, key)) for key in space.spaces]


def action_space(family: Family, scenario: Scenario) -> spaces.Discrete:
    """Return the discrete space of all candidate rows; the last one waits."""
    return spaces.Discrete(family.candidate_rows(scenario))


def observation_space(family: Family, scenario: Scenario, mask_in_observation: bool) -> spaces.Dict:
    """Return the dictionary of `globals`, `candidates`, the graph if any and, with `mask_in_observation`, the mask."""
    rows = family.candidate_rows(scenario)
    boxes: dict[str, spaces.Space[Any]] = {
        "globals": _box(family.global_features.observed),
        "candidates": _box(family.candidate_features.observed, rows),
    }
    graph = family.graph(scenario)
    if graph is not None:
        boxes["nodes"] = _box(graph.features.observed, graph.nodes)
        boxes["node_job"] = spaces.Box(-1, graph.jobs - 1, (graph.nodes,), np.int32)
        boxes["edges"] = spaces.Box(-1, graph.nodes - 1, (2, graph.edges), np.int32)
        boxes["candidate_node"] = spaces.Box(-1, graph.nodes - 1, (rows,), np.int32)
    if mask_in_observation:
        boxes["action_mask"] = spaces.Box(0, 1, (rows,), np.int8)
    return spaces.Dict(boxes)
