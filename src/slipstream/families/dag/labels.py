"""Names and expected times of a dag scenario for live views of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slipstream.families.dag.build import compiled_scenario
from slipstream.families.dag.kernel.state import CHOOSE_COUNT
from slipstream.families.dag.scenario import DagScenario, FixedHorizon, MemorylessHorizon, PoissonStream
from slipstream.families.shared.labels import Nouns, RunLabels, printable_names
from slipstream.families.shared.schema import NANOSECONDS_PER_S

if TYPE_CHECKING:
    from slipstream.sim.simulator import Simulator

WAVES = ("fresh", "first", "rest")


def run_labels(scenario: DagScenario) -> RunLabels:
    """Return the labels of a run: executors as resources, jobs by number as tasks."""
    parts = compiled_scenario(scenario)
    count = parts.sizes.jobs
    expected = max(1, round(float(parts.spec["templates"]["work"].mean()) / scenario.executors))
    return RunLabels(
        nouns=Nouns(resource="executor", task="job", bar="run of one stage's tasks", part="stage"),
        resources=tuple(f"executor {number}" for number in range(scenario.executors)),
        tasks=tuple(f"job {number}" for number in range(count)),
        variants=(WAVES,) * count,
        expected=((expected,) * len(WAVES),) * count,
        end=_expected_end(scenario, expected * count),
        graphs=True,
    )


def _expected_end(scenario: DagScenario, work: int) -> int:
    """Return the approximate end of an episode in ns: its horizon, or the later of the last arrival and `work`."""
    if isinstance(scenario.horizon, FixedHorizon):
        return round(scenario.horizon.time_s * NANOSECONDS_PER_S)
    if isinstance(scenario.horizon, MemorylessHorizon):
        return round(scenario.horizon.mean_s * NANOSECONDS_PER_S)
    last = 0
    if isinstance(scenario.arrivals, PoissonStream):
        waits = scenario.arrivals.jobs - scenario.arrivals.initial_jobs
        last = round(scenario.arrivals.gap_s * waits * NANOSECONDS_PER_S)
    return max(last, work)


def row_name(simulator: Simulator[DagScenario], row: int) -> str:
    """Return what taking a row would do in the simulator's state, such as 'stage map of job 2', '3 executors'."""
    header, window = simulator.header, int(compiled_scenario(simulator.scenario).spec["machine"]["rows"][0])
    if row in (window, len(simulator.raw["mask"][0]) - 1):
        return "end the round"
    if int(header["phase"]) == CHOOSE_COUNT:
        stage = _stage_name(simulator, int(header["chosen_job"]), int(header["chosen_stage"]))
        return f"{row + 1} executor{'' if row == 0 else 's'} for {stage}"
    index = row if row < window else int(header["shown"]) + row - window - 1
    job, stage_number = divmod(int(simulator.arrays["candidates"][0, index]), simulator.arrays["stages"].shape[2])
    return _stage_name(simulator, job, stage_number)


def _stage_name(simulator: Simulator[DagScenario], job: int, stage: int) -> str:
    """Return a stage by its name and the number of its job."""
    templates = compiled_scenario(simulator.scenario).library.templates
    template = templates[int(simulator.arrays["jobs"][0, job]["template"])]
    return f"{stage_title(printable_names(template.stages[stage].name))} of job {job}"


def stage_title(name: str) -> str:
    """Return a stage's name, after the word "stage" unless it begins with it."""
    return name if name.startswith("stage") else f"stage {name}"
