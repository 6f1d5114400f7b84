"""Policies made by hand: a network that scores a candidate by a weighted sum of its columns."""

from __future__ import annotations

import torch

from slipstream.families.contract import FAMILIES
from slipstream.learn.networks.networks import CandidateScorer, NetworkSettings
from slipstream.policies.learned import save_policy


def linear_policy(folder, family, weights, scenario="unnamed", shift=0.0):
    """Write a policy whose logit is the weighted sum of observed columns; return its folder.

    `shift` changes tensors that do not matter to it, so that two of the same weights are different files.
    """
    tables = FAMILIES[family]
    names = tables.candidate_features.observed.names
    settings = NetworkSettings(width=2 * len(weights))
    network = CandidateScorer(len(names), len(tables.global_features.observed.names), settings)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.zero_()
        for place, (column, weight) in enumerate(weights.items()):
            # relu(x) - relu(-x) is x, through both layers.
            for side, sign in enumerate((1.0, -1.0)):
                hidden = 2 * place + side
                network.row.weight[hidden, names.index(column)] = sign
                network.second.weight[hidden, hidden] = 1.0
                network.logit.weight[0, hidden] = sign * weight
        network.value.bias[:] = shift
    about = {"scenario": scenario, "network": settings.to_card()}
    save_policy(folder, family, network.operations(), network.arrays(), about)
    return folder
