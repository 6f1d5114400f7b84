"""What `gymnasium.make` calls: an environment over the simulator, or over a device."""

from __future__ import annotations

from typing import Any

from slipstream.envs.env import SchedulingEnv
from slipstream.families.contract import ScenarioLike


def make_env(
    family: str, scenario: ScenarioLike | None = None, device: str | None = None, **options: Any
) -> SchedulingEnv:
    """Return the environment of a scenario, simulated unless a `device` is named that runs its models.

    Raises:
        InputError: One line: the scenario, a setting, or the device, and what was expected.
    """
    if device is None:
        return SchedulingEnv(family, scenario, **options)
    from slipstream.device.environment import DeviceEnv

    return DeviceEnv(family, scenario, device=device, **options)


make_env.metadata = SchedulingEnv.metadata  # type: ignore[attr-defined]
