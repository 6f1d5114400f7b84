"""Policies: who decides. Heuristics are one function and one decorator; solvers and networks share their protocol."""

from slipstream.policies.base import Policy, chooser, find, names, rule

__all__ = ["Policy", "chooser", "find", "names", "rule"]
