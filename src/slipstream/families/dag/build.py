"""Conversion of a scenario to the arrays of the kernel."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slipstream.families.dag import features as f
from slipstream.families.dag.kernel import state as k
from slipstream.families.dag.scenario import Batch, DagScenario, FixedHorizon, MemorylessHorizon, PoissonStream
from slipstream.families.dag.workload.arrivals import trace_of
from slipstream.families.dag.workload.templates import JobTemplate, Library, StageTemplate, Waves, library_of
from slipstream.families.shared.features import GraphShape
from slipstream.families.shared.schema import nanoseconds_of
from slipstream.sim.compiled_scenario import CompiledScenario, cached_per_scenario
from slipstream.sim.eventlog import EVENT
from slipstream.sim.kernel.heap import empty_heap
from slipstream.sim.kernel.job_stream import ARRIVAL_ROW, BATCH, POISSON, TRACE
from slipstream.sim.kernel.lanes import LOG_MARGIN


@dataclass(frozen=True)
class Sizes:
    """Sizes of the arrays of a scenario."""

    jobs: int
    """Jobs of an episode."""
    stages: int
    """Stages of the largest job."""
    edges: int
    """Edges of the job with most edges."""
    rows: int
    """Candidate rows of an observation, wait included."""
    all_rows: int
    """Candidate rows that heuristics see, wait included."""
    window_candidates: int
    window_nodes: int
    window_edges: int


@cached_per_scenario
def compiled_scenario(scenario: DagScenario) -> CompiledScenario[Sizes, Library]:
    """Return the scenario as arrays, with their sizes and its job library."""
    library = library_of(scenario)
    times, templates = trace_of(scenario, library)
    sizes = _sizes(scenario, library, len(times))
    return CompiledScenario(_spec_arrays(scenario, library, sizes, times, templates), sizes, library)


def _sizes(scenario: DagScenario, library: Library, traced: int) -> Sizes:
    jobs = scenario.arrivals.jobs if isinstance(scenario.arrivals, Batch | PoissonStream) else traced
    stages = max(len(template.stages) for template in library.templates)
    edges = max(len(set(template.edges)) for template in library.templates)
    window = scenario.window
    # A window is at most as large as the largest possible list and at least as large as one job.
    candidates = max(stages, min(window.candidates, jobs * stages))
    nodes = max(stages, min(window.nodes, jobs * stages))
    most_edges = max(edges, min(window.edges, jobs * edges), 1)
    rows = max(candidates, scenario.executors) + 1
    return Sizes(jobs, stages, edges, rows, rows + jobs * stages + 1, candidates, nodes, most_edges)


def candidate_rows(scenario: DagScenario) -> int:
    """Return the number of rows of an observation, wait included."""
    return compiled_scenario(scenario).sizes.rows


def all_rows(scenario: DagScenario) -> int:
    """Return the number of rows that heuristics see, wait included."""
    return compiled_scenario(scenario).sizes.all_rows


def graph(scenario: DagScenario) -> GraphShape:
    """Return the shape of the observed graph."""
    sizes = compiled_scenario(scenario).sizes
    return GraphShape(f.NODE, sizes.window_nodes, sizes.window_edges, min(sizes.jobs, sizes.window_nodes))


def log_margin(scenario: DagScenario) -> int:
    """Return the most log rows that one event and the decision before it add: every executor may start a task."""
    return LOG_MARGIN + scenario.executors


def timescale(scenario: DagScenario) -> int:
    """Return the mean over templates, in ns, of work / executors or of the longest path if that is longer."""
    templates = compiled_scenario(scenario).spec["templates"]
    return round(float(np.maximum(templates["work"] / scenario.executors, templates["path"]).mean()))


def spec_arrays(scenario: DagScenario) -> dict[str, np.ndarray]:
    """Return the specification arrays, constant during an episode."""
    return compiled_scenario(scenario).spec


def state_arrays(scenario: DagScenario, lanes: int, log_rows: int) -> dict[str, np.ndarray]:
    """Return new state arrays for `lanes` lanes with event logs of `log_rows` rows."""
    sizes = compiled_scenario(scenario).sizes
    return {
        "lanes": np.zeros(lanes, k.LANE),
        "jobs": np.zeros((lanes, sizes.jobs), k.JOB_STATE),
        "order": np.zeros((lanes, sizes.jobs + 1), np.int32),
        "by_work": np.zeros((lanes, sizes.jobs + 1), np.int32),
        "stages": np.zeros((lanes, sizes.jobs, sizes.stages), k.STAGE_STATE),
        "executors": np.zeros((lanes, scenario.executors), k.EXECUTOR_STATE),
        "commitments": np.zeros((lanes, scenario.executors + 1), k.COMMITMENT),
        # Scratch space for the stages of one more job.
        "candidates": np.zeros((lanes, (sizes.jobs + 1) * sizes.stages), np.int32),
        "heap": empty_heap(lanes, scenario.executors + 2),
        "terms": np.zeros((lanes, 2)),
        "log": np.zeros((lanes, log_rows), EVENT),
    }


# The parts of a specification


def _spec_arrays(
    scenario: DagScenario, library: Library, sizes: Sizes, times: np.ndarray, templates: np.ndarray
) -> dict[str, np.ndarray]:
    arrivals = np.zeros(len(times), ARRIVAL_ROW)
    arrivals["time"], arrivals["template"] = times, templates
    waves, samples = _waves(scenario, library)
    jobs, stages, children = _templates(library)
    return {
        "machine": _machine(scenario, library, sizes, times),
        "executors": _executors(scenario),
        "parallelism_of": _parallelism_of(scenario.executors, library.parallelism),
        "templates": jobs,
        "stages": stages,
        "children": children,
        "waves": waves,
        "expected": _expected(waves, samples),
        "samples": samples,
        "arrivals": arrivals,
    }


def _machine(scenario: DagScenario, library: Library, sizes: Sizes, times: np.ndarray) -> np.ndarray:
    record = np.zeros(1, k.MACHINE)
    row = record[0]
    row["executors"] = scenario.executors
    row["moving_delay"] = nanoseconds_of(scenario.moving_delay_s)
    row["jobs"] = sizes.jobs
    row["arrival"] = TRACE
    if len(times) > 1:
        row["mean_gap"] = (int(times[-1]) - int(times[0])) / (len(times) - 1)
    if isinstance(scenario.arrivals, Batch):
        row["arrival"] = BATCH
    elif isinstance(scenario.arrivals, PoissonStream):
        row["arrival"] = POISSON
        row["mean_gap"] = nanoseconds_of(scenario.arrivals.gap_s)
        row["initial_jobs"] = scenario.arrivals.initial_jobs
    row["compat"] = scenario.compat is not None
    if isinstance(scenario.horizon, FixedHorizon):
        row["horizon_kind"], row["horizon"] = k.FIXED, nanoseconds_of(scenario.horizon.time_s)
    elif isinstance(scenario.horizon, MemorylessHorizon):
        row["horizon_kind"], row["horizon"] = k.MEMORYLESS, nanoseconds_of(scenario.horizon.mean_s)
    if scenario.stragglers is not None:
        row["straggler_share"], row["straggler_factor"] = scenario.stragglers.probability, scenario.stragglers.factor
    if scenario.failures is not None:
        row["failure_share"], row["most_failures"] = scenario.failures.probability, scenario.failures.most
    row["plain"] = row["straggler_share"] == 0.0 and (_executors(scenario)["speed"] == 1.0).all()
    row["rows"], row["all_rows"] = sizes.rows - 1, sizes.all_rows
    row["window_candidates"] = sizes.window_candidates
    row["window_nodes"], row["window_edges"] = sizes.window_nodes, sizes.window_edges
    row["log_margin"] = log_margin(scenario)
    row["job_seconds"], row["makespan"] = scenario.reward.job_seconds, scenario.reward.makespan
    row["discount"] = scenario.reward.discount_per_s * 1e-9
    return record


def _executors(scenario: DagScenario) -> np.ndarray:
    executors = np.ones(scenario.executors, k.EXECUTOR)
    executors["speed"] = scenario.speeds
    return executors


def _parallelism_of(executors: int, measured: tuple[int, ...]) -> np.ndarray:
    """Return for each number of executors the measured values around it; outside their range the nearest one."""
    table = np.zeros(executors + 1, k.PARALLELISM)
    for count in range(executors + 1):
        row = table[count]
        high = int(np.searchsorted(measured, count))
        if high == len(measured) or measured[high] == count or high == 0:
            row["low"] = row["high"] = min(high, len(measured) - 1)
        else:
            row["low"], row["high"] = high - 1, high
            row["offset"], row["gap"] = count - measured[high - 1], measured[high] - measured[high - 1]
    return table


def _templates(library: Library) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    jobs = np.zeros(len(library.templates), k.TEMPLATE)
    stages = np.zeros(sum(len(template.stages) for template in library.templates), k.STAGE)
    children: list[int] = []
    first = 0
    for row, template in zip(jobs, library.templates, strict=True):
        own = stages[first : first + len(template.stages)]
        _fill_stages(own, template, children)
        row["first_stage"], row["stages"] = first, len(template.stages)
        row["edges"] = own["children"].sum()
        row["tasks"] = own["tasks"].sum()
        row["work"] = (own["tasks"] * own["duration"]).sum()
        row["path"] = own["path"].max()
        first += len(template.stages)
    return jobs, stages, np.array(children, np.int32)


def _fill_stages(rows: np.ndarray, template: JobTemplate, children: list[int]) -> None:
    rows["tasks"] = [stage.tasks for stage in template.stages]
    rows["duration"] = [max(1, round(stage.mean)) for stage in template.stages]
    rows["path"] = template.longest_paths(rows["duration"].tolist())
    work = (rows["tasks"] * rows["duration"]).tolist()
    rows["below"] = [sum(work[stage] for stage in ones) for ones in template.descendants()]
    for row, ones in zip(rows, template.children(), strict=True):
        row["first_child"], row["children"] = len(children), len(ones)
        children.extend(ones)
        rows["parents"][ones] += 1


def _waves(scenario: DagScenario, library: Library) -> tuple[np.ndarray, np.ndarray]:
    """Return (first sample, samples, delay) of each stage, parallelism and wave, and all samples concatenated."""
    warmup = nanoseconds_of(scenario.warmup_delay_s)
    stages = [stage for template in library.templates for stage in template.stages]
    table = np.zeros((len(stages), 3 * len(library.parallelism)), k.WAVE)
    samples: list[np.ndarray] = []
    length = 0
    for row, stage in zip(table, stages, strict=True):
        offsets: dict[int, tuple[int, int, int]] = {}
        for key, waves in stage.waves.items():
            starts = length + np.cumsum([0, len(waves.fresh), len(waves.first)])
            offsets[key] = (int(starts[0]), int(starts[1]), int(starts[2]))
            samples += [waves.fresh, waves.first, waves.rest]
            length += len(waves.fresh) + len(waves.first) + len(waves.rest)
        for index, parallelism in enumerate(library.parallelism):
            key = nearest_parallelism(stage, parallelism)
            row[3 * index : 3 * index + 3] = _wave_rows(stage.waves[key], offsets[key], warmup)
    return table, np.concatenate([np.zeros(0, np.int64), *samples])


def _expected(waves: np.ndarray, samples: np.ndarray) -> np.ndarray:
    """Return the mean time in ns of a further task of each stage, by parallelism."""
    ends = np.concatenate([[0], np.cumsum(samples)])
    further = waves[:, 2::3]
    totals = ends[further["first_sample"] + further["samples"]] - ends[further["first_sample"]]
    expected: np.ndarray = np.round(totals / further["samples"]).astype(np.int64) + further["delay"]
    return expected


def nearest_parallelism(stage: StageTemplate, parallelism: int) -> int:
    """Return the largest measured parallelism of a stage that is at most `parallelism`, otherwise the smallest."""
    return max((key for key in stage.waves if key <= parallelism), default=min(stage.waves))


def _wave_rows(waves: Waves, offsets: tuple[int, int, int], warmup: int) -> list[tuple[int, int, int]]:
    """Return (first sample, samples, delay) of a fresh, a first and a further task."""
    fresh, first, rest = (
        (offset, len(s), 0) for offset, s in zip(offsets, (waves.fresh, waves.first, waves.rest), strict=True)
    )
    of_first = first if first[1] else fresh
    of_fresh = fresh if fresh[1] else (first[0], first[1], warmup)
    return [of_fresh, of_first, rest if rest[1] else of_first]
