"""The single environment keeps Gymnasium's contract and the project's own rules of choice."""

from __future__ import annotations

import sys

import gymnasium
import numpy as np
import pytest
from gymnasium.wrappers import RenderCollection

import slipstream
from slipstream.envs import env as env_module
from slipstream.errors import InputError, ScenarioError
from slipstream.render.picture import column, lane_top
from slipstream.render.style import task_colour
from slipstream.sim.eventlog import ARRIVAL, FINISH, START
from slipstream.sim.simulator import Simulator


def make(**options):
    return gymnasium.make("slipstream/Edge-v0", **options).unwrapped


def play(env, seed, steps=300, rng_seed=0):
    """Return everything an agent sees during some random legal steps."""
    rng = np.random.default_rng(rng_seed)
    observation, info = env.reset(seed=seed)
    seen = [(observation, info)]
    for _ in range(steps):
        step = env.step(int(rng.choice(np.flatnonzero(info["action_mask"]))))
        info = step[4]
        seen.append(step)
        if step[2] or step[3]:
            break
    return seen


def same(one, other):
    """Return whether two nested structures of arrays, numbers and dictionaries are equal bit for bit."""
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, tuple | list):
        return len(one) == len(other) and all(same(*pair) for pair in zip(one, other, strict=True))
    return bool(np.array_equal(one, other))


def test_the_same_seed_gives_the_same_episode_and_another_seed_another():
    one, again, other = (play(make(), seed) for seed in (7, 7, 8))
    assert same(one, again)
    assert not same(one, other)


def test_splits_give_different_arrivals_for_the_same_seed():
    episodes = [play(make(split=name), 7) for name in ("train", "eval", "test")]
    assert not same(episodes[0], episodes[1])
    assert not same(episodes[1], episodes[2])
    by_option = make()
    by_option.reset(seed=7, options={"split": "test"})
    by_name = make(split="test")
    by_name.reset(seed=7)
    assert same([by_option.step(0) for _ in range(50)], [by_name.step(0) for _ in range(50)])


def test_reset_without_a_seed_goes_on_to_a_derived_episode():
    env, other = make(), make()
    env.reset(seed=5)
    other.reset(seed=5)
    second = play(env, seed=None)
    assert same(second, play(other, seed=None))
    assert not same(second, play(make(), seed=5))


def test_an_illegal_action_counts_as_wait_and_is_flagged():
    one, other = make(scenario="edge/heavy"), make(scenario="edge/heavy")
    _, info = one.reset(seed=1)
    other.reset(seed=1)
    illegal = int(np.flatnonzero(info["action_mask"] == 0)[0])
    wrong, right = one.step(illegal), other.step(one.action_space.n - 1)
    assert wrong[4]["illegal_action"]
    assert not right[4]["illegal_action"]
    assert same(wrong[0], right[0])
    assert wrong[1] == right[1]


def test_wait_is_always_legal():
    for step in play(make(scenario="edge/overload"), seed=2):
        assert step[-1]["action_mask"][-1] == 1


def test_reward_is_the_weighted_sum_of_its_named_terms():
    env = make(scenario="edge/overload")
    weights = env.scenario.reward
    for step in play(env, seed=4)[1:]:
        terms = step[4]["rewards"]
        expected = (
            weights.on_time_accuracy * terms["on_time_accuracy"]
            - weights.lateness * terms["lateness"]
            - weights.drops * terms["drops"]
            + weights.utilisation * terms["utilisation"]
        )
        assert step[1] == pytest.approx(expected)


def test_elapsed_adds_up_to_the_clock():
    steps = play(make(scenario="edge/drone"), seed=1, steps=10_000)
    began = steps[0][1]["time"]
    assert began + sum(step[4]["elapsed"] for step in steps[1:]) == pytest.approx(10_000.0)
    assert steps[-1][3] is True
    assert steps[-1][2] is False


def test_a_finite_trace_ends_terminated():
    steps = play(make(scenario="edge/tiny"), seed=1)
    assert steps[-1][2] is True
    assert steps[-1][3] is False


def test_returned_arrays_are_not_reused():
    env = make()
    observation, info = env.reset(seed=1)
    before = {name: array.copy() for name, array in observation.items()}
    env.step(int(np.flatnonzero(info["action_mask"])[0]))
    assert same(observation, before)


def test_action_masks_agree_with_info_and_observation():
    env = make(mask_in_observation=True)
    observation, info = env.reset(seed=1)
    assert env.action_masks().dtype == np.bool_
    assert same(env.action_masks(), info["action_mask"].astype(bool))
    assert same(observation["action_mask"], info["action_mask"])


def test_decision_time_is_charged_to_the_clock():
    scenario = slipstream.load("edge/tiny").model_dump(mode="json", exclude_unset=True)
    scenario["device"]["decision_time_ms"] = 0.5
    env = make(scenario=scenario)
    env.reset(seed=0)
    assert env.step(0)[4]["elapsed"] >= 0.5


def test_bad_arguments_are_worded():
    with pytest.raises(InputError, match="split 'exam': expected one of train, eval, test"):
        make(split="exam")
    with pytest.raises(InputError, match="expected a number from 0"):
        make().reset(seed=2**62)
    with pytest.raises(ScenarioError, match="edge/hevy"):
        make(scenario="edge/hevy")


def test_step_before_reset_is_refused():
    with pytest.raises(gymnasium.error.ResetNeeded):
        make().step(0)


# Rendering


