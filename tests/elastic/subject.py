"""The family of elastic jobs as the tests of all families see it."""

from __future__ import annotations

import numpy as np

from slipstream.families.elastic import features
from slipstream.families.elastic.family import FAMILY
from slipstream.families.elastic.invariants import LOGGED, check
from slipstream.policies.base import Heuristic, find
from slipstream.scenario import load
from tests.elastic.strategies import elastic_scenarios
from tests.reference.elastic import ReferenceElastic
from tests.strategies import often_eager_action
from tests.subjects import Effort, Subject


def anything(row: np.ndarray) -> float:
    """Score rows by numbers that have nothing to do with each other, and waiting in between."""
    score = row[features.GPUS] * 37.0 + row[features.NUMBER] * 11.0 + row[features.CONFIGURATION] * 17.0
    return (score % 29.0) + 9.0 * row[features.WAIT]


SUBJECT = Subject(
    family=FAMILY,
    reference=ReferenceElastic,
    scenarios=elastic_scenarios,
    check_laws=check,
    logged=LOGGED,
    small="elastic/tiny",
    busy="elastic/tiny",
    shown=("elastic/tiny", "elastic/at-events"),
    everything=load("elastic/tiny").model_dump(mode="json"),  # type: ignore[attr-defined]
    played=("srpt", "random"),
    own_policies=(Heuristic("anything", "elastic", anything, is_rule=True, scores_all_rows=True),),
    killing_policies=(find("las", "elastic"), find("random", "elastic")),  # type: ignore[arg-type]
    act=often_eager_action,
    effort=Effort(
        thorough=2000,
        brief=30,
        per_policy=6,
        observed=30,
        observed_choices=40,
        built_in_choices=40,
        observe_every=3,
        watched=200,
        killing=(200, 40),
        killing_choices=80,
        killing_observed_choices=10,
        killing_observe_every=3,
    ),
)
