"""Regret of the decisions of a recorded run: computed, as a table, and on the Gantt chart."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Group
from rich.text import Text

from slipstream.errors import PolicyError, TraceError
from slipstream.families.contract import Scenario, family_of
from slipstream.families.shared.regret import Decision, Regret, choices_of, hindsight_of, regret_of
from slipstream.files.markup import escape
from slipstream.files.wording import counted
from slipstream.policies.base import find
from slipstream.reports.html.elements import cells, table_of
from slipstream.reports.html.page import page
from slipstream.reports.runs import EXPECTED, Run
from slipstream.reports.terminal.plain_table import PlainTable
from slipstream.reports.terminal.tables import figure
from slipstream.sim.eventlog import digest
from slipstream.sim.simulator import Simulator, check_seed, split_code


def regret_of_run(
    path: Path,
    events: np.ndarray,
    about: dict[str, Any],
    scenario: Scenario,
    policy: str | None,
    seconds: float,
    progress: Callable[[int, int], None],
) -> Regret:
    """Return the regret of the decisions of a recorded run.

    A log has events, not decisions: the policy that it names, or the one that is given, replays the episode.

    Raises:
        TraceError: One line: the policy is not known, or plays another run.
    """
    family = family_of(scenario)
    name = policy or str(about["policy"])
    try:
        player = find(name, family.name)
    except PolicyError as error:
        hint = "expected --policy with the folder of the one that played"
        raise TraceError(f"{path}: was played by '{name}', which is not known ({error}): {hint}") from error
    split = str(about.get("split", "test"))
    split_code(split)
    if not isinstance(about["seed"], int):
        raise TraceError(f"{path}: its seed is '{about['seed']}': {EXPECTED}")
    seed = check_seed(about["seed"])
    if digest(Simulator(scenario).play(player, seed, split)) != digest(events):
        raise TraceError(
            f"{path}: is not what '{name}' plays with seed {seed}: expected a simulated run of this version"
        )
    quiet = Simulator(scenario, log_rows=0)
    actions = choices_of(quiet, player, seed, split)
    hindsight = hindsight_of(scenario, seed, split, seconds)
    return regret_of(quiet, actions, seed, split, hindsight, progress)


def regret_table(run: Run, found: Regret, count: int) -> Group:
    """Return the `top` decisions of largest regret as a table with a summary below."""
    unit = run.family.time_unit
    title = f"{run.title} under {run.about['policy']}, seed {run.about['seed']}"
    worst = found.worst(count)
    if not worst:
        return Group(Text(title), verdict(found))
    table = PlainTable(title=title, box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("decision", justify="right")
    table.add_column(f"time ({unit})", justify="right")
    table.add_column("chosen")
    table.add_column("better")
    table.add_column("regret", justify="right")
    for one in worst:
        table.add_row(str(one.number), _time(run, one), one.what, one.better, _cost(one))
    return Group(table, verdict(found))


def verdict(found: Regret) -> str:
    """Return a summary of the total regret."""
    costly = len([one for one in found.decisions if one.regret > 0.0])
    made = counted(len(found.decisions), "decision")
    cost = f"None of {made} cost anything: "
    if costly:
        cost = f"{costly:,} of {made} cost something, {figure(found.total)} in all: "
    if found.exact:
        return f"{cost}the run reached {figure(found.reached)}, the optimum is {figure(found.best_known)} (proven)."
    bound = "" if found.bound is None else f", no policy can exceed {figure(found.bound)}"
    known = f"the run reached {figure(found.reached)}, the best that is known is {figure(found.best_known)}{bound}"
    estimated = any(not one.exact and one.regret > 0.0 for one in found.decisions)
    return f"{cost}{known}.{' Figures with ~ are estimates.' if estimated else ''}"


def page_of_regret(run: Run, found: Regret, count: int, command: str) -> str:
    """Return the report of `run` with the `top` decisions of largest regret in a table and on the Gantt chart."""
    worst = found.worst(count)
    rows = []
    for place, one in enumerate(worst, 1):
        texts = [str(one.number), _time(run, one), escape(one.what), escape(one.better), _cost(one)]
        rows.append((str(place), cells(texts, [False] * len(texts))))
    columns = ["", "decision", f"time ({run.family.time_unit})", "chosen", "better", "regret"]
    table = table_of(escape(verdict(found)), columns, rows)
    opening = f'<section aria-labelledby="regret"><h2 id="regret">Regret of decisions</h2>{table}</section>'
    marks = [
        {"time": one.time / run.family.nanoseconds_per_unit, "label": str(place), "text": _text(one)}
        for place, one in enumerate(worst, 1)
    ]
    return page([run], command, opening=opening, marks=marks)


def _text(one: Decision) -> str:
    return f"{one.what}; better: {one.better}; regret {_cost(one)}"


def _time(run: Run, one: Decision) -> str:
    return f"{one.time / run.family.nanoseconds_per_unit:,.3f}"


def _cost(one: Decision) -> str:
    return figure(one.regret) if one.exact else f"~{figure(one.regret)}"
