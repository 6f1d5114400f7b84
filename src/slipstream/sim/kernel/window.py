"""A list of candidates longer than an observation, compiled: which row stands for which place of the list.

An observation has room for `rows` candidates and the wait row. Behind that, compiled policies see the rest of the list,
and the wait row once more, as the last of `all_rows`. Both numbers are fields of the machine; the record of a lane says
how many `candidates` there are, and how many of them, the first, are `shown`.
"""

from __future__ import annotations

from slipstream.jit.decorators import inlined

ROW_FIELDS: list[tuple[str, str]] = [
    ("rows", "i8"),  # candidate rows that an observation has, but for the last
    ("all_rows", "i8"),  # candidate rows that compiled policies see, the last included
]
LIST_FIELDS: list[tuple[str, str]] = [
    ("candidates", "i8"),  # what can be chosen
    ("shown", "i8"),  # how many of these an observation has room for
]


@inlined
def candidate_of(spec, state, lane, row):
    """Return the place in the list that a row stands for, -1 if none."""
    machine = spec.machine[0]
    header = state.lanes[lane]
    if 0 <= row < header.shown:
        return row
    if machine.rows < row < machine.rows + 1 + header.candidates - header.shown:
        return header.shown + row - machine.rows - 1
    return -1


@inlined
def is_wait(machine, row):
    """Return whether a row is one of the two that wait."""
    return row == machine.rows or row == machine.all_rows - 1


@inlined
def filled_rows(machine, listed, behind):
    """Return how many rows a policy has to look at, where so many are listed and so many stand behind the window."""
    return machine.rows + 1 + behind if behind > 0 else listed
