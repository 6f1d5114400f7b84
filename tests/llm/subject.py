"""The family of LLM engines as the tests of all families see it."""

from __future__ import annotations

import numpy as np

from slipstream.families.llm import features
from slipstream.families.llm.family import FAMILY
from slipstream.families.llm.invariants import LOGGED, check
from slipstream.policies.base import Heuristic, find
from slipstream.scenario import load
from tests.llm.strategies import llm_scenarios
from tests.reference.llm_rows import ReferenceLlm
from tests.strategies import often_eager_action
from tests.subjects import Effort, Subject


def anything(row: np.ndarray) -> float:
    """Score rows of all kinds by numbers that have nothing to do with each other, and waiting in between."""
    score = row[features.PROMPT] * 37.0 + row[features.BUDGET] * 11.0 + row[features.NUMBER] * 17.0
    return (score % 29.0) + 9.0 * row[features.WAIT]


SUBJECT = Subject(
    family=FAMILY,
    reference=ReferenceLlm,
    scenarios=llm_scenarios,
    check_laws=check,
    logged=LOGGED,
    small="llm/tiny",
    busy="llm/fleet",
    shown=("llm/tiny", "llm/code"),
    everything=load("llm/tiny").model_dump(mode="json"),  # type: ignore[attr-defined]
    played=("mc-sf", "mlfq"),
    own_policies=(Heuristic("anything", "llm", anything, is_rule=True, scores_all_rows=True),),
    killing_policies=(find("fcfs", "llm"), find("mc-sf", "llm")),  # type: ignore[arg-type]
    act=often_eager_action,
    effort=Effort(
        thorough=2000,
        brief=30,
        per_policy=6,
        observed=30,
        observed_choices=40,
        built_in_choices=40,
        observe_every=5,
        watched=200,
        killing=(200, 40),
        killing_choices=80,
        killing_observed_choices=10,
        killing_observe_every=3,
    ),
)
