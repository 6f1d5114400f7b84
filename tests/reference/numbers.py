"""The random numbers of an episode, as the page on the edge machine states them."""

from __future__ import annotations

import math

MASK = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15
STREAM_SALT = 0xD1B54A32D192ED03


def mix(z: int) -> int:
    """Scramble 64 bits with SplitMix64's finaliser."""
    z &= MASK
    z ^= z >> 30
    z = z * 0xBF58476D1CE4E5B9 & MASK
    z ^= z >> 27
    z = z * 0x94D049BB133111EB & MASK
    return z ^ z >> 31


def episode_key(split: int, seed: int) -> int:
    """Return the key from which all numbers of an episode follow."""
    return mix(seed * 4 + split + GOLDEN)


def stream_key(key: int, stream: int) -> int:
    """Return the key of one independent stream of numbers within an episode."""
    return mix(key + mix(stream + STREAM_SALT))


def bits(key: int, counter: int) -> int:
    """Return the counter-th 64 random bits of a stream."""
    return mix(key + (counter + 1) * GOLDEN)


def uniform(key: int, counter: int) -> float:
    """Return a uniform number strictly between 0 and 1."""
    return (float(bits(key, counter) >> 12) + 0.5) * 2.0**-52


def exponential(key: int, counter: int, mean: float) -> float:
    """Return an exponential number of the given mean."""
    return -math.log(uniform(key, counter)) * mean


def normal(key: int, counter: int) -> float:
    """Return a standard normal number (Box-Muller, the cosine half)."""
    radius = math.sqrt(-2.0 * math.log(uniform(key, 2 * counter)))
    return radius * math.cos(2.0 * math.pi * uniform(key, 2 * counter + 1))


def next_seed(seed: int) -> int:
    """Return the seed of the episode that follows in the same lane."""
    return mix(seed + GOLDEN) >> 2


class Draws:
    """The numbers of one stream, taken one after the other."""

    def __init__(self, key: int) -> None:
        self.key = key
        self.drawn = 0

    def uniform(self) -> float:
        """Take the next number as a uniform one."""
        self.drawn += 1
        return uniform(self.key, self.drawn - 1)

    def gap(self, mean: int) -> int:
        """Take the next number as an exponential duration of at least one nanosecond."""
        self.drawn += 1
        return max(1, math.ceil(exponential(self.key, self.drawn - 1, float(mean))))
