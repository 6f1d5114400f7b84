"""What the taskgraph family provides: its compiled functions, and every member that the contract of families names."""

from __future__ import annotations

from slipstream.families.contract import Members
from slipstream.families.shared.bounds import OptimumBounds
from slipstream.families.shared.regret import Hindsight
from slipstream.families.taskgraph import build, features, invariants, labels, metrics, policies, timeline
from slipstream.families.taskgraph.engine.lane import PROCESSES, TaskgraphEngineLane
from slipstream.families.taskgraph.kernel import events, observation, resample, state
from slipstream.families.taskgraph.scenario import TaskgraphScenario
from slipstream.families.taskgraph.workload.generator import GENERATOR
from slipstream.families.taskgraph.workload.importing import TRACE_IMPORTER
from slipstream.families.taskgraph.workload.randomisation import vary
from slipstream.sim.kernel.lanes import KernelFunctions


def _optimum_bounds(scenario: TaskgraphScenario, seed: int, split: str, seconds: float) -> OptimumBounds:
    """Return the bounds of an episode's best reward; solvers are slow to import, so it is done here."""
    from slipstream.families.taskgraph.oracle.optimum import optimum_bounds

    return optimum_bounds(scenario, seed, split, seconds)


def _hindsight(scenario: TaskgraphScenario, seed: int, split: str, seconds: float) -> Hindsight[TaskgraphScenario]:
    """Return the solver of the rest of an episode; imported here for the same reason."""
    from slipstream.families.taskgraph.oracle.optimum import hindsight

    return hindsight(scenario, seed, split, seconds)


KERNEL = KernelFunctions(
    spec_type=state.TaskgraphSpecType,
    state_type=state.TaskgraphStateType,
    begin=events.begin,
    act=events.act,
    resume=events.resume,
    prepare=observation.prepare,
    observe=observation.observe,
    list_legal=observation.list_legal,
    summarise=observation.summarise,
    resample=resample.resample,
    limit_arrivals=resample.limit_arrivals,
)

MEMBERS = Members[TaskgraphScenario](
    kernel=KERNEL,
    policies=policies,
    candidate_features=features.CANDIDATE,
    global_features=features.GLOBAL,
    node_features=features.NODE,
    candidate_rows=build.candidate_rows,
    all_rows=build.all_rows,
    graph=build.graph,
    spec_arrays=build.spec_arrays,
    state_arrays=build.state_arrays,
    log_margin=build.log_margin,
    timescale=build.timescale,
    metrics=metrics.metrics,
    unmodelled_metrics=metrics.unmodelled,
    metrics_in_hindsight=metrics.in_hindsight,
    optimum_bounds=_optimum_bounds,
    hindsight=_hindsight,
    check=invariants.check,
    timeline=timeline.timeline,
    run_labels=labels.run_labels,
    row_name=labels.row_name,
    trace_importer=TRACE_IMPORTER,
    engine_lane=TaskgraphEngineLane,
    processes=PROCESSES,
    generator=GENERATOR,
    vary=vary,
)
