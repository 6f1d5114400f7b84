"""Policy distillation (Rusu et al. 2016): one network imitates several trained policies, each on its own scenario.

As in imitation (`learn.algorithms.imitation`), the teachers play at first, then the student visits states of its own,
which the teacher of the scenario labels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from slipstream.families.contract import Scenario, family_of
from slipstream.learn.algorithms.imitation import Imitation
from slipstream.learn.networks.graphs import PackedGraphs
from slipstream.learn.networks.networks import NetworkSettings, Scorer
from slipstream.learn.networks.scales import MEASURED_CHOICES, scale_inputs
from slipstream.learn.rollout.batch import Choices
from slipstream.learn.rollout.learner import Learner, Optimizer
from slipstream.learn.rollout.rollout import LanePool, Rollout
from slipstream.learn.settings import TrainSettings
from slipstream.learn.trainer import build_network, load_weights
from slipstream.policies.learned import LearnedPolicy, save_policy
from slipstream.policies.operations import GraphCapacity

LABELLED_TOGETHER = 4096
"""Choices per batch of labels."""


@dataclass(frozen=True)
class Teacher:
    """Trained policy, and the scenario on which it is imitated."""

    scenario: Scenario
    policy: LearnedPolicy


class _TeacherPool:
    """Lanes of one teacher's scenario, and the teacher as a network that plays and labels."""

    def __init__(self, teacher: Teacher, settings: TrainSettings, graph: bool, number: int) -> None:
        self.family = family_of(teacher.scenario)
        self.network = build_network(self.family, NetworkSettings.from_card(teacher.policy.card))
        load_weights(self.network, teacher.policy, "distillation")
        reads = graph or self.network.reads_graph
        lanes = max(settings.groups, settings.n_envs)
        self.pool = LanePool([teacher.scenario] * settings.groups, lanes, settings.threads, reads)
        self.pool.start(np.random.default_rng([settings.seed, 4, number]).integers(2**61, size=lanes))
        self.learner = Learner(self.network, self.pool.candidates, 1, self.pool.graph)
        self.horizon = settings.algorithm.discount_horizon * self.family.timescale(teacher.scenario)

    def label(self, rollout: Rollout) -> None:
        """Write the teacher's choice as the label of every choice of a rollout."""
        seen = rollout.choices()
        labels = np.concatenate(
            [
                best_candidates(self.network, seen.picked(part))
                for part in np.array_split(np.arange(len(seen)), max(1, len(seen) // LABELLED_TOGETHER))
            ]
        )
        rollout.label[rollout.made] = labels


def best_candidates(network: Scorer, choices: Choices) -> np.ndarray:
    """Return, for each of some packed choices, the position of the candidate with the highest logit."""
    counts = torch.from_numpy(choices.count.astype(np.int64))
    inputs = [torch.from_numpy(choices.rows), torch.from_numpy(choices.global_rows), counts]
    with torch.no_grad():
        logits, _ = network(*inputs, PackedGraphs.of(choices)) if network.reads_graph else network(*inputs)
    values, begin = logits.numpy(), choices.begin
    # Packed without gaps, so a choice is a range of rows: the first row that reaches its maximum is the best.
    highest = np.maximum.reduceat(values, begin)
    reached = np.flatnonzero(values == np.repeat(highest, choices.count))
    choice_of = np.repeat(np.arange(len(choices)), choices.count)[reached]
    _, first = np.unique(choice_of, return_index=True)
    positions: np.ndarray = reached[first] - begin
    return positions


def distil(
    teachers: Sequence[Teacher],
    settings: TrainSettings,
    out: Path,
    about: Mapping[str, Any],
    report: Callable[[int, int], None] | None = None,
) -> None:
    """Train one network to imitate several teachers, each on its own scenario, and write it as a policy.

    `settings.imitation` has the number of rollouts per scenario, and how many of them the teachers play; `report` is
    called with the rollouts done and planned.
    """
    torch.set_num_threads(1)  # Threads share the work above torch.
    torch.manual_seed(settings.seed)
    family = family_of(teachers[0].scenario)
    network = build_network(family, settings.network)
    teacher_pools = [_TeacherPool(one, settings, network.reads_graph, number) for number, one in enumerate(teachers)]
    _measure(network, teacher_pools, settings)
    capacities = [teacher_pool.pool.graph for teacher_pool in teacher_pools]
    capacity = GraphCapacity(*(max(getattr(one, name) for one in capacities) for name in ("columns", "nodes", "edges")))
    learner = Learner(
        network, max(teacher_pool.pool.candidates for teacher_pool in teacher_pools), settings.threads, capacity
    )
    optimizer = Optimizer(learner, settings.imitation.learning_rate, settings.imitation.max_grad_norm)
    students = [
        Imitation(learner, settings.imitation, teacher_pool.horizon, optimizer) for teacher_pool in teacher_pools
    ]
    rounds = settings.imitation.rollouts
    for number in range(rounds):
        for index, (teacher_pool, student) in enumerate(zip(teacher_pools, students, strict=True)):
            player = teacher_pool.learner if number < settings.imitation.expert_rollouts else learner
            key = (settings.seed, number * len(teacher_pools) + index)
            rollout = teacher_pool.pool.collect(player.layout, player.weights, settings.n_steps, key)
            teacher_pool.label(rollout)
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
    save_policy(out, family.name, network.operations(), network.arrays(), card, network.guides)


def _measure(network: Scorer, teacher_pools: Sequence[_TeacherPool], settings: TrainSettings) -> None:
    """Scale the student's inputs by what the teachers observe on all scenarios, and its value as the teachers' are."""
    seen, summaries = [], []
    for number, teacher_pool in enumerate(teacher_pools):
        learner, key = teacher_pool.learner, (settings.seed, 2**31 + number)
        rollout = teacher_pool.pool.collect(learner.layout, learner.weights, settings.n_steps, key)
        choices = rollout.choices()
        seen.append(choices.picked(np.arange(min(len(choices), MEASURED_CHOICES // len(teacher_pools)))))
        summaries.append(rollout.globals[rollout.made].copy())
    scale_inputs(network, teacher_pools[0].family, Choices.joined(seen), np.concatenate(summaries), settings.hidden)
    for name in ("value_scale", "value_shift"):
        values = [float(teacher_pool.network.get_buffer(name)[0]) for teacher_pool in teacher_pools]
        network.get_buffer(name)[:] = max(values) if name == "value_scale" else float(np.mean(values))
