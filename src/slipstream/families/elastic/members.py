"""What the family of elastic jobs provides: its compiled functions, and every member that the contract names."""

from __future__ import annotations

from slipstream.families.contract import Members
from slipstream.families.elastic import build, charts, features, invariants, labels, metrics, policies, timeline
from slipstream.families.elastic.kernel import events, observation, resample, state
from slipstream.families.elastic.scenario import ElasticScenario
from slipstream.families.elastic.workload.generator import GENERATOR
from slipstream.families.elastic.workload.importing import TRACE_IMPORTER
from slipstream.families.shared.bounds import OptimumBounds
from slipstream.sim.kernel.lanes import KernelFunctions


def _optimum_bounds(scenario: ElasticScenario, seed: int, split: str, seconds: float) -> OptimumBounds:
    """Return the bounds of an episode's best reward."""
    from slipstream.families.elastic.oracle.bounds import optimum_bounds

    return optimum_bounds(scenario, seed, split, seconds)


KERNEL = KernelFunctions(
    spec_type=state.ElasticSpecType,
    state_type=state.ElasticStateType,
    begin=events.begin,
    act=events.act,
    resume=events.resume,
    prepare=observation.prepare,
    list_legal=observation.list_legal,
    summarise=observation.summarise,
    resample=resample.resample,
    limit_arrivals=resample.limit_arrivals,
)

MEMBERS = Members[ElasticScenario](
    kernel=KERNEL,
    policies=policies,
    candidate_features=features.CANDIDATE,
    global_features=features.GLOBAL,
    candidate_rows=build.candidate_rows,
    all_rows=build.all_rows,
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
    policy_refusal=policies.policy_refusal,
    trace_importer=TRACE_IMPORTER,
    charts=charts.charts,
    generator=GENERATOR,
)
