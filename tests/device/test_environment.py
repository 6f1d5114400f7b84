"""A Gymnasium environment on a device: an agent acts in real time, and what it is shown is what the machine did."""

from __future__ import annotations

import copy
import gc
import pickle
import time
from itertools import pairwise

import gymnasium
import numpy as np
import psutil
import pytest

from slipstream.device.environment import DeviceEnv
from slipstream.errors import DeviceError, InputError, ModelError
from slipstream.families.contract import FAMILIES
from slipstream.families.edge.workload.replay import recorded_releases
from slipstream.families.shared import invariants
from slipstream.policies import find
from slipstream.sim.eventlog import DROP, END, EXPIRE, FAIL, FINISH, START
from slipstream.sim.simulator import Simulator
from tests.device import faulty
from tests.device.conftest import faulty_task, scenario_of, task

pytestmark = pytest.mark.usefixtures("nothing_left")


def two_tasks(**device):
    poisson = {"kind": "poisson", "mean_gap_ms": 9}
    text = task("text", "builtin:transformer", "text-128", 2, arrival=poisson)
    return scenario_of([task(variants=2), text], **device)


def make(scenario, device="cpu", **options):
    return gymnasium.make("slipstream/Edge-v0", scenario=scenario, device=device, **options)


def first_legal(info):
    return int(np.flatnonzero(info["action_mask"])[0])


def play(env, seed=None, think=0.0, choose=first_legal):
    """Play an episode; return the infos of all steps, that of the reset first, and the sum of the rewards."""
    _, info = env.reset(seed=seed)
    infos, total, over = [info], 0.0, False
    while not over:
        time.sleep(think)
        _, reward, terminated, truncated, info = env.step(choose(info))
        infos.append(info)
        total += reward
        over = terminated or truncated
    return infos, total


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_an_episode_obeys_the_laws_and_has_the_arrivals_of_the_simulation(device, request):
    if device == "cuda":
        request.getfixturevalue("gpu")
    scenario = two_tasks()
    with make(scenario, device, split="eval") as env:
        infos, total = play(env, seed=3)
        events = env.unwrapped.events()
        assert env.unwrapped.execution.faults == []
        assert env.unwrapped.execution.mistakes == 0
    invariants.check(events, scenario.device.streams, scenario.device.queue_limit)
    simulated = recorded_releases(Simulator(scenario).play(find("edf", "edge"), 3, "eval"), 2)
    measured = recorded_releases(events, 2)
    assert [measured[number].tolist() for number in range(2)] == [simulated[number].tolist() for number in range(2)]
    assert (events["kind"] == FINISH).sum() > 0
    assert total == pytest.approx(FAMILIES["edge"].metrics(scenario, events)["reward"])
    assert infos[-1]["time"] == scenario.horizon_ms
    assert all(one["time"] <= other["time"] for one, other in pairwise(infos))
    assert sum(info["elapsed"] for info in infos[1:]) == pytest.approx(infos[-1]["time"] - infos[0]["time"])


def test_spaces_and_keys_are_those_of_the_simulated_environment():
    scenario = two_tasks()
    simulated = gymnasium.make("slipstream/Edge-v0", scenario=scenario, mask_in_observation=True)
    with make(scenario, mask_in_observation=True) as env:
        assert env.observation_space == simulated.observation_space
        assert env.action_space == simulated.action_space
        (one, info), (other, expected) = env.reset(seed=1), simulated.reset(seed=1)
        assert env.observation_space.contains(one)
        assert list(one) == list(other)
        assert info.keys() == expected.keys()
        assert env.unwrapped.action_masks().tolist() == info["action_mask"].astype(bool).tolist()
        assert np.array_equal(one["action_mask"], info["action_mask"])


