"""Who is raced for how long: until it is clear who is best, and no longer."""

from __future__ import annotations

import numpy as np

from slipstream.library.choosing import ROUNDS, race

FIRST, LAST = 8, 8 << (ROUNDS - 1)


class Payer:
    """Stands for a judge: it knows what everybody earns in every episode, and remembers who played how many."""

    def __init__(self, **earned):
        self.earned = earned
        self.played = {}

    def rewards(self, who, signature, episodes):
        assert episodes.count >= self.played.get(who, 0)
        self.played[who] = episodes.count
        return self.earned[who][: episodes.count]


def raced(**earned):
    """Return how many episodes everybody played, and the means over them."""
    payer = Payer(**{name: np.asarray(values, dtype=float) for name, values in earned.items()})
    found = race(payer, list(earned), "a workload", FIRST)
    assert [len(rewards) for rewards in found] == list(payer.played.values())
    return payer.played, {name: rewards.mean() for name, rewards in zip(earned, found, strict=True)}


def wavering(mean, spread, first=0.0):
    """Return rewards around a mean, other ones on average in the first heat."""
    values = mean + spread * np.where(np.arange(LAST) % 2, 1.0, -1.0)
    values[:FIRST] += first
    return values


def test_a_race_that_the_first_heat_decides_ends_there():
    assert raced(good=wavering(10, 1), bad=wavering(5, 2))[0] == {"good": FIRST, "bad": FIRST}


def test_those_who_may_still_be_best_run_on_and_the_others_do_not():
    played, means = raced(lucky=wavering(100, 9, first=4), better=wavering(102, 0), hopeless=wavering(50, 9))
    assert played == {"lucky": LAST, "better": LAST, "hopeless": FIRST}
    # After the first heat it would have been the other one.
    assert wavering(100, 9, first=4)[:FIRST].mean() > 102
    assert means["better"] > means["lucky"]


def test_a_race_ends_with_the_heat_that_decides_it():
    late = wavering(100, 0)
    late[FIRST : 2 * FIRST] = 50
    played, _ = raced(steady=wavering(98, 4, first=3), late=late)
    assert played == {"steady": 2 * FIRST, "late": 2 * FIRST}


def test_equals_and_those_whom_next_to_nothing_parts_run_no_further_heat():
    same = wavering(100, 9)
    assert set(raced(one=same, twin=same, near=same - 0.01, nearly=same + 0.05)[0].values()) == {FIRST}


def test_costs_are_raced_as_gains_are():
    played, means = raced(dear=wavering(-120, 9), fair=wavering(-100, 9), cheap=wavering(-99, 5))
    assert played["dear"] == FIRST
    assert played["fair"] == played["cheap"] == LAST
    assert max(means, key=means.get) == "cheap"
