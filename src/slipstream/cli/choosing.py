"""What `auto` plays in a scenario, found before a command plays it and why, in one line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from slipstream.cli.common import progress_bar

if TYPE_CHECKING:
    from slipstream.families.contract import Scenario
    from slipstream.policies.auto import Choice
    from slipstream.policies.base import Policy


def choice_of(policy: Policy, scenario: Scenario) -> Choice | None:
    """Return what `auto` plays in `scenario` and why, after a race if none is stored; None for other policies."""
    from slipstream.policies.auto import Auto

    if not isinstance(policy, Auto):
        return None
    with progress_bar("racing policies on training episodes") as progress:
        return policy.choice(scenario, progress)


def played_by(choice: Choice | None) -> str | None:
    """Return the name of the policy that `auto` plays; None for other policies."""
    return None if choice is None else choice.policy


def choice_line(choice: Choice) -> str:
    """Return in one line what `auto` plays, and why."""
    return f"auto plays '{choice.policy}': {choice.reason}."


def choice_json(choice: Choice | None) -> dict[str, Any]:
    """Return the key that says in JSON output what `auto` plays and why; nothing for other policies."""
    return {} if choice is None else {"choice": {"policy": choice.policy, "reason": choice.reason}}
