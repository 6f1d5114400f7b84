"""Decima in the layers of PyTorch Geometric is the Decima that is compiled, and trains where work is a graph."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import slipstream
from slipstream.errors import PolicyError
from slipstream.families.contract import FAMILIES
from slipstream.learn.networks.decima import Decima
from slipstream.learn.networks.graphs import PackedGraphs
from slipstream.learn.networks.networks import NetworkSettings
from slipstream.learn.networks.pyg import RENAMED, TYPICAL, GeometricDecima, geometric_policy
from slipstream.learn.trainer import Trainer
from slipstream.networks.import_path import path_of
from slipstream.networks.inputs import Columns, offsets_of
from slipstream.policies.learned import load_policy, shipped
from tests.learn.trainings import SMALL, check_that_it_goes_on

SETTINGS = SMALL.with_changes({"network.module": path_of(GeometricDecima), "n_steps": 8, "steps": 6 * 16 * 8})


def random_graphs(rng, choices):
    """Return packed acyclic graphs, of 0 to 3 jobs of a few nodes each, and the number of candidates of each choice."""
    edges, job_of, choice_of, node_of, counts = [], [], [], [], []
    for choice in range(choices):
        first = len(job_of)
        for _ in range(int(rng.integers(0, 4))):
            start, size = len(job_of), int(rng.integers(1, 6))
            job_of += [len(choice_of)] * size
            choice_of.append(choice)
            edges += [(start + a, start + b) for a in range(size) for b in range(a + 1, size) if rng.random() < 0.5]
        counts.append(int(rng.integers(1, 6)))
        node_of += [int(rng.integers(first, len(job_of))) if len(job_of) > first else -1 for _ in range(counts[-1])]
        node_of[-1] = -1  # waiting has no node
    numbers = [np.array(edges, np.int64).reshape(-1, 2).T, *map(np.array, (job_of, choice_of, node_of))]
    nodes = rng.normal(size=(len(job_of), len(FAMILIES["dag"].node_features.observed))).astype(np.float32)
    tensors = [torch.from_numpy(np.ascontiguousarray(array)) for array in (nodes, *numbers)]
    return PackedGraphs(*tensors), torch.tensor(counts)


@pytest.mark.parametrize("seed", range(5))
def test_it_computes_what_the_compiled_decima_does(seed):
    rng, columns = np.random.default_rng(seed), Columns.of(FAMILIES["dag"])
    torch.manual_seed(seed)
    geometric, flag = GeometricDecima(columns, 16, 8), columns.globals.index("phase")
    widths = (len(columns.rows), len(columns.globals), len(columns.nodes))
    decima = Decima(*widths, NetworkSettings(16, node_width=8, kind="decima"), flag)
    weights = dict(decima.named_parameters())
    with torch.no_grad():
        for name, parameter in geometric.named_parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
            for new, known in RENAMED.items():
                name = name.replace(new, known)
            weights.pop(name).copy_(parameter)
        decima.job_scale[:] = decima.total_scale[:] = 1.0 / TYPICAL
    assert not weights
    graphs, counts = random_graphs(rng, 6)
    rows = torch.from_numpy(rng.normal(size=(int(counts.sum()), widths[0])).astype(np.float32))
    global_rows = torch.from_numpy(rng.normal(size=(len(counts), widths[1])).astype(np.float32))
    global_rows[:, flag] = torch.tensor([1.0, -1.0] * 3)
    found = geometric(rows, offsets_of(counts), global_rows, graphs)
    for ours, theirs in zip(found, decima(rows, global_rows, counts, graphs), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


@pytest.mark.thorough
@pytest.mark.parametrize(("scenario", "expert"), [("dag/small", "fair"), ("taskgraph/tiny", "heft")])
def test_it_trains_and_goes_on_where_work_is_a_graph(scenario, expert):
    settings = SETTINGS.with_changes({"warm_start": expert})
    check_that_it_goes_on(scenario, settings, 4, updates=1)
    trainer = Trainer(slipstream.load(scenario), settings)
    trainer.update()
    assert np.isfinite(slipstream.evaluate(scenario, trainer.policy(), 1).mean("reward"))


@pytest.mark.thorough
@pytest.mark.parametrize(("family", "scenario"), [("dag", "dag/small"), ("taskgraph", "taskgraph/cholesky-4-2g2c")])
def test_the_shipped_graph_network_makes_the_same_choices_in_these_layers(family, scenario):
    compiled = load_policy(shipped(family)["learned-graph"])
    geometric = geometric_policy(compiled)
    first, second = (slipstream.evaluate(scenario, policy, 2) for policy in (compiled, geometric))
    assert first.of("reward").tolist() == second.of("reward").tolist()


def test_a_row_network_has_no_place_in_these_layers():
    with pytest.raises(PolicyError, match="'learned-general' has another network: expected one trained with"):
        geometric_policy(load_policy(shipped("dag")["learned-general"]))
