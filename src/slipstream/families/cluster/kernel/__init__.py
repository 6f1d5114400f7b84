"""Compiled kernel of the cluster family."""
