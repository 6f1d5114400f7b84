"""The Gymnasium environment over any family: one lane, fresh arrays at every step."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

from slipstream.envs.spaces import action_space, observation_space, observed_keys
from slipstream.errors import InputError, ScenarioError
from slipstream.families.contract import FAMILIES, Family
from slipstream.render.scene import Scene, scene_of
from slipstream.sim.kernel import lanes
from slipstream.sim.kernel.observation import buffer_arrays, make_buffer
from slipstream.sim.simulator import check_action, check_seed, own_arrays, split_code

RENDER_MODES = ("rgb_array", "ansi")
RENDER_FPS = 15
RENDER_LOG_ROWS = 1024
"""Rows of the event log that fit between two looks at it; an environment without a render mode keeps no log."""
TEXT_COLUMNS = 100
BOUND = ("_structs", "_terms", "_painter")
"""What an environment builds over its arrays or holds of the display; a copy builds its own."""

Observation = dict[str, Any]
"""Arrays by name; typed as Gymnasium types its dictionary spaces."""


def load_for(family: Family, scenario: Any) -> Any:
    """Return the scenario, or the family's default, and refuse one of another family."""
    from slipstream.scenario import load

    loaded: Any = load(scenario if scenario is not None else family.default_scenario)
    if loaded.family != family.name:
        raise ScenarioError(f"{family.env_id}: the scenario is of family '{loaded.family}': expected '{family.name}'")
    return loaded


def _painter_of(scene: Scene) -> Any:
    """Return what draws pictures of a scene."""
    try:
        from slipstream.render.picture import painter_of
    except ImportError as error:
        text = "render_mode 'rgb_array' needs Pillow: run `pip install pillow`"
        raise gymnasium.error.DependencyNotInstalled(text) from error
    return painter_of(scene.labels)


