"""Inference engines of a worker process: torch, or ONNX Runtime.

A model is prepared once, before workers are forked, and finished in each of them: a session of ONNX Runtime may have
threads, so it must be created after the fork.
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
    """ONNX model without a session."""

    name: str
    content: bytes
    providers: tuple[str, ...]


def memory_mb(prepared: Any) -> float:
    """Return the size of a prepared model's weights in megabytes."""
    if isinstance(prepared, Graph):
        return len(prepared.content) / 1e6
    tensors = [*getattr(prepared, "parameters", list)(), *getattr(prepared, "buffers", list)()]
    return float(sum(tensor.numel() * tensor.element_size() for tensor in tensors)) / 1e6


def finished(prepared: Any, threads: int) -> Model:
    """Return a runnable model: a graph gets its session, on `threads` threads."""
    return OnnxModel(prepared.content, threads, prepared.providers) if isinstance(prepared, Graph) else prepared


def _for_torch(address: Address, kind: DatasetType) -> Any:
    if address.kind == "onnx":
        return Graph(address.text, Path(address.location).read_bytes(), ("CPUExecutionProvider",))
    return load(address, kind)


def _for_onnx(address: Address, kind: DatasetType) -> Graph:
    known = runtime().get_available_providers()
    providers = tuple(provider for provider in PREFERRED if provider in known)
    if address.kind == "onnx":
        return Graph(address.text, Path(address.location).read_bytes(), providers)
    return Graph(address.text, _exported(address, kind), providers)


def _exported(address: Address, kind: DatasetType) -> bytes:
    """Return a torch model exported to ONNX."""
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
        # The tracing exporter needs no further package.
        torch.onnx.export(model, (example,), content, dynamo=False)  # type: ignore[arg-type]
    return content.getvalue()


PREPARE: dict[str, Callable[[Address, DatasetType], Any]] = {"torch": _for_torch, "onnxruntime": _for_onnx}
"""Preparation of a model, by engine. Anything but a graph is runnable, also after a fork."""