def test_an_action_takes_effect_when_it_is_given():
    """A decision that takes 30 ms starts its job 30 ms after the moment that the agent was shown."""
    scenario = scenario_of([task(deadline_ms=1000, arrival={"kind": "trace", "times_ms": [1, 90, 180]})], 10_000)
    with make(scenario) as env:
        infos, _ = play(env, seed=0, think=0.03)
        events = env.unwrapped.events()
    starts = events[events["kind"] == START]["time"] / 1e6
    assert len(starts) == 3
    shown = [info["time"] for info in infos[:-1] if info["action_mask"][:-1].any()]
    assert (starts - np.array(shown) >= 30).all()


def test_a_job_that_expires_while_the_agent_thinks_is_not_started():
    scenario = scenario_of([task(deadline_ms=20, arrival={"kind": "trace", "times_ms": [1, 100]})], 10_000)
    with make(scenario) as env:
        infos, _ = play(env, seed=0, think=0.05)
        events = env.unwrapped.events()
    invariants.check(events, 2, scenario.device.queue_limit)
    assert (events["kind"] == EXPIRE).sum() == 2
    assert (events["kind"] == START).sum() == 0
    assert not any(info["illegal_action"] for info in infos)


def test_jobs_can_be_dropped_and_an_illegal_action_counts_as_wait():
    scenario = scenario_of([task(deadline_ms=1000, arrival={"kind": "trace", "times_ms": [1, 50]})], 300)
    with make(scenario) as env:
        _, info = env.reset(seed=0)
        *_, info = env.step(10_000)
        assert info["illegal_action"]
        for dropped in (1, 2):
            drop = np.flatnonzero(info["action_mask"])[-2]
            *_, terminated, _, info = env.step(drop)
            assert (env.unwrapped.events()["kind"] == DROP).sum() == dropped
        assert terminated


def test_reset_waits_for_running_jobs_and_starts_anew():
    slow = task("slow", "builtin:resnet", "synthetic:3x64x64", 5, deadline_ms=5000)
    scenario = scenario_of([{**slow, "arrival": {"kind": "periodic", "period_ms": 5}}], 5000)
    with make(scenario) as env:
        _, info = env.reset(seed=1)
        env.step(4)
        runtime = env.unwrapped.runtime
        assert runtime._jobs
        _, info = env.reset(seed=2)
        assert runtime._jobs == {}
        assert info["time"] < 1000
        assert (env.unwrapped.events()["kind"] == START).sum() == 0
        *_, info = env.step(0)
        assert (env.unwrapped.events()["kind"] == START).sum() == 1


def test_seeds_follow_each_other_as_in_a_simulation():
    scenario = two_tasks()
    simulated = gymnasium.make("slipstream/Edge-v0", scenario=scenario)
    with make(scenario) as env:
        for seed in (5, None, None):
            env.reset(seed=seed)
            simulated.reset(seed=seed)
            assert env.unwrapped._arrays["lanes"]["seed"] == simulated.unwrapped._arrays["lanes"]["seed"]


def test_what_a_run_fails_with_is_told_and_the_episode_goes_on(faulty_data):
    loop = faulty_task("make_arithmetic", arrival={"kind": "closed"})
    data = faulty_data([faulty.FINE, faulty.NOT_A_NUMBER])
    with make(scenario_of([loop]), data=data, allow_code=True) as env:
        play(env, seed=0)
        kinds = env.unwrapped.events()["kind"]
        faults = env.unwrapped.execution.faults
    assert (kinds == FINISH).sum() > 1
    assert (kinds == FAIL).sum() == len(faults) > 1
    assert {text for _, _, text in faults} == {"ArithmeticError: the output is not finite"}


def test_a_run_that_hangs_is_aborted_and_its_worker_replaced(faulty_data):
    made = faulty_task(arrival={"kind": "trace", "times_ms": [1, 2, 3]}, deadline_ms=60_000)
    data = faulty_data([faulty.FINE, faulty.HANGS])
    with make(scenario_of([made], 60_000), data=data, allow_code=True, watchdog_ms=200) as env:
        play(env, seed=0)
        assert [text for _, _, text in env.unwrapped.execution.faults] == ["gave no answer within 200 ms"]
        assert env.unwrapped.execution.restarts == 1


