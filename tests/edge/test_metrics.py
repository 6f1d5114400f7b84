"""Metrics by hand, and in agreement with what the environment paid."""

from __future__ import annotations

import numpy as np
import pytest

from slipstream.envs.env import SchedulingEnv
from slipstream.families.edge.metrics import jobs_of, metrics
from slipstream.families.shared.timeline import LATE, ON_TIME, OVERDUE
from slipstream.policies import find, names
from slipstream.scenario import load
from slipstream.sim.eventlog import ARRIVAL, DROP, END, EVENT, EVICT, EXPIRE, FINISH, PREEMPT, READY, REJECT, START
from slipstream.sim.simulator import Simulator
from tests.strategies import action_scripts, edge_scenarios, episode_seeds, in_short_runs, scripted_action


def task(name, deadline, accuracies, watts=None, **more):
    """Return a task with variants of 2 ms, 4 ms and so on; the last one may have a power of its own."""
    variants = [{"latency_ms": 2.0 * (rank + 1), "accuracy": value} for rank, value in enumerate(accuracies)]
    variants[-1]["power_w"] = watts
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


POWERED = load(
    {
        "family": "edge",
        "horizon_ms": 20,
        "device": {
            "streams": 2,
            "interference": {"kind": "none"},
            "latency": {"kind": "fixed"},
            "preemption": {"kind": "resume", "cost_ms": 1},
            "idle_w": 5,
            "busy_w": 10,
        },
        "reward": {"on_time_accuracy": 1.0, "lateness": 0.5, "utilisation": 2.0, "energy": 3.0},
        "tasks": [task("a", 10, [0.5, 1.0], watts=30, weight=2.0), task("b", 4, [0.8], criticality=1)],
    }
)

# a0 runs in its slow variant from 0 to 1 on stream 0, makes way for b0, goes on from 3 to 6 on stream 1: 4 in all. a1
# starts fast at 4, is interrupted at 5 by b1, which needs a set-up of 1, and starts slow at 18, still running at the
# end; its deadline, 14, has passed.
INTERRUPTED = log(
    (0, ARRIVAL, 0, 0, -1, -1),
    (0, START, 0, 0, 1, 0),
    (1, ARRIVAL, 1, 0, -1, -1),
    (1, PREEMPT, 0, 0, 1, 0),
    (1, START, 1, 0, 0, 0),
    (2, READY, 1, 0, 0, 0),
    (3, START, 0, 0, 1, 1),
    (4, FINISH, 1, 0, 0, 0),
    (4, ARRIVAL, 0, 1, -1, -1),
    (4, START, 0, 1, 0, 0),
    (5, ARRIVAL, 1, 1, -1, -1),
    (5, PREEMPT, 0, 1, 0, 0),
    (5, EVICT, 0, -1, 0, -1),
    (5, START, 1, 1, 0, 0),
    (6, READY, 1, 1, 0, 0),
    (6, FINISH, 0, 0, 1, 1),
    (10, FINISH, 1, 1, 0, 0),
    (18, START, 0, 1, 1, 1),
    (20, END, -1, -1, -1, -1),
)
SLICES = [
    # job (in the order a0, a1, b0, b1), variant, stream, start, end
    (0, 1, 0, 0, 1),
    (2, 0, 0, 1, 4),
    (0, 1, 1, 3, 6),
    (1, 0, 0, 4, 5),
    (3, 0, 0, 5, 10),
    (1, 1, 1, 18, 20),
]
# 5 W for 20 ms; a in its slow variant 30 W for 1 + 3 + 2 ms; a in its fast one and b 10 W for 1 + 3 + 5 ms.
MILLIJOULES = 5 * 20 + 30 * 6 + 10 * 9
INTERRUPTED_BY_HAND = {
    "preemptions": 2,
    "energy_j": MILLIJOULES / 1e3,
    "energy_per_job_j": MILLIJOULES / 1e3 / 3,
    "power_mean_w": MILLIJOULES / 20,
    # Streams were held for 1 + 3 + 3 + 1 + 5 + 2 of 2 * 20 ms.
    "utilisation": 15 / 40,
    # a0 held streams for 4 of 4 ms, b0 for 3 of 2, b1 for 5 of 2.
    "latency_increase": (4 / 4 + 3 / 2 + 5 / 2) / 3,
    # They took 6, 3 and 5 from their release on.
    "antt": (6 / 4 + 3 / 2 + 5 / 2) / 3,
    "executed_accuracy": (1.0 + 0.8 + 0.8) / 3,
    # a1 is overdue, b1 a quarter of its deadline late.
    "miss_rate": 2 / 4,
    # At least one stream was held from 0 to 10 and from 18 to 20; solo times 4, 2 and 2 were done in that time.
    "stp": 8 / 12,
    "reward": (2.0 + 0.8) - 0.5 * 0.25 + 2.0 * 0.015 / 2 - 3.0 * MILLIJOULES / 1e3,
}


