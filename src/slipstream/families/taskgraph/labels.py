"""Names and expected times of a taskgraph scenario for live views of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slipstream.families.shared.labels import Nouns, RunLabels, printable_names
from slipstream.families.shared.schema import nanoseconds
from slipstream.families.taskgraph.build import compiled_scenario
from slipstream.families.taskgraph.kernel.state import CHOOSE_PROCESSOR
from slipstream.families.taskgraph.scenario import GraphStream, GraphTrace, TaskgraphScenario

if TYPE_CHECKING:
    from slipstream.sim.simulator import Simulator

LINK_NAMES = ("load", "send", "peer")
TRANSFER = "transfer"
"""Name of the bars of links, where bars stand for kernels."""


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

    Variants are the kinds of processors and of links. Where there is only one job, bars stand for kernels.
    """
    parts = compiled_scenario(scenario)
    spec = parts.spec
    work = int(spec["tasks"]["least"].sum()) // len(parts.library.templates)
    expected = max(1, work // parts.sizes.processors)
    task = max(1, int(spec["tasks"]["least"].mean()))  # a bar is a task, and a job has many
    variants = (*(kind.name for kind in parts.library.kinds), *LINK_NAMES)
    links = link_names(scenario)
    templates = parts.library.templates
    only = templates[0] if parts.sizes.jobs == len(templates) == 1 else None
    return RunLabels(
        nouns=Nouns(resource="processor", task="job", bar="task or transfer" if links else "task", part="task"),
        resources=(*processor_names(scenario), *links),
        links=len(links),
        tasks=tuple(f"job {number}" for number in range(parts.sizes.jobs)),
        variants=(variants,) * parts.sizes.jobs,
        expected=((task,) * len(variants),) * parts.sizes.jobs,
        end=_expected_end(scenario, max(int(spec["tasks"]["rank"].max()), expected * parts.sizes.jobs)),
        graphs=True,
        kernels=() if only is None else (*only.kernels, *((TRANSFER,) if links else ())),
        kernel_of=() if only is None else tuple(only.kernel_of.tolist()),
    )


def _expected_end(scenario: TaskgraphScenario, work: int) -> int:
    """Return the approximate end of an episode in ns: the last arrival plus `work`."""
    last = 0
    if isinstance(scenario.arrivals, GraphStream):
        waits = scenario.arrivals.jobs - scenario.arrivals.initial_jobs
        last = nanoseconds(scenario.arrivals.gap_ms) * waits
    elif isinstance(scenario.arrivals, GraphTrace):
        last = nanoseconds(scenario.arrivals.times_ms[-1])
    return last + work


def candidates_by_row(simulator: Simulator[TaskgraphScenario]) -> dict[int, int]:
    """Return the task or processor of each candidate row of the present decision, without the wait rows."""
    header = simulator.header
    shown, width = int(header["shown"]), int(compiled_scenario(simulator.scenario).spec["machine"]["rows"][0])
    listed = simulator.arrays["candidates"][0, : int(header["candidates"])].tolist()
    return {index if index < shown else width + 1 + index - shown: one for index, one in enumerate(listed)}


def row_name(simulator: Simulator[TaskgraphScenario], row: int) -> str:
    """Return what taking a row would do in the simulator's state, such as 'gpu 0 takes GEMM 2'."""
    header, chosen = simulator.header, candidates_by_row(simulator).get(row)
    processors = processor_names(simulator.scenario)
    if int(header["phase"]) == CHOOSE_PROCESSOR:
        task = _task_name(simulator, int(header["asked_task"]))
        return f"{task} waits" if chosen is None else f"{task} goes to {processors[chosen]}"
    asked = processors[int(header["asked"])]
    return f"{asked} waits" if chosen is None else f"{asked} takes {_task_name(simulator, chosen)}"


def _task_name(simulator: Simulator[TaskgraphScenario], task: int) -> str:
    """Return the name of a task, with that of its job if the episode has several."""
    parts = compiled_scenario(simulator.scenario)
    row = parts.spec["tasks"][int(simulator.arrays["tasks"][0, task]["source"])]
    job = int(simulator.arrays["tasks"][0, task]["job"])
    first = int(simulator.arrays["jobs"][0, job]["first_task"])
    template = parts.spec["templates"]["first_task"].tolist().index(first)
    name: str = printable_names(parts.library.templates[template].tasks[int(row["number"])].name)
    return name if parts.sizes.jobs == 1 else f"{name} of job {job}"
