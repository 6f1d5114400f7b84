"""Names and expectations of a scenario of elastic jobs, for rendering a run in progress."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from slipstream.families.elastic import features as f
from slipstream.families.elastic.build import compiled_scenario
from slipstream.families.elastic.scenario import ElasticScenario
from slipstream.families.shared.labels import Nouns, RunLabels, printable_names

if TYPE_CHECKING:
    from slipstream.sim.simulator import Simulator

NOUNS = Nouns(resource="GPU", task="model")


def gpu_names(scenario: ElasticScenario) -> tuple[str, ...]:
    """Return the names of all GPUs, by kind."""
    return tuple(f"{kind.name} GPU {gpu}" for kind in scenario.kinds for gpu in range(kind.gpus))


def variant_names(scenario: ElasticScenario, template: int) -> tuple[str, ...]:
    """Return the names of the configurations of a template, such as '4 v100'."""
    places = compiled_scenario(scenario).workload.templates[template].places
    return tuple(f"{place.gpus} {scenario.kinds[place.kind].name}" for place in places)


def sizes_of(scenario: ElasticScenario) -> tuple[np.ndarray, tuple[str, ...]]:
    """Return all numbers of GPUs that a job may have, ascending, and their names, such as '4 GPUs'."""
    sizes = np.unique(compiled_scenario(scenario).spec["configurations"]["gpus"])
    return sizes, tuple(f"{size} GPU{'' if size == 1 else 's'}" for size in sizes.tolist())


def run_labels(scenario: ElasticScenario) -> RunLabels:
    """Return the labels of a run: GPUs as resources, and as tasks the jobs by their number in the episode."""
    parts = compiled_scenario(scenario)
    templates = parts.spec["templates"]
    expected = max(1, round(float((templates["work"] / templates["best"]).mean() * 1e9)))
    names = sizes_of(scenario)[1]
    arrivals = parts.workload.arrivals
    last = arrivals[-1] if arrivals else round(float(parts.spec["machine"]["mean_gap"][0]) * parts.jobs)
    return RunLabels(
        nouns=NOUNS,
        resources=gpu_names(scenario),
        tasks=tuple(f"job {number}" for number in range(parts.jobs)),
        variants=(names,) * parts.jobs,
        expected=((expected,) * len(names),) * parts.jobs,
        end=max(1, last) + expected,
        graphs=True,
        groups=tuple(kind.gpus for kind in scenario.kinds),
    )


def row_name(simulator: Simulator[ElasticScenario], row: int) -> str:
    """Return what taking a row of the last observation would do, such as 'run job 3 of lstm on 4 v100'."""
    values = simulator.raw["rows"][0, row]
    if values[f.DISPATCH] != 1.0:
        return "begin the round"
    parts = compiled_scenario(simulator.scenario)
    number = int(values[f.NUMBER])
    template = int(simulator.arrays["jobs"][0, number]["template"])
    model = parts.workload.models[parts.workload.templates[template].model]
    place = variant_names(simulator.scenario, template)[int(values[f.CONFIGURATION])]
    verb = "keep" if values[f.KEEP] == 1.0 else "run"
    return str(printable_names(f"{verb} job {number} of {model} on {place}"))
