"""The hindsight optimum: solved by hand, by exhaustive search, and never below any policy."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest

from slipstream.errors import InputError
from slipstream.evaluation import compare
from slipstream.families.edge.oracle.hindsight import jobs_of
from slipstream.families.edge.oracle.optimum import optimum_bounds
from slipstream.families.edge.oracle.relaxation import relaxation
from slipstream.families.edge.oracle.schedule import Schedule
from slipstream.families.edge.oracle.search import search
from slipstream.families.edge.scenario import EdgeScenario, Matrix
from slipstream.families.shared.bounds import OptimumBounds
from slipstream.policies import find, names
from slipstream.scenario import load
from slipstream.sim.simulator import Simulator
from tests.edge.cases import scenario, share, task, trace
from tests.strategies import action_scripts, edge_scenarios, episode_seeds, in_short_runs, scripted_action


def small_instance(seed: int, interference: str = "none") -> EdgeScenario:
    """Return a random episode of a few jobs; half of them live on whole milliseconds, so that events coincide."""
    rng = np.random.default_rng(seed)
    horizon = int(rng.integers(8, 24))
    on_grid = bool(rng.integers(2))

    def duration(least: int, most: int) -> float:
        return float(rng.integers(least, most)) if on_grid else round(float(rng.uniform(least, most)), 3)

    def arrival() -> dict[str, object]:
        kind = str(rng.choice(["trace", "trace", "periodic", "poisson"]))
        if kind == "trace":
            return {"kind": kind, "times_ms": sorted(duration(0, 8) for _ in range(int(rng.integers(1, 4))))}
        if kind == "periodic":
            return {"kind": kind, "period_ms": duration(horizon // 2, horizon), "phase_ms": duration(0, 6)}
        return {"kind": kind, "mean_gap_ms": duration(horizon // 2, horizon)}

    def task(number: int) -> dict[str, object]:
        ladder = sorted(duration(1, 8) for _ in range(int(rng.integers(1, 3))))
        return {
            "name": f"task{number}",
            "model": "m",
            "dataset": "d",
            "num_variants": len(ladder),
            "arrival": arrival(),
            "deadline_ms": duration(2, 12),
            "weight": float(rng.choice([0.5, 1.0, 2.0])),
            "variants": [
                {"latency_ms": latency, "accuracy": float(rng.choice([0.4, 0.6, 1.0])), "demand": 1.0 + rank}
                for rank, latency in enumerate(ladder)
            ],
        }

    return load(
        {
            "family": "edge",
            "horizon_ms": horizon,
            "device": {
                "streams": int(rng.choice([1, 2, 2, 3])),
                "interference": {"kind": interference},
                "latency": {"kind": str(rng.choice(["fixed", "lognormal", "exponential"]))},
                "late": str(rng.choice(["drop", "run"])),
                "queue_limit": int(rng.integers(1, 4)),
                "decision_time_ms": float(rng.choice([0.0, 0.0, 0.5, 1.0])),
            },
            "reward": {
                "on_time_accuracy": float(rng.choice([1.0, 1.0, 0.0, 3.0])),
                "lateness": float(rng.choice([0.0, 0.1, 0.5, 3.0])),
                "drops": float(rng.choice([0.0, 0.1, 0.5, 3.0])),
                "utilisation": float(rng.choice([0.0, 0.0, 0.1, 100.0])),
            },
            "tasks": [task(number) for number in range(int(rng.integers(1, 3)))],
        }
    )


def at_start(scenario: EdgeScenario, seed: int) -> Simulator:
    """Return a simulator without a log, at the first choice of an episode."""
    simulator = Simulator(scenario, log_rows=0)
    simulator.reset(seed)
    return simulator


def best_by_search(scenario: EdgeScenario, seed: int) -> float:
    """Return the best reward over every sequence of legal actions."""
    return best_from(at_start(scenario, seed))


def best_from(simulator: Simulator) -> float:
    """Return the most that can be earned from here on; nothing is cut, but no state is looked at twice."""
    known: dict[tuple[object, ...], float] = {}

    def state() -> tuple[object, ...]:
        """Return the clock, what the streams do and which jobs wait: all else follows."""
        header, tasks, queue = simulator.header, simulator.arrays["tasks"][0], simulator.arrays["queue"][0].T
        streams = [
            tuple(row[name].item() for name in ("task", "job", "variant", "updated", "work", "rate"))
            if row["task"] >= 0
            else bool(row["parked"] == header["events"])
            for row in simulator.arrays["streams"][0]
        ]
        waiting = [
            (task, ring["index"][(row["head"] + place) % len(ring)].item())
            for task, (row, ring) in enumerate(zip(tasks, queue, strict=True))
            for place in range(row["length"])
        ]
        return (header["now"].item(), tuple(streams), tuple(waiting))

    def best_from_here() -> float:
        if not simulator.asking:
            return 0.0
        here = state()
        if here not in known:
            before = {name: array.copy() for name, array in simulator.arrays.items()}
            known[here] = -np.inf
            for action in np.flatnonzero(simulator.observe()[2]).tolist():
                simulator.step(action)
                known[here] = max(known[here], float(simulator.header["reward"]) + best_from_here())
                for name, array in before.items():
                    simulator.arrays[name][...] = array
        return known[here]

    return best_from_here()


def test_the_optimum_of_tiny_is_the_one_found_by_hand():
    found = optimum_bounds(load("edge/tiny"), seed=0)
    assert found.exact
    assert found.bound == pytest.approx(5.0)


def assert_exact(scenario: EdgeScenario, seed: int) -> OptimumBounds:
    found = optimum_bounds(scenario, seed)
    assert found.exact, seed
    assert found.bound == pytest.approx(best_by_search(scenario, seed), abs=1e-5), seed
    return found


def test_the_optimum_of_small_episodes_equals_exhaustive_search():
    proofs = Counter(assert_exact(small_instance(seed), seed).method for seed in range(100))
    # The schedule proves most; what it leaves open is closed by trying the choices themselves.
    assert proofs["schedule"] >= 80
    assert proofs["search"] >= 1


def test_it_does_so_under_interference_too():
    for seed in range(20):
        assert assert_exact(small_instance(seed, "share"), seed).method != "schedule"


@pytest.mark.slow
def test_the_optimum_of_many_more_small_episodes_equals_exhaustive_search():
    for seed in range(1000, 1300):
        assert_exact(small_instance(seed), seed)


@pytest.mark.parametrize("interference", ["none", "share"])
def test_every_bound_alone_holds_what_the_others_find(interference):
    for seed in range(100, 140):
        scenario = small_instance(seed, interference)
        jobs = jobs_of(scenario, Simulator(scenario).play(find("edf", "edge"), seed), seed, "test")
        best, bound, _ = search(at_start(scenario, seed), jobs, -math.inf, math.inf, math.inf)
        assert best == bound
        assert best <= relaxation(scenario, jobs) + 1e-9
        if interference == "none":
            assert best <= Schedule(scenario, jobs).solve(10.0)[0] + 1e-9


def test_the_relaxation_holds_where_no_rate_of_a_started_run_is_certain(monkeypatch):
    scenario = load("edge/overload").model_copy(update={"horizon_ms": 500.0})
    jobs = jobs_of(scenario, Simulator(scenario).play(find("edf", "edge"), 0), 0, "test")
    certain = relaxation(scenario, jobs)
    monkeypatch.setattr("slipstream.families.edge.oracle.relaxation.worst_rate", lambda *_: 0.0)
    # A job that starts just in time may then take nothing at all, and still does not expire.
    assert relaxation(scenario, jobs) > certain


def test_a_search_that_runs_out_of_time_still_brackets_the_optimum():
    scenario = small_instance(2)
    jobs = jobs_of(scenario, Simulator(scenario).play(find("edf", "edge"), 2), 2, "test")
    best, bound, _ = search(at_start(scenario, 2), jobs, -math.inf, 100.0, 0.0)
    assert best < best_by_search(scenario, 2) < bound


def open_loop(device: EdgeScenario) -> EdgeScenario:
    """Return the scenario with a periodic task in place of each closed loop, of which there is no hindsight."""
    data = device.model_dump(mode="json")
    for each in data["tasks"]:
        if each["arrival"]["kind"] == "closed":
            gap = each["arrival"]["think_ms"] + each["variants"][0]["latency_ms"]
            each["arrival"] = {"kind": "periodic", "period_ms": gap, "phase_ms": each["arrival"]["phase_ms"]}
    return EdgeScenario.model_validate(data)


def scripted_reward(simulator: Simulator, seed: int, script: int) -> float:
    """Return what a sequence of arbitrary choices earns."""
    simulator.reset(seed)
    total = 0.0
    while simulator.asking:
        action = scripted_action(script, int(simulator.header["choices"]), simulator.observe()[2])
        simulator.step(action)
        total += float(simulator.header["reward"])
    return total


@pytest.mark.thorough
def test_nothing_that_is_played_on_any_machine_exceeds_a_bound() -> None:
    extras: Counter[str] = Counter()

    def holds(drawn: EdgeScenario, seed: int, script: int) -> None:
        device = open_loop(drawn)
        simulator, silent = Simulator(device), Simulator(device, log_rows=0)
        played = {name: simulator.play(find(name, "edge"), seed) for name in names("edge")}
        reached = {name: simulator.family.metrics(device, events)["reward"] for name, events in played.items()}
        reached |= {f"script {number}": scripted_reward(silent, seed, script + number) for number in range(3)}
        best = max(reached, key=lambda name: reached[name])
        # The bracket counts what policies reached as known, so that only the bounds by themselves can be too low.
        jobs = jobs_of(device, played["edf"], seed, "test")
        assert reached[best] <= relaxation(device, jobs) + 1e-6, best
        assert reached[best] <= optimum_bounds(device, seed, seconds=0.1).bound + 1e-6, best
        note_extras(extras, device)

    in_short_runs(holds, 150, edge_scenarios(), episode_seeds(), action_scripts())
    assert min(extras.values()) >= 5
    assert len(extras) == 6


def note_extras(extras: Counter[str], device: EdgeScenario) -> None:
    """Count what the scenario has beside a plain one."""
    machine = device.device
    extras["batches"] += device.most_jobs > 1
    extras["preemption"] += machine.preemption.kind != "none"
    extras["priorities"] += machine.stream_priorities is not None
    extras["loading"] += any(variant.load_ms > 0.0 for task in device.tasks for variant in task.ladder)
    extras["energy"] += device.reward.energy > 0.0 and machine.busy_w > 0.0
    if isinstance(machine.interference, Matrix):
        extras["helpers"] += min(map(min, machine.interference.slowdowns)) < 1.0


@pytest.mark.parametrize("streams", [1, 2])
def test_hindsight_knows_what_runs_really_take(streams: int) -> None:
    # Both look the same to a policy: profiled at 4 with a deadline of 5. But one takes 6, the other 2.
    slow, quick = (task(trace(0), [4], 5, ladder={"actual_ms": actual}) for actual in (6.0, 2.0))
    sharing = share(1.0) if streams == 2 else {"kind": "none"}
    device = scenario(20, [slow, quick], {"drops": 0.25}, streams=streams, interference=sharing)
    found = optimum_bounds(EdgeScenario.model_validate(device), 0)
    # The quick one is on time, by 2 alone or by 4 beside the other, which then ends at 8: 3 / 5 late, at half a point.
    # To drop it costs less.
    assert found.exact
    assert found.best_known == pytest.approx(0.5 - 0.25)


def test_closed_loops_have_no_hindsight() -> None:
    device = EdgeScenario.model_validate(scenario(20, [task({"kind": "closed"}, [4])]))
    with pytest.raises(InputError, match="closed-loop"):
        optimum_bounds(device, 0)


def test_the_relaxation_holds_where_a_set_up_delays_the_work_of_a_started_job() -> None:
    # Four streams share one unit. Three jobs with a deadline of 1 start in time, and load until beyond the horizon: so
    # they claim nothing, and the fourth stream meets four deadlines at full rate.
    loaders = [task(trace(0), [10], 1, ladder={"load_ms": 100.0}) for _ in range(3)]
    steady = task(trace(0, 10, 20, 30), [10], 10)
    device = EdgeScenario.model_validate(scenario(41, [*loaders, steady], streams=4, interference=share(1.0)))
    simulator = Simulator(device)
    events = simulator.play(find("edf", "edge"), 0)
    reached = simulator.family.metrics(device, events)["reward"]
    assert reached == pytest.approx(4 * 0.5)
    assert reached <= relaxation(device, jobs_of(device, events, 0, "test"))


@pytest.mark.parametrize("name", ["edge/heavy", "edge/overload", "edge/drone"])
def test_the_built_ins_are_bracketed(name):
    comparison = compare(name, "edf,lookahead", episodes=1, seed=10_000, oracle_seconds=1.0)
    found = comparison.optimum_bounds[0]
    assert not found.exact
    assert 0.85 * found.bound < found.best_known < found.bound
    places = comparison.to_dict()["oracle"]["places"]
    assert places["edf"] < places["lookahead"] <= found.best_known / found.bound + 1e-12


def test_every_policy_of_a_small_episode_lies_below_the_optimum():
    for seed in range(100):
        scenario = small_instance(seed)
        found = optimum_bounds(scenario, seed)
        simulator = Simulator(scenario)
        for name in names("edge"):
            events = simulator.play(find(name, "edge"), seed)
            assert simulator.family.metrics(scenario, events)["reward"] <= found.bound + 1e-6, (seed, name)