def play_and_log(steps, seed=5, scenario="edge/overload", **options):
    """Return an environment after random legal steps, and the event log of a simulator that took the same ones."""
    env = make(scenario=scenario, **options)
    simulator = Simulator(env.scenario)
    rng = np.random.default_rng(0)
    _, info = env.reset(seed=seed)
    simulator.reset(seed, "train")
    for _ in range(steps):
        action = int(rng.choice(np.flatnonzero(info["action_mask"])))
        *_, info = env.step(action)
        simulator.step(action)
    return env, simulator.log()


@pytest.mark.parametrize("steps", [3, 40, 400])
def test_a_picture_shows_what_the_log_says(steps):
    env, events = play_and_log(steps, render_mode="rgb_array")
    picture, scene, now = env.render(), env._scene, int(events["time"][-1])
    assert picture.dtype == np.uint8
    assert picture.shape[2] == 3
    running, checked = {}, 0
    spans = []
    for event in events:
        key = int(event["resource"])
        if event["kind"] == START:
            running[key] = int(event["time"]), int(event["task"])
        elif event["kind"] == FINISH:
            spans.append((key, *running.pop(key), int(event["time"])))
    spans += [(key, *begun, now) for key, begun in running.items()]
    for stream, start, task, end in spans:
        left, right = column(scene, max(start, now - scene.window)), column(scene, end)
        if right - left > 6:
            checked += 1
            pixel = picture[lane_top(stream) + 2, round((left + right) / 2)]
            assert "#{:02x}{:02x}{:02x}".format(*pixel) == task_colour(task)
    assert checked >= min(steps // 2, 8)


def test_a_picture_has_a_square_for_every_waiting_job():
    env, events = play_and_log(200, render_mode="rgb_array")
    picture = env.render()
    below = picture[lane_top(len(env._scene.labels.resources)) + 80 :]
    for task, waiting in enumerate(env._scene.waiting):
        own = (events["kind"][events["task"] == task]).tolist()
        assert waiting == own.count(ARRIVAL) - sum(kind not in (ARRIVAL, FINISH) for kind in own)
        red, green, blue = (int(task_colour(task)[i : i + 2], 16) for i in (1, 3, 5))
        rows = (below == (red, green, blue)).all(axis=2)
        line = rows[np.flatnonzero(rows[:, 20])[len(np.flatnonzero(rows[:, 20])) // 2]]
        edges = np.flatnonzero(np.diff(line.astype(int)) == 1)
        assert len(edges) == waiting + 1  # one more for the key to the colour


@pytest.mark.parametrize("rows", [24, 1024])
def test_rendering_changes_nothing_an_agent_sees(rows, monkeypatch):
    monkeypatch.setattr(env_module, "RENDER_LOG_ROWS", rows)
    for scenario in ("edge/overload", "edge/tiny"):
        plain = play(make(scenario=scenario), seed=3, steps=2000)
        drawn = play(make(scenario=scenario, render_mode="ansi"), seed=3, steps=2000)
        assert same(plain, drawn)


def test_a_log_that_fills_up_within_one_step_is_seen_whole(monkeypatch):
    monkeypatch.setattr(env_module, "RENDER_LOG_ROWS", 12)
    scenario = slipstream.load("edge/overload").model_dump(mode="json", exclude_unset=True)
    for task in scenario["tasks"]:
        task["profile"], task["num_variants"] = None, 1
        task["variants"] = [{"latency_ms": 400, "accuracy": 0.5}]  # long enough for hundreds of events in one step
    env, events = play_and_log(6, scenario=scenario, render_mode="ansi")
    assert sum(env._scene.released) == (events["kind"] == ARRIVAL).sum() > 100
    assert same(play(make(scenario=scenario), 5, 6), play(make(scenario=scenario, render_mode="ansi"), 5, 6))


def test_without_a_render_mode_no_log_is_kept():
    env = make()
    env.reset(seed=1)
    assert env._arrays["log"].shape[1] == 0
    assert env._scene is None
    with pytest.warns(UserWarning, match="without a render mode"):
        assert env.render() is None


def test_frames_can_be_collected():
    env = RenderCollection(gymnasium.make("slipstream/Edge-v0", render_mode="rgb_array"))
    env.reset(seed=1)
    for _ in range(4):
        env.step(env.action_space.n - 1)
    frames = env.render()
    assert len(frames) == 5
    assert {frame.shape for frame in frames} == {frames[0].shape}
    assert not np.array_equal(frames[0], frames[-1])
    assert all(length % 2 == 0 for length in frames[0].shape[:2])


def test_a_new_episode_begins_with_an_empty_picture():
    env, _ = play_and_log(50, render_mode="rgb_array")
    env.reset(seed=9)
    fresh = make(scenario="edge/overload", render_mode="rgb_array")
    fresh.reset(seed=9)
    assert np.array_equal(env.render(), fresh.render())


def test_text_frames_say_the_time():
    env, events = play_and_log(30, render_mode="ansi")
    assert f"{events['time'][-1] / 1e6:,.1f} of 10,000 ms" in env.render().splitlines()[0]


def test_without_pillow_a_picture_is_refused_in_one_line(monkeypatch):
    monkeypatch.delitem(sys.modules, "slipstream.render.picture", raising=False)
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(gymnasium.error.DependencyNotInstalled, match="needs Pillow: run `pip install pillow`"):
        make(render_mode="rgb_array")
    make(render_mode="ansi")


def test_an_unknown_render_mode_is_refused():
    with pytest.raises(InputError, match="render_mode 'film': expected one of rgb_array, ansi, or None"):
        env_module.SchedulingEnv("edge", render_mode="film")