def test_slices_of_interrupted_jobs_by_hand():
    jobs = jobs_of(POWERED, INTERRUPTED)
    slices = jobs.slices
    columns = (slices.job, slices.variant, slices.resource, slices.start, slices.end)
    expected = [(job, variant, stream, start * 10**6, end * 10**6) for job, variant, stream, start, end in SLICES]
    assert list(zip(*(column.tolist() for column in columns), strict=True)) == expected
    # The first start of each job, and the variant that it was in last.
    assert (jobs.start / 1e6).tolist() == [0, 4, 1, 5]
    assert jobs.variant.tolist() == [1, 1, 0, 0]
    assert jobs.fate.tolist() == [ON_TIME, OVERDUE, ON_TIME, LATE]


@pytest.mark.parametrize("metric", INTERRUPTED_BY_HAND)
def test_metric_of_interrupted_jobs_by_hand(metric):
    assert metrics(POWERED, INTERRUPTED)[metric] == pytest.approx(INTERRUPTED_BY_HAND[metric])


def test_the_reward_metric_is_what_any_machine_paid_for_any_choices():
    energies = []

    def agrees(device, seed, script):
        simulator, pieces = Simulator(device, 64), []
        simulator.reset(seed, sink=pieces.append)
        paid = 0.0
        while simulator.asking:
            action = scripted_action(script, int(simulator.header["choices"]), simulator.observe()[2])
            simulator.step(action, pieces.append)
            paid += float(simulator.header["reward"])
        figures = metrics(device, np.concatenate([*pieces, simulator.log()]))
        if simulator.header["choices"]:
            assert paid == pytest.approx(figures["reward"], rel=1e-9, abs=1e-9)
        energies.append(device.reward.energy * figures["energy_j"])

    in_short_runs(agrees, 150, edge_scenarios(), episode_seeds(), action_scripts())
    assert sum(energy > 0.0 for energy in energies) > 10


@pytest.mark.parametrize("name", ["edge/heavy", "edge/overload", "edge/tiny"])
def test_the_reward_metric_is_what_the_environment_paid(name):
    scenario = load(name)
    policy = find("edf-degrade", "edge")
    simulator, env = Simulator(scenario), SchedulingEnv("edge", scenario, split="test")
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


def test_slowdowns_are_against_what_a_run_really_takes_alone():
    tasks = [task("a", 10, [0.5, 1.0], weight=2.0), task("b", 4, [0.8], criticality=1)]
    # Profiled at 4 and 2.
    tasks[0]["variants"][1]["actual_ms"], tasks[1]["variants"][0]["actual_ms"] = 8.0, 1.0
    figures = metrics(load({"family": "edge", "horizon_ms": 40, "tasks": tasks}), EVENTS)
    # a0 and a1 held streams for 4 each and took 4 and 13, b0 held one for 2 and took 2, all in 9.
    assert figures["latency_increase"] == pytest.approx((4 / 8 + 4 / 8 + 2 / 1) / 3)
    assert figures["antt"] == pytest.approx((4 / 8 + 13 / 8 + 2 / 1) / 3)
    assert figures["stp"] == pytest.approx((8 + 8 + 1) / 9)


def test_every_policy_has_every_metric():
    events = {name: Simulator(load("edge/tiny")).play(find(name, "edge"), 0) for name in names("edge")}
    keys = {name: list(metrics(load("edge/tiny"), rows)) for name, rows in events.items()}
    assert len({tuple(names_) for names_ in keys.values()}) == 1
