"""Distillation: what a teacher says, and what a student that learned from two of them does."""

from __future__ import annotations

import numpy as np
import torch

import slipstream
from slipstream.learn.algorithms.distillation import Teacher, best_candidates, distil
from slipstream.learn.algorithms.imitation import ImitationSettings
from slipstream.learn.networks.networks import CandidateScorer, NetworkSettings
from slipstream.learn.rollout.batch import Choices
from slipstream.learn.settings import TrainSettings
from slipstream.policies.learned import load_policy
from tests.library.policies import linear_policy


def test_a_teacher_names_the_candidate_with_the_greatest_logit_of_every_choice():
    rng = np.random.default_rng(0)
    counts = np.array([2, 1, 5, 3], np.int32)
    begin = (np.cumsum(counts) - counts).astype(np.int64)
    rows, global_rows = (rng.normal(size=(size, 3)).astype(np.float32) for size in (int(counts.sum()), len(counts)))
    torch.manual_seed(0)
    network = CandidateScorer(3, 3, NetworkSettings(width=8))
    torch.nn.init.normal_(network.logit.weight)
    found = best_candidates(network, Choices(rows, global_rows, begin, counts))
    for choice, (first, count) in enumerate(zip(begin, counts, strict=True)):
        alone = [torch.from_numpy(rows[first : first + count]), torch.from_numpy(global_rows[choice : choice + 1])]
        logits, _ = network(*alone, torch.tensor([count]))
        assert found[choice] == int(logits.argmax())


def test_a_student_does_on_each_scenario_what_its_teacher_does_there(tmp_path):
    """One teacher is fast and the other accurate, on scenarios that a network can tell apart."""
    weights = {"edge/tiny": {"dispatch": 5.0, "latency": -5.0}, "edge/light": {"dispatch": 5.0, "accuracy": 5.0}}
    teachers = [
        Teacher(slipstream.load(name), load_policy(linear_policy(tmp_path / str(number), "edge", one)))
        for number, (name, one) in enumerate(weights.items())
    ]
    settings = TrainSettings(
        n_envs=16, groups=2, n_steps=64, imitation=ImitationSettings(rollouts=12, n_epochs=4, batch_size=64)
    )
    steps = []
    distil(
        teachers, settings, tmp_path / "student", {"scenario": "both"}, lambda done, whole: steps.append(done / whole)
    )
    student = load_policy(tmp_path / "student")
    assert steps[-1] == 1.0
    assert student.card["algorithm"] == "distillation"
    for teacher in teachers:
        rewards = [
            slipstream.evaluate(teacher.scenario, policy, 2, 0, "eval").mean("reward")
            for policy in (teacher.policy, student)
        ]
        assert rewards[1] >= rewards[0] - 0.1 * abs(rewards[0])
