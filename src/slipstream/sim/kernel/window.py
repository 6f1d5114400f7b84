"""Observation window over a list of candidates, compiled: maps candidate rows to indices of the list.

An observation has `rows` candidate rows and the wait row. After these, compiled policies see the rest of the list and a
second wait row, the last of `all_rows`. Both numbers are fields of the machine record; the lane record has the number
of `candidates`, and `shown`, the number of those at the head of the list that are in the window.
"""

from __future__ import annotations

from slipstream.jit.decorators import inlined

ROW_FIELDS: list[tuple[str, str]] = [
    ("rows", "i8"),  # candidate rows of an observation, without the wait row
    ("all_rows", "i8"),  # candidate rows that compiled policies see, both wait rows included
]
LIST_FIELDS: list[tuple[str, str]] = [
    ("candidates", "i8"),  # length of the candidate list
    ("shown", "i8"),  # candidates in the observation window
]


@inlined
def candidate_of(spec, state, lane, row):
    """Return the index in the candidate list of `row`, -1 if it has none."""
    machine = spec.machine[0]
    header = state.lanes[lane]
    if 0 <= row < header.shown:
        return row
    if machine.rows < row < machine.rows + 1 + header.candidates - header.shown:
        return header.shown + row - machine.rows - 1
    return -1


@inlined
def is_wait(machine, row):
    """Return whether `row` is one of the two wait rows."""
    return row == machine.rows or row == machine.all_rows - 1


@inlined
def filled_rows(machine, listed, behind):
    """Return the number of rows a policy has to scan: `listed` in the window, plus `behind` after the wait row."""
    return machine.rows + 1 + behind if behind > 0 else listed
