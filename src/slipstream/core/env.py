"""The Gymnasium environment over any family: one lane, fresh arrays at every step."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

from slipstream.core import lanes
from slipstream.core.family import FAMILIES, Family
from slipstream.core.sheets import make_sheet, sheet_arrays
from slipstream.core.simulator import check_seed, namespace_code
from slipstream.core.spaces import action_space, observation_space
from slipstream.errors import ScenarioError

Observation = dict[str, Any]
"""Arrays by name; typed as Gymnasium types its dictionary spaces."""


def load_for(family: Family, scenario: Any) -> Any:
    """Return the scenario, or the family's default, and refuse one of another family."""
    from slipstream.scenario import load

    loaded: Any = load(scenario if scenario is not None else family.default_scenario)
    if loaded.family != family.name:
        raise ScenarioError(f"{family.env_id}: the scenario is of family '{loaded.family}': expected '{family.name}'")
    return loaded


class SchedulingEnv(gymnasium.Env[Observation, np.int64]):
    """A scheduling environment: at every step a resource is free, and one of the candidate rows is chosen.

    Observation: `globals` (G,) and `candidates` (A, F), the columns of the family's `features.py`; `action_mask` (A,)
    too with `mask_in_observation=True`. Action: index of a row; the last one waits. An illegal action counts as wait.
    Reward: the scenario's named terms times their weights; the terms of the step are in `info["rewards"]`.
    Episode: truncated at the horizon, terminated when a finite trace has been worked off.
    Info: `action_mask`, `illegal_action`, `elapsed` (time since the last choice) and `time`, in the family's unit.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012  Gymnasium's own declaration

    def __init__(
        self,
        family: str,
        scenario: Any = None,
        mask_in_observation: bool = False,
        namespace: str = "train",
        render_mode: str | None = None,
    ) -> None:
        self.family = FAMILIES[family]
        self.scenario = load_for(self.family, scenario)
        self.render_mode = render_mode
        self.action_space = action_space(self.family, self.scenario)
        self.observation_space = observation_space(self.family, self.scenario, mask_in_observation)
        self._mask_in_observation = mask_in_observation
        self._namespace = namespace_code(namespace)
        self._arrays = self.family.state_arrays(self.scenario, 1, 0)
        self._terms = self._arrays["terms"][0]
        rows = int(self.action_space.n)
        self._shown = sheet_arrays(1, rows, self.family.global_features, self.family.candidate_features, raw=False)
        self._structs = (
            self.family.make_spec(self.family.spec_arrays(self.scenario)),
            self.family.make_state(self._arrays),
            make_sheet(self._shown),
        )
        lanes.prepare_sheet(*self._structs)
        self._actions = np.zeros(1, np.int64)
        self._seeded = False

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Start an episode; without a seed, the one derived from the last episode's."""
        super().reset(seed=seed)
        namespace = namespace_code(options["namespace"]) if options and "namespace" in options else self._namespace
        if seed is None and not self._seeded:
            seed = int(self.np_random.integers(2**31))
        self._seeded = True
        seeds = np.array([-1 if seed is None else check_seed(seed)], np.int64)
        lanes.reset_lanes(*self._structs, np.ones(1, np.bool_), seeds, namespace)
        return self._observation(), self._info()

    def step(self, action: np.int64 | int) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Take the row `action` and run to the next choice."""
        if not self._seeded:
            raise gymnasium.error.ResetNeeded("step was called before reset: expected a reset first")
        self._actions[0] = action
        lanes.step_lanes(*self._structs, self._actions, False)
        shown = self._shown
        reward, terminated, truncated = (shown[name][0].item() for name in ("reward", "terminated", "truncated"))
        return self._observation(), reward, terminated, truncated, self._info()

    def action_masks(self) -> np.ndarray:
        """Return the mask of the present choice as booleans, as sb3-contrib asks for it."""
        return np.asarray(self._shown["mask"][0], np.bool_)

    def _observation(self) -> Observation:
        shown = {"globals": self._shown["globals"][0].copy(), "candidates": self._shown["rows"][0].copy()}
        if self._mask_in_observation:
            shown["action_mask"] = self._shown["mask"][0].copy()
        return shown

    def _info(self) -> dict[str, Any]:
        unit = self.family.nanoseconds_per_unit
        return {
            "action_mask": self._shown["mask"][0].copy(),
            "illegal_action": self._shown["illegal"][0].item(),
            "elapsed": self._shown["elapsed"][0].item() / unit,
            "time": self._shown["time"][0].item() / unit,
            "rewards": dict(zip(self.family.reward_terms, self._terms.tolist(), strict=True)),
        }
