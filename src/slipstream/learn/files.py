"""Files of a training, read without torch: its description `run.json` and its evaluations `history.jsonl`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from slipstream.errors import InputError
from slipstream.files.inputs import read_lines, read_object, show

RUN, HISTORY, HISTORY_CSV = "run.json", "history.jsonl", "history.csv"
EXPECTED = "a file written by `slipstream train`"
EVALUATION = ("update", "steps", "reward", "heuristic_reward")
"""Numbers that every evaluation has."""
EXCESS = "constraint_excess"
"""Number that evaluations have where the family has constraints: the greatest excess over a limit."""


def read_about(folder: Path, texts: tuple[str, ...], objects: tuple[str, ...]) -> dict[str, Any]:
    """Return the description of a training; all of `texts` and `objects` are present, and are texts and objects.

    Raises:
        InputError: One line: the file, the key, what is wrong and what was expected.
    """
    path = folder / RUN
    about = read_object(path, EXPECTED, folder=folder)
    for keys, kind, expected in ((texts, str, "a text"), (objects, dict, "an object")):
        for key in keys:
            if not isinstance(about.get(key), kind):
                found = show(about[key]) if key in about else "nothing"
                raise InputError(f"{path}: {key}: expected {expected}, got {found}")
    return about


def read_history(folder: Path, keys: tuple[str, ...] = EVALUATION) -> list[dict[str, Any]]:
    """Return all evaluations of a training, each with numbers for `keys`; an incomplete last line is ignored.

    Raises:
        InputError: One line: the file, the line, what is wrong with it and what was expected.
    """
    path = folder / HISTORY
    lines = read_lines(path, EXPECTED, folder=folder)
    for number, line in enumerate(lines, 1):
        for key in (*keys, *({EXCESS} & line.keys())):
            if type(line.get(key)) not in (int, float):
                found = show(line[key]) if key in line else "nothing"
                raise InputError(f"{path}: line {number}: {key}: expected a number, got {found}")
    return lines
