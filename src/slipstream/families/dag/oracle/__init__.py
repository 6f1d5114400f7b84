"""Bounds, exact solvers and the hindsight optimum."""
