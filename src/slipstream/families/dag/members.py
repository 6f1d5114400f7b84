"""What the dag family provides: its compiled functions, and every member that the contract of families names."""

from __future__ import annotations

from slipstream.families.contract import Members
from slipstream.families.dag import build, features, invariants, labels, metrics, policies, timeline
from slipstream.families.dag.engine.lane import PROCESSES, DagEngineLane
from slipstream.families.dag.kernel import events, observation, resample, state
from slipstream.families.dag.scenario import DagScenario
from slipstream.families.dag.workload.generator import GENERATOR
from slipstream.families.dag.workload.importing import TRACE_IMPORTER
from slipstream.families.dag.workload.randomisation import vary
from slipstream.families.shared.bounds import OptimumBounds
from slipstream.sim.kernel.lanes import KernelFunctions


def _optimum_bounds(scenario: DagScenario, seed: int, split: str, seconds: float) -> OptimumBounds:
    """Return the bounds of an episode's best reward; solvers are slow to import, so it is done here."""
    from slipstream.families.dag.oracle.optimum import optimum_bounds

    return optimum_bounds(scenario, seed, split, seconds)


KERNEL = KernelFunctions(
    spec_type=state.DagSpecType,
    state_type=state.DagStateType,
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

MEMBERS = Members[DagScenario](
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
    optimum_bounds=_optimum_bounds,
    check=invariants.check,
    timeline=timeline.timeline,
    run_labels=labels.run_labels,
    row_name=labels.row_name,
    trace_importer=TRACE_IMPORTER,
    engine_lane=DagEngineLane,
    processes=PROCESSES,
    generator=GENERATOR,
    vary=vary,
)
