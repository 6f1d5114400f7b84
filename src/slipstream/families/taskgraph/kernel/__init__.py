"""Compiled simulator of the taskgraph family."""
