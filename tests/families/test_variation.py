"""A variation says how far scenarios are varied; what makes no sense is refused with a line that says why."""

from __future__ import annotations

import math

import pytest

from slipstream.errors import InputError
from slipstream.families.contract import FAMILIES
from slipstream.families.shared.variation import Variation


def test_a_variation_varies_nothing_unless_told_to() -> None:
    assert Variation().is_identity
    for one in ({"latency": 0.1}, {"profile_error": 0.1}, {"interference": 0.1}, {"rate": 0.1}, {"load": 2.0}):
        assert not Variation(**one).is_identity


@pytest.mark.parametrize("name", ["latency", "profile_error", "interference", "rate"])
@pytest.mark.parametrize("value", [-0.1, 1.0, math.nan, math.inf])
def test_a_half_width_that_allows_no_positive_factor_is_refused(name: str, value: float) -> None:
    with pytest.raises(InputError, match=f"variation: {name} is .*: expected at least 0 and less than 1"):
        Variation(**{name: value})


@pytest.mark.parametrize("value", [0.0, -1.0, 1e-4, 1001.0, math.nan, math.inf])
def test_a_load_out_of_range_is_refused(value: float) -> None:
    with pytest.raises(InputError, match=r"variation: load is .*: expected a multiple between 0.001 and 1000"):
        Variation(load=value)


def test_a_family_without_variation_says_so() -> None:
    with pytest.raises(InputError, match="scenarios of the family 'serving' cannot be varied: expected one of 'edge'"):
        FAMILIES["serving"].vary(None, Variation(), 0)
