"""What the edge family provides: its compiled functions, and every member that the contract of families names."""

from __future__ import annotations

from slipstream.families.contract import Members
from slipstream.families.edge import build, features, invariants, labels, metrics, policies, timeline
from slipstream.families.edge.engine.lane import EdgeEngineLane
from slipstream.families.edge.kernel import events, observation, prefetch, resample, state
from slipstream.families.edge.scenario import EdgeScenario
from slipstream.families.edge.workload.generator import GENERATOR
from slipstream.families.edge.workload.importing import TRACE_IMPORTER
from slipstream.families.edge.workload.randomisation import vary
from slipstream.families.shared.bounds import OptimumBounds
from slipstream.families.shared.regret import Hindsight
from slipstream.sim.kernel.lanes import KernelFunctions


def _optimum_bounds(scenario: EdgeScenario, seed: int, split: str, seconds: float) -> OptimumBounds:
    """Return the bounds of an episode's best reward; solvers are slow to import, so it is done here."""
    from slipstream.families.edge.oracle.optimum import optimum_bounds

    return optimum_bounds(scenario, seed, split, seconds)


def _hindsight(scenario: EdgeScenario, seed: int, split: str, seconds: float) -> Hindsight[EdgeScenario]:
    """Return the solver of the rest of an episode; imported here for the same reason."""
    from slipstream.families.edge.oracle.optimum import hindsight

    return hindsight(scenario, seed, split, seconds)


KERNEL = KernelFunctions(
    spec_type=state.EdgeSpecType,
    state_type=state.EdgeStateType,
    begin=events.begin,
    act=events.act,
    resume=events.resume,
    prepare=observation.prepare,
    observe=observation.observe,
    lanes_at_once=prefetch.lanes_at_once,
    prefetch_state=prefetch.prefetch_state,
    prefetch_rows=prefetch.prefetch_rows,
    list_legal=observation.list_legal,
    summarise=observation.summarise,
    resample=resample.resample,
)

MEMBERS = Members[EdgeScenario](
    kernel=KERNEL,
    policies=policies,
    candidate_features=features.CANDIDATE,
    global_features=features.GLOBAL,
    candidate_rows=build.candidate_rows,
    spec_arrays=build.spec_arrays,
    known_spec=build.known_spec,
    state_arrays=build.state_arrays,
    log_margin=build.log_margin,
    timescale=build.timescale,
    metrics=metrics.metrics,
    unmodelled_metrics=metrics.unmodelled,
    optimum_bounds=_optimum_bounds,
    hindsight=_hindsight,
    check=invariants.check,
    timeline=timeline.timeline,
    run_labels=labels.run_labels,
    row_name=labels.row_name,
    policy_refusal=policies.policy_refusal,
    trace_importer=TRACE_IMPORTER,
    engine_lane=EdgeEngineLane,
    generator=GENERATOR,
    vary=vary,
)
