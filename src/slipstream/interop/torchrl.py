"""The native vector environment as an environment of TorchRL."""

from __future__ import annotations

from gymnasium.vector import AutoresetMode

from slipstream.envs.vector import SchedulingVectorEnv
from slipstream.families.contract import ScenarioLike, family_of
from slipstream.scenario import load

try:
    import torch
    from torchrl.envs import CatTensors, Compose, DTypeCastTransform, FlattenObservation, GymWrapper, TransformedEnv
except ImportError as error:
    raise ImportError("slipstream.interop.torchrl needs TorchRL: run `pip install 'slipstream[interop]'`") from error


def make_env(scenario: ScenarioLike, num_envs: int = 1, threads: int = 1, split: str = "train") -> TransformedEnv:
    """Return an environment of `num_envs` lanes that observe `observation`, a flat row, and `action_mask`, booleans.

    Lane k of an environment reset with seed s is the single environment of seed s + k. Actions are indices of rows.
    """
    loaded = load(scenario)
    lanes = SchedulingVectorEnv(
        num_envs,
        family_of(loaded).name,
        loaded,
        threads=threads,
        autoreset_mode=AutoresetMode.DISABLED,  # TorchRL resets ended lanes and keeps their last observation
        mask_in_observation=True,
        split=split,
    )
    return TransformedEnv(
        GymWrapper(lanes, categorical_action_encoding=True),
        Compose(
            FlattenObservation(-2, -1, in_keys=["candidates"]),
            CatTensors(["candidates", "globals"], "observation"),
            DTypeCastTransform(torch.int8, torch.bool, in_keys=["action_mask"]),
        ),
    )
