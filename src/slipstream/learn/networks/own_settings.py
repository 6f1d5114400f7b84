"""What a training with a network of a user's own needs beside the others: consent to run its code, and settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from slipstream.errors import InputError
from slipstream.families.contract import Scenario, family_of
from slipstream.learn.networks.own import OwnNetwork
from slipstream.learn.settings import TrainSettings
from slipstream.networks.inputs import Columns
from slipstream.scale.executor import Executor, InProcess


def check_playable(network: OwnNetwork, settings: TrainSettings, executor: Executor) -> None:
    """Refuse what only compiled networks can do: learning from hindsight, and playing on other machines.

    Raises:
        InputError: One line: the network cannot be compiled, and why.
    """
    if network.not_compilable is None:
        return
    reason = f"network '{network.path}' is played by torch ({network.not_compilable})"
    if settings.hindsight_rounds:
        raise InputError(f"training: {reason}, which cannot learn from hindsight: expected hindsight.rounds=0")
    if not isinstance(executor, InProcess):
        raise InputError(f"training: {reason}, which plays in this process: expected no cluster")


def fit_settings(
    scenario: Scenario, settings: TrainSettings, given: Mapping[str, Any], tell: Callable[[str], None] | None
) -> TrainSettings:
    """Return `settings` without hindsight, unless it is `given`, where the network cannot be compiled.

    `tell` is called with how the network is played, in one sentence.
    """
    if settings.network.module is None:
        return settings
    network = OwnNetwork(Columns.of(family_of(scenario)), settings.network)
    if tell is not None:
        how = "compiled" if network.not_compilable is None else f"played by torch: {network.not_compilable}"
        tell(f"network: {network.path}, {how}")
    if network.not_compilable is None or "hindsight.rounds" in given:
        return settings
    return replace(settings, hindsight=replace(settings.hindsight, rounds=0))


def consented(settings: TrainSettings, network: str | None, label: str) -> TrainSettings:
    """Return the settings of a folder with the network that the user named; without one, no code of a folder is run.

    Raises:
        InputError: One line: the training has a network of its own and the user named none, or the reverse.
    """
    known = settings.network.module
    if known is not None and network is None:
        raise InputError(f"{label}: its network is code, '{known}': expected --network FILE.py:CLASS, the code to run")
    if known is None and network is not None:
        raise InputError(f"{label}: has no network of a user's own: expected no --network")
    return replace(settings, network=replace(settings.network, module=network))
