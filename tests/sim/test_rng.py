"""Random numbers are a pure function of (split, seed, stream, counter), and good ones."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slipstream.sim.kernel import rng
from tests.reference import edge as reference

# The first call compiles, which takes its time.
UNHURRIED = settings(deadline=None)

WORD = 2**64
SEEDS = st.integers(0, rng.SEED_LIMIT - 1)
WORDS = st.integers(0, WORD - 1)
SPLITS = st.sampled_from(sorted(rng.SPLITS.values()))


def unshift(z: int, by: int) -> int:
    """Undo z ^= z >> by."""
    result = z
    for _ in range(64 // by):
        result = z ^ result >> by
    return result


def unmix(z: int) -> int:
    """Undo SplitMix64's finaliser."""
    z = unshift(z, 31) * pow(0x94D049BB133111EB, -1, WORD) % WORD
    z = unshift(z, 27) * pow(0xBF58476D1CE4E5B9, -1, WORD) % WORD
    return unshift(z, 30)


def key_of(first_bits: int) -> np.uint64:
    """Return the key whose first 64 bits are the given ones."""
    return np.uint64((unmix(first_bits) - int(rng.GOLDEN)) % WORD)


def sample(draw: object, count: int, *rest: float) -> np.ndarray:
    """Return the first numbers of a stream."""
    key = rng.stream_key(np.uint64(rng.episode_key(rng.EVAL, 3)), 4)
    return np.array([draw(np.uint64(key), counter, *rest) for counter in range(count)])  # type: ignore[operator]


def test_bits_are_splitmix64() -> None:
    # The first numbers of the published generator, seeds 0 and 1234567.
    zero = [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F, 0xF88BB8A8724C81EC, 0x1B39896A51A8749B]
    assert [int(rng.bits(np.uint64(0), counter)) for counter in range(5)] == zero
    other = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431, 16408922859458223821]
    assert [int(rng.bits(np.uint64(1234567), counter)) for counter in range(5)] == other


@UNHURRIED
@given(WORDS, st.integers(0, 2**62))
def test_numbers_equal_the_reference(key: int, counter: int) -> None:
    word = np.uint64(key)
    assert int(rng.bits(word, counter)) == reference.bits(key, counter)
    assert rng.uniform(word, counter) == reference.uniform(key, counter)
    assert rng.exponential(word, counter, 3.5) == reference.exponential(key, counter, 3.5)
    assert rng.normal(word, counter // 2) == reference.normal(key, counter // 2)


@UNHURRIED
@given(WORDS)
def test_mix_is_a_bijection(z: int) -> None:
    assert unmix(int(rng.mix(np.uint64(z)))) == z


@UNHURRIED
@given(SPLITS, SEEDS)
def test_an_episode_key_belongs_to_one_split_and_seed(split: int, seed: int) -> None:
    key = int(rng.episode_key(split, seed))
    assert key == reference.episode_key(split, seed)
    # From the key alone both can be found again, so no two pairs share one.
    seed_back, split_back = divmod((unmix(key) - int(rng.GOLDEN)) % WORD, 4)
    assert (split_back, seed_back) == (split, seed)


@UNHURRIED
@given(WORDS, st.integers(0, 2001))
def test_stream_keys_equal_the_reference(key: int, stream: int) -> None:
    assert int(rng.stream_key(np.uint64(key), stream)) == reference.stream_key(key, stream)


def test_no_two_episodes_share_a_stream() -> None:
    keys = {
        int(rng.stream_key(np.uint64(rng.episode_key(split, seed)), stream))
        for split in range(3)
        for seed in range(30)
        for stream in range(100)
    }
    assert len(keys) == 3 * 30 * 100


def test_uniform_numbers_lie_in_the_open_interval() -> None:
    assert rng.uniform(key_of(0), 0) == 2.0**-53
    assert rng.uniform(key_of(WORD - 1), 0) == 1.0 - 2.0**-53
    # So the logarithm is finite at both ends, and not zero at the upper one.
    assert rng.exponential(key_of(0), 0, 1.0) == -math.log(2.0**-53)
    assert rng.exponential(key_of(WORD - 1), 0, 1.0) > 0.0


def test_moments_are_those_of_the_distribution() -> None:
    n = 100_000
    u, e, z = sample(rng.uniform, n), sample(rng.exponential, n, 2.0), sample(rng.normal, n)
    # Four standard errors each.
    assert u.mean() == pytest.approx(0.5, abs=4 * math.sqrt(1 / 12 / n))
    assert u.var() == pytest.approx(1 / 12, abs=4 * math.sqrt(1 / 180 / n))
    assert e.mean() == pytest.approx(2.0, abs=4 * 2.0 / math.sqrt(n))
    assert (e**2).mean() == pytest.approx(8.0, abs=4 * math.sqrt((24 * 16 - 64) / n))
    assert z.mean() == pytest.approx(0.0, abs=4 / math.sqrt(n))
    assert (z**2).mean() == pytest.approx(1.0, abs=4 * math.sqrt(2 / n))
    assert (z**4).mean() == pytest.approx(3.0, abs=4 * math.sqrt(96 / n))


def test_neighbours_are_uncorrelated() -> None:
    n = 50_000
    key = rng.episode_key(rng.TEST, 0)
    here = np.array([rng.uniform(np.uint64(key), counter) for counter in range(n)])
    other_seed = np.array([rng.uniform(np.uint64(rng.episode_key(rng.TEST, 1)), counter) for counter in range(n)])
    across_streams = np.array([rng.uniform(np.uint64(rng.stream_key(np.uint64(key), s)), 0) for s in range(n)])
    for one, other in ((here[:-1], here[1:]), (here, other_seed), (across_streams[:-1], across_streams[1:])):
        assert abs(np.corrcoef(one, other)[0, 1]) < 4 / math.sqrt(n)


@UNHURRIED
@given(SEEDS)
def test_the_next_seed_is_a_seed(seed: int) -> None:
    following = int(rng.next_seed(seed))
    assert following == reference.next_seed(seed)
    assert 0 <= following < rng.SEED_LIMIT


def test_derived_seeds_do_not_meet() -> None:
    # A thousand lanes with neighbouring seeds, a hundred episodes each: no episode is played twice.
    seen: set[int] = set()
    for first in range(1000):
        seed = first
        for _ in range(100):
            seen.add(seed)
            seed = int(rng.next_seed(seed))
    assert len(seen) == 1000 * 100
