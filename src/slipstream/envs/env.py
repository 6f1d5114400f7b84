"""The Gymnasium environment over any family: one lane, fresh arrays at every step."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

from slipstream.envs.spaces import action_space, observation_space, observed_keys
from slipstream.errors import InputError, ScenarioError
from slipstream.families.contract import FAMILIES, Family, Scenario, ScenarioLike
from slipstream.render.scene import Scene, scene_of
from slipstream.sim.kernel import lanes
from slipstream.sim.kernel.observation import buffer_arrays, make_buffer
from slipstream.sim.simulator import check_action, check_seed, split_code, writable_arrays

RENDER_MODES = ("rgb_array", "ansi")
RENDER_FPS = 15
RENDER_LOG_ROWS = 1024
"""Capacity of the event log between two updates of the scene; without a render mode no log is kept."""
TEXT_COLUMNS = 100
DERIVED = ("_structs", "_terms", "_painter")
"""Attributes that are not pickled: a copy builds its own over its arrays."""

Observation = dict[str, Any]
"""Arrays by name; typed as Gymnasium types its dictionary spaces."""


def load_for(family: Family, scenario: ScenarioLike | None) -> Scenario:
    """Return the loaded `scenario`, by default the family's; raise a ScenarioError if it is of another family."""
    from slipstream.scenario import load

    loaded = load(scenario if scenario is not None else family.default_scenario)
    if loaded.family != family.name:
        raise ScenarioError(f"{family.env_id}: the scenario is of family '{loaded.family}': expected '{family.name}'")
    return loaded


def _painter_of(scene: Scene) -> Any:
    """Return the painter that draws frames of `scene`."""
    try:
        from slipstream.render.picture import painter_of
    except ImportError as error:
        text = "render_mode 'rgb_array' needs Pillow: run `pip install pillow`"
        raise gymnasium.error.DependencyNotInstalled(text) from error
    return painter_of(scene.labels)


class SchedulingEnv(gymnasium.Env[Observation, np.int64]):
    """A scheduling environment: at every step one of the candidate rows is chosen for a free resource.

    Observation: `globals` (G,) and `candidates` (A, F), the columns of the family's `features.py`; `action_mask` (A,)
    too with `mask_in_observation=True`. Where work is a graph, also `nodes` (N, Fn), `node_job` (N,), `edges` (2, E)
    from parents to children and `candidate_node` (A,); indices are -1 where there is no node.
    Action: index of a row, an integer; the last one waits. The index of an illegal row, or one out of range, counts as
    wait.
    Reward: the scenario's named terms times their weights; the terms of the step are in `info["rewards"]`.
    Episode: truncated at the horizon, terminated when all jobs of a finite trace are done.
    Info: `action_mask`, `illegal_action`, `elapsed` (time since the last decision) and `time`, in the family's unit.
    Rendering: `rgb_array` gives a picture (H, W, 3) of running, recent and waiting jobs; `ansi` the same as text. The
    pictures need Pillow, from the extra `render`.
    Copies: `copy.deepcopy` and `pickle` give an independent environment in the same state.
    """

    # Declared as Gymnasium declares it.
    metadata: dict[str, Any] = {"render_modes": [*RENDER_MODES], "render_fps": RENDER_FPS}  # noqa: RUF012

    def __init__(
        self,
        family: str,
        scenario: ScenarioLike | None = None,
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
        self._arrays = self._state_arrays(log_rows)
        rows = int(self.action_space.n)
        features = (self.family.global_features, self.family.candidate_features)
        self._buffer = buffer_arrays(1, rows, *features, raw=False, graph=self.family.graph(self.scenario))
        self._keys = observed_keys(self.observation_space)
        self._actions = np.zeros(1, np.int64)
        self._seeded = False
        self._bind()
        lanes.prepare_buffer(*self._structs)

    def _bind(self) -> None:
        """Build the compiled structs over the arrays, and the painter if the render mode needs one."""
        self._terms = self._arrays["terms"][0]
        self._painter = _painter_of(self._scene) if self._scene is not None and self.render_mode != "ansi" else None
        self._structs = (*self._lane_structs(), make_buffer(self._buffer))

    def _state_arrays(self, log_rows: int) -> dict[str, np.ndarray]:
        """Return the arrays of the lane's state, with `log_rows` of event log."""
        return self.family.state_arrays(self.scenario, 1, log_rows)

    def _lane_structs(self) -> tuple[Any, Any]:
        """Return the compiled structs of the lane: specification and state."""
        return self.family.make_spec(self.family.spec_arrays(self.scenario)), self.family.make_state(self._arrays)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in DERIVED}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _arrays=writable_arrays(state["_arrays"]), _buffer=writable_arrays(state["_buffer"]))
        self._actions = np.zeros(1, np.int64)
        self._bind()

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Start the episode of `seed`, by default of the successor of the last episode's seed."""
        super().reset(seed=seed)
        split = split_code(options["split"]) if options and "split" in options else self._split
        if seed is None and not self._seeded:
            seed = int(self.np_random.integers(2**31))
        self._seeded = True
        self._begin(-1 if seed is None else check_seed(seed), split)
        if self._scene is not None:
            self._scene = scene_of(self._scene.labels)
            self._update_scene(self._scene, stepped=False)
        return self._observation(), self._info()

    def step(self, action: np.int64 | int) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Take the row `action` and run to the next decision."""
        if not self._seeded:
            raise gymnasium.error.ResetNeeded("step was called before reset: expected a reset first")
        self._advance(check_action(action))
        if self._scene is not None:
            self._update_scene(self._scene, stepped=True)
        buffer = self._buffer
        reward, terminated, truncated = (buffer[name][0].item() for name in ("reward", "terminated", "truncated"))
        return self._observation(), reward, terminated, truncated, self._info()

    def _begin(self, seed: int, split: int) -> None:
        """Start the episode of `seed` and run to its first decision; -1 stands for the successor of the last seed."""
        lanes.reset_lanes(*self._structs, np.ones(1, np.bool_), np.array([seed], np.int64), split)

    def _advance(self, action: int) -> None:
        """Apply `action` and run to the next decision."""
        self._actions[0] = action
        lanes.step_lanes(*self._structs, self._actions, False)

    def render(self) -> Any:
        """Return the scene as an array of pixels or as text, by the render mode; None without one."""
        if self._scene is None:
            gymnasium.logger.warn("render was called without a render mode: expected gymnasium.make(..., render_mode=)")
            return None
        if self._painter is not None:
            return self._painter.paint(self._scene)
        from slipstream.render.terminal import frame

        return frame(self._scene, self._scene.labels.scenario, TEXT_COLUMNS).plain

    def _update_scene(self, scene: Scene, stepped: bool) -> None:
        """Update `scene` with the events since the last update; resume the lane while its log is full."""
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
        """Return the mask of the present decision as booleans, the interface of sb3-contrib."""
        return np.asarray(self._buffer["mask"][0], np.bool_)

    def _observation(self) -> Observation:
        return {key: self._buffer[name][0].copy() for key, name in self._keys}

    def _info(self) -> dict[str, Any]:
        unit = self.family.nanoseconds_per_unit
        return {
            "action_mask": self._buffer["mask"][0].copy(),
            "illegal_action": self._buffer["illegal"][0].item(),
            "elapsed": self._buffer["elapsed"][0].item() / unit,
            "time": self._buffer["time"][0].item() / unit,
            "rewards": dict(zip(self.family.reward_terms, self._terms.tolist(), strict=True)),
        }
