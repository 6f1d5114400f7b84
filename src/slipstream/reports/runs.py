"""A recorded run: metadata, timeline, metrics and charts, as reports show them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from slipstream.errors import InputError, InvariantError, TraceError, printable
from slipstream.families.contract import Family, Scenario, family_of
from slipstream.families.shared.charts import Chart, Picture
from slipstream.families.shared.timeline import Timeline
from slipstream.files.inputs import json_object, show
from slipstream.scenario import load
from slipstream.sim.eventlog import COLUMNS, KINDS, digest, read
from slipstream.sim.kernel.rng import SEED_LIMIT, SPLITS

MOST_JOBS = 200_000
"""Jobs of one run that a page can hold and still open; about 60 bytes each."""

LATEST_NS = 1 << 62
"""Sums and differences of times up to this are exact."""

EXPECTED = "expected an event log written by `slipstream run --log`"


@dataclass(frozen=True)
class Run:
    """One recorded episode with all that a report draws."""

    about: dict[str, Any]
    """Metadata of the log: policy, seed, split, version, scenario_digest, command; of a real run device, hardware."""
    scenario: Scenario
    digest: str
    """Of the event log."""
    timeline: Timeline
    metrics: dict[str, float]
    charts: list[Chart | Picture]
    """Those of the family, beside the ones that all families have."""

    @property
    def family(self) -> Family:
        """The family of the scenario."""
        return family_of(self.scenario)

    @property
    def title(self) -> str:
        """The scenario's family and name."""
        return printable(f"{self.scenario.family}/{self.scenario.name}")

    @property
    def real(self) -> bool:
        """Whether a device ran the jobs, not the simulator."""
        return "device" in self.about or "hardware" in self.about

    @property
    def source(self) -> str:
        """What ran the jobs, in words: the simulator, or a device and the hardware that its log names."""
        if not self.real:
            return "Simulated"
        return printable(f"Real run on {self.about.get('hardware') or self.about.get('device')}")

    @property
    def episode(self) -> tuple[int, str]:
        """Seed and split, which determine the arrivals."""
        return episode_of(self.about)

    def times(self, nanoseconds: np.ndarray) -> list[float]:
        """Return times in the family's unit."""
        values: list[float] = (nanoseconds / self.family.nanoseconds_per_unit).tolist()
        return values


def run_of(events: np.ndarray, about: dict[str, Any], scenario: Scenario) -> Run:
    """Return the run of `events` with metadata `about`; raises InvariantError if the log violates an invariant."""
    family = family_of(scenario)
    family.check(scenario, events)
    timeline = family.timeline(scenario, events)
    figures, charts = family.metrics(scenario, events, *episode_of(about)), family.charts(scenario, events)
    return Run(about, scenario, digest(events), timeline, figures, charts)


def episode_of(about: dict[str, Any]) -> tuple[int, str]:
    """Return seed and split of a run from its metadata."""
    return about["seed"], about.get("split", "test")


def scenario_of(path: Path, about: dict[str, Any]) -> dict[str, Any]:
    """Return the scenario of a recorded run as data, after a check of the types of its metadata.

    Raises:
        TraceError: One line: the key that is missing or something else, and what was expected.
    """
    if not {"scenario", "policy", "seed"} <= about.keys():
        raise TraceError(f"{path}: does not say what was run: {EXPECTED}")
    for key in ("scenario", "policy", "split", "command", "device", "hardware", "version", "scenario_digest", "plays"):
        if not isinstance(about.get(key, ""), str):
            raise TraceError(f"{path}: {key}: expected a text, got {show(about[key])}: {EXPECTED}")
    if type(about["seed"]) is not int or not 0 <= about["seed"] < SEED_LIMIT:
        raise TraceError(f"{path}: seed: expected a whole number, got {show(about['seed'])}: {EXPECTED}")
    if about.get("split", "test") not in SPLITS:
        names = ", ".join(SPLITS)
        raise TraceError(f"{path}: split: expected one of {names}, got {show(about['split'])}: {EXPECTED}")
    return json_object(about["scenario"], f"{path}: its scenario", TraceError)


def read_recording(path: Path) -> tuple[np.ndarray, dict[str, Any], Scenario]:
    """Return events, metadata and scenario of the recorded run at `path`.

    Raises:
        TraceError: One line: not a log, or one without its description.
    """
    if path.is_dir():
        raise TraceError(f"{path}: is a folder: {EXPECTED}")
    events, about = read(path)
    _check_range(path, events)
    data = scenario_of(path, about)
    try:
        return events, about, load(data)
    except InputError as error:
        raise TraceError(f"{path}: its scenario cannot be read ({error}): {EXPECTED}") from error


def _check_range(path: Path, events: np.ndarray) -> None:
    """Raise TraceError for values that no log contains, before they are used as indices; invariants are checked later.

    Jobs count from 0 within their task, and each has a row for its arrival; -1 stands where a column does not apply.
    """
    most = {"time": LATEST_NS, "job": len(events) - 1, "kind": len(KINDS) - 1}
    for name in COLUMNS:
        column, least = events[name], 0 if name in ("time", "kind") else -1
        wrong = (column < least) | (column > most.get(name, np.iinfo(column.dtype).max))
        if wrong.any():
            row = int(wrong.argmax())
            raise TraceError(f"{path}: damaged (row {row}: {name} {column[row]} is out of range): {EXPECTED}")


def read_run(path: Path) -> Run:
    """Return a recorded run.

    Raises:
        TraceError: One line: not a log, a log without its description, a damaged one, or one too long to draw.
    """
    events, about, scenario = read_recording(path)
    try:
        run = run_of(events, about, scenario)
    except InvariantError as error:
        raise TraceError(f"{path}: damaged ({error}): {EXPECTED}") from error
    if len(run.timeline.task) > MOST_JOBS:
        raise TraceError(f"{path}: has {len(run.timeline.task):,} jobs: expected at most {MOST_JOBS:,} in a picture")
    return run


def played_policy(about: Mapping[str, Any]) -> str:
    """Return the name of the policy that decided in a run: for `auto`, the one that it played."""
    return str(about.get("plays", about["policy"]))


def labels_of(runs: Sequence[Run]) -> list[str]:
    """Return a distinct name for each run: its policy, with seed and scenario where needed."""
    sources = ["real run" if run.real else "simulated" for run in runs]
    forms = [
        [str(run.about["policy"]) for run in runs],
        [f"{run.about['policy']}, {source}" for run, source in zip(runs, sources, strict=True)],
        [f"{run.about['policy']}, seed {run.about['seed']}" for run in runs],
        [f"{run.title}, {run.about['policy']}, seed {run.about['seed']}" for run in runs],
    ]
    forms = [[printable(label) for label in labels] for labels in forms]
    for labels in forms:
        if len(set(labels)) == len(labels):
            return labels
    seen: Counter[str] = Counter()
    labels = []
    for label in forms[-1]:
        seen[label] += 1
        labels.append(label if seen[label] == 1 else f"{label} ({seen[label]})")
    return labels
