"""Bounds of the best reward of an episode of elastic jobs."""
