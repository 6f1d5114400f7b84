"""Parallel execution on this machine or on a Ray cluster."""
