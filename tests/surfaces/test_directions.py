"""What is better of every metric, less or more: every table's order, bold figures, verdicts and charts rest on it."""

from __future__ import annotations

import json

import pytest

import slipstream as package
from slipstream.families.contract import FAMILIES
from slipstream.reports.terminal.tables import is_neutral, lower_is_better
from tests.surfaces.checks import WORDS

LESS = {
    "edge": "miss_rate weighted_miss_rate late_rate drop_rate fail_rate tardiness_mean_ms tardiness_p99_ms "
    "response_p50_ms response_p95_ms response_p99_ms latency_increase antt energy_j energy_per_job_j power_mean_w "
    "preemptions decision_time_ms worst_window_misses",
    "dag": "avg_jct_s jct_p50_s jct_p95_s jct_p99_s makespan_s job_seconds moving_share moves jobs_in_system_mean "
    "jobs_in_system_max stage_failures",
    "taskgraph": "makespan_ms ratio_to_bound job_ms moved_mb sent_back_mb transfers evictions stall_share",
    "serving": "violation_ratio max_accuracy_drop p50_ms p95_ms p99_ms late_ratio drop_ratio reject_ratio "
    "open_requests switches proteus_violation_ratio",
    "cluster": "slowdown_mean slowdown_p95 slowdown_p99 slowdown_max jct_mean_s jct_p50_s jct_p99_s wait_mean_s "
    "wait_p99_s wait_max_s makespan_s fragmentation rho_mean rho_max unfair_share interruptions energy_kwh cost co2_kg "
    "power_peak_w",
    "elastic": "jct_mean_s jct_p50_s jct_p95_s jct_p99_s makespan_s wait_mean_s rho_mean rho_max unfair_share restarts "
    "setup_share",
    "llm": "ttft_mean_s ttft_p50_s ttft_p95_s ttft_p99_s tpot_mean_ms tpot_p50_ms tpot_p95_ms tpot_p99_ms itl_mean_ms "
    "itl_p50_ms itl_p95_ms itl_p99_ms e2e_mean_s e2e_p50_s e2e_p95_s e2e_p99_s s_per_token preemptions rejected",
}
MORE = {
    "edge": "reward effective_accuracy executed_accuracy stp throughput_hz",
    "dag": "reward jobs_done fresh_share",
    "taskgraph": "reward overlap_share jobs_done",
    "serving": "reward on_time_accuracy effective_accuracy throughput_hz goodput_hz",
    "cluster": "reward throughput_per_h allocation jain_users",
    "elastic": "reward",
    "llm": "reward slo_attainment goodput_hz requests_hz tokens_per_s prefix_reuse fairness",
}
NEITHER = {
    "edge": "utilisation jobs_per_run released judged",
    "dag": "utilisation jobs_arrived tasks",
    "taskgraph": "bound_ms busy_share idle_share tasks",
    "serving": "utilisation mean_batch requests",
    "cluster": "jobs",
    "elastic": "busy_share jobs",
    "llm": "kv_use batch_mean steps requests",
}


@pytest.mark.parametrize("family", WORDS)
def test_every_metric_has_the_direction_of_its_meaning(family):
    policy = FAMILIES[family].default_policy
    known = {metric.partition("/")[0] for metric in package.run(f"{family}/tiny", policy, seed=0).metrics}
    less, more, neither = (table[family].split() for table in (LESS, MORE, NEITHER))
    assert known == {*less, *more, *neither}, "a metric is missing in the lists above, or is there no more"
    for metric in (*less, *more, *neither):
        assert is_neutral(metric) == (metric in neither), metric
        if metric not in neither:
            assert lower_is_better(metric) == (metric in less), metric


@pytest.mark.parametrize("family", WORDS)
def test_a_comparison_lists_the_best_first(family, slipstream):
    metric = FAMILIES[family].headline[0]
    policies = f"random,{FAMILIES[family].default_policy}"
    _, printed, _ = slipstream("compare", f"{family}/tiny", "--policies", policies, "--episodes", 3)
    _, data, _ = slipstream("compare", f"{family}/tiny", "--policies", policies, "--episodes", 3, "--json")
    means = {one["policy"]: one["metrics"][metric]["mean"] for one in json.loads(data)["policies"]}
    best = (min if metric in LESS[family].split() else max)(means, key=lambda policy: means[policy])
    shown = [line.split()[0] for line in printed.splitlines() if line.split() and line.split()[0] in means]
    assert shown[0] == best, printed
