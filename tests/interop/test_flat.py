"""A flat observation holds the same numbers in Gymnasium's order, inside honest bounds, and the mask stays at hand."""

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import unflatten
from gymnasium.utils.env_checker import check_env
from stable_baselines3.common.env_checker import check_env as check_for_sb3

from slipstream.envs.env import SchedulingEnv
from slipstream.errors import InputError
from slipstream.interop.flat import FlatMaskedObservation, FlatObservation
from tests.envs.test_env import same

ENV_ID = "slipstream/Edge-v0"


def play_both(plain, wrapped, seed):
    """Yield what both environments show, given the same random legal actions, over a whole episode."""
    rng = np.random.default_rng(seed)
    one, other = plain.reset(seed=seed), wrapped.reset(seed=seed)
    yield one, other
    ended = False
    while not ended:
        action = rng.choice(np.flatnonzero(one[-1]["action_mask"]))
        one, other = plain.step(action), wrapped.step(action)
        ended = one[2] or one[3]
        yield one, other


@pytest.mark.parametrize("mask_in_observation", [False, True])
def test_unflattening_gives_the_observation_back_and_all_else_is_untouched(small, mask_in_observation):
    plain, inner = (SchedulingEnv("edge", small, mask_in_observation) for _ in range(2))
    flat = FlatObservation(inner)
    for one, other in play_both(plain, flat, seed=5):
        assert same(unflatten(plain.observation_space, other[0]), one[0])
        assert same(one[1:], other[1:])


@pytest.mark.parametrize("scenario", ["edge/tiny", "edge/drone", "edge/overload"])
def test_flat_observations_stay_inside_finite_bounds(scenario):
    flat = FlatObservation(SchedulingEnv("edge", scenario))
    space = flat.observation_space
    assert space.dtype == np.float32
    assert np.isfinite(space.low).all()
    assert np.isfinite(space.high).all()
    for _, shown in play_both(SchedulingEnv("edge", scenario), flat, seed=2):
        assert space.contains(shown[0])


@pytest.mark.parametrize("wrapper", [FlatObservation, FlatMaskedObservation])
def test_masks_agree_wherever_they_are_read(wrapper):
    env = wrapper(gymnasium.make(ENV_ID, scenario="edge/drone"))
    shown, info = env.reset(seed=0)
    for _ in range(50):
        mask = info["action_mask"]
        assert same(env.action_masks(), mask.astype(bool))
        if isinstance(shown, dict):
            assert same(shown["action_mask"], mask)
        shown, _, _, _, info = env.step(env.action_space.sample(mask=mask))


@pytest.mark.parametrize("mask_in_observation", [False, True])
def test_the_mask_beside_the_row_is_not_in_it(small, mask_in_observation):
    plain = SchedulingEnv("edge", small)
    masked = FlatMaskedObservation(SchedulingEnv("edge", small, mask_in_observation))
    for one, other in play_both(plain, masked, seed=1):
        assert masked.observation_space.contains(other[0])
        assert same(unflatten(plain.observation_space, other[0]["observations"]), one[0])


# The checker would rather see the environment inside; here the wrapper is what is checked.
@pytest.mark.filterwarnings("ignore:.*is different from the unwrapped version")
@pytest.mark.parametrize("wrapper", [FlatObservation, FlatMaskedObservation])
def test_both_checkers_pass_without_a_warning(wrapper):
    env = wrapper(SchedulingEnv("edge", "edge/light"))
    check_env(env, skip_render_check=True)
    check_for_sb3(env)


def test_an_environment_that_shows_no_dictionary_is_refused():
    with pytest.raises(InputError, match="expected a dictionary of boxes"):
        FlatObservation(gymnasium.make("CartPole-v1"))
