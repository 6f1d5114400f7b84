"""Flat observations for libraries that need vectors, in the order of Gymnasium's flattening."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from slipstream.envs.env import Observation
from slipstream.errors import InputError

MASK = "action_mask"


def flat_space(space: spaces.Dict) -> spaces.Box:
    """Return the flat box of a dictionary of boxes; `gymnasium.spaces.unflatten` is the inverse."""
    boxes = list(space.values())
    low, high = (np.concatenate([getattr(box, end).ravel() for box in boxes]) for end in ("low", "high"))
    return spaces.Box(low.astype(np.float32), high.astype(np.float32), dtype=np.float32)


def flat_rows(space: spaces.Dict, batch: Observation, lanes: int) -> np.ndarray:
    """Return a batch of observations of `space` as a new array, one row per lane."""
    return np.concatenate([batch[name].reshape(lanes, -1) for name in space], axis=1, dtype=np.float32)


class FlatObservation(gymnasium.ObservationWrapper[np.ndarray, np.int64, Observation]):
    """Flattens the observation to one float32 row, with the mask if the environment observes it.

    Infos and `action_masks()` are unchanged, so sb3-contrib finds the mask through the wrapper.
    """

    def __init__(self, env: gymnasium.Env[Observation, np.int64]) -> None:
        super().__init__(env)
        self._inner = _dictionary_of(env)
        self.observation_space = flat_space(self._inner)

    def observation(self, observation: Observation) -> np.ndarray:
        row: np.ndarray = flat_rows(self._inner, observation, 1)[0]
        return row

    def action_masks(self) -> np.ndarray:
        """Return the mask of the present decision as booleans."""
        return _masks_of(self.env)


class FlatMaskedObservation(gymnasium.ObservationWrapper[Observation, np.int64, Observation]):
    """Observes `observations`, one float32 row, and `action_mask`: the keys that RLlib's masking modules read.

    TorchRL reads the mask from the observation as well.
    """

    def __init__(self, env: gymnasium.Env[Observation, np.int64]) -> None:
        super().__init__(env)
        space = _dictionary_of(env)
        self._inner = spaces.Dict({name: box for name, box in space.items() if name != MASK})
        rows = int(env.get_wrapper_attr("action_space").n)
        self.observation_space = spaces.Dict(
            {"observations": flat_space(self._inner), MASK: spaces.Box(0, 1, (rows,), np.int8)}
        )

    def observation(self, observation: Observation) -> Observation:
        return {"observations": flat_rows(self._inner, observation, 1)[0], MASK: self.action_masks().astype(np.int8)}

    def action_masks(self) -> np.ndarray:
        """Return the mask of the present decision as booleans."""
        return _masks_of(self.env)


def _dictionary_of(env: gymnasium.Env[Observation, np.int64]) -> spaces.Dict:
    """Return the environment's observation space; raise an InputError unless it is a dictionary of boxes."""
    space = env.observation_space
    if not isinstance(space, spaces.Dict) or not all(isinstance(box, spaces.Box) for box in space.values()):
        raise InputError(
            f"observation space {space}: expected a dictionary of boxes, as Slipstream's environments have"
        )
    return space


def _masks_of(env: gymnasium.Env[Any, Any]) -> np.ndarray:
    masks: np.ndarray = env.get_wrapper_attr("action_masks")()
    return masks
