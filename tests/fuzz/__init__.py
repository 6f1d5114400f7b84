"""Damaged input of every kind, against every reader: `python -m tests.fuzz --minutes 10`."""
