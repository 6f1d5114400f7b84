"""Metrics by hand, and in agreement with what the environment paid."""

from __future__ import annotations

import numpy as np
import pytest

from slipstream.core.env import SchedulingEnv
from slipstream.core.eventlog import ARRIVAL, DROP, END, EVENT, EXPIRE, FINISH, REJECT, START
from slipstream.core.simulator import Simulator
from slipstream.edge.metrics import metrics
from slipstream.policies import find, names
from slipstream.scenario import load


def task(name, deadline, accuracies, **more):
    variants = [{"latency_ms": 2.0 * (rank + 1), "accuracy": value} for rank, value in enumerate(accuracies)]
    base = {"name": name, "model": "m", "dataset": "d", "num_variants": len(variants), "deadline_ms": deadline}
    return {**base, "arrival": {"kind": "trace", "times_ms": []}, "variants": variants, **more}


SCENARIO = load(
    {
        "family": "edge",
        "horizon_ms": 40,
        "device": {"streams": 2, "interference": {"kind": "none"}, "latency": {"kind": "fixed"}},
        "reward": {"on_time_accuracy": 1.0, "lateness": 0.5, "drops": 0.25, "utilisation": 2.0},
        "tasks": [task("a", 10, [0.5, 1.0], weight=2.0), task("b", 4, [0.8], criticality=1)],
    }
)


def log(*rows):
    """Return an event log from (ms, kind, task, job, variant, resource)."""
    events = np.zeros(len(rows), EVENT)
    for event, (time, kind, task_id, job, variant, resource) in zip(events, rows, strict=True):
        event["time"], event["kind"], event["task"] = time * 1_000_000, kind, task_id
        event["job"], event["variant"], event["resource"] = job, variant, resource
    return events


# a0: 0 to 4 in the accurate variant, on time. a1: released at 1, started at 10, finished at 14: 3 late of 10.
# a2: rejected. a3: still waiting at 40, deadline 45: not judged. b0: 0 to 2, on time. b1: expired. b2: dropped.
# b3: started at 39, deadline 42, still running at the end: not judged.
EVENTS = log(
    (0, ARRIVAL, 0, 0, -1, -1),
    (0, ARRIVAL, 1, 0, -1, -1),
    (0, START, 0, 0, 1, 0),
    (0, START, 1, 0, 0, 1),
    (1, ARRIVAL, 0, 1, -1, -1),
    (2, FINISH, 1, 0, 0, 1),
    (3, ARRIVAL, 1, 1, -1, -1),
    (4, FINISH, 0, 0, 1, 0),
    (7, EXPIRE, 1, 1, -1, -1),
    (10, START, 0, 1, 1, 0),
    (12, ARRIVAL, 0, 2, -1, -1),
    (12, REJECT, 0, 2, -1, -1),
    (14, FINISH, 0, 1, 1, 0),
    (20, ARRIVAL, 1, 2, -1, -1),
    (21, DROP, 1, 2, -1, -1),
    (35, ARRIVAL, 0, 3, -1, -1),
    (38, ARRIVAL, 1, 3, -1, -1),
    (39, START, 1, 3, 0, 1),
    (40, END, -1, -1, -1, -1),
)

BY_HAND = {
    "released": 8,
    "judged": 6,
    "miss_rate": 4 / 6,
    "late_rate": 1 / 6,
    "drop_rate": 3 / 6,
    "weighted_miss_rate": (2 + 2 + 1 + 1) / (2 + 2 + 2 + 1 + 1 + 1),
    "effective_accuracy": (1.0 + 0.8) / 6,
    "executed_accuracy": (1.0 + 1.0 + 0.8) / 3,
    "tardiness_mean_ms": 3 / 3,
    "response_p50_ms": 4.0,
    "latency_increase": 1.0,
    "antt": (4 / 4 + 13 / 4 + 2 / 2) / 3,
    "throughput_hz": 3 / 0.04,
    # Streams ran 4 + 4 + 2 + 1 of 2 * 40 ms; at least one of them during 4 + 4 + 1.
    "utilisation": 11 / 80,
    "stp": (4 + 4 + 2) / 9,
    "worst_window_misses": 2,
    "miss_rate/a": 2 / 3,
    "miss_rate/b": 2 / 3,
    "miss_rate/class-0": 2 / 3,
    "miss_rate/class-1": 2 / 3,
    "effective_accuracy/a": 1.0 / 3,
    # 2 * 1.0 + 0.8, less half of 2 * 3/10, less a quarter of 2 + 1 + 1, plus 2 * 0.011 / 2.
    "reward": 2.8 - 0.5 * 0.6 - 0.25 * 4 + 0.011,
}


@pytest.mark.parametrize("metric", BY_HAND)
def test_metric_by_hand(metric):
    assert metrics(SCENARIO, EVENTS)[metric] == pytest.approx(BY_HAND[metric])


def test_a_job_overdue_at_the_end_is_a_miss():
    events = log((0, ARRIVAL, 1, 0, -1, -1), (1, START, 1, 0, 0, 0), (4, END, -1, -1, -1, -1))
    figures = metrics(SCENARIO, events)
    assert (figures["judged"], figures["miss_rate"]) == (1, 1.0)


def test_an_episode_without_jobs_has_finite_metrics():
    figures = metrics(SCENARIO, log((0, END, -1, -1, -1, -1)))
    assert np.isfinite(list(figures.values())).all()


@pytest.mark.parametrize("name", ["edge/heavy", "edge/overload", "edge/tiny"])
def test_the_reward_metric_is_what_the_environment_paid(name):
    scenario = load(name)
    policy = find("edf-degrade", "edge")
    simulator, env = Simulator(scenario), SchedulingEnv("edge", scenario, namespace="test")
    expected = metrics(scenario, simulator.play(policy, 3))["reward"]
    env.reset(seed=3)
    simulator.reset(3, sink=lambda _: None)
    total, over = 0.0, False
    while not over:
        action = policy.choose(*simulator.observe())
        _, reward, terminated, truncated, _ = env.step(action)
        simulator.step(action, sink=lambda _: None)
        total, over = total + reward, terminated or truncated
    assert total == pytest.approx(expected)


def test_every_policy_has_every_metric():
    events = {name: Simulator(load("edge/tiny")).play(find(name, "edge"), 0) for name in names("edge")}
    keys = {name: list(metrics(load("edge/tiny"), rows)) for name, rows in events.items()}
    assert len({tuple(names_) for names_ in keys.values()}) == 1
