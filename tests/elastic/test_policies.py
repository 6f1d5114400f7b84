"""Policies of elastic jobs: rules on hand-made rows, programs against known optima, and shares that are kept."""

from __future__ import annotations

import numpy as np
import pytest

import slipstream
from slipstream.errors import PolicyError
from slipstream.families.elastic import features as f
from slipstream.families.elastic import programs
from slipstream.families.elastic.metrics import jobs_of
from slipstream.families.elastic.planners import TimeSlicing
from slipstream.families.elastic.programs import Columns
from slipstream.policies.base import Heuristic, find
from slipstream.scenario import load
from slipstream.sim.eventlog import digest
from slipstream.sim.simulator import Simulator, check_action

PLANNERS = ("max-min", "water-filling", "finish-time-fair", "min-makespan", "gavel-fifo")


def test_column_constants_are_those_of_the_tables() -> None:
    names = [name for name in vars(f) if name.isupper()]
    first, last = names.index("GPUS"), names.index("CONFIGURATION") + 1
    assert [name.lower() for name in names[first:last]] == f.CANDIDATE.names
    found = [name.lower() for name in names[names.index("TIME") : names.index("COIN") + 1]]
    assert found == f.GLOBAL.names


def row(**values: float) -> np.ndarray:
    found = np.zeros(len(f.CANDIDATE))
    for name, value in values.items():
        found[f.CANDIDATE.index(name)] = value
    return found


BETTER_FIRST = {
    "fifo": (row(order=0, speed=0.1), row(order=1, speed=1.0)),
    "srpt": (row(finish=5e9, gpus=8), row(finish=6e9, gpus=1)),
    "sticky-srpt": (row(finish=6e9, keep=1), row(finish=5e9)),
    "least-gpu-time": (row(finish=6e9, gpus=1), row(finish=5e9, gpus=2)),
    "least-share": (row(finish=9e9, share=0.1), row(finish=5e9, share=0.2)),
    "las": (row(received=1e9, speed=0.1), row(received=2e9, speed=1.0)),
    "hrrn": (row(age=9e9, finish=3e9), row(age=9e9, finish=4e9)),
}


@pytest.mark.parametrize("name", BETTER_FIRST)
def test_a_rule_prefers_what_its_name_says(name: str) -> None:
    rule = find(name, "elastic")
    assert isinstance(rule, Heuristic)
    better, worse = (rule.function(one) for one in BETTER_FIRST[name])
    assert better > worse


def test_rules_without_reading_work_do_not_change_with_it() -> None:
    for name in ("fifo", "las"):
        rule = find(name, "elastic")
        assert isinstance(rule, Heuristic)
        known = row(order=3, speed=0.5, received=7e9)
        other = row(order=3, speed=0.5, received=7e9, finish=9e9, alone=3e9, left=4.0, done=0.3)
        assert rule.function(known) == rule.function(other)


# Programs


def columns(rates: list[list[float]], gpus: list[int], capacity: list[float], **more: list[float]) -> Columns:
    """Return jobs with one configuration for each kind on which they have a throughput."""
    places = [(job, kind) for job, row in enumerate(rates) for kind, rate in enumerate(row) if rate > 0.0]
    job, kind = (np.array(one) for one in zip(*places, strict=True))
    count = len(rates)
    filled = {"weight": [1.0] * count, "left": [1.0] * count, "age": [0.0] * count, "alone": [0.0] * count} | more
    return Columns(
        job=job,
        kind=kind,
        gpus=np.array(gpus)[job],
        rate=np.array([rates[one][other] for one, other in places]),
        capacity=np.array(capacity, float),
        **{name: np.array(values) for name, values in filled.items()},
    )


def test_max_min_gives_each_job_the_kind_that_it_uses_best() -> None:
    # Job 0 is four times as fast on kind 0, job 1 on kind 1: each has its own kind all of the time, 4 / 2.5.
    found = columns([[4.0, 1.0], [1.0, 4.0]], [1, 1], [1, 1])
    assert programs.max_min(found) == pytest.approx([1.0, 0.0, 0.0, 1.0], abs=1e-6)
    assert found.proportional().tolist() == [2.5, 2.5]


def test_max_min_on_one_kind_shares_by_weight_and_by_gpu() -> None:
    # Twice the weight, twice the time; twice the GPUs, half the time.
    assert programs.max_min(columns([[1.0], [1.0]], [1, 1], [1], weight=[1.0, 2.0])) == pytest.approx([1 / 3, 2 / 3])
    found = programs.max_min(columns([[1.0], [2.0]], [1, 2], [2]))
    assert found[1] == pytest.approx(0.5)


def test_water_filling_gives_the_rest_to_those_who_can_use_it() -> None:
    # Job 0 runs only on the slow kind, with job 1; the fast GPU and what is left of the slow one go to the others.
    found = columns([[0.0, 1.0], [0.0, 1.0], [1.0, 0.0]], [1, 1, 1], [1, 1])
    assert programs.water_filling(found) == pytest.approx([0.5, 0.5, 1.0], abs=1e-6)


