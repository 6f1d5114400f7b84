"""Compiled kernel of the serving family."""