def workers():
    return [child for child in psutil.Process().children(recursive=True) if child.is_running()]


def test_closing_stops_the_workers_and_a_closed_environment_says_so():
    env = make(two_tasks())
    env.reset(seed=0)
    before = workers()
    assert len(before) == 3
    env.close()
    assert not set(before) & set(workers())
    env.close()
    for call in (lambda: env.step(0), lambda: env.reset()):
        with pytest.raises(DeviceError, match="the environment was closed"):
            call()


def test_an_environment_that_is_forgotten_takes_its_workers_with_it():
    env = make(two_tasks())
    env.reset(seed=0)
    before = workers()
    del env
    gc.collect()
    assert not set(before) & set(workers())


@pytest.mark.parametrize("way", [copy.deepcopy, pickle.dumps])
def test_an_environment_on_a_device_is_not_copied(way):
    with make(two_tasks()) as env, pytest.raises(DeviceError, match="an environment on a device cannot be copied"):
        way(env.unwrapped)


def preemptive():
    return two_tasks(preemption={"kind": "restart"})


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (lambda: make("cluster/heavy"), "family 'cluster'"),
        (lambda: gymnasium.make("slipstream/Dag-v0", device="cpu"), "expected one of 'edge'"),
        (lambda: make(two_tasks(), device="tpu"), "unknown device 'tpu'"),
        (lambda: make(preemptive()), "preemption is 'restart'"),
        (lambda: make(two_tasks(), data={"nobody": "."}), "data of task 'nobody'"),
        (lambda: make(two_tasks(), split="tests"), "split 'tests'"),
        (lambda: make(scenario_of([faulty_task("make_broken")]), allow_code=True), "no model today"),
        (
            lambda: gymnasium.make_vec(
                "slipstream/Edge-v0", 2, "vector_entry_point", scenario=two_tasks(), device="cpu"
            ),
            "the vector environment simulates",
        ),
    ],
)
def test_what_a_device_cannot_do_is_told_in_one_line(wrong, told):
    with pytest.raises(InputError) as raised:
        wrong()
    text = str(raised.value)
    del raised
    gc.collect()  # the traceback holds the memory of streams that were opened
    assert told in text
    assert "\n" not in text


def test_a_model_that_is_code_needs_leave():
    with pytest.raises(ModelError, match="expected --allow-code"):
        make(scenario_of([faulty_task()]))


def test_text_frames_show_what_the_device_does():
    with make(two_tasks(), render_mode="ansi") as env:
        play(env, seed=0)
        assert "ended at 300.0 ms" in env.render().splitlines()[0]


def test_a_simulation_of_the_same_scenario_keeps_its_decision_time():
    """The arrays of a scenario are shared; the measured times of decisions are not written into them."""
    scenario = two_tasks()
    with make(scenario) as env:
        play(env, seed=0, think=0.01)
    log = Simulator(scenario).play(find("edf", "edge"), 0)
    assert np.array_equal(log, Simulator(two_tasks()).play(find("edf", "edge"), 0))


@pytest.mark.thorough
def test_an_agent_of_another_library_acts_and_learns_on_the_device():
    sb3 = pytest.importorskip("sb3_contrib")
    with DeviceEnv("edge", two_tasks()) as env:
        model = sb3.MaskablePPO("MultiInputPolicy", env, n_steps=32, batch_size=16, n_epochs=1, seed=0)
        before = [value.clone() for value in model.policy.parameters()]
        model.learn(64)
        assert any((one != other).any() for one, other in zip(before, model.policy.parameters(), strict=True))
        observation, info = env.reset(seed=1)
        over = False
        while not over:
            action, _ = model.predict(observation, action_masks=env.action_masks())
            observation, _, terminated, truncated, info = env.step(action)
            assert not info["illegal_action"]
            over = terminated or truncated
        events = env.events()
    invariants.check(events, 2, 16)
    assert (events["kind"] == END).sum() == 1
