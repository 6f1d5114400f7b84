"""Policies: heuristics, solvers and trained networks behind one protocol."""

from slipstream.policies.base import Policy, chooser, find, names, rule

__all__ = ["Policy", "chooser", "find", "names", "rule"]
