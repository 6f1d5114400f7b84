"""Networks that score candidates with weights shared over rows, so that one network fits scenarios of any size."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from slipstream.errors import InputError, PolicyError
from slipstream.files.inputs import as_object
from slipstream.learn.parsing import parse_settings
from slipstream.policies.operations import GLOBALS, LOGITS, ROWS, VALUE, Operation, reads_graph

Summary = Literal["pool", "attention"]
WIDEST = 4096
"""Greatest width of a hidden layer."""


@dataclass(frozen=True)
class NetworkSettings:
    """Architecture of a network."""

    width: int = 32
    """Width of the hidden layers."""
    summary: Summary = "pool"
    """How the candidates are pooled: mean and maximum (`pool`), or a weighted mean per head (`attention`)."""
    heads: int = 4
    """Heads of the attention."""
    activation: Literal["relu", "tanh"] = "relu"
    """Activation of hidden layers: `relu` or `tanh`."""
    layer_norm: bool = False
    """Whether a layer norm follows the first layer."""
    logarithms: bool = False
    """Whether inputs are also read as logarithms (`rows`): ratios then look alike, whatever the scale of a scenario."""
    kind: Literal["rows", "decima"] = "rows"
    """Inputs of the network: `rows`, the candidates alone, or `decima`, also the graph of the work, where it is one."""
    node_width: int = 16
    """Width of the vectors of nodes, jobs and the whole graph (`decima`)."""
    heuristics: str = ""
    """Heuristics, with commas between them, whose choices are inputs (`rows`): a column for each, 1 in the row that it
    would take. The network then learns where to choose otherwise."""
    module: str | None = None
    """Network of your own, as `FILE.py:CLASS` or `package.module:CLASS`, in place of these; its code is run."""

    def __post_init__(self) -> None:
        for name in ("width", "heads", "node_width"):
            if not 1 <= getattr(self, name) <= WIDEST:
                raise InputError(
                    f"training: network.{name} is {getattr(self, name)}: expected a number from 1 to {WIDEST}"
                )
        if self.logarithms and self.kind != "rows":
            raise InputError("training: network.logarithms is true: expected network.kind=rows")
        if self.heuristics and (self.kind != "rows" or self.module is not None):
            raise InputError("training: network.heuristics is set: expected network.kind=rows and no network.module")
        if self.kind not in ("rows", "decima"):
            raise InputError(f"training: network.kind is '{self.kind}': expected 'rows' or 'decima'")
        if self.module is not None and self.kind != "rows":
            raise InputError(f"training: network.kind is '{self.kind}' beside network.module: expected one of them")

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> NetworkSettings:
        """Return the settings of JSON-ready data, or raise a one-line InputError."""
        found: NetworkSettings = parse_settings(cls, data, "network settings")
        return found

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as JSON-ready data."""
        return asdict(self)

    @classmethod
    def from_card(cls, card: Mapping[str, Any]) -> NetworkSettings:
        """Return the settings in the card of a policy."""
        own = as_object(card.get("network", {}), "network settings", PolicyError)
        return cls.from_dict({key: value for key, value in own.items() if key != "type"})

    def to_card(self) -> dict[str, Any]:
        """Return the settings for the card of a policy."""
        name = "candidate-scorer" if self.kind == "rows" else self.kind
        return {"type": name if self.module is None else "module", **self.to_dict()}


