"""Network of a user's own: any `torch.nn.Module` of the interface that `slipstream.networks` describes."""

from __future__ import annotations

from functools import cached_property

import torch
from torch import Tensor

from slipstream.errors import InputError, PolicyError
from slipstream.learn.networks.networks import NetworkSettings, Scorer
from slipstream.learn.networks.translation import PREFIX, NotCompilableError, translate
from slipstream.networks.import_path import make_network, raised_by
from slipstream.networks.inputs import Columns, GraphInputs, offsets_of, reads_graph, run_scaled
from slipstream.policies.operations import Operation, lay_out

PROBE_COUNTS = (1, 4, 2)
"""Candidates of the choices that a new network is called with."""
PROBE_TOLERANCE = 1e-3


class OwnNetwork(Scorer):
    """Module of a user's own between the scales of its inputs and of its value."""

    def __init__(self, columns: Columns, settings: NetworkSettings) -> None:
        """Make the module at `settings.module`, and call it once.

        Raises:
            InputError: One line: it cannot be made or called, or what it returns is not as expected.
        """
        assert settings.module is not None
        super().__init__(len(columns.rows), len(columns.globals), settings)
        self.path, self.columns = settings.module, columns
        self.module = make_network(self.path, columns)
        self._reads_graph = reads_graph(self.module)
        if self._reads_graph:
            self._add_scale("node", len(columns.nodes))
        for name, parameter in self.module.named_parameters():
            if parameter.dtype != torch.float32:
                raise InputError(f"network '{self.path}': {name} is {parameter.dtype}: expected torch.float32")
        self._probe()

    def train(self, mode: bool = True) -> OwnNetwork:
        """Stay in evaluation mode: a choice must have the same probabilities when played and when learned from."""
        super().train(False)
        return self

    @property
    def reads_graph(self) -> bool:
        """Whether the module reads the graph of a choice."""
        return self._reads_graph

    @cached_property
    def _translation(self) -> tuple[Operation, ...] | str:
        """Its operations, or why it has none."""
        if self._reads_graph:
            return "it reads graphs"
        try:
            operations = translate(self.module)
            shapes = {name: tuple(tensor.shape) for name, tensor in self.tensors().items()}
            lay_out(operations, shapes, (len(self.columns.rows), len(self.columns.globals)), 1)
        except (NotCompilableError, PolicyError) as error:
            return str(error)
        read = {name for one in operations for name in (one.weight, one.bias)}
        unread = [name for name, one in self.named_parameters() if name not in read and one.requires_grad]
        return f"'{unread[0]}' is a parameter of no layer" if unread else operations

    @property
    def not_compilable(self) -> str | None:
        """Why the module cannot be compiled; None if it can."""
        return self._translation if isinstance(self._translation, str) else None

    def operations(self) -> tuple[Operation, ...]:
        """Return the network as operations for compiled code, where it can be compiled."""
        if isinstance(self._translation, str):
            raise PolicyError(f"network '{self.path}' cannot be compiled: {self._translation}")
        return self._translation

    def tensors(self) -> dict[str, Tensor]:
        """Return parameters, buffers and measured scales, by name; one with two names is there twice."""
        state: dict[str, Tensor] = self.state_dict(keep_vars=True)
        return state

    def forward(
        self, rows: Tensor, global_rows: Tensor, counts: Tensor, graph: GraphInputs | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return the logits of packed candidates, `counts` of them per choice, and the values of the choices."""
        return run_scaled(self.module, self.scales(), rows, offsets_of(counts), global_rows, graph)

    def scales(self, copied: bool = False) -> dict[str, Tensor]:
        """Return the measured scales of inputs and value, by name."""
        own = {name: one for name, one in self.named_buffers() if not name.startswith(f"{PREFIX}.")}
        return {name: one.clone() for name, one in own.items()} if copied else own

    def _probe(self) -> None:
        """Call the module with random choices; refuse wrong shapes, and choices that are not independent."""
        generator = torch.Generator().manual_seed(0)
        counts = torch.tensor(PROBE_COUNTS)
        rows = torch.randn(int(counts.sum()), len(self.columns.rows), generator=generator)
        global_rows = torch.randn(len(counts), len(self.columns.globals), generator=generator)
        whole = self._call(rows, global_rows, counts)
        for name, found, expected in zip(
            ("logits", "values"), whole, ("(N,), one per row", "(choices,), one each"), strict=True
        ):
            size = len(rows) if name == "logits" else len(counts)
            if not isinstance(found, Tensor) or found.shape != (size,):
                what = f"{name} of shape {tuple(found.shape)}" if isinstance(found, Tensor) else f"{name} {found!r}"
                raise InputError(f"network '{self.path}' returns {what}: expected {expected}")
        begin = 0
        for choice, count in enumerate(PROBE_COUNTS):
            own = slice(begin, begin + count)
            alone = self._call(rows[own], global_rows[choice : choice + 1], counts[choice : choice + 1])
            parts = whole[0][own], whole[1][choice : choice + 1]
            for name, one, other in zip(("logits", "values"), alone, parts, strict=True):
                if not torch.allclose(one, other, PROBE_TOLERANCE, PROBE_TOLERANCE):
                    raise InputError(
                        f"network '{self.path}': the {name} of a choice depend on other choices of the batch: expected "
                        "functions of its own rows and globals"
                    )
            begin += count

    def _call(self, rows: Tensor, global_rows: Tensor, counts: Tensor) -> tuple[Tensor, Tensor]:
        graph = _probe_graph(counts, len(self.columns.nodes)) if self._reads_graph else None
        try:
            with torch.no_grad():
                logits, values = self(rows, global_rows, counts, graph)
        except Exception as error:
            raise raised_by(self.path, "forward", error) from error
        return logits, values


def _probe_graph(counts: Tensor, columns: int) -> GraphInputs:
    """Return a graph per choice: a job whose nodes are a chain, one node per candidate."""
    size = int(counts.sum())
    nodes = torch.arange(size)
    job_of = torch.repeat_interleave(torch.arange(len(counts)), counts)
    inner = job_of[1:] == job_of[:-1]
    edges = torch.stack([nodes[:-1][inner], nodes[1:][inner]])
    return GraphInputs(torch.ones(size, columns), edges, job_of, torch.arange(len(counts)), nodes)


def trainable(network: Scorer) -> dict[str, torch.nn.Parameter]:
    """Return the parameters that are learned, by name; one with two names is there once."""
    return {name: one for name, one in network.named_parameters() if one.requires_grad}


def is_compilable(network: Scorer) -> bool:
    """Return whether a network can be run by compiled code."""
    return not isinstance(network, OwnNetwork) or network.not_compilable is None
