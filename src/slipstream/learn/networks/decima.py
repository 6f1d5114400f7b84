"""Network that reads the graph of the work, after Decima (Mao et al. 2019), made of operations."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch_geometric.utils import scatter

from slipstream.learn.networks.graphs import MessagePassing, PackedGraphs
from slipstream.learn.networks.networks import NetworkSettings, Scorer, linear_step, scale_step
from slipstream.policies.operations import GLOBALS, LOGITS, NODES, ROWS, Operation


class Decima(Scorer):
    """Scorer of candidates, globals, and the graph of dependent stages.

    Message passing (`learn.networks.graphs.MessagePassing`) gives a vector per node; sums over nodes and jobs give a
    vector per job and per choice. The logit of a candidate comes from its row and the vectors of its node, its job and
    the choice; the value from that of the choice. Where a flag in the globals announces another kind of choice, such as
    a number of executors instead of a stage, a second head gives the logits.
    """

    node_scale: Tensor
    node_shift: Tensor
    job_scale: Tensor
    job_shift: Tensor
    total_scale: Tensor
    total_shift: Tensor
    other_asked: Tensor

    def __init__(
        self,
        columns: int,
        global_columns: int,
        node_columns: int,
        settings: NetworkSettings | None = None,
        flag: int | None = None,
    ) -> None:
        """`flag` is the column of the globals that selects the second head, None where there is one kind of choice."""
        super().__init__(columns, global_columns, settings)
        width, own = self.settings.width, self.settings.node_width
        self._add_scale("node", node_columns)
        # Sums grow with the number of terms; training measures the usual number.
        self._add_scale("job", own)
        self._add_scale("total", own)
        self.node = nn.Linear(node_columns, own)
        self.start = nn.Linear(own, own)
        self.message_passing = MessagePassing(own)
        self.part = nn.Linear(own, own)
        self.job = nn.Linear(own, own)
        self.share = nn.Linear(own, own)
        self.context = nn.Linear(own, width)
        self.context_globals = nn.Linear(global_columns, width)
        self.row = nn.Linear(columns, width)
        self.row_context = nn.Linear(width, width)
        self.row_node = nn.Linear(own, width)
        self.row_job = nn.Linear(own, width)
        self.has_other = flag is not None
        if flag is not None:
            self.register_buffer("other_asked", torch.eye(global_columns)[flag].clone())
            self.other = nn.Linear(width, width)
            self.other_context = nn.Linear(width, width)
            self.other_logit = nn.Linear(width, 1)
        self._add_heads()
        if flag is not None:
            nn.init.orthogonal_(self.other_logit.weight, gain=0.01)
        # A small gain keeps vectors from growing over many levels.
        nn.init.orthogonal_(self.message_passing.update.weight, gain=0.5)

    def operations(self) -> tuple[Operation, ...]:
        """Return the network as operations for compiled code."""
        activation = self.settings.activation
        return (
            scale_step("row", ROWS, "row_in"),
            scale_step("global", GLOBALS, "global_in"),
            scale_step("node", NODES, "node_in"),
            linear_step("node", "node_in", "node_hidden"),
            Operation("relu", "node_hidden", "node_hidden"),
            linear_step("start", "node_hidden", "start"),
            Operation("message_passing", "start", "vectors", "message_passing"),
            linear_step("part", "vectors", "parts"),
            Operation("relu", "parts", "parts"),
            Operation("sum_jobs", "parts", "job_sums"),
            scale_step("job", "job_sums", "job_in"),
            linear_step("job", "job_in", "jobs"),
            linear_step("share", "jobs", "shares"),
            Operation("relu", "shares", "shares"),
            Operation("sum", "shares", "total"),
            scale_step("total", "total", "total_in"),
            linear_step("context", "total_in", "context"),
            linear_step("context_globals", "global_in", "context_now"),
            Operation("add", "context_now", "context"),
            Operation(activation, "context", "context"),
            Operation("take", "vectors", "own_node"),
            linear_step("row_node", "own_node", "from_node"),
            linear_step("row_job", "jobs", "job_terms"),
            Operation("take", "job_terms", "from_job"),
            linear_step("row_context", "context", "hidden_context"),
            linear_step("row", "row_in", "hidden"),
            Operation("add", "hidden_context", "hidden"),
            Operation("add", "from_node", "hidden"),
            Operation("add", "from_job", "hidden"),
            Operation(activation, "hidden", "hidden"),
            *self._head_steps("hidden"),
            *(self._other_head() if self.has_other else ()),
        )

    def _other_head(self) -> tuple[Operation, ...]:
        activation = self.settings.activation
        return (
            linear_step("other_context", "context", "other_deep_context"),
            linear_step("other", "hidden", "other_deep"),
            Operation("add", "other_deep_context", "other_deep"),
            Operation(activation, "other_deep", "other_deep"),
            linear_step("other_logit", "other_deep", "other_logits"),
            Operation("switch", "other_logits", LOGITS, "other_asked"),
        )

    def forward(self, rows: Tensor, global_rows: Tensor, counts: Tensor, graphs: PackedGraphs) -> tuple[Tensor, Tensor]:
        """Return the logits of packed candidates, `counts` of them per choice, and the values of the choices.

        This is the definition; training runs the same operations in compiled code (`learn.rollout.learner`).
        """
        activation = torch.relu if self.settings.activation == "relu" else torch.tanh
        choices, jobs = len(counts), len(graphs.choice_of)
        row_choice = torch.repeat_interleave(torch.arange(choices), counts)
        globals_in = global_rows * self.global_scale + self.global_shift
        node_in = graphs.nodes * self.node_scale + self.node_shift
        vectors = self.message_passing(self.start(torch.relu(self.node(node_in))), graphs.edges)
        parts = torch.relu(self.part(vectors))
        job_sums = scatter(parts, graphs.job_of, 0, jobs, reduce="sum")
        summaries = self.job(job_sums * self.job_scale + self.job_shift)
        total = scatter(torch.relu(self.share(summaries)), graphs.choice_of, 0, choices, reduce="sum")
        context = activation(
            self.context(total * self.total_scale + self.total_shift) + self.context_globals(globals_in)
        )
        hidden = self.row(rows * self.row_scale + self.row_shift) + self.row_context(context)[row_choice]
        known = graphs.node_of >= 0
        node_of = graphs.node_of.clamp(min=0)
        if len(vectors):
            own_node = vectors[node_of] * known.unsqueeze(1)
            hidden = hidden + self.row_job(summaries)[graphs.job_of[node_of]] * known.unsqueeze(1)
        else:
            own_node = vectors.new_zeros((len(rows), vectors.shape[1]))
        hidden = activation(hidden + self.row_node(own_node))
        logits, values = self._heads(hidden, context, row_choice)
        if self.has_other:
            others = self.other_logit(activation(self.other(hidden) + self.other_context(context)[row_choice])).squeeze(
                1
            )
            logits = torch.where((global_rows @ self.other_asked > 0.5)[row_choice], others, logits)
        return logits, values
