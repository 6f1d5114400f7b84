"""Names and expected times of a taskgraph scenario for live views of a run."""

from __future__ import annotations

from slipstream.families.shared.labels import Nouns, RunLabels
from slipstream.families.shared.schema import nanoseconds
from slipstream.families.taskgraph.build import compiled_scenario
from slipstream.families.taskgraph.scenario import GraphStream, GraphTrace, TaskgraphScenario

LINK_NAMES = ("load", "send", "peer")


def processor_names(scenario: TaskgraphScenario) -> tuple[str, ...]:
    """Return a name for each processor."""
    kinds = compiled_scenario(scenario).library.kinds
    return tuple(f"{kind.name} {number}" for kind in kinds for number in range(kind.count))


def link_names(scenario: TaskgraphScenario) -> tuple[str, ...]:
    """Return a name for each link; none where data moves at no cost."""
    if scenario.links is None:
        return ()
    kinds = compiled_scenario(scenario).library.kinds
    devices = [f"{kind.name} {number}" for kind in kinds if kind.device for number in range(kind.count)]
    return tuple(f"{which} {device}" for device in devices for which in LINK_NAMES)


def run_labels(scenario: TaskgraphScenario) -> RunLabels:
    """Return the labels of a run: processors and links as resources, jobs by number as tasks.

    Variants are the kinds of processors and of links.
    """
    parts = compiled_scenario(scenario)
    spec = parts.spec
    work = int(spec["tasks"]["least"].sum()) // len(parts.library.templates)
    expected = max(1, work // parts.sizes.processors)
    task = max(1, int(spec["tasks"]["least"].mean()))  # a bar is a task, and a job has many
    variants = (*(kind.name for kind in parts.library.kinds), *LINK_NAMES)
    links = link_names(scenario)
    return RunLabels(
        nouns=Nouns(resource="processor", task="job", bar="task or transfer" if links else "task"),
        resources=(*processor_names(scenario), *links),
        links=len(links),
        tasks=tuple(f"job {number}" for number in range(parts.sizes.jobs)),
        variants=(variants,) * parts.sizes.jobs,
        expected=((task,) * len(variants),) * parts.sizes.jobs,
        end=_expected_end(scenario, max(int(spec["tasks"]["rank"].max()), expected * parts.sizes.jobs)),
        graphs=True,
    )


def _expected_end(scenario: TaskgraphScenario, work: int) -> int:
    """Return the approximate end of an episode in ns: the last arrival plus `work`."""
    last = 0
    if isinstance(scenario.arrivals, GraphStream):
        waits = scenario.arrivals.jobs - scenario.arrivals.initial_jobs
        last = nanoseconds(scenario.arrivals.mean_gap_ms) * waits
    elif isinstance(scenario.arrivals, GraphTrace):
        last = nanoseconds(scenario.arrivals.times_ms[-1])
    return last + work
