"""Compiled simulator of the dag family."""
