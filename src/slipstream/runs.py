"""`slipstream.run` and `slipstream.report`: one episode with all that is known about it, and pages of results."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from slipstream import __version__, display
from slipstream.errors import InputError
from slipstream.families.contract import Scenario, ScenarioLike, family_of
from slipstream.files.atomic import write_files
from slipstream.files.wording import metric_title
from slipstream.policies.auto import Auto
from slipstream.policies.base import Policy, find_for
from slipstream.reports.figures.gantt import gantt_figure
from slipstream.reports.html.comparison import comparison_sections, comparisons_page
from slipstream.reports.html.page import page
from slipstream.reports.runs import Run as RecordedRun
from slipstream.reports.runs import read_recording, run_of
from slipstream.results import Comparison
from slipstream.scenario import digest as scenario_digest
from slipstream.scenario import dump, load
from slipstream.sim.eventlog import KINDS, LogWriter, digest
from slipstream.sim.simulator import Simulator, check_seed


@dataclass(frozen=True, eq=False)
class Run:
    """One episode: its scenario, its event log, and what is computed from the two."""

    scenario: Scenario
    policy: str
    """Name of the policy that decided."""
    seed: int
    split: str
    """The split of the seed: train, eval or test."""
    events: np.ndarray
    """The event log, a row per event; `to_pandas` names its kinds."""
    about: dict[str, Any]
    """Metadata of the log, as a file keeps it."""

    @cached_property
    def metrics(self) -> dict[str, float]:
        """The metrics of the episode, by name."""
        return family_of(self.scenario).metrics(self.scenario, self.events, self.seed, self.split)

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of the event log."""
        return digest(self.events)

    @cached_property
    def _recorded(self) -> RecordedRun:
        """The run with its timeline and charts, as reports draw it."""
        return run_of(self.events, self.about, self.scenario)

    @property
    def title(self) -> str:
        """The family and name of the scenario, the policy and the seed, in words."""
        device, hardware = self.about.get("device"), self.about.get("hardware")
        where = f"real run on {device}" + (f" ({hardware})" if hardware else "") if device else "simulated"
        return f"{self.scenario.family}/{self.scenario.name} under {self.policy}, seed {self.seed}, {where}"

    def __repr__(self) -> str:
        name = f"{self.scenario.family}/{self.scenario.name}"
        reward = display.number(self.metrics["reward"])
        return f"Run({name!r}, {self.policy!r}, seed={self.seed}, reward {reward}, {len(self.events):,} events)"

    def _repr_html_(self) -> str:
        family = family_of(self.scenario)
        names = [name for name in dict.fromkeys(("reward", *family.headline)) if name in self.metrics]
        rows = [[metric_title(name), display.number(self.metrics[name])] for name in names]
        return display.html_table(self.title, ["metric", "value"], rows)

    def to_pandas(self) -> Any:
        """Return the event log as a DataFrame: a row per event, times in the unit of the family.

        Columns other than `time_…` and `kind` are the log's own numbers, -1 where one does not apply.
        """
        family = family_of(self.scenario)
        columns: dict[str, Any] = {
            f"time_{family.time_unit}": self.events["time"] / family.nanoseconds_per_unit,
            "kind": np.array(KINDS)[self.events["kind"]],
        }
        return display.data_frame(
            columns | {name: self.events[name] for name in ("task", "job", "resource", "variant")}, index="event"
        )

    def plot(self, begin: float = 0.0, end: float | None = None) -> Any:
        """Return the schedule as a plotly figure: a row per resource and a bar per job, batch or task.

        `begin` and `end` are times in the unit of the family; by default the whole episode is shown. Of very many bars
        the first are drawn, and the title says so.
        """
        return gantt_figure(self._recorded, self.title, begin, end)

    def save(self, path: str | Path) -> Path:
        """Write the event log as a Parquet file, as `slipstream run --log` does; `load` reads it."""
        target = Path(path)
        if target.suffix != ".parquet":
            raise InputError(f"{target}: expected the name of a .parquet file, in which event logs are kept")
        target.parent.mkdir(parents=True, exist_ok=True)
        writer = LogWriter(target, self.about)
        writer.write(self.events)
        writer.close()
        return target

    @classmethod
    def load(cls, path: str | Path) -> Run:
        """Return the recorded run at `path`, which `save`, `slipstream run` or `slipstream execute` wrote.

        Raises:
            TraceError: One line: not an event log, or one without its description.
        """
        events, about, scenario = read_recording(Path(path))
        return cls(scenario, about["policy"], about["seed"], about.get("split", "test"), events, about)

    def report(self, path: str | Path = "report.html") -> Path:
        """Write the run as one HTML page that opens offline; return its path."""
        return report(self, out=path)


def run(scenario: ScenarioLike, policy: str | Policy | None = None, seed: int = 0, split: str = "test") -> Run:
    """Run one episode.

    Args:
        scenario: The name of a built-in scenario, a path, a dictionary or a scenario object.
        policy: A policy or its name; by default `auto`, which races for seconds on first use of a scenario.
        seed: Seed of everything that is random in the episode.
        split: Split of the seed: train, eval or test, whose episodes are disjoint.
    """
    loaded = load(scenario)
    player = find_for(policy, loaded)
    events = Simulator(loaded).play(player, check_seed(seed), split)
    source = str(scenario) if isinstance(scenario, str | Path) else f"{loaded.family}/{loaded.name}"
    plays = {"plays": player.policy_for(loaded).name} if isinstance(player, Auto) else {}
    name = plays.get("plays", player.name)
    arguments = [repr(source), repr(name), f"seed={seed}", *([f"split={split!r}"] if split != "test" else [])]
    about = {
        "version": __version__,
        "command": f"slipstream.run({', '.join(arguments)})",
        "policy": player.name,
        **plays,
        "seed": seed,
        "split": split,
        "scenario": dump(loaded),
        "scenario_digest": scenario_digest(loaded),
    }
    return Run(loaded, player.name, seed, split, events, about)


def report(*results: Run | Comparison | str | Path, out: str | Path = "report.html") -> Path:
    """Write runs and comparisons into one HTML page that opens offline; return its path.

    Args:
        results: Runs and comparisons, or paths of their files: event logs (.parquet) and saved comparisons (.json).
            Runs must be of one family, whose metrics they share.
        out: The file to write.

    Raises:
        InputError: Nothing to report, a file that is neither, or runs of several families.
    """
    if not results:
        raise InputError("nothing to report: expected at least one run or comparison")
    found = [_result_of(one) for one in results]
    comparisons = [one for one in found if isinstance(one, Comparison)]
    runs = [one._recorded for one in found if isinstance(one, Run)]
    command = f"slipstream.report(..., out={str(out)!r})"
    text = (
        page(runs, command, opening=comparison_sections(comparisons))
        if runs
        else comparisons_page(comparisons, command)
    )
    target = Path(out)
    write_files({target: text.encode()}, overwrite=True)
    return target


def _result_of(result: Run | Comparison | str | Path) -> Run | Comparison:
    """Return a run or comparison itself, or the one in a file."""
    if isinstance(result, Run | Comparison):
        return result
    if not isinstance(result, str | Path):
        kind = type(result).__name__
        raise InputError(f"report: expected runs, comparisons or paths of their files, got an object of type {kind}")
    return Comparison.load(result) if Path(result).suffix == ".json" else Run.load(result)
