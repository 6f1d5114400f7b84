"""Names and expectations of a cluster scenario, for rendering a run in progress."""

from __future__ import annotations

from slipstream.families.cluster.build import compiled_scenario
from slipstream.families.cluster.caps import caps_of
from slipstream.families.cluster.scenario import ClusterScenario
from slipstream.families.shared.labels import Nouns, RunLabels


def gpu_names(scenario: ClusterScenario) -> tuple[str, ...]:
    """Return the names of all GPUs, by node."""
    names = []
    node = 0
    for kind in scenario.kinds:
        for _ in range(kind.count):
            names += [f"{kind.name} {node}:{gpu}" for gpu in range(kind.gpus)]
            node += 1
    return tuple(names)


def level_names(scenario: ClusterScenario) -> tuple[str, ...]:
    """Return the names of the power levels."""
    return ("no cap", *(f"{cap.watts:g} W" for cap in caps_of(scenario.kinds[0])))


def run_labels(scenario: ClusterScenario) -> RunLabels:
    """Return the labels of a run: GPUs as resources, and as tasks the jobs by their number in the episode."""
    parts = compiled_scenario(scenario)
    workload, jobs = parts.workload, parts.sizes.jobs
    levels = level_names(scenario)
    expected = max(1, round(float(workload.run.mean())))
    nodes = tuple(parts.spec["nodes"]["gpus"].tolist())
    return RunLabels(
        nouns=Nouns(resource="GPU", task="user") if scenario.slices == 1 else Nouns(resource="GPU slice", task="user"),
        resources=gpu_names(scenario),
        tasks=tuple(f"job {number}" for number in range(jobs)),
        variants=(levels,) * jobs,
        expected=((expected,) * len(levels),) * jobs,
        end=max(1, int(workload.submit[-1])) + expected,
        graphs=True,
        groups=(scenario.gpus,) if scenario.placement == "flat" else nodes,
    )
