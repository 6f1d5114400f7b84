"""Decima's graph network (Mao et al. 2019) in the layers of PyTorch Geometric, as a network of `slipstream.networks`.

    slipstream train dag/small --network slipstream.learn.networks.pyg:GeometricDecima

It computes what `learn.networks.decima` does, which is compiled; this one is played by torch, and is the place to try
another layer of PyTorch Geometric. `geometric_policy` has the weights of a compiled one, such as `learned-graph`.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch_geometric.nn import MessagePassing
from torch_geometric.nn.aggr import SumAggregation

from slipstream.errors import PolicyError
from slipstream.families.contract import FAMILIES
from slipstream.learn.networks.graphs import levels
from slipstream.learn.networks.networks import NetworkSettings
from slipstream.networks import Columns, GraphInputs, spread
from slipstream.policies.learned import LearnedPolicy
from slipstream.policies.torch_policy import TorchPolicy

PHASE = "phase"
"""Global column of families with two alternating kinds of choices; a second head gives the logits of the other."""
TYPICAL = 8.0
"""Divisor of sums over the nodes of a job and over the jobs of a choice, which grow with the number of terms."""

RENAMED = {"message_layer": "message", "update_layer": "update"}
"""Layers of the message passing, and their names in the compiled network."""
SUMS = {"job": "job", "context": "total"}
"""Layers that read a sum, and the names of the scales that the compiled network measured for it."""
SCALES = [f"{name}_{part}" for name in ("row", "global", "node", "value") for part in ("scale", "shift")]


class LevelPassing(MessagePassing):  # type: ignore[misc]
    """Message passing from children to parents, every node once: h = start + update(merge(sum of message(h)))."""

    def __init__(self, width: int) -> None:
        super().__init__(aggr="sum", flow="target_to_source")
        self.message_layer = nn.Linear(width, width)
        self.merge = nn.Linear(width, width)
        self.update_layer = nn.Linear(width, width)

    def forward(self, start: Tensor, edges: Tensor) -> Tensor:
        """Return the vectors of all nodes, (M, width), level by level from the leaves."""
        level_of = levels(edges, len(start))
        vectors = start
        for level in range(1, int(level_of.max()) + 1 if len(start) else 0):
            nodes = torch.nonzero(level_of == level).squeeze(1)
            received = self.propagate(edges[:, level_of[edges[0]] == level], x=vectors)[nodes]
            vectors = vectors.index_add(0, nodes, self.update_layer(torch.relu(self.merge(received))))
        return vectors

    def message(self, x_j: Tensor) -> Tensor:
        """Return the messages of children, one per edge."""
        return torch.relu(self.message_layer(x_j))


class GeometricDecima(nn.Module):
    """Scorer of candidates by their row, their node, their job and the whole graph."""

    reads_graph = True

    def __init__(self, columns: Columns, width: int = 32, node_width: int = 16) -> None:
        super().__init__()
        own = node_width
        self.flag = columns.globals.index(PHASE) if PHASE in columns.globals else None
        self.node = nn.Linear(len(columns.nodes), own)
        self.start = nn.Linear(own, own)
        self.message_passing = LevelPassing(own)
        self.sum = SumAggregation()
        self.part, self.job, self.share = (nn.Linear(own, own) for _ in range(3))
        self.context, self.context_globals = nn.Linear(own, width), nn.Linear(len(columns.globals), width)
        self.row, self.row_context = nn.Linear(len(columns.rows), width), nn.Linear(width, width)
        self.row_node, self.row_job = nn.Linear(own, width), nn.Linear(own, width)
        self.second, self.second_context, self.logit = _head(width)
        if self.flag is not None:
            self.other, self.other_context, self.other_logit = _head(width)
        self.value_hidden, self.value = nn.Linear(width, width), nn.Linear(width, 1)
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.orthogonal_(module.weight, gain=2**0.5)
                nn.init.zeros_(module.bias)
        for logit in (self.logit, getattr(self, "other_logit", self.logit)):
            nn.init.orthogonal_(logit.weight, gain=0.01)
        # A small gain keeps vectors from growing over many levels.
        nn.init.orthogonal_(self.message_passing.update_layer.weight, gain=0.5)

    def forward(self, rows: Tensor, offsets: Tensor, global_rows: Tensor, graph: GraphInputs) -> tuple[Tensor, Tensor]:
        """Return the logits of packed candidates and the values of the choices."""
        vectors = self.message_passing(self.start(torch.relu(self.node(graph.nodes))), graph.edges)
        jobs = self.sum(torch.relu(self.part(vectors)), graph.job_of, dim_size=len(graph.choice_of))
        jobs = self.job(jobs / TYPICAL)
        total = self.sum(torch.relu(self.share(jobs)), graph.choice_of, dim_size=len(global_rows))
        context = torch.relu(self.context(total / TYPICAL) + self.context_globals(global_rows))
        own_node, own_job = _of_rows(vectors, self.row_job(jobs), graph)
        hidden = self.row(rows) + spread(self.row_context(context), offsets)
        hidden = torch.relu(hidden + self.row_node(own_node) + own_job)
        logits = self.logit(torch.relu(self.second(hidden) + spread(self.second_context(context), offsets)))
        if self.flag is not None:
            others = self.other_logit(torch.relu(self.other(hidden) + spread(self.other_context(context), offsets)))
            # Scaled to mean 0, the flag is positive where it is set.
            logits = torch.where(spread(global_rows[:, self.flag, None] > 0.0, offsets), others, logits)
        return logits.squeeze(1), self.value(torch.relu(self.value_hidden(context))).squeeze(1)


def _head(width: int) -> tuple[nn.Linear, nn.Linear, nn.Linear]:
    """Return the layers from hidden vectors and context to a logit."""
    return nn.Linear(width, width), nn.Linear(width, width), nn.Linear(width, 1)


def _of_rows(vectors: Tensor, job_terms: Tensor, graph: GraphInputs) -> tuple[Tensor, Tensor]:
    """Return for every row the vector of its node and the term of its job, zeros where it has none."""
    if not len(vectors):
        rows = len(graph.node_of)
        return vectors.new_zeros(rows, vectors.shape[1]), job_terms.new_zeros(rows, job_terms.shape[1])
    known, node_of = (graph.node_of >= 0).unsqueeze(1), graph.node_of.clamp(min=0)
    return vectors[node_of] * known, job_terms[graph.job_of[node_of]] * known


def geometric_policy(policy: LearnedPolicy) -> TorchPolicy:
    """Return a policy that makes the choices of the compiled `policy`, with its weights in a `GeometricDecima`.

    Raises:
        PolicyError: One line: its network is not Decima's.
    """
    settings = NetworkSettings.from_card(policy.card)
    if settings.kind != "decima" or settings.activation != "relu":
        raise PolicyError(
            f"policy '{policy.name}' has another network: expected one trained with network.kind=decima and relu"
        )
    known = {name: torch.from_numpy(array.copy()) for name, array in policy.tensors.items()}
    for layer, scale in SUMS.items():
        weight = known[f"{layer}.weight"]
        known[f"{layer}.bias"] += weight @ known[f"{scale}_shift"]
        known[f"{layer}.weight"] = weight * known[f"{scale}_scale"] * TYPICAL
    module = GeometricDecima(Columns.of(FAMILIES[policy.family]), settings.width, settings.node_width)
    state = {}
    for name in module.state_dict():
        compiled = name
        for new, old in RENAMED.items():
            compiled = compiled.replace(new, old)
        state[name] = known[compiled]
    module.load_state_dict(state)
    return TorchPolicy(policy.name, policy.family, module, {name: known[name] for name in SCALES}, policy.card)
