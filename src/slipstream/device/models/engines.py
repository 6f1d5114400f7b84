"""What runs a model inside a worker process: torch as it is, or ONNX Runtime.

A model is prepared once, before workers are forked, and finished in each of them: what has threads of its own, as a
session of ONNX Runtime may have, must come into being after the fork.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slipstream.device.models.addresses import Address, Model, load
from slipstream.device.models.datasets import DatasetType
from slipstream.device.models.onnx_session import PREFERRED, OnnxModel, runtime
from slipstream.errors import ModelError


@dataclass(frozen=True)
class Graph:
    """A model in ONNX, not yet in a session."""

    name: str
    content: bytes
    providers: tuple[str, ...]


def memory_mb(prepared: Any) -> float:
    """Return what the weights of a prepared model take, in megabytes."""
    if isinstance(prepared, Graph):
        return len(prepared.content) / 1e6
    tensors = [*getattr(prepared, "parameters", list)(), *getattr(prepared, "buffers", list)()]
    return float(sum(tensor.numel() * tensor.element_size() for tensor in tensors)) / 1e6


def finished(prepared: Any, threads: int) -> Model:
    """Return a model that runs: a graph gets its session, on so many threads."""
    return OnnxModel(prepared.content, threads, prepared.providers) if isinstance(prepared, Graph) else prepared


def _for_torch(address: Address, kind: DatasetType) -> Any:
    if address.kind == "onnx":
        return Graph(address.text, Path(address.place).read_bytes(), ("CPUExecutionProvider",))
    return load(address, kind)


def _for_onnx(address: Address, kind: DatasetType) -> Graph:
    known = runtime().get_available_providers()
    providers = tuple(provider for provider in PREFERRED if provider in known)
    if address.kind == "onnx":
        return Graph(address.text, Path(address.place).read_bytes(), providers)
    return Graph(address.text, _exported(address, kind), providers)


def _exported(address: Address, kind: DatasetType) -> bytes:
    """Return a model of torch as ONNX."""
    import io
    import warnings

    import torch

    model = load(address, kind)
    if not isinstance(model, torch.nn.Module):
        raise ModelError(f"model '{address.text}': cannot become ONNX: expected a torch module or onnx:FILE")
    example = torch.zeros((1, *kind.shape), dtype=torch.int64 if kind.is_text else torch.float32)
    content = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # The exporter that follows one run of the model: it needs no further package.
        torch.onnx.export(model, (example,), content, dynamo=False)  # type: ignore[arg-type]
    return content.getvalue()


PREPARE: dict[str, Callable[[Address, DatasetType], Any]] = {"torch": _for_torch, "onnxruntime": _for_onnx}
"""By engine: how a model is prepared. What is no graph runs already, and goes on running after a fork."""
