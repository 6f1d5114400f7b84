"""Several trained policies become one: a network learns what each of them does on its own scenario.

As in imitation (`learn.imitation`), the teachers play at first, and then the student gets into situations of its own
making, in which the teacher of the scenario says what it would have done. A student that has seen every scenario
serves all of them; policy distillation is due to Rusu et al. (2016).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from slipstream.families.contract import family_of
from slipstream.learn.algorithms.imitation import Imitation
from slipstream.learn.networks.graphs import PackedGraphs
from slipstream.learn.networks.networks import NetworkSettings, Scorer
from slipstream.learn.networks.scales import MEASURED_CHOICES, scale_inputs
from slipstream.learn.rollout.batch import Choices
from slipstream.learn.rollout.learner import Descent, Learner
from slipstream.learn.rollout.rollout import LanePool, Rollout
from slipstream.learn.settings import TrainSettings
from slipstream.learn.trainer import build_network, take_weights
from slipstream.policies.learned import LearnedPolicy, save_policy
from slipstream.policies.operations import GraphRoom

LABELLED_TOGETHER = 4096
"""Choices that a teacher is asked about at a time."""


@dataclass(frozen=True)
class Teacher:
    """A trained policy, and the scenario on which it is to be imitated."""

    scenario: Any
    policy: LearnedPolicy


class _School:
    """The lanes of one teacher's scenario, and the teacher as a network that can play and label."""

    def __init__(self, teacher: Teacher, settings: TrainSettings, graph: bool, number: int) -> None:
        self.family = family_of(teacher.scenario)
        self.network = build_network(self.family, NetworkSettings.from_card(teacher.policy.card))
        take_weights(self.network, teacher.policy, "distillation")
        reads = graph or self.network.reads_graph
        lanes = max(settings.groups, settings.lanes)
        self.pool = LanePool([teacher.scenario] * settings.groups, lanes, settings.threads, reads)
        self.pool.start(np.random.default_rng([settings.seed, 4, number]).integers(2**61, size=lanes))
        self.learner = Learner(self.network, self.pool.candidates, 1, self.pool.graph)
        self.horizon = settings.algorithm.discount_horizon * self.family.timescale(teacher.scenario)

    def label(self, rollout: Rollout) -> None:
        """Write down what the teacher would have chosen in every choice of a rollout."""
        seen = rollout.choices()
        labels = np.concatenate(
            [
                best_candidates(self.network, seen.picked(part))
                for part in np.array_split(np.arange(len(seen)), max(1, len(seen) // LABELLED_TOGETHER))
            ]
        )
        rollout.label[rollout.made] = labels


def best_candidates(network: Scorer, choices: Choices) -> np.ndarray:
    """Return the place of the candidate with the greatest logit in each of some packed choices."""
    counts = torch.from_numpy(choices.count.astype(np.int64))
    given = [torch.from_numpy(choices.rows), torch.from_numpy(choices.global_rows), counts]
    with torch.no_grad():
        logits, _ = network(*given, PackedGraphs.of(choices)) if network.reads_graph else network(*given)
    values, begin = logits.numpy(), choices.begin
    # Packed without gaps, so every choice is a stretch: the first place that reaches its maximum is the best.
    highest = np.maximum.reduceat(values, begin)
    reached = np.flatnonzero(values == np.repeat(highest, choices.count))
    choice_of = np.repeat(np.arange(len(choices)), choices.count)[reached]
    _, first = np.unique(choice_of, return_index=True)
    places: np.ndarray = reached[first] - begin
    return places


def distil(
    teachers: Sequence[Teacher],
    settings: TrainSettings,
    out: Path,
    about: Mapping[str, Any],
    report: Callable[[int, int], None] | None = None,
) -> None:
    """Train one network on what several teachers do, each on its own scenario, and write it as a policy.

    `settings.imitation` says how many rollouts of every scenario are learned from, and how many of them the teachers
    play; `report` is called with rollouts done and in all.
    """
    torch.set_num_threads(1)  # The work is shared out above torch.
    torch.manual_seed(settings.seed)
    family = family_of(teachers[0].scenario)
    network = build_network(family, settings.network)
    schools = [_School(one, settings, network.reads_graph, number) for number, one in enumerate(teachers)]
    _measure(network, schools, settings)
    rooms = [school.pool.graph for school in schools]
    room = GraphRoom(*(max(getattr(one, name) for one in rooms) for name in ("columns", "nodes", "edges")))
    learner = Learner(network, max(school.pool.candidates for school in schools), settings.threads, room)
    descent = Descent(learner, settings.imitation.learning_rate, settings.imitation.gradient_norm)
    students = [Imitation(learner, settings.imitation, school.horizon, descent) for school in schools]
    rounds = settings.imitation.rollouts
    for number in range(rounds):
        for place, (school, student) in enumerate(zip(schools, students, strict=True)):
            player = school.learner if number < settings.imitation.expert_rollouts else learner
            key = (settings.seed, number * len(schools) + place)
            rollout = school.pool.collect(player.layout, player.weights, settings.rollout, key)
            school.label(rollout)
            rng = np.random.default_rng([settings.seed, 5, *key])
            student.update(rollout, number / rounds, rng)
        if report is not None:
            report(number + 1, rounds)
    card = {
        **about,
        "settings": settings.to_dict(),
        "algorithm": "distillation",
        "network": settings.network.to_card(),
    }
    save_policy(out, family.name, network.operations(), network.arrays(), card)


def _measure(network: Scorer, schools: Sequence[_School], settings: TrainSettings) -> None:
    """Scale the student's inputs by what the teachers meet on all scenarios, and its value as the teachers' are."""
    seen, summaries = [], []
    for number, school in enumerate(schools):
        learner, key = school.learner, (settings.seed, 2**31 + number)
        rollout = school.pool.collect(learner.layout, learner.weights, settings.rollout, key)
        choices = rollout.choices()
        seen.append(choices.picked(np.arange(min(len(choices), MEASURED_CHOICES // len(schools)))))
        summaries.append(rollout.globals[rollout.made].copy())
    scale_inputs(network, schools[0].family, Choices.joined(seen), np.concatenate(summaries), settings.hidden)
    for name in ("value_scale", "value_shift"):
        values = [float(school.network.get_buffer(name)[0]) for school in schools]
        network.get_buffer(name)[:] = max(values) if name == "value_scale" else float(np.mean(values))