class Scorer(nn.Module, ABC):
    """Network with a logit per candidate and a value per choice, in torch and as operations for compiled code.

    Training measures once how to scale inputs and value (x * scale + shift); a scale of 0 hides a column.
    """

    row_scale: Tensor
    row_shift: Tensor
    global_scale: Tensor
    global_shift: Tensor
    value_scale: Tensor
    value_shift: Tensor
    heuristics: tuple[str, tuple[str, ...]] | tuple[()] = ()
    """Family and names of the heuristics whose choices are the last columns of the rows; nothing without any."""

    def __init__(self, columns: int, global_columns: int, settings: NetworkSettings | None) -> None:
        super().__init__()
        self.settings = settings or NetworkSettings()
        for name, size in (("row", columns), ("global", global_columns), ("value", 1)):
            self._add_scale(name, size)

    def _add_scale(self, name: str, size: int) -> None:
        self.register_buffer(f"{name}_scale", torch.ones(size))
        self.register_buffer(f"{name}_shift", torch.zeros(size))

    def _add_heads(self) -> None:
        """Add the layers from hidden vectors and context to logits and value, and initialise all weights.

        Weights are orthogonal, and logits near zero, so that all candidates are about equally likely at first.
        """
        width = self.settings.width
        self.second = nn.Linear(width, width)
        self.second_context = nn.Linear(width, width)
        self.logit = nn.Linear(width, 1)
        self.value_hidden = nn.Linear(width, width)
        self.value = nn.Linear(width, 1)
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.orthogonal_(module.weight, gain=2**0.5)
                nn.init.zeros_(module.bias)
        nn.init.orthogonal_(self.logit.weight, gain=0.01)
        nn.init.orthogonal_(self.value.weight, gain=1.0)

    def _head_steps(self, hidden: str) -> tuple[Operation, ...]:
        """Return the heads as operations on the hidden vectors `hidden` and the context."""
        activation = self.settings.activation
        return (
            linear_step("second_context", "context", "deep_context"),
            linear_step("second", hidden, "deep"),
            Operation("add", "deep_context", "deep"),
            Operation(activation, "deep", "deep"),
            linear_step("logit", "deep", LOGITS),
            linear_step("value_hidden", "context", "value_hidden"),
            Operation(activation, "value_hidden", "value_hidden"),
            linear_step("value", "value_hidden", "value_out"),
            scale_step("value", "value_out", VALUE),
        )

    def _heads(self, hidden: Tensor, context: Tensor, choice_of: Tensor) -> tuple[Tensor, Tensor]:
        """Return the logits of packed candidates, each of a choice, and the values of the choices."""
        activation = torch.relu if self.settings.activation == "relu" else torch.tanh
        logits = self.logit(activation(self.second(hidden) + self.second_context(context)[choice_of])).squeeze(1)
        values = self.value(activation(self.value_hidden(context))).squeeze(1)
        return logits, values * self.value_scale + self.value_shift

    @abstractmethod
    def operations(self) -> tuple[Operation, ...]:
        """Return the network as operations for compiled code."""

    @property
    def reads_graph(self) -> bool:
        """Whether the network reads the graph of a choice."""
        return reads_graph(self.operations())

    @property
    def guides(self) -> tuple[str, ...]:
        """Names of the heuristics whose choices it reads."""
        return self.heuristics[1] if self.heuristics else ()

    def tensors(self) -> dict[str, Tensor]:
        """Return parameters and measured scales, which the operations read, by name."""
        return {**dict(self.named_parameters()), **dict(self.named_buffers())}

    def arrays(self) -> dict[str, np.ndarray]:
        """Return copies of the tensors as arrays."""
        return {name: tensor.detach().cpu().numpy().copy() for name, tensor in self.tensors().items()}


