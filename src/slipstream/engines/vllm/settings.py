"""Settings of a policy in vLLM: the key `slipstream` of its `additional_config`."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from slipstream.errors import ScenarioError
from slipstream.families.llm.scenario import LlmScenario
from slipstream.families.shared.schema import StrictModel
from slipstream.files.validation import validated
from slipstream.scenario import load

KEY = "slipstream"
CLIENT, PREDICTED = "slipstream_client", "slipstream_predicted"
"""Extra arguments of a request: the name of its class, and the predicted length of its output."""


class Settings(StrictModel):
    """What a policy decides, and what is written about it."""

    policy: str = "shortest-prompt"
    """Name of a rule, or folder of a trained policy."""
    scenario: str = "llm/chat"
    """Scenario of the family llm: classes, step times, predictions, and what is decided; its engine is not read."""
    seed: Annotated[int, Field(ge=0)] = 0
    """Seed of policies that toss coins."""
    log: str | None = None
    """Event log of the run, written when the engine shuts down."""
    statistics: str | None = None
    """JSON with the counters, written when the engine shuts down."""
    step_ms: Annotated[float, Field(gt=0.0, le=1e9)] | None = None
    """Length that every step has for the policy, which makes its decisions repeatable; the clock's time if absent."""


def read_settings(additional: Any) -> Settings:
    """Return the settings in vLLM's `additional_config`; the defaults if it has none."""
    data = additional.get(KEY, {}) if isinstance(additional, dict) else {}
    if not isinstance(data, dict):
        raise ScenarioError(f"additional_config.{KEY}: expected an object")
    return validated(data, Settings, f"additional_config.{KEY}")


def read_scenario(settings: Settings) -> LlmScenario:
    """Return the scenario of the settings."""
    found = load(settings.scenario)
    if not isinstance(found, LlmScenario):
        raise ScenarioError(f"{settings.scenario}: family is '{found.family}': expected 'llm'")
    return found
