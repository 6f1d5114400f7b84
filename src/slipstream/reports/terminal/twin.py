"""What the twin of a Slurm queue says, as tables, from its JSON-ready data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Group
from rich.text import Text

from slipstream.errors import printable
from slipstream.families.cluster.twin.words import in_words
from slipstream.files.wording import counted
from slipstream.reports.terminal.plain_table import PlainTable
from slipstream.reports.terminal.tables import figure, figure_table

FIGURES = {"wait_mean_s": "mean wait", "slowdown_mean": "mean slowdown", "energy_kwh": "energy (kWh)"}


def twin_tables(answer: Mapping[str, Any], most: int) -> Group:
    """Return the whole answer: a line about the cluster, the waiting jobs (at most `most`), and the what-ifs."""
    parts: list[Any] = [Text(printable(summary(answer)))]
    if answer["jobs"] or answer["left_out"]:
        parts += [Text(), jobs_table(answer, most)]
    if len(answer["what_if"]) > 1:
        parts += [Text(), what_if_table(answer)]
    return Group(*parts)


def summary(answer: Mapping[str, Any]) -> str:
    """Return one line about the cluster, and what the run times were drawn from."""
    cluster, past = answer["cluster"], answer["history"]
    at = f"At {answer['taken_at']}: " if answer["taken_at"] else ""
    drawn = f"run times drawn from {past['jobs']:,} past jobs" if past["jobs"] else "run times are the requested ones"
    return (
        f"{at}{cluster['gpus_in_use']} of {cluster['gpus']} GPUs in use by {counted(cluster['running'], 'job')}, "
        f"{counted(cluster['waiting'], 'job')} waiting. "
        f"Present rules: {answer['policy']}; {answer['futures']} futures, {drawn}."
    )


def jobs_table(answer: Mapping[str, Any], most: int) -> PlainTable:
    """Return a row for each waiting job: when it starts, and why it waits."""
    ranks = {"user": 3, "has waited": 2}
    table = figure_table(
        None, (), ("job", "GPUs", "has waited", "starts in", f"{answer['interval']:.0%} between"), ranks
    )
    table.add_column("user", rank=ranks["user"])
    table.add_column("why it waits")
    shown = [*answer["jobs"], *answer["left_out"]]
    for job in shown[:most]:
        table.add_row(*_cells(job))
    if len(shown) > most:
        table.title = f"the first {most} of {len(shown)} waiting jobs (see --top)"
    return table


def _cells(job: Mapping[str, Any]) -> list[str]:
    starts = job.get("starts_in_s")
    waited = in_words(job["waited_s"]) if "waited_s" in job else ""
    when = ["", ""] if starts is None else [in_words(starts["median"]), between(starts)]
    slurm = f" (Slurm: {job['slurm_reason']})" if job.get("slurm_reason") else ""
    return [job["job"], str(job["gpus"]), waited, *when, job["user"], job["why"] + slurm]


def between(starts: Mapping[str, float]) -> str:
    """Return the interval of a start in words."""
    return f"{in_words(starts['low'])} - {in_words(starts['high'])}"


def what_if_table(answer: Mapping[str, Any]) -> PlainTable:
    """Return a row for each what-if and policy: mean figures, and their differences to the present rules."""
    columns = [name for title in FIGURES.values() for name in (title, "difference")]
    table = figure_table(None, ("what if", "policy"), columns)
    last = ""
    for row in answer["what_if"]:
        cells = [cell for name in FIGURES for cell in _figures(row, name)]
        note = f" ({row['never_start']} never start)" if row["never_start"] else ""
        table.add_row(row["what_if"] + note if row["what_if"] != last else "", row["policy"], *cells)
        last = row["what_if"]
    return table


def _figures(row: Mapping[str, Any], name: str) -> tuple[str, str]:
    """Return a figure of a row, and its difference to the present rules with its interval."""
    words = in_words if name.endswith("_s") else figure
    mean, difference = row[name], row[f"{name}_difference"]
    if mean is None or difference["mean"] is None:
        return "", ""
    sign = "-" if difference["mean"] < 0.0 else "+"
    text = f"{sign}{words(abs(difference['mean']))}"
    if difference["low"] is not None and difference["high"] > difference["low"]:
        text += f" ± {words((difference['high'] - difference['low']) / 2.0)}"
    return words(mean), text