class CandidateScorer(Scorer):
    """Scorer of candidates and globals.

    Every candidate and the globals make a hidden vector; the pooled hidden vectors make the context; the logit is
    computed from the hidden vector and the context, the value from the context alone.
    """

    def __init__(self, columns: int, global_columns: int, settings: NetworkSettings | None = None) -> None:
        super().__init__(columns, global_columns, settings)
        settings = self.settings
        width = settings.width
        self.row = nn.Linear(columns, width)
        self.row_globals = nn.Linear(global_columns, width)
        if settings.logarithms:
            for name, size in (("row", columns), ("global", global_columns)):
                self.register_buffer(f"{name}_resolution", torch.ones(size))
                self._add_scale(f"{name}_log", size)
            self.row_logs = nn.Linear(columns, width)
            self.row_global_logs = nn.Linear(global_columns, width)
            self.context_global_logs = nn.Linear(global_columns, width)
        if settings.layer_norm:
            self.norm = nn.LayerNorm(width)
        if settings.summary == "attention":
            self.attention = nn.Linear(width, settings.heads)
        else:
            self.peak = nn.Linear(width, width)
        self.mean = nn.Linear(width, width)
        self.context_globals = nn.Linear(global_columns, width)
        self._add_heads()

    def operations(self) -> tuple[Operation, ...]:
        """Return the network as operations for compiled code."""
        activation = self.settings.activation
        steps = [
            scale_step("row", ROWS, "row_in"),
            scale_step("global", GLOBALS, "global_in"),
            linear_step("row_globals", "global_in", "hidden_globals"),
        ]
        if self.settings.logarithms:
            steps += [
                *log_steps("row", ROWS, "row_log_in"),
                *log_steps("global", GLOBALS, "global_log_in"),
                linear_step("row_global_logs", "global_log_in", "hidden_global_logs"),
                Operation("add", "hidden_global_logs", "hidden_globals"),
                linear_step("row_logs", "row_log_in", "hidden_logs"),
            ]
        steps += [linear_step("row", "row_in", "hidden"), Operation("add", "hidden_globals", "hidden")]
        if self.settings.logarithms:
            steps.append(Operation("add", "hidden_logs", "hidden"))
        hidden = "hidden"
        if self.settings.layer_norm:
            hidden = "normal"
            steps.append(Operation("normalise", "hidden", hidden, "norm.weight", "norm.bias"))
        steps.append(Operation(activation, hidden, hidden))
        if self.settings.summary == "attention":
            steps += [
                linear_step("attention", hidden, "scores"),
                Operation("attend", hidden, "summary", scores="scores"),
            ]
        else:
            steps += [Operation("mean", hidden, "summary"), Operation("max", hidden, "maximum")]
        steps.append(linear_step("mean", "summary", "context"))
        if self.settings.summary != "attention":
            steps += [linear_step("peak", "maximum", "context_peak"), Operation("add", "context_peak", "context")]
        if self.settings.logarithms:
            steps += [
                linear_step("context_global_logs", "global_log_in", "context_logs"),
                Operation("add", "context_logs", "context"),
            ]
        return (
            *steps,
            linear_step("context_globals", "global_in", "context_now"),
            Operation("add", "context_now", "context"),
            Operation(activation, "context", "context"),
            *self._head_steps(hidden),
        )

    def forward(self, rows: Tensor, global_rows: Tensor, counts: Tensor) -> tuple[Tensor, Tensor]:
        """Return the logits of packed candidates, `counts` of them per choice, and the values of the choices.

        This is the definition; training runs the same operations in compiled code (`learn.rollout.learner`).
        """
        activation = torch.relu if self.settings.activation == "relu" else torch.tanh
        choice_of = torch.repeat_interleave(torch.arange(len(counts), device=rows.device), counts)
        globals_in = global_rows * self.global_scale + self.global_shift
        hidden = self.row(rows * self.row_scale + self.row_shift) + self.row_globals(globals_in)[choice_of]
        context = self.context_globals(globals_in)
        if self.settings.logarithms:
            row_logs = self._logs("row", rows)
            global_logs = self._logs("global", global_rows)
            hidden = hidden + self.row_logs(row_logs) + self.row_global_logs(global_logs)[choice_of]
            context = context + self.context_global_logs(global_logs)
        if self.settings.layer_norm:
            hidden = self.norm(hidden)
        hidden = activation(hidden)
        if self.settings.summary == "attention":
            weights = packed_softmax(self.attention(hidden), choice_of, len(counts))
            parts = hidden.view(len(hidden), self.settings.heads, -1) * weights.unsqueeze(-1)
            context = context + self.mean(_sum(parts.flatten(1), choice_of, len(counts)))
        else:
            mean = _sum(hidden, choice_of, len(counts)) / counts.unsqueeze(1)
            peak = _maximum(hidden, choice_of, len(counts))
            context = context + self.mean(mean) + self.peak(peak)
        return self._heads(hidden, activation(context), choice_of)

    def _logs(self, name: str, values: Tensor) -> Tensor:
        """Return the scaled logarithms of inputs: those of rows or of globals."""
        logs = torch.sign(values) * torch.log1p(values.abs() * self.get_buffer(f"{name}_resolution"))
        return logs * self.get_buffer(f"{name}_log_scale") + self.get_buffer(f"{name}_log_shift")


def log_steps(name: str, source: str, target: str) -> tuple[Operation, ...]:
    """Return the operations that scale the logarithms of inputs."""
    logs = f"{name}_logs"
    return Operation("log", source, logs, f"{name}_resolution"), scale_step(f"{name}_log", logs, target)


def linear_step(layer: str, source: str, target: str) -> Operation:
    """Return the operation of a linear layer."""
    return Operation("linear", source, target, f"{layer}.weight", f"{layer}.bias")


def scale_step(name: str, source: str, target: str) -> Operation:
    """Return the operation that scales by measured constants."""
    return Operation("scale", source, target, f"{name}_scale", f"{name}_shift")


def _sum(values: Tensor, choice_of: Tensor, choices: int) -> Tensor:
    return values.new_zeros((choices, *values.shape[1:])).index_add(0, choice_of, values)


def _maximum(values: Tensor, choice_of: Tensor, choices: int) -> Tensor:
    start = values.new_full((choices, *values.shape[1:]), -torch.inf)
    indices = choice_of.view(-1, *[1] * (values.dim() - 1)).expand_as(values)
    return start.scatter_reduce(0, indices, values, "amax")


def packed_log_softmax(logits: Tensor, choice_of: Tensor, choices: int) -> Tensor:
    """Return the log-probability of every packed candidate among those of its choice."""
    shifted = logits - _maximum(logits.detach(), choice_of, choices)[choice_of]
    return shifted - _sum(shifted.exp(), choice_of, choices).log()[choice_of]


def packed_softmax(logits: Tensor, choice_of: Tensor, choices: int) -> Tensor:
    """Return the probability of every packed candidate among those of its choice."""
    return packed_log_softmax(logits, choice_of, choices).exp()


def packed_entropy(log_probs: Tensor, choice_of: Tensor, choices: int) -> Tensor:
    """Return the entropy of every choice from the log-probabilities of its candidates."""
    return -_sum(log_probs * log_probs.exp(), choice_of, choices)
