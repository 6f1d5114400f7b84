"""Translation of a `torch.nn.Module` into operations that compiled code runs, where it is made of such operations.

The module is traced by `torch.fx`: its code runs once with symbols instead of tensors. What can be translated are
`nn.Linear` with a bias, `nn.LayerNorm`, ReLU, tanh, sums of two vectors, and the functions of
`slipstream.networks.segments` over rows. Compiled activations and sums work in place, so their source must have no
other use.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import fx, nn

from slipstream.learn.networks.networks import linear_step, scale_step
from slipstream.networks.segments import segment_attend, segment_max, segment_mean, spread
from slipstream.policies.operations import GLOBALS, LOGITS, ROWS, VALUE, Operation

PREFIX = "module"
"""Prefix of the names of parameters and registers."""
ACTIVATIONS: Mapping[Any, str] = {
    nn.ReLU: "relu",
    nn.Tanh: "tanh",
    torch.relu: "relu",
    torch.tanh: "tanh",
    nn.functional.relu: "relu",
    nn.functional.tanh: "tanh",
    "relu": "relu",
    "tanh": "tanh",
}
ADDITIONS = (operator.add, torch.add, "add")
POOLS: Mapping[Any, str] = {segment_mean: "mean", segment_max: "max"}
UNCHANGED = (nn.Identity, nn.Dropout)
"""Modules that return their input, in evaluation mode."""
OVERWRITABLE = ("linear", "add", "normalise", "mean")
"""Operations whose gradients do not read their output, so that the next one may overwrite it."""


class NotCompilableError(Exception):
    """What a network contains that is no operation of compiled code."""


@dataclass(frozen=True)
class _Vectors:
    """Result of a traced call: the register that holds it."""

    register: str
    producer: str
    """Kind of the last operation that wrote it; `input` for inputs."""
    is_spread: bool = False
    """Whether it is a vector per choice that stands for one per row."""


def translate(module: nn.Module) -> tuple[Operation, ...]:
    """Return the operations of a module of `slipstream.networks`, with those that scale inputs and values.

    Raises:
        NotCompilableError: Some part of it is no operation of compiled code.
    """
    try:
        graph = fx.Tracer().trace(module)
    except Exception as error:  # its code depends on the values of tensors
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise NotCompilableError(f"its code depends on the data ({reason})") from None
    return _Translation(module, graph).operations()


class _Translation:
    """Operations of the nodes that were translated already."""

    def __init__(self, module: nn.Module, graph: fx.Graph) -> None:
        self._modules, self._graph = dict(module.named_modules()), graph
        self._steps: list[Operation] = [scale_step("row", ROWS, "row_in"), scale_step("global", GLOBALS, "global_in")]
        self._found: dict[fx.Node, _Vectors] = {}
        self._same: dict[fx.Node, fx.Node] = {}
        """Nodes that stand for the same vectors as another."""

    def operations(self) -> tuple[Operation, ...]:
        """Return the operations of the whole graph."""
        inputs = iter(("row_in", None, "global_in"))
        for node in self._graph.nodes:
            if node.op == "placeholder":
                register = next(inputs, None)
                if register is not None:
                    self._found[node] = _Vectors(register, "input")
            elif node.op == "output":
                return self._outputs(node)
            else:
                self._found[node] = self._translate(node)
        raise NotCompilableError("it returns nothing")

    def _outputs(self, node: fx.Node) -> tuple[Operation, ...]:
        returned = node.args[0]
        if not isinstance(returned, tuple | list) or len(returned) != 2:
            raise NotCompilableError("it does not return logits and values")
        logits, values = (self._vectors(one).register for one in returned)
        if "input" in (self._vectors(one).producer for one in returned):
            raise NotCompilableError("it returns its input")
        renamed = [
            replace(step, source=LOGITS if step.source == logits else step.source, target=_renamed(step, logits))
            for step in self._steps
        ]
        return (*renamed, scale_step("value", values, VALUE))

    def _vectors(self, node: Any) -> _Vectors:
        if not isinstance(node, fx.Node) or node not in self._found:
            raise NotCompilableError(f"it computes with {node}")
        return self._found[node]

    def _translate(self, node: fx.Node) -> _Vectors:
        """Append the operation of `node`; return where its result is."""
        target: Any = node.target
        if node.op == "call_module":
            layer = self._modules[str(node.target)]
            target = type(layer)
            if isinstance(layer, nn.Linear | nn.LayerNorm):
                return self._layer(node, layer)
            if isinstance(layer, UNCHANGED):
                return self._alias(node)
        if node.op in ("call_module", "call_function", "call_method"):
            if target in ACTIVATIONS:
                return self._activation(node, ACTIVATIONS[target])
            if target in ADDITIONS and len(node.args) == 2 and not node.kwargs:
                return self._addition(node)
            if target in POOLS:
                return self._new(node, POOLS[target])
            if target is segment_attend:
                scores = self._vectors(node.args[1])
                return self._new(node, "attend", scores=scores.register)
            if target is spread:
                return replace(self._alias(node), is_spread=True)
            if target in (torch.squeeze, "squeeze"):
                return self._squeezed(node)
        name = getattr(target, "__name__", str(target))
        raise NotCompilableError(f"'{name}' is not among the operations that can be compiled")

    def _plain(self, node: Any) -> _Vectors:
        found = self._vectors(node)
        if found.is_spread:
            raise NotCompilableError("what is spread over rows is not added to vectors of rows")
        return found

    def _new(self, node: fx.Node, kind: str, scores: str | None = None) -> _Vectors:
        source, register = self._plain(node.args[0]).register, f"{PREFIX}.{node.name}"
        self._steps.append(Operation(kind, source, register, scores=scores))
        return _Vectors(register, kind)

    def _layer(self, node: fx.Node, layer: nn.Linear | nn.LayerNorm) -> _Vectors:
        source, name = self._plain(node.args[0]).register, f"{PREFIX}.{node.target}"
        register = f"{PREFIX}.{node.name}"
        if layer.bias is None:
            raise NotCompilableError(f"'{node.target}' has no bias")
        if isinstance(layer, nn.Linear):
            self._steps.append(linear_step(name, source, register))
            return _Vectors(register, "linear")
        if layer.eps != 1e-5 or len(layer.normalized_shape) != 1:
            raise NotCompilableError(f"'{node.target}' is no layer norm over one dimension with eps 1e-5")
        self._steps.append(Operation("normalise", source, register, f"{name}.weight", f"{name}.bias"))
        return _Vectors(register, "normalise")

    def _alias(self, node: fx.Node) -> _Vectors:
        source = node.args[0]
        found = self._plain(source)
        assert isinstance(source, fx.Node)
        self._same[node] = source
        return found

    def _squeezed(self, node: fx.Node) -> _Vectors:
        """Return the vectors of a squeeze, which only the result of the whole network may have."""
        dimension = node.args[1] if len(node.args) > 1 else node.kwargs.get("dim")
        if dimension not in (1, -1) or any(user.op != "output" for user in node.users):
            raise NotCompilableError("it computes with the result of a squeeze")
        return self._alias(node)

    def _may_overwrite(self, node: Any) -> bool:
        """Return whether nothing else reads the vectors of `node`, now or in a backward pass."""
        found: fx.Node | None = node
        if self._vectors(node).is_spread or self._vectors(node).producer not in OVERWRITABLE:
            return False
        while found is not None:
            if len(found.users) != 1:
                return False
            found = self._same.get(found)
        return True

    def _activation(self, node: fx.Node, kind: str) -> _Vectors:
        source = self._plain(node.args[0])
        if not self._may_overwrite(node.args[0]):
            raise NotCompilableError(f"the source of '{node.name}', which works in place, has another use")
        self._steps.append(Operation(kind, source.register, source.register))
        return _Vectors(source.register, kind)

    def _addition(self, node: fx.Node) -> _Vectors:
        for target, source in (node.args, node.args[::-1]):
            if self._may_overwrite(target):
                into, term = self._vectors(target), self._vectors(source)
                if into.register == term.register:
                    continue
                self._steps.append(Operation("add", term.register, into.register))
                return _Vectors(into.register, "add")
        raise NotCompilableError(f"both terms of '{node.name}', which works in place, have another use")


def _renamed(step: Operation, logits: str) -> str:
    return LOGITS if step.target == logits else step.target
