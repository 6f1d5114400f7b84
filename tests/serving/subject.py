"""The serving family as the tests of all families see it."""

from __future__ import annotations

import numpy as np

from slipstream.families.serving import features
from slipstream.families.serving.family import FAMILY
from slipstream.families.serving.invariants import LOGGED, check
from slipstream.policies.base import Heuristic, find
from slipstream.scenario import load
from tests.reference.serving_rows import ReferenceServing
from tests.serving.strategies import serving_scenarios
from tests.subjects import Effort, Subject


def fastest(row: np.ndarray) -> float:
    """Score rows by their peak, and waiting in between."""
    return row[features.PEAK] - row[features.LATENCY] * 1e-7 + 60.0 * row[features.WAIT]


SUBJECT = Subject(
    family=FAMILY,
    reference=ReferenceServing,
    scenarios=serving_scenarios,
    check_laws=check,
    logged=LOGGED,
    small="serving/tiny",
    busy="serving/route",
    shown=("serving/tiny", "serving/route"),
    everything=load("serving/tiny").model_dump(mode="json"),  # type: ignore[attr-defined]
    played=("most-accurate", "eft"),
    own_policies=(Heuristic("fastest", "serving", fastest, is_rule=True, scores_all_rows=True),),
    killing_policies=(find("most-accurate", "serving"),),  # type: ignore[arg-type]
    effort=Effort(
        thorough=300,
        brief=15,
        per_policy=4,
        observed=25,
        observed_choices=40,
        built_in_choices=40,
        observe_every=3,
        watched=150,
        killing=(200, 30),
        killing_choices=60,
        killing_observed_choices=10,
        killing_observe_every=4,
    ),
)
