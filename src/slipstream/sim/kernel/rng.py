"""Counter-based random numbers: every draw is a pure function of (split, seed, stream, counter).

The generator is SplitMix64 addressed by its counter. It has no state, so lanes, threads and processes are independent,
and the draws of any job can be recomputed alone.
"""

from __future__ import annotations

import math

import numpy as np

from slipstream.jit.decorators import kernel

TRAIN, EVAL, TEST = 0, 1, 2
SPLITS = {"train": TRAIN, "eval": EVAL, "test": TEST}
"""Disjoint key spaces: training never uses an arrival of the test split."""

SEED_LIMIT = 2**62
"""Seeds are below this, so that seed and split fit one 64-bit word without colliding."""

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
STREAM_SALT = np.uint64(0xD1B54A32D192ED03)
"""Sets streams apart from episodes: with one salt for both, stream a of episode b would be stream b of episode a."""
FIRST_MULTIPLIER = np.uint64(0xBF58476D1CE4E5B9)
SECOND_MULTIPLIER = np.uint64(0x94D049BB133111EB)
U1, U2, U4, U12, U27, U30, U31 = (np.uint64(n) for n in (1, 2, 4, 12, 27, 30, 31))
LATTICE = 2.0**-52


@kernel
def mix(z):
    """Return SplitMix64's finaliser of z: a bijection of 64-bit words."""
    z = (z ^ (z >> U30)) * FIRST_MULTIPLIER
    z = (z ^ (z >> U27)) * SECOND_MULTIPLIER
    return z ^ (z >> U31)


@kernel
def episode_key(split, seed):
    """Return the key of an episode; distinct for distinct (split, seed)."""
    return mix(np.uint64(seed) * U4 + np.uint64(split) + GOLDEN)


@kernel
def stream_key(key, stream):
    """Return the key of one stream of numbers within an episode."""
    return mix(key + mix(np.uint64(stream) + STREAM_SALT))


@kernel
def next_seed(seed):
    """Return the seed of the next episode in the same lane, a hash of `seed`."""
    return np.int64(mix(np.uint64(seed) + GOLDEN) >> U2)


@kernel
def bits(key, counter):
    """Return the 64 random bits of `key` at `counter`."""
    return mix(key + (np.uint64(counter) + U1) * GOLDEN)


@kernel
def uniform(key, counter):
    """Return a number in the open interval (0, 1), on a lattice of 2**52 midpoints."""
    return (np.float64(bits(key, counter) >> U12) + 0.5) * LATTICE


@kernel
def exponential(key, counter, mean):
    """Return an exponential random number with mean `mean`."""
    return -math.log(uniform(key, counter)) * mean


@kernel
def exponential_time(key, counter, mean):
    """Return an exponential time: a whole number of nanoseconds, at least 1."""
    return max(1, int(math.ceil(exponential(key, counter, mean))))


@kernel
def normal_above(key, counter, least):
    """Return a standard normal random number above `least`; it uses up to 128 draws from `128 * counter` on.

    By rejection: of normal draws where `least` is negative, else of shifted exponential ones (Robert, "Simulation of
    truncated normal variables", 1995), of which at least three in four are accepted.
    """
    first = 128 * counter
    rate = (least + math.sqrt(least * least + 4.0)) / 2.0
    value = least
    for attempt in range(42):
        draw = first + 3 * attempt
        if least < 0.0:
            radius = math.sqrt(-2.0 * math.log(uniform(key, draw)))
            value = radius * math.cos(2.0 * math.pi * uniform(key, draw + 1))
            if value > least:
                return value
        else:
            value = least + exponential(key, draw, 1.0 / rate)
            if uniform(key, draw + 1) < math.exp(-0.5 * (value - rate) * (value - rate)):
                return value
    return max(value, least)


@kernel
def normal(key, counter):
    """Return a standard normal random number (Box-Muller, one of the pair)."""
    radius = math.sqrt(-2.0 * math.log(uniform(key, 2 * counter)))
    return radius * math.cos(2.0 * math.pi * uniform(key, 2 * counter + 1))
