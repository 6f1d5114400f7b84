"""What the queue provides: every member that the contract of families asks for."""

from mm1 import features, kernel, metrics, policies
from mm1.scenario import QueueScenario
from slipstream.families.contract import Members
from slipstream.families.shared.labels import RunLabels
from slipstream.families.shared.schema import nanoseconds_of
from slipstream.families.shared.search import heuristic_bounds
from slipstream.sim.kernel.lanes import KernelFunctions, lane_arrays


def run_labels(scenario: QueueScenario) -> RunLabels:
    """Return the names that pictures show, the mean service times, and the end."""
    means, end = (nanoseconds_of(scenario.slow_s), nanoseconds_of(scenario.fast_s)), nanoseconds_of(scenario.horizon_s)
    return RunLabels(resources=("server",), tasks=("jobs",), variants=(("slow", "fast"),), expected=(means,), end=end)


MEMBERS = Members[QueueScenario](
    kernel=KernelFunctions(
        spec_type=kernel.SpecType,
        state_type=kernel.StateType,
        begin=kernel.begin,
        apply=kernel.apply,
        decision_due=kernel.decision_due,
        dispatch=kernel.dispatch,
        summarise=kernel.summarise,
    ),
    policies=policies,
    candidate_features=features.CANDIDATE,
    global_features=features.GLOBAL,
    spec_arrays=kernel.spec_arrays,
    state_arrays=lambda _, lanes, log_rows: lane_arrays(lanes, log_rows, kernel.LANE, slots=3, terms=2),
    timescale=lambda scenario: nanoseconds_of(scenario.mean_gap_s),
    metrics=metrics.metrics,
    optimum_bounds=heuristic_bounds(metrics.reward_bound, "fast services without energy"),
    run_labels=run_labels,
)