def test_min_makespan_is_the_work_over_the_capacity() -> None:
    found = columns([[1.0], [1.0], [1.0]], [1, 1, 1], [2], left=[10.0, 10.0, 20.0])
    shares = programs.min_makespan(found)
    assert (np.array([10.0, 10.0, 20.0]) / found.throughput(shares)).max() == pytest.approx(20.0)


def test_finish_time_fairness_makes_up_for_waiting() -> None:
    # Equal jobs, but one has waited: it has more of the GPU, so that both ratios are equal.
    found = columns([[1.0], [1.0]], [1, 1], [1], left=[10.0, 10.0], age=[10.0, 0.0])
    shares = programs.finish_time_fair(found)
    ratios = (found.age + found.left / shares) / 20.0
    assert ratios[0] == pytest.approx(ratios[1], rel=1e-3)
    assert shares[0] > shares[1]
    # 10 + 10 / x = 10 / (1 - x).
    assert shares[0] == pytest.approx((3.0 - 5.0**0.5) / 2.0 * 1.0 + 0.236068, rel=1e-2)


def test_programs_take_several_numbers_of_gpus() -> None:
    found = Columns(
        job=np.array([0, 0]),
        kind=np.array([0, 0]),
        gpus=np.array([1, 4]),
        rate=np.array([1.0, 3.0]),
        capacity=np.array([4.0]),
        weight=np.ones(1),
        left=np.ones(1),
        age=np.zeros(1),
        alone=np.zeros(1),
    )
    for program in (programs.max_min, programs.water_filling, programs.min_makespan, programs.finish_time_fair):
        assert program(found) == pytest.approx([0.0, 1.0], abs=1e-6)


def test_a_thousand_jobs_are_solved_to_the_optimum() -> None:
    rng = np.random.default_rng(0)
    rates = (rng.uniform(0.1, 1.0, (1000, 3)) * rng.uniform(0.5, 50.0, (1000, 1))).tolist()
    found = columns(rates, rng.choice([1, 2, 4], 1000).tolist(), [64.0, 64.0, 128.0])
    gain = found.proportional() / found.size
    shares = programs.solve(found, gain, np.zeros(1000), gain)
    assert shares is not None
    assert (found.throughput(shares.x) / gain).min() == pytest.approx(shares.value, rel=1e-6)
    # The prices prove it: no shares reach more.
    assert shares.bound == pytest.approx(shares.value, rel=1e-6)


# Time slicing


SHARED = {
    "family": "elastic",
    "kinds": [{"name": "gpu", "gpus": 1}],
    "models": [{"name": "m", "configurations": [{"kind": "gpu", "gpus": 1, "per_s": 1.0}]}],
    "jobs": {
        "kind": "list",
        "jobs": [{"arrival_s": 0.0, "model": "m", "work": 3000.0, "weight": weight} for weight in (1.0, 3.0)],
    },
    "round_s": 10.0,
}


def test_every_job_gets_its_share_of_the_rounds() -> None:
    scenario = load(SHARED)
    spans = jobs_of(Simulator(scenario).play(find("max-min", "elastic"), 0)).spans
    length = np.minimum(spans.end, 2000e9) - np.minimum(spans.start, 2000e9)
    assert np.bincount(spans.job, weights=length / 1e9) == pytest.approx([500.0, 1500.0], abs=10.0)


def test_a_planner_forgets_the_last_episode() -> None:
    scenario, planner = load("elastic/tiny"), find("max-min", "elastic")
    simulator = Simulator(scenario)
    first = digest(simulator.play(planner, 3))
    simulator.play(planner, 4)
    assert digest(simulator.play(planner, 3)) == first


@pytest.mark.parametrize("name", PLANNERS)
@pytest.mark.parametrize("scenario", ["elastic/tiny", "elastic/three-kinds"])
def test_a_planner_goes_on_from_any_state(name: str, scenario: str) -> None:
    planner, other, simulator = find(name, "elastic"), find("random", "elastic"), Simulator(load(scenario))
    for decisions in (40, 3, 25, 61):  # back and forth, from the middle of rounds too
        simulator.reset(decisions)
        for _ in range(decisions):
            simulator.step(check_action(other.choose(*simulator.observe())))
        for _ in range(60):
            if simulator.asking:
                simulator.step(check_action(planner.choose(*simulator.observe())))
        assert simulator.header["mistakes"] == 0


def test_planners_need_rounds() -> None:
    with pytest.raises(PolicyError, match="it slices time in rounds: expected round_s"):
        slipstream.evaluate("elastic/at-events", "max-min", episodes=1)


@pytest.mark.parametrize("name", PLANNERS)
def test_planners_play_whole_episodes_legally(name: str) -> None:
    planner = find(name, "elastic")
    assert isinstance(planner, TimeSlicing)
    simulator = Simulator(load("elastic/tiny"))
    events = simulator.play(planner, 1)
    assert simulator.header["mistakes"] == 0
    simulator.family.members.check(events, simulator.scenario)