class SchedulingEnv(gymnasium.Env[Observation, np.int64]):
    """A scheduling environment: at every step a resource is free, and one of the candidate rows is chosen.

    Observation: `globals` (G,) and `candidates` (A, F), the columns of the family's `features.py`; `action_mask` (A,)
    too with `mask_in_observation=True`. Where work is a graph, also `nodes` (N, Fn), `node_job` (N,), `edges` (2, E)
    from parents to children and `candidate_node` (A,); indices are -1 where there is nothing.
    Action: index of a row, an integer; the last one waits. The index of a row that may not be taken, or of none,
    counts as wait.
    Reward: the scenario's named terms times their weights; the terms of the step are in `info["rewards"]`.
    Episode: truncated at the horizon, terminated when a finite trace has been worked off.
    Info: `action_mask`, `illegal_action`, `elapsed` (time since the last choice) and `time`, in the family's unit.
    Rendering: `rgb_array` gives a picture (H, W, 3) of what runs, what ran lately and what waits; `ansi` the same as
    text. The pictures need Pillow, from the extra `render`.
    Copies: `copy.deepcopy` and `pickle` give an environment that goes on from the same point by itself.
    """

    # Declared as Gymnasium declares it.
    metadata: dict[str, Any] = {"render_modes": [*RENDER_MODES], "render_fps": RENDER_FPS}  # noqa: RUF012

    def __init__(
        self,
        family: str,
        scenario: Any = None,
        mask_in_observation: bool = False,
        split: str = "train",
        render_mode: str | None = None,
    ) -> None:
        self.family = FAMILIES[family]
        self.scenario = load_for(self.family, scenario)
        self.render_mode = render_mode
        if render_mode is not None and render_mode not in RENDER_MODES:
            raise InputError(f"render_mode '{render_mode}': expected one of {', '.join(RENDER_MODES)}, or None")
        self._scene = scene_of(self.family.run_labels(self.scenario)) if render_mode is not None else None
        self.action_space = action_space(self.family, self.scenario)
        self.observation_space = observation_space(self.family, self.scenario, mask_in_observation)
        self._split = split_code(split)
        log_rows = max(RENDER_LOG_ROWS, 2 * self.family.log_margin(self.scenario)) if render_mode else 0
        self._arrays = self.family.state_arrays(self.scenario, 1, log_rows)
        rows = int(self.action_space.n)
        features = (self.family.global_features, self.family.candidate_features)
        self._shown = buffer_arrays(1, rows, *features, raw=False, graph=self.family.graph(self.scenario))
        self._keys = observed_keys(self.observation_space)
        self._actions = np.zeros(1, np.int64)
        self._seeded = False
        self._bind()
        lanes.prepare_buffer(*self._structs)

    def _bind(self) -> None:
        """Build the compiled structs, and what else refers to the arrays; a painter where pictures are asked for."""
        self._terms = self._arrays["terms"][0]
        self._painter = _painter_of(self._scene) if self._scene is not None and self.render_mode != "ansi" else None
        self._structs = (
            self.family.make_spec(self.family.spec_arrays(self.scenario)),
            self.family.make_state(self._arrays),
            make_buffer(self._shown),
        )

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in BOUND}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _arrays=own_arrays(state["_arrays"]), _shown=own_arrays(state["_shown"]))
        self._actions = np.zeros(1, np.int64)
        self._bind()

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Start an episode; without a seed, the one derived from the last episode's."""
        super().reset(seed=seed)
        split = split_code(options["split"]) if options and "split" in options else self._split
        if seed is None and not self._seeded:
            seed = int(self.np_random.integers(2**31))
        self._seeded = True
        seeds = np.array([-1 if seed is None else check_seed(seed)], np.int64)
        lanes.reset_lanes(*self._structs, np.ones(1, np.bool_), seeds, split)
        if self._scene is not None:
            self._scene = scene_of(self._scene.labels)
            self._look(self._scene, stepped=False)
        return self._observation(), self._info()

    def step(self, action: np.int64 | int) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Take the row `action` and run to the next choice."""
        if not self._seeded:
            raise gymnasium.error.ResetNeeded("step was called before reset: expected a reset first")
        self._actions[0] = check_action(action)
        lanes.step_lanes(*self._structs, self._actions, False)
        if self._scene is not None:
            self._look(self._scene, stepped=True)
        shown = self._shown
        reward, terminated, truncated = (shown[name][0].item() for name in ("reward", "terminated", "truncated"))
        return self._observation(), reward, terminated, truncated, self._info()

    def render(self) -> Any:
        """Return the scene as the render mode says: an array of pixels, or text; nothing without a render mode."""
        if self._scene is None:
            gymnasium.logger.warn("render was called without a render mode: expected gymnasium.make(..., render_mode=)")
            return None
        if self._painter is not None:
            return self._painter.paint(self._scene)
        from slipstream.render.terminal import frame

        return frame(self._scene, self._scene.labels.scenario, TEXT_COLUMNS).plain

    def _look(self, scene: Scene, stepped: bool) -> None:
        """Show the scene what happened since the last look, and go on where the log had no room for all of it."""
        header, log = self._arrays["lanes"][0], self._arrays["log"][0]
        while True:
            full = header["status"] == lanes.LOG_FULL
            scene.update(log[: header["log_rows"]])
            header["log_rows"] = 0
            if not full:
                break
            lanes.resume_lanes(*self._structs, stepped)
        scene.advance_to(int(header["now"]))

    def action_masks(self) -> np.ndarray:
        """Return the mask of the present choice as booleans, as sb3-contrib asks for it."""
        return np.asarray(self._shown["mask"][0], np.bool_)

    def _observation(self) -> Observation:
        return {key: self._shown[name][0].copy() for key, name in self._keys}

    def _info(self) -> dict[str, Any]:
        unit = self.family.nanoseconds_per_unit
        return {
            "action_mask": self._shown["mask"][0].copy(),
            "illegal_action": self._shown["illegal"][0].item(),
            "elapsed": self._shown["elapsed"][0].item() / unit,
            "time": self._shown["time"][0].item() / unit,
            "rewards": dict(zip(self.family.reward_terms, self._terms.tolist(), strict=True)),
        }
