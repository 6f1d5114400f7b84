"""The native vector environment as a VecEnv of Stable-Baselines3 and sb3-contrib."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode

from slipstream.envs.env import Observation
from slipstream.envs.spaces import observation_space
from slipstream.envs.vector import SchedulingVectorEnv
from slipstream.errors import InputError
from slipstream.families.contract import ScenarioLike, family_of
from slipstream.interop.flat import flat_rows, flat_space
from slipstream.scenario import load

try:
    from stable_baselines3.common.vec_env import VecEnv
    from stable_baselines3.common.vec_env.base_vec_env import VecEnvIndices, VecEnvObs, VecEnvStepReturn
except ImportError as error:
    raise ImportError(
        "slipstream.interop.sb3 needs Stable-Baselines3: run `pip install 'slipstream[interop]'`"
    ) from error

SHARED = ("action_space", "family", "observation_space", "render_mode", "scenario")
"""Attributes common to all lanes that `get_attr` returns, one entry per lane."""


class SlipstreamVecEnv(VecEnv):
    """`num_envs` lanes of a scenario, stepped by compiled code; lane k seeded s + k is the single env of that seed.

    Observations are flat rows, for `MlpPolicy`; with `flat=False` dictionaries, for `MultiInputPolicy`. A lane that
    ended starts its next episode at once; its last observation is in `info["terminal_observation"]`, and
    `info["TimeLimit.truncated"]` says whether it was cut off at the horizon. sb3-contrib finds the masks.
    """

    def __init__(
        self,
        scenario: ScenarioLike,
        num_envs: int = 1,
        flat: bool = True,
        threads: int = 1,
        mask_in_observation: bool = False,
        split: str = "train",
    ) -> None:
        loaded = load(scenario)
        self.envs = SchedulingVectorEnv(
            num_envs,
            family_of(loaded).name,
            loaded,
            threads=threads,
            copy=not flat,  # flattening copies anyway
            autoreset_mode=AutoresetMode.SAME_STEP,
            mask_in_observation=mask_in_observation,
            split=split,
        )
        self._flat = flat
        self._actions = np.zeros(num_envs, np.int64)
        self._inner = observation_space(self.envs.family, loaded, mask_in_observation)
        space = flat_space(self._inner) if flat else self._inner
        super().__init__(num_envs, space, self.envs.single_action_space)

    def reset(self) -> VecEnvObs:
        """Start an episode in every lane, with the seeds and options set since the last reset."""
        if any(options != self._options[0] for options in self._options):
            raise InputError("options differ between lanes: expected the same for all of them")
        seeds = None if all(seed is None for seed in self._seeds) else self._seeds
        observation, info = self.envs.reset(seed=seeds, options=self._options[0])
        self.reset_infos = list(self._infos(info))
        self._reset_seeds()
        self._reset_options()
        return self._formatted(observation)

    def step_async(self, actions: np.ndarray) -> None:
        self._actions = actions

    def step_wait(self) -> VecEnvStepReturn:
        """Take one row in every lane; ended lanes start their next episode at once."""
        observation, reward, terminated, truncated, info = self.envs.step(self._actions)
        infos = list(self._infos(info))
        ended = terminated | truncated
        if ended.any():
            last, last_infos = self._formatted(info["final_obs"]), list(self._infos(info["final_info"]))
            for lane in np.flatnonzero(ended).tolist():
                self.reset_infos[lane] = infos[lane]
                infos[lane] = last_infos[lane]
                infos[lane]["terminal_observation"] = _lane_of(last, lane)
        for lane, cut in enumerate((truncated & ~terminated).tolist()):
            infos[lane]["TimeLimit.truncated"] = cut
        return self._formatted(observation), reward.astype(np.float32), ended, infos

    def close(self) -> None:
        self.envs.close()

    def get_attr(self, attr_name: str, indices: VecEnvIndices = None) -> list[Any]:
        """Return the attribute `attr_name` of the lanes `indices`, by default of all."""
        lanes = self._get_indices(indices)
        if attr_name == "action_masks":
            return [self._mask_getter(lane) for lane in lanes]
        if attr_name not in SHARED:
            raise AttributeError(f"no attribute '{attr_name}': expected action_masks, {', '.join(SHARED)}")
        source = self if attr_name.endswith("_space") else self.envs
        return [getattr(source, attr_name) for _ in lanes]

    def set_attr(self, attr_name: str, value: Any, indices: VecEnvIndices = None) -> None:
        raise InputError(f"attribute '{attr_name}': lanes have none to set: expected a new SlipstreamVecEnv instead")

    def env_method(
        self, method_name: str, *method_args: Any, indices: VecEnvIndices = None, **method_kwargs: Any
    ) -> list[Any]:
        """Call a method of the lanes `indices`, by default of all; the only one is `action_masks`."""
        if method_name != "action_masks":
            raise AttributeError(f"no method '{method_name}': expected action_masks")
        masks = self.envs.action_masks()
        return [masks[lane] for lane in self._get_indices(indices)]

    def env_is_wrapped(
        self, wrapper_class: type[gymnasium.Wrapper[Any, Any, Any, Any]], indices: VecEnvIndices = None
    ) -> list[bool]:
        return [False for _ in self._get_indices(indices)]

    def _mask_getter(self, lane: int) -> Callable[[], np.ndarray]:
        return lambda: self.envs.action_masks()[lane]

    def _formatted(self, batch: Observation) -> np.ndarray | Observation:
        return flat_rows(self._inner, batch, self.num_envs) if self._flat else batch

    def _infos(self, batch: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Yield the info of each lane in the form of the single environment."""
        terms = batch["rewards"]
        columns = (batch[name].tolist() for name in ("illegal_action", "elapsed", "time"))
        rewards = zip(*(column.tolist() for column in terms.values()), strict=True)
        for mask, illegal, elapsed, time, values in zip(batch["action_mask"].copy(), *columns, rewards, strict=True):
            yield {
                "action_mask": mask,
                "illegal_action": illegal,
                "elapsed": elapsed,
                "time": time,
                "rewards": dict(zip(terms, values, strict=True)),
            }


def _lane_of(batch: Any, lane: int) -> Any:
    """Return the observation of `lane` from a batch, flat or a dictionary."""
    return {name: array[lane] for name, array in batch.items()} if isinstance(batch, dict) else batch[lane]
