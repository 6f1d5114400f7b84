"""Kinds of policies, by what they may know: tables name the kind of every policy."""

from __future__ import annotations

from slipstream.families.contract import FAMILIES
from slipstream.policies.base import Heuristic, ModelBased, Policy, find, names
from slipstream.policies.compiled.network_policy import CompiledPolicy

HEURISTIC = "heuristic"
"""A rule or chooser, which sees the rows of a decision."""
TRAINED = "trained"
"""A network, which sees the rows of a decision."""
MODEL_BASED = "model-based"
"""Knows the laws of the scenario too and may simulate, but never the future that was drawn."""
CODE = "code"
"""An object from outside of the package, which gets the rows of a decision."""


def kind_of(policy: Policy) -> str:
    """Return the kind of `policy`: heuristic, trained, model-based or code."""
    if isinstance(policy, Heuristic):
        return HEURISTIC
    if isinstance(policy, CompiledPolicy):
        return TRAINED
    return MODEL_BASED if isinstance(policy, ModelBased) or _is_listed(policy) else CODE


def _is_listed(policy: Policy) -> bool:
    """Return whether a family lists `policy`; a listed policy that is no heuristic is a planner."""
    family = getattr(policy, "family", None)
    if family not in FAMILIES or policy.name not in names(family):
        return False
    return type(find(policy.name, family)) is type(policy)
