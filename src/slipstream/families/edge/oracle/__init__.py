"""Bounds, exact solvers and the hindsight optimum of an episode."""
